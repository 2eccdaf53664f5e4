#include "tapestry/nn/layer.hpp"

#include <utility>

#include "nn/layer_call.hpp"
#include "nn/names.hpp"

namespace tapestry::nn {
namespace {

/// This thread's observer; nullptr if there is none.
thread_local LayerObserver* current_observer = nullptr;
/// This thread's innermost call; nullptr outside all.
thread_local const LayerCall* current_call = nullptr;

}  // namespace

LayerObserver::LayerObserver() : saved_(std::exchange(current_observer, this)) {}
LayerObserver::~LayerObserver() { current_observer = saved_; }

LayerCall::LayerCall(const Module& layer, Where where)
    : layer_(layer),
      outer_(std::exchange(current_call, this)),
      site_(where),
      scope_(open_sink() ? scope_name() : std::string()) {}

LayerCall::~LayerCall() { current_call = outer_; }

std::string LayerCall::scope_name() const {
  const std::string path = path_of(layer_);
  std::string around = outer_ ? path_of(outer_->layer_) : "";
  if (!around.empty()) around += ".";
  if (path.size() > around.size() && path.starts_with(around)) return path.substr(around.size());
  return path.empty() ? type_name(layer_) : path;
}

Tensor LayerCall::gives(const Tensor& result) const {
  if (current_observer) current_observer->layer_gave(layer_, result);
  return result;
}

Tensor Layer::operator()(In x) const {
  const LayerCall call(*this, x.where());
  return naming(*this, {x.tensor()}, [&] { return call.gives(forward(x)); });
}

}  // namespace tapestry::nn
