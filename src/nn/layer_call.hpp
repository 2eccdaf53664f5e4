#pragma once

#include "dispatch/recorder.hpp"
#include "tapestry/nn/module.hpp"

namespace tapestry::nn {

/// An observer of the results of the library's layers, such as the summary.
class LayerObserver {
 public:
  LayerObserver();
  virtual ~LayerObserver();
  LayerObserver(const LayerObserver&) = delete;
  LayerObserver& operator=(const LayerObserver&) = delete;

  virtual void on_result(const Module& layer, const Tensor& result) = 0;

 private:
  LayerObserver* saved_;
};

/// One call of a layer of the library. While it lives, the user's line is the call site of ops, and their nodes have
/// names in a scope. The scope is the path of the layer from the layer that calls it, "1/b", or its type if it has no
/// path.
class LayerCall {
 public:
  LayerCall(const Module& layer, Where where);
  ~LayerCall();
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;

  /// Tells the observer of the result, and returns it.
  Tensor gives(const Tensor& result) const;

  /// The name of the node of a module's Variable in the open graph: that of its path, in the scope of the innermost
  /// call of a layer that holds it.
  static std::string node_name(const std::string& path);

 private:
  std::string scope_name() const;

  const Module& layer_;
  const LayerCall* outer_;  ///< of this thread; nullptr at the outermost
  CallSiteScope site_;
  Sink* sink_;        ///< the graph; nullptr if none is open
  std::string path_;  ///< of the layer
  SinkScope scope_;
  std::string within_scope_;  ///< the full name of the scope: "outer/1/b/"
};

}  // namespace tapestry::nn
