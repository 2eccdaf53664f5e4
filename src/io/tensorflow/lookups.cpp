#include "io/tensorflow/lookups.hpp"

#include <algorithm>

#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::io {
namespace {

using detail::endpoint_of;
using detail::Node;

/// The read of a Variable of which a node looks up rows; nullptr for other nodes.
const Node* read_of_lookup(const Node& node) {
  if (&node.op() != &ops::gather || node.attr<std::int64_t>("axis") != 0) return nullptr;
  const Node* read = endpoint_of(node.input(0)).node;
  return &read->op() == &read_variable_op ? read : nullptr;
}

}  // namespace

Lookups::Lookups(const detail::GraphState& graph, const std::vector<char>& kept) {
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (!kept[i]) continue;
    for (const Node* control : node.control_inputs)
      if (&control->op() == &read_variable_op) reads_[control].is_awaited = true;
    const Node* read = read_of_lookup(node);
    // A lookup behind a node that waits for the read may come after a change of the Variable.
    const bool is_lookup = read && !reads_[read].is_awaited;
    if (is_lookup) reads_[read].lookups.push_back(&node);
    for (std::size_t k = is_lookup ? 1 : 0; k < node.inputs().size(); ++k)
      if (const Node* input = endpoint_of(node.input(k)).node; &input->op() == &read_variable_op)
        reads_[input].is_whole |=
            (node.op().shape_inputs >> std::min<std::size_t>(k, 31) & 1) == 0 || !input->output().shape().is_known();
  }
}

bool Lookups::contains(const Node& node) const {
  const Node* read = read_of_lookup(node);
  const auto found = read ? reads_.find(read) : reads_.end();
  return found != reads_.end() &&
         std::find(found->second.lookups.begin(), found->second.lookups.end(), &node) != found->second.lookups.end();
}

void Lookups::write(NodeWriter& writer) const {
  const Node& read = *endpoint_of(writer.node().input(0)).node;
  writer.wait_for(names_of(read.control_inputs));
  writer.finish("ResourceGather", {endpoint_name(read.input(0)), writer.in(1).name},
                {{"dtype", code_of(writer.node().output().dtype())},
                 {"Tindices", code_of(writer.in(1).dtype)},
                 {"batch_dims", std::int64_t{0}},
                 {"validate_indices", true}});
}

void Lookups::replace_waits(std::vector<NodeDef>& nodes) const {
  std::unordered_map<std::string, const Read*> by_name;
  for (const auto& [node, read] : reads_)
    if (!read.lookups.empty()) by_name.emplace("^" + node->name(), &read);
  for (NodeDef& def : nodes) {
    std::vector<std::string> lookups;
    std::erase_if(def.inputs, [&](const std::string& input) {
      const auto found = by_name.find(input);
      if (found == by_name.end()) return false;
      for (const Node* each : found->second->lookups) lookups.push_back(each->name());
      return !found->second->is_whole;
    });
    add_control_inputs(lookups, def.inputs);
  }
}

}  // namespace tapestry::io
