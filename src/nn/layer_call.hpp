#pragma once

#include "dispatch/recorder.hpp"
#include "tapestry/nn/module.hpp"

namespace tapestry::nn {

/// Whoever wants to know what the layers of the library give: the summary.
class LayerObserver {
 public:
  LayerObserver();
  virtual ~LayerObserver();
  LayerObserver(const LayerObserver&) = delete;
  LayerObserver& operator=(const LayerObserver&) = delete;

  virtual void layer_gave(const Module& layer, const Tensor& result) = 0;

 private:
  LayerObserver* saved_;
};

/// One call of a layer of the library: while it lives, ops are said to be called from the user's line, and their nodes
/// have names in a scope: the layer's path from the layer in whose call it is called, "1.b", or its type if it has
/// none.
class LayerCall {
 public:
  LayerCall(const Module& layer, Where where);
  ~LayerCall();
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;

  /// The result, which observers are told of.
  Tensor gives(const Tensor& result) const;

 private:
  std::string scope_name() const;

  const Module& layer_;
  const LayerCall* outer_;  ///< of this thread; nullptr at the outermost
  CallSiteScope site_;
  SinkScope scope_;
};

}  // namespace tapestry::nn
