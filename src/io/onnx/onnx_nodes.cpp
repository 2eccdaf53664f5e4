/// The nodes of one of our graphs, or of one of its functions, as nodes of ONNX.

#include <algorithm>
#include <deque>
#include <set>

#include "dispatch/composition.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"
#include "io/composition.hpp"
#include "io/onnx/onnx_writer.hpp"
#include "io/signature.hpp"
#include "io/tensorflow/update_writer.hpp"
#include "ops/handles.hpp"

namespace tapestry::io {
namespace {

using detail::endpoint_of;
using detail::Node;

class NodesWriter {
 public:
  explicit NodesWriter(OnnxGraph& graph) : graph_(graph) {}

  void run(const Tensors& outputs) {
    for (const Tensor& each : outputs) need(each);
    check_changes();
    for (const Node* node : needed_) write(*node);
  }

 private:
  struct InOrder {
    bool operator()(const Node* a, const Node* b) const { return a->index < b->index; }
  };
  using Nodes = std::set<const Node*, InOrder>;

  void need(const Tensor& tensor) {
    std::vector<Tensor> pending{tensor};
    while (!pending.empty()) {
      const Tensor next = pending.back();
      pending.pop_back();
      if (graph_.has(next)) continue;
      graph_.note_use(next);
      const Node* node = endpoint_of(next).node;
      if (!needed_.insert(node).second || &node->op() == &read_variable_op) continue;
      pending.insert(pending.end(), node->inputs().begin(), node->inputs().end());
    }
  }

  /// Throws if a needed node changes a Variable or runs after a change: the file has the Variables' present values.
  void check_changes() {
    Nodes seen = needed_;
    std::vector<const Node*> pending(seen.begin(), seen.end());
    while (!pending.empty()) {
      const Node& node = *pending.back();
      pending.pop_back();
      if (node.op().stateful && node.attrs().find("variables") && &node.op() != &var_handle_op &&
          &node.op() != &read_variable_op)
        OnnxWriter(node, graph_).refuse("it changes a Variable");
      const auto visit = [&](const Node* other) {
        if (seen.insert(other).second) pending.push_back(other);
      };
      for (const Node* control : node.control_inputs) visit(control);
      if (needed_.contains(&node)) continue;
      for (const Tensor& input : node.inputs()) visit(endpoint_of(input).node);
    }
  }

  void write(const Node& node) {
    const Op& op = node.op();
    OnnxWriter writer(node, graph_);
    if (const NodeDef* def = kept_onnx_node(node)) return write_kept_onnx(writer, *def);
    for (const Tensor& each : node.outputs())
      if (each.dtype() == DType::unknown) writer.refuse("its dtype is not known yet");
    if (detail::awaited_values(node)) writer.refuse("it waits for a shape that the graph computes");
    if (node.attrs().find("redo") && &op != &ops::matmul) writer.refuse("it depends on a rank that is not known yet");
    if (&op == &placeholder_op) throw never_fed(node.name());
    if (&op == &const_op) return write_constant(node, node.name(), node.attr<Tensor>("value"));
    if (&op == &read_variable_op) return write_variable(node);
    if (detail::is_replayed(node)) return write_composition(writer);
    if (detail::is_flow(op)) return write_onnx_flow(writer);
    if (node.inputs().empty() && !op.stateful && &op != &ops::fill) {
      const ExecuteNow now;
      return write_constant(node, node.name(), apply_all(op, {}, node.attrs(), {}, node.where())[0]);
    }
    const auto lack = write_onnx(writer);
    if (!lack) return;
    if (!op.composition) writer.refuse(*lack);
    write_composition(writer);
  }

  /// Writes the composition of the node's op in place of the node.
  void write_composition(OnnxWriter& writer) {
    const Node& node = writer.node();
    const Composing inside(node);
    const ComposedGraph& composed = compositions_.emplace_back(compose(node));
    for (std::size_t i = 0; i < composed.inputs.size(); ++i)
      graph_.name(composed.inputs[i], graph_.value(node.input(i)));
    const auto is_used = [&](const Node& each) {
      return std::any_of(each.outputs().begin(), each.outputs().end(),
                         [&](const Tensor& output) { return graph_.is_used(output); });
    };
    const auto& inner = *composed.graph;
    for (std::size_t i = 0; i < composed.outputs.size(); ++i)
      if (writer.is_used(i)) graph_.note_use(composed.outputs[i]);
    for (std::size_t i = inner.size(); i-- > composed.inputs.size();)
      for (const Tensor& input : inner.node(i).inputs())
        if (is_used(inner.node(i))) graph_.note_use(input);
    for (std::size_t i = composed.inputs.size(); i < inner.size(); ++i)
      if (is_used(inner.node(i))) write(inner.node(i));
    for (std::size_t i = 0; i < composed.outputs.size(); ++i)
      if (writer.is_used(i) && !graph_.has(node.output(i)))
        graph_.name(node.output(i), graph_.value(composed.outputs[i]));
  }

  /// A Variable is one initializer, however often it is read.
  void write_variable(const Node& node) {
    const Variable& variable = variable_of(node);
    std::string& value = graph_.variable(variable);
    if (!value.empty()) return graph_.name(node.output(), value);
    write_constant(node, endpoint_of(node.input(0)).node->name(), variable.cell()->load());
    value = graph_.value(node.output());
    if (variable.trainable()) graph_.add_trained(value);
  }

  void write_constant(const Node& node, const std::string& name, const Tensor& value) {
    const std::string unique = graph_.unique(name);
    graph_.add_initializer(unique, value);
    graph_.name(node.output(), unique);
  }

  OnnxGraph& graph_;
  Nodes needed_;
  std::deque<ComposedGraph> compositions_;  ///< kept, as `graph_` knows values by their nodes
};

}  // namespace

void write_onnx_nodes(OnnxGraph& graph, const Tensors& outputs) { NodesWriter(graph).run(outputs); }

}  // namespace tapestry::io
