#include "graph/call_graph.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "backend/backend.hpp"
#include "core/make_tensor.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/known_values.hpp"
#include "graph/specialize.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

class GraphCall {
 public:
  GraphCall(const GraphState& graph, const Tensors& feeds, const Tensors& values, NodeRule rule = {})
      : graph_(graph), feeds_(feeds), rule_(std::move(rule)) {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (graph.absorbed.contains(feeds[i].id()))
        throw UnimplementedError(join("The value of '", feeds[i].name(), "' is an attribute of other nodes, which can ",
                                      "be fed in a Session only"));
      values_.insert_or_assign(feeds[i].id(), values[i]);
    }
  }

  /// `operations`: run for their effect.
  Tensors run(const Tensors& fetches, Where where, const std::vector<Node*>& operations = {}) {
    const CallSiteScope site(where);
    const std::vector<char> needed =
        needed_nodes(graph_, {.fetches = fetches, .operations = operations, .feeds = feeds_, .fed = {}});
    require_read(graph_, needed);
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) apply_at(graph_.node(i), where);
    // In a graph, who takes a result wants the changes of Variables, too.
    const ControlScope after(changes_);
    Tensors results;
    for (const Tensor& each : fetches) {
      const Tensor& value = values_.at(each.id());
      results.push_back(changes_.empty() ? value : identity(value));
    }
    return results;
  }

 private:
  void apply_at(const Node& node, Where where) {
    try {
      apply_node(node, where);
    } catch (Error& error) {
      error.locate(node.type(), node.name(), where);
      if (graph_.file) error.show_node();
      throw;
    }
  }
  void apply_node(const Node& node, Where where) {
    Tensors inputs;
    for (const Tensor& each : node.inputs()) inputs.push_back(values_.at(each.id()));
    const auto once = [&](const Tensors& given) { return outputs_of(node, given, where); };
    const Tensors outputs = rule_ ? rule_(node, inputs, once) : once(inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values_.try_emplace(node.output(i).id(), outputs[i]);
      if (bool(outputs[i]) && outputs[i].is_symbolic()) known_.note(producer_of(outputs[i]));
    }
  }

  Tensors outputs_of(const Node& node, const Tensors& inputs, Where where) {
    if (&node.op() == &placeholder_op) node.op().forward(backend_of(cpu()), node);  // throws: it is not fed
    if (&node.op() == &const_op) return {node.attr<Tensor>("value")};
    if (&node.op() == &no_op_op) return {};
    if (&node.op() == &var_handle_op) return {Tensor()};  // the ops that use it have the Variable itself
    if (is_flow(node.op())) return run_flow(node, inputs, where);
    if (const auto* variables = node.attrs().find<VariablesRef>("variables"))
      return use_variable(node, (*variables)->front(), inputs);
    const Closure* redo = node.attrs().find<Closure>("redo");
    if (redo && !awaited_values(node)) return (**redo)(inputs);
    if (redo)
      if (const std::optional<Tensors> complete = with_values(node, inputs)) return (**redo)(*complete);
    return apply_all(node.op(), inputs, node.attrs(), node.name(), where);
  }

  // ---- Branches and loops: of eager values C++'s own, so that tapes record each op; in a graph one node ----

  static Tensors run_flow(const Node& node, const Tensors& inputs, Where where) {
    const bool is_symbolic =
        std::any_of(inputs.begin(), inputs.end(), [](const Tensor& each) { return bool(each) && each.is_symbolic(); });
    if (is_symbolic || (open_sink() && node.op().stateful)) {
      if (node.attrs().find("variables") != nullptr)
        throw UnimplementedError(join("Node '", node.name(), "' changes a Variable in another graph"));
      return apply_all(node.op(), inputs, node.attrs(), node.name(), where);
    }
    return is_while(node.op()) ? run_loop(node, inputs, where) : run_branch(node, inputs, where);
  }

  static Tensors run_branch(const Node& node, const Tensors& inputs, Where where) {
    const std::vector<GraphFunction>& branches = functions_of(node);
    const auto last = static_cast<std::int64_t>(branches.size()) - 1;
    const std::int64_t index = is_if(node.op()) ? !inputs[0].item<bool>() : inputs[0].item<std::int64_t>();
    return call_function(branches[index < 0 || index > last ? last : index], {inputs.begin() + 1, inputs.end()}, where);
  }

  static Tensors run_loop(const Node& node, const Tensors& inputs, Where where) {
    const WhileParts parts(node);
    const std::size_t operands = parts.carried + parts.sequences;
    std::int64_t length = parts.sequences > 0 ? std::int64_t{inputs[parts.carried].shape()[0]} : -1;
    if (parts.maximum >= 0) length = length < 0 ? parts.maximum : std::min(length, parts.maximum);
    Tensors values = inputs;
    std::vector<std::vector<Tensor>> stacked(node.outputs().size() - parts.carried);
    std::vector<Tensors> states;
    if (is_replayed(node) && length > 0) states = replayed_states(node, inputs, length, where);
    for (std::int64_t done = 0; done != length; ++done) {
      if (parts.condition) {
        Tensors given(values.begin(), values.begin() + parts.carried);
        given.append(values.begin() + operands, values.end());
        if (!call_function(*parts.condition, given, where)[0].item<bool>()) break;
      }
      const std::int64_t at = parts.reverse ? length - 1 - done : done;
      for (std::size_t i = parts.carried; i < operands; ++i) values[i] = element_of(parts, inputs, i, at);
      if (!states.empty()) {
        std::copy(states.back().begin(), states.back().end(), values.begin() + operands);
        states.pop_back();
      }
      const Tensors results = call_function(parts.body, values, where);
      for (std::size_t i = 0; i < parts.carried; ++i) values[i] = results[i];
      for (std::size_t k = 0; k < stacked.size(); ++k) stacked[k].push_back(results[parts.carried + k]);
    }
    Tensors outputs(values.begin(), values.begin() + parts.carried);
    for (std::size_t k = 0; k < stacked.size(); ++k) {
      const bool is_sizes = k > 0 && parts.is_ragged_stack(k - 1);
      if (is_sizes) continue;
      if (parts.reverse) std::reverse(stacked[k].begin(), stacked[k].end());
      complete(stacked[k], parts.body.outputs[parts.carried + k].spec());
      const Tensor& output = node.output(parts.carried + k);
      const Tensor sizes = parts.is_ragged_stack(k) ? fill_up(stacked[k], output) : Tensor();
      outputs.push_back(stacked[k].empty() ? no_elements(output) : stack(stacked[k]));
      if (sizes) outputs.push_back(sizes);
    }
    return outputs;
  }

  static Tensor element_of(const WhileParts& parts, const Tensors& inputs, std::size_t i, std::int64_t at) {
    Tensor element = gather(inputs[i], at, 0);
    if (!parts.is_ragged_sequence(i - parts.carried) || !parts.body.inputs[i]) return element;
    const Tensor sizes = on_host(gather(inputs[i + 1], at, 0));
    if (sizes.shape() != Shape{element.rank()})
      throw InvalidArgumentError(
          join("The sizes of the elements of ", inputs[i].shape(), " are ", inputs[i + 1].shape()));
    Ints kept;
    for (int axis = 0; axis < element.rank(); ++axis) {
      const std::int64_t known = parts.size_of_element(i, element, axis);
      kept.push_back(known >= 0 ? known : sizes.data<std::int64_t>()[axis]);
    }
    return slice(element, Ints(kept.size()), kept);
  }

  /// Gives elements of different shapes zeros behind them, up to the largest. Returns their sizes.
  static Tensor fill_up(std::vector<Tensor>& elements, const Tensor& stacked) {
    const int rank = elements.empty() ? std::max(stacked.shape().rank(), 1) - 1 : elements[0].rank();
    std::vector<std::int64_t> sizes;
    Ints largest(static_cast<std::size_t>(rank));
    for (const Tensor& each : elements) {
      if (each.rank() != rank)
        throw InvalidArgumentError(join("The elements of '", stacked.name(), "' must have the same number of axes to ",
                                        "be stacked: ", elements[0].shape(), " and ", each.shape()));
      for (std::size_t axis = 0; axis < largest.size(); ++axis) {
        sizes.push_back(each.shape().sizes()[axis]);
        largest[axis] = std::max(largest[axis], sizes.back());
      }
    }
    for (Tensor& each : elements) {
      std::vector<Padding> paddings;
      for (std::size_t axis = 0; axis < largest.size(); ++axis)
        paddings.push_back({0, largest[axis] - each.shape().sizes()[axis]});
      each = pad(each, paddings);
    }
    return tensor(sizes, {static_cast<std::int64_t>(elements.size()), rank});
  }

  /// Gives the iterations that lack an element, since a branch that is not taken gives none, zeros, which nothing
  /// reads.
  static void complete(std::vector<Tensor>& elements, const Spec& spec) {
    if (std::all_of(elements.begin(), elements.end(), [](const Tensor& each) { return bool(each); })) return;
    const auto given = std::find_if(elements.begin(), elements.end(), [](const Tensor& each) { return bool(each); });
    Shape shape = given != elements.end() ? given->shape() : spec.shape.has_rank() ? spec.shape : Shape{};
    for (int axis = 0; axis < shape.rank(); ++axis) shape.set(axis, std::max<std::int64_t>(shape.sizes()[axis], 0));
    for (Tensor& each : elements)
      if (!each) each = zeros(shape, {.dtype = spec.dtype});
  }

  /// The states before each iteration of the forward loop of which a replayed one is the gradient.
  static std::vector<Tensors> replayed_states(const Node& node, const Tensors& inputs, std::int64_t length,
                                              Where where) {
    const WhileParts parts(node);
    const GraphFunction& forward = functions_of(node)[1];
    const auto state = inputs.begin() + parts.carried + parts.sequences;
    const auto operands = state + node.attr<std::int64_t>("replayed");
    const auto elements = static_cast<std::ptrdiff_t>(forward.inputs.size()) - (inputs.end() - state);
    std::vector<Tensors> states{Tensors(state, operands)};
    for (std::int64_t i = 0; i + 1 < length; ++i) {
      Tensors given = states.back();
      for (std::ptrdiff_t k = 0; k < elements; ++k)
        given.push_back(gather(inputs.begin()[static_cast<std::ptrdiff_t>(parts.carried) + k],
                               parts.reverse ? i : length - 1 - i, 0));
      given.append(operands, inputs.end());
      states.push_back(call_function(forward, given, where));
    }
    return states;
  }

  /// A stack of no elements, whose unknown sizes are 0.
  static Tensor no_elements(const Tensor& output) {
    Shape shape = output.shape().has_rank() ? output.shape() : Shape{0};
    for (int axis = 0; axis < shape.rank(); ++axis) shape.set(axis, std::max<std::int64_t>(shape.sizes()[axis], 0));
    if (shape.rank() > 0) shape.set(0, 0);
    return zeros(shape, {.dtype = output.dtype()});
  }

  static Tensors call_function(const GraphFunction& function, const Tensors& inputs, Where where) {
    Tensors feeds, values, fetches;
    for (std::size_t i = 0; i < function.inputs.size(); ++i) {
      if (!function.inputs[i]) continue;
      feeds.push_back(function.inputs[i]);
      values.push_back(inputs[i]);
    }
    for (const Tensor& each : function.outputs)
      if (each) fetches.push_back(each);
    const std::lock_guard lock(function.graph->mutex());
    const Tensors found = GraphCall(*function.graph, feeds, values).run(fetches, where, function.operations);
    Tensors results;
    for (std::size_t i = 0, next = 0; i < function.outputs.size(); ++i)
      results.push_back(function.outputs[i] ? found[next++] : Tensor());
    return results;
  }

  /// Reads and changes come in the order of the called graph.
  Tensors use_variable(const Node& node, const Variable& variable, const Tensors& inputs) {
    if (&node.op() == &read_variable_op) {
      const ControlScope after(changes_);
      const Tensor value = variable.value();
      if (value.is_symbolic()) uses_.push_back(value.op());
      return {value};
    }
    const ControlScope after(uses_);
    const Tensor changed = [&] {
      if (&node.op() == &assign_op(Assign::set)) return variable.assign(inputs[1]);
      if (&node.op() == &assign_op(Assign::add)) return variable.assign_add(inputs[1]);
      if (&node.op() == &assign_op(Assign::subtract)) return variable.assign_sub(inputs[1]);
      throw UnimplementedError(join("Node '", node.name(), "' is a step of an optimizer, which ",
                                    open_sink() ? "cannot be moved to another graph" : "no tape records"));
    }();
    if (changed.is_symbolic()) {
      uses_.push_back(changed.op());
      changes_.push_back(changed.op());
    }
    return {};
  }

  /// The inputs, where symbolic ones that the node awaits are replaced by their values; nothing if the open graph does
  /// not tell these. The node then waits there, too.
  std::optional<Tensors> with_values(const Node& node, Tensors inputs) const {
    for (const std::int64_t each : *awaited_values(node)) {
      if (!inputs[each].is_symbolic()) continue;
      inputs[each] = known_.find_complete(inputs[each]);
      if (!inputs[each]) return {};
    }
    return inputs;
  }

  const GraphState& graph_;
  const Tensors& feeds_;
  NodeRule rule_;
  std::unordered_map<std::int64_t, Tensor> values_;  ///< by the id of a tensor of the graph
  KnownValues known_;                                ///< of the open graph
  std::vector<Operation> uses_, changes_;  ///< of Variables in the open graph: all, and those that wait for changes
};

}  // namespace

Tensors call_graph(const GraphState& graph, const Tensors& feeds, const Tensors& values, const Tensors& fetches,
                   Where where, const std::vector<Node*>& operations, const NodeRule& rule) {
  const std::lock_guard lock(graph.mutex());
  return GraphCall(graph, feeds, values, rule).run(fetches, where, operations);
}

std::vector<char> nodes_behind(const GraphState& graph, const Tensors& tensors) {
  return needed_nodes(graph, {.fetches = tensors, .operations = {}, .feeds = {}, .fed = {}});
}

std::vector<Variable> variables_behind(const GraphState& graph, const Tensors& tensors) {
  const std::lock_guard lock(graph.mutex());
  const std::vector<char> needed = nodes_behind(graph, tensors);
  std::vector<Variable> variables;
  for (const GraphVariable& each : graph.variables())
    if (bool(each.handle) && needed[producer_of(each.handle).index]) variables.push_back(each.variable);
  return variables;
}

}  // namespace tapestry::detail
