#include "tapestry/nn/layer.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "nn/layer_call.hpp"
#include "nn/names.hpp"

namespace tapestry::nn {
namespace {

/// A path as the names of scopes.
std::string with_slashes(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

/// The path of what is in the module with a path, from that module: "b.weight" for "1.b.weight" in "1"; nothing if it
/// is not in it.
std::optional<std::string> path_within(const std::string& module, const std::string& path) {
  if (module.empty()) return path;
  if (!path.starts_with(module + ".")) return std::nullopt;
  return path.substr(module.size() + 1);
}

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
      sink_(open_sink()),
      path_(sink_ ? path_of(layer) : std::string()),
      scope_(sink_ ? scope_name() : std::string()),
      within_scope_(sink_ ? sink_->scope() : std::string()) {}

LayerCall::~LayerCall() { current_call = outer_; }

std::string LayerCall::scope_name() const {
  if (path_.empty()) return type_name(layer_);
  return with_slashes(path_within(outer_ ? path_of(outer_->layer_) : std::string(), path_).value_or(path_));
}

std::string LayerCall::node_name(const std::string& path) {
  for (const LayerCall* call = current_call; call && call->sink_ == open_sink(); call = call->outer_)
    if (const auto own = path_within(call->path_, path)) return call->within_scope_ + with_slashes(*own);
  return with_slashes(path);
}

Tensor LayerCall::gives(const Tensor& result) const {
  if (current_observer) current_observer->on_result(layer_, result);
  return result;
}

Tensor Layer::operator()(In x) const {
  require_parts(*this, {}, x.where());
  const LayerCall call(*this, x.where());
  return naming(*this, {x.tensor()}, [&] { return call.gives(forward(x)); });
}

}  // namespace tapestry::nn
