#include "io/tensorflow/hashed_numbers.hpp"

#include <algorithm>
#include <vector>

#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/nodes.hpp"

namespace tapestry::io {
namespace {

bool is_hash(const NodeDef& node) { return node.op.starts_with("StringToHashBucket") && data_inputs(node) == 1; }

/// Whether a node gives the digits of whole numbers, and nothing else.
bool gives_digits(const NodeDef& node) {
  const auto* type = attr_of<TypeCode>(node, "T");
  const auto* width = attr_of<std::int64_t>(node, "width");
  const auto* fill = attr_of<std::string>(node, "fill");
  return type && is_integer(dtype_of(*type)) && (!width || *width == -1) && (!fill || fill->empty());
}

}  // namespace

void hash_numbers(GraphDef& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_hash)) return;
  std::vector<std::pair<NodeDef*, std::string>> found;  // and the numbers
  {
    const Nodes nodes(graph);
    for (NodeDef& each : graph.nodes) {
      const NodeDef* text = is_hash(each) ? nodes.source(each.inputs[0], "AsString", 1) : nullptr;
      if (text && gives_digits(*text)) found.emplace_back(&each, text->inputs[0]);
    }
  }
  for (auto& [node, numbers] : found) {
    node->attrs["kind"] = node->op;
    node->op = hash_of_numbers;
    node->inputs[0] = numbers;
  }
}

}  // namespace tapestry::io
