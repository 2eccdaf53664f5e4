#include <algorithm>

#include "graph/plan.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {

Executable::Executable(PlanGraph plan) : plan_(std::move(plan)) {
  std::unordered_map<std::int64_t, std::int32_t> places;
  const auto place_of = [&](const Tensor& tensor) {
    return places.try_emplace(tensor.id(), static_cast<std::int32_t>(places.size())).first->second;
  };
  for (const Tensor& feed : plan_.feeds) feed_places_.push_back(place_of(feed));
  for (std::size_t i = 0; i < plan_.graph->size(); ++i) {
    const Node& node = plan_.graph->node(i);
    if (&node.op() == &placeholder_op || &node.op() == &no_op_op) continue;
    Step& step = steps_.emplace_back(Step{&node, Call(node), {}, cpu(), {}, {}, {}});
    step.call.mutable_outputs().clear();
    for (const Tensor& input : node.inputs()) step.inputs.push_back(place_of(input));
    for (const Tensor& output : node.outputs()) {
      step.outputs.push_back(place_of(output));
      step.specs.push_back(output.spec());
      step.device = output.device();
    }
    if (node.outputs().empty() && !node.inputs().empty()) step.device = node.inputs().back().device();
  }
  for (const Tensor& fetch : plan_.fetches) fetch_places_.push_back(place_of(fetch));

  std::vector<char> needed_later(places.size());
  for (const std::int32_t place : fetch_places_) needed_later[static_cast<std::size_t>(place)] = 1;
  for (std::size_t i = steps_.size(); i-- > 0;) {
    for (const std::int32_t place : steps_[i].outputs)
      if (!needed_later[static_cast<std::size_t>(place)]) steps_[i].last_uses.push_back(place);
    for (const std::int32_t place : steps_[i].inputs)
      if (!std::exchange(needed_later[static_cast<std::size_t>(place)], 1)) steps_[i].last_uses.push_back(place);
  }
  values_.resize(places.size());
}

Tensors Executable::run(const Tensors& feeds) {
  const std::lock_guard lock(mutex_);
  const PauseRecording pause;
  const ExecuteNow now;
  for (std::size_t i = 0; i < feeds.size(); ++i) values_[static_cast<std::size_t>(feed_places_[i])] = feeds[i];
  Tensors fetched;
  try {
    for (Step& step : steps_) run_step(step);
    for (const std::int32_t place : fetch_places_) fetched.push_back(values_[static_cast<std::size_t>(place)]);
  } catch (...) {
    for (Step& step : steps_) {
      step.call.mutable_inputs() = step.node->inputs();
      step.call.mutable_outputs().clear();
    }
    std::fill(values_.begin(), values_.end(), Tensor());
    throw;
  }
  std::fill(values_.begin(), values_.end(), Tensor());
  return fetched;
}

void Executable::run_step(Step& step) {
  Call& call = step.call;
  for (std::size_t i = 0; i < step.inputs.size(); ++i)
    if (const Tensor& value = values_[static_cast<std::size_t>(step.inputs[i])]) call.mutable_inputs()[i] = value;
  try {
    execute(call, step.specs, step.device);
  } catch (Error& error) {
    error.locate(call.type(), call.where());
    throw;
  }
  for (std::size_t i = 0; i < step.outputs.size() && i < call.outputs().size(); ++i)
    values_[static_cast<std::size_t>(step.outputs[i])] = std::move(call.mutable_outputs()[i]);
  call.mutable_outputs().clear();
  call.mutable_inputs() = step.node->inputs();
  for (const std::int32_t place : step.last_uses) values_[static_cast<std::size_t>(place)] = Tensor();
}

}  // namespace tapestry::detail
