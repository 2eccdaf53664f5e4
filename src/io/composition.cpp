#include "io/composition.hpp"

#include "graph/state_ops.hpp"
#include "tapestry/autocast.hpp"

namespace tapestry::io {

ComposedGraph compose(const detail::Node& node) {
  // What is open on this thread has nothing to do with the file.
  const PauseRecording pause;
  const Autocast none(float32);
  const CallSiteScope site(node.where());
  ComposedGraph composed{std::make_shared<detail::GraphState>(), {}, {}};
  const Graph graph(composed.graph);
  const auto scope = graph.as_default();
  for (const Tensor& input : node.inputs()) {
    const Attrs attrs{{"dtype", input.dtype()}, {"shape", input.shape()}};
    composed.inputs.push_back(
        composed.graph->add_node(Call(placeholder_op, {}, attrs, node.where(), "input"), {input.spec()}).output());
  }
  const Call call(node.op(), composed.inputs, node.attrs(), node.where(), node.name());
  for (const Tensor& output : node.op().composition(call))
    composed.outputs.push_back(composed.graph->captured(output, node.where()));
  if (composed.outputs.size() != node.outputs().size())
    throw InternalError(detail::join("The composition of ", node.type(), " has ", composed.outputs.size(),
                                     " outputs, not ", node.outputs().size()),
                        node.type(), node.where());
  return composed;
}

}  // namespace tapestry::io
