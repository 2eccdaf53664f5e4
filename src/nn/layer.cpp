#include "tapestry/nn/layer.hpp"

#include <utility>

#include "nn/layer_call.hpp"

namespace tapestry::nn {
namespace {

/// This thread's; nullptr when nobody observes.
thread_local LayerObserver* current_observer = nullptr;

}  // namespace

LayerObserver::LayerObserver() : saved_(std::exchange(current_observer, this)) {}
LayerObserver::~LayerObserver() { current_observer = saved_; }

Tensor LayerCall::gives(const Tensor& result) const {
  if (current_observer) current_observer->layer_gave(layer_, result);
  return result;
}

Tensor Layer::operator()(In x) const {
  const LayerCall call(*this, x.where());
  return call.gives(forward(x));
}

}  // namespace tapestry::nn
