/// The gradient of a loop that recomputes, as other loops can do it: for files, whose formats have no such loop, and
/// for graphs that are called op by op.

#include "graph/call_graph.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/flow/function_tracer.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

class ReplayComposition {
 public:
  explicit ReplayComposition(const Call& call)
      : call_(call), parts_(call), backward_(functions_of(call)[0]), forward_(functions_of(call)[1]) {
    auto take = [&, next = call.inputs().begin()](std::size_t count) mutable {
      Tensors list(next, next + count);
      next += static_cast<std::ptrdiff_t>(count);
      return list;
    };
    carried_ = take(parts_.carried);
    sequences_ = take(parts_.sequences);
    states_ = take(static_cast<std::size_t>(call.attr<std::int64_t>("replayed")));
    operands_ = take(call.inputs().size() - parts_.carried - parts_.sequences - states_.size());
    elements_ = forward_.inputs.size() - states_.size() - operands_.size();
  }

  Tensors run() const { return call_.attrs().find("varying_states") ? from_the_beginning() : over_kept_states(); }

 private:
  /// A first loop keeps the state before each iteration.
  Tensors over_kept_states() const {
    const FlatFunction keep = [&](const Tensors& values) {
      const Tensors state(values.begin(), values.begin() + states_.size());
      Tensors results = next_state(state, {values.begin() + states_.size(), values.end()});
      results.append(state.begin(), state.end());
      return results;
    };
    const Tensors kept = flat_scan(keep, states_, sequences_, {.reverse = !parts_.reverse}, call_.where());
    Tensors sequences = sequences_;
    sequences.append(kept.begin() + states_.size(), kept.end());
    const FlatFunction step = [&](const Tensors& values) {
      const auto state = values.begin() + parts_.carried + parts_.sequences;
      return go_back({values.begin(), state}, {state, values.end()});
    };
    return flat_scan(step, carried_, sequences, {.reverse = parts_.reverse}, call_.where());
  }

  /// States of different shapes cannot be stacked, so each is computed from the first one.
  Tensors from_the_beginning() const {
    const Tensor length = size(sequences_[0], 0);
    Tensors carried = carried_;
    carried.push_back(length);
    const FlatFunction step = [&](const Tensors& values) {
      const Tensor iteration = values[parts_.carried] - 1;
      Tensors taken(values.begin(), values.begin() + parts_.carried);
      taken.append(values.begin() + parts_.carried + 1, values.end());
      const Tensors results = go_back(taken, state_before(iteration, length));
      Tensors all(results.begin(), results.begin() + parts_.carried);
      all.push_back(iteration);
      all.append(results.begin() + parts_.carried, results.end());
      return all;
    };
    ScanForm form{.reverse = parts_.reverse, .varying = parts_.varying};
    for (const std::int64_t each : form.varying) form.shapes.push_back(backward_.inputs[each].shape());
    const Tensors results = scan_symbolically(step, carried, sequences_, form, call_.where());
    Tensors outputs(results.begin(), results.begin() + parts_.carried);
    outputs.append(results.begin() + parts_.carried + 1, results.end());
    return outputs;
  }

  Tensors state_before(const Tensor& iteration, const Tensor& length) const {
    Tensors variables = states_;
    variables.push_back(iteration * 0);
    WhileOptions options;
    for (std::size_t i = 0; i < states_.size(); ++i)
      options.shape_invariants.push_back(forward_.inputs[i] ? forward_.inputs[i].shape() : states_[i].shape());
    options.shape_invariants.emplace_back();
    const FlatFunction advance = [&](const Tensors& values) {
      const Tensor& done = values[states_.size()];
      Tensors elements;
      for (std::size_t i = 0; i < elements_; ++i)
        elements.push_back(gather(sequences_[i], parts_.reverse ? done : length - 1 - done, 0));
      Tensors next = next_state({values.begin(), values.begin() + states_.size()}, elements);
      next.push_back(done + 1);
      return next;
    };
    const Tensors last = flat_while([&](const Tensors& values) { return less(values[states_.size()], iteration); },
                                    advance, variables, options, call_.where());
    return {last.begin(), last.begin() + states_.size()};
  }

  /// One iteration of the forward loop, whose sequences are the first ones here.
  Tensors next_state(const Tensors& state, const Tensors& elements) const {
    Tensors inputs = state;
    inputs.append(elements.begin(), elements.begin() + elements_);
    inputs.append(operands_.begin(), operands_.end());
    return call(forward_, inputs);
  }

  /// One iteration of the backward loop. `taken`: the carried values and the elements.
  Tensors go_back(const Tensors& taken, const Tensors& state) const {
    Tensors inputs = taken;
    inputs.append(state.begin(), state.end());
    inputs.append(operands_.begin(), operands_.end());
    return call(backward_, inputs);
  }

  Tensors call(const GraphFunction& function, const Tensors& inputs) const {
    Tensors feeds, values;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!function.inputs[i]) continue;
      feeds.push_back(function.inputs[i]);
      values.push_back(inputs[i]);
    }
    return call_graph(*function.graph, feeds, values, function.outputs, call_.where());
  }

  const Call& call_;
  const WhileParts parts_;
  const GraphFunction &backward_, &forward_;
  Tensors carried_, sequences_, states_, operands_;
  std::size_t elements_ = 0;  ///< the number of the forward loop's sequences
};

}  // namespace

Tensors compose_replay(const Call& call) { return ReplayComposition(call).run(); }

}  // namespace tapestry::detail
