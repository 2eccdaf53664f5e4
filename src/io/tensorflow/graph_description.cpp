#include "graph/graph_state.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/tensorflow/node_writer.hpp"

namespace tapestry::io {

GraphDef describe_graph(const detail::GraphState& graph) {
  const std::lock_guard lock(graph.mutex());
  GraphDef file;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const detail::Node& node = graph.node(i);
    NodeDef& def = file.nodes.emplace_back(NodeDef{.name = node.name(), .op = node.type(), .device = node.device});
    for (const Tensor& input : node.inputs()) def.inputs.push_back(endpoint_name(input));
    add_control_inputs(names_of(node.control_inputs), def.inputs);
    for (const Attr& attr : node.attrs())
      if (AttrDef value = attr_def(attr.value); !std::holds_alternative<std::monostate>(value))
        def.attrs.emplace(attr.name, std::move(value));
    if (!node.outputs().empty()) def.attrs.try_emplace("T", code_of(node.output().dtype()));
    ListDef shapes;
    for (const Tensor& each : node.outputs()) shapes.shapes.push_back(each.shape());
    def.attrs.emplace("_output_shapes", shapes);
  }
  return file;
}

}  // namespace tapestry::io
