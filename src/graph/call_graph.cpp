#include "graph/call_graph.hpp"

#include <algorithm>
#include <unordered_map>

#include "backend/backend.hpp"
#include "graph/known_values.hpp"
#include "graph/specialize.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

class GraphCall {
 public:
  GraphCall(const GraphState& graph, const Tensors& feeds, const Tensors& values) : graph_(graph), feeds_(feeds) {
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      if (graph.absorbed.contains(feeds[i].id()))
        throw UnimplementedError(join("The value of '", feeds[i].name(), "' is an attribute of other nodes, which can ",
                                      "be fed in a Session only"));
      values_.insert_or_assign(feeds[i].id(), values[i]);
    }
  }

  Tensors run(const Tensors& fetches, Where where) {
    const CallSiteScope site(where);
    const std::vector<char> needed =
        needed_nodes(graph_, {.fetches = fetches, .operations = {}, .feeds = feeds_, .fed = {}});
    require_read(graph_, needed);
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) locating(graph_.node(i).type(), where, [&] { apply_node(graph_.node(i), where); });
    Tensors results;
    for (const Tensor& each : fetches) results.push_back(values_.at(each.id()));
    return results;
  }

 private:
  void apply_node(const Node& node, Where where) {
    Tensors inputs;
    for (const Tensor& each : node.inputs()) inputs.push_back(values_.at(each.id()));
    const Tensors outputs = outputs_of(node, inputs, where);
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
    if (const auto* variables = node.attrs().find<VariablesRef>("variables"))
      return use_variable(node, (*variables)->front(), inputs);
    if (const Closure* redo = node.attrs().find<Closure>("redo"))
      return (**redo)(awaited_values(node) ? with_values(node, inputs) : inputs);
    return apply_all(node.op(), inputs, node.attrs(), node.name(), where);
  }

  static Tensors use_variable(const Node& node, const Variable& variable, const Tensors& inputs) {
    if (&node.op() == &read_variable_op) return {variable.value()};
    if (open_sink()) throw UnimplementedError(join("Node '", node.name(), "' changes a Variable in another graph"));
    if (&node.op() == &assign_op(Assign::set))
      variable.assign(inputs[1]);
    else if (&node.op() == &assign_op(Assign::add))
      variable.assign_add(inputs[1]);
    else if (&node.op() == &assign_op(Assign::subtract))
      variable.assign_sub(inputs[1]);
    else
      throw UnimplementedError(join("Node '", node.name(), "' is a step of an optimizer, which no tape records"));
    return {};
  }

  /// The inputs, where symbolic ones that the node awaits are replaced by their values.
  Tensors with_values(const Node& node, Tensors inputs) const {
    for (const std::int64_t each : *awaited_values(node)) {
      if (!inputs[each].is_symbolic()) continue;
      const Tensor value = known_.find_complete(inputs[each]);
      if (!value)
        throw UnimplementedError(join("Node '", node.name(), "' needs the value of its input ", each,
                                      ", which the open graph does not tell"));
      inputs[each] = value;
    }
    return inputs;
  }

  const GraphState& graph_;
  const Tensors& feeds_;
  std::unordered_map<std::int64_t, Tensor> values_;  ///< by the id of a tensor of the graph
  KnownValues known_;                                ///< of the open graph
};

}  // namespace

Tensors call_graph(const GraphState& graph, const Tensors& feeds, const Tensors& values, const Tensors& fetches,
                   Where where) {
  const std::lock_guard lock(graph.mutex());
  return GraphCall(graph, feeds, values).run(fetches, where);
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
