#include "io/composition.hpp"

#include <unordered_map>

#include "dispatch/composition.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/autocast.hpp"

namespace tapestry::io {
namespace {

using detail::GraphState;
using detail::Node;

/// Copies what outputs need into another graph, each operation after its inputs. The compiler chooses the order in
/// which a call's arguments are evaluated, and with it the order in which a composition makes its nodes. The order in
/// the copy, and so the names, depend on the outputs alone: the same graph gives the same file with every compiler.
class OrderedCopy {
 public:
  explicit OrderedCopy(GraphState& to) : to_(to) {}

  void replace(const Tensor& old, const Tensor& by) { copies_.insert_or_assign(old.id(), by); }

  Tensor of(const Tensor& old) {
    if (const auto known = copies_.find(old.id()); known != copies_.end()) return known->second;
    const Node& node = *detail::endpoint_of(old).node;
    Tensors inputs;
    for (const Tensor& input : node.inputs()) inputs.push_back(of(input));
    const Node& copy = to_.add_node(Call(node.op(), inputs, node.attrs(), node.where()), specs_of(node), {});
    for (std::size_t i = 0; i < copy.outputs().size(); ++i) replace(node.output(i), copy.output(i));
    return copies_.at(old.id());
  }

 private:
  GraphState& to_;
  std::unordered_map<std::int64_t, Tensor> copies_;  ///< by id
};

Tensors add_inputs(GraphState& graph, const Specs& specs, Where where) {
  Tensors inputs;
  for (const Spec& each : specs) {
    const Attrs attrs{{"dtype", each.dtype}, {"shape", each.shape}};
    inputs.push_back(graph.add_node(Call(placeholder_op, {}, attrs, where), {each}, {}).output());
  }
  return inputs;
}

}  // namespace

ComposedGraph compose(const Specs& specs, const std::function<Tensors(const Tensors&)>& function, Where where) {
  // Recorders and autocasting of this thread must not affect the file.
  const PauseRecording pause;
  const Autocast none(float32);
  const CallSiteScope site(where);
  const Graph traced(std::make_shared<GraphState>()), ordered(std::make_shared<GraphState>());
  const auto scope = traced.as_default();
  const Tensors inputs = add_inputs(*traced.state(), specs, where);
  const Tensors outputs = function(inputs);
  ComposedGraph composed{ordered.state(), add_inputs(*ordered.state(), specs, where), {}};
  OrderedCopy copy(*composed.graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) copy.replace(inputs[i], composed.inputs[i]);
  for (const Tensor& output : outputs) composed.outputs.push_back(copy.of(traced.state()->captured(output, where)));
  return composed;
}

ComposedGraph compose(const Node& node) {
  Specs specs;
  for (const Tensor& input : node.inputs()) specs.push_back(input.spec());
  const auto composition = detail::is_replayed(node) ? detail::compose_replay : node.op().composition;
  const auto composed = [&](const Tensors& inputs) { return tapestry::compose(composition, node, inputs); };
  return compose(specs, composed, node.where());
}

}  // namespace tapestry::io
