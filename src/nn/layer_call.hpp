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
/// have names in a scope of the layer's type.
class LayerCall {
 public:
  LayerCall(const Module& layer, Where where)
      : layer_(layer), site_(where), scope_(open_sink() ? type_name(layer) : std::string()) {}

  /// The result, which observers are told of.
  Tensor gives(const Tensor& result) const;

 private:
  const Module& layer_;
  CallSiteScope site_;
  SinkScope scope_;
};

}  // namespace tapestry::nn
