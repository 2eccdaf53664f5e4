#include <iterator>
#include <unordered_map>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/generators.hpp"
#include "io/tensorflow/hashed_numbers.hpp"
#include "io/tensorflow/late_reads.hpp"
#include "io/tensorflow/list_writer.hpp"
#include "io/tensorflow/mutable_tables.hpp"
#include "io/tensorflow/number_tables.hpp"
#include "io/tensorflow/old_arrays.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "io/tensorflow/raise_conditions.hpp"
#include "io/tensorflow/raise_frames.hpp"
#include "io/tensorflow/read_graph.hpp"
#include "io/tensorflow/reader_plugin.hpp"
#include "io/tensorflow/split_complex.hpp"
#include "io/tensorflow/split_variants.hpp"
#include "io/tensorflow/tile_gradients.hpp"
#include "io/tensorflow/updates.hpp"
#include "io/tensorflow/widen_integers.hpp"

namespace tapestry::io {
namespace {

/// The Switch and the number of its output that a node waits for, through the identity that TensorFlow 1 has for each
/// side of a condition.
struct Side {
  const NodeDef* switched = nullptr;
  bool is_second = false;
};
Side side_of(const NodeDef& node, const std::unordered_map<std::string_view, const NodeDef*>& nodes) {
  const auto find = [&](std::string_view name) {
    const auto found = nodes.find(name.substr(0, name.find(':')));
    return found == nodes.end() ? nullptr : found->second;
  };
  for (const std::string& input : node.inputs) {
    const NodeDef* pivot = input.starts_with('^') ? find(std::string_view(input).substr(1)) : nullptr;
    if (!pivot || pivot->op != "Identity" || pivot->inputs.empty()) continue;
    const NodeDef* switched = find(pivot->inputs[0]);
    if (switched && switched->op == "Switch" && switched->inputs.size() >= 2)
      return {switched, pivot->inputs[0].ends_with(":1")};
  }
  return {};
}

/// A constant that a Merge takes only waits for its side of the condition, which says nothing of what runs later. It
/// gets a Switch of its own, as TensorFlow gives one to each tensor from outside.
void switch_constants(GraphDef& file) {
  std::unordered_map<std::string_view, const NodeDef*> nodes;
  for (const NodeDef& each : file.nodes) nodes.emplace(each.name, &each);
  std::vector<NodeDef> added;
  for (NodeDef& merge : file.nodes) {
    if (merge.op != "Merge") continue;
    for (std::string& input : merge.inputs) {
      const auto found = nodes.find(input);
      if (found == nodes.end() || found->second->op != "Const") continue;
      const Side side = side_of(*found->second, nodes);
      const auto dtype = found->second->attrs.find("dtype");
      if (!side.switched || dtype == found->second->attrs.end()) continue;
      NodeDef own{.name = detail::join(merge.name, "/", added.size(), "/Switch"), .op = "Switch"};
      if (nodes.contains(own.name)) continue;
      own.inputs = {input, side.switched->inputs[1]};
      own.attrs.emplace("T", dtype->second);
      input = own.name + (side.is_second ? ":1" : "");
      added.push_back(std::move(own));
    }
  }
  std::move(added.begin(), added.end(), std::back_inserter(file.nodes));
}

/// Takes off the hints that a node was written for an op that this program lacks, such as one that another program has
/// registered: what the op is composed of stands in the file.
void drop_unknown_hints(GraphDef& file) {
  for (NodeDef& node : file.nodes) {
    const auto* op = attr_of<std::string>(node, hint_op);
    if (op && !rule_of(*op) && !update_rule_of(*op))
      std::erase_if(node.attrs, [](const auto& each) {
        const std::string& name = each.first;
        return name == hint_op || name == hint_inputs || name == hint_numbers || name.starts_with(hint_prefix);
      });
    if (!node.flow) continue;
    Flow flow = *node.flow;
    for (FunctionBody& function : flow.functions) drop_unknown_hints(function.graph);
    node.flow = std::make_shared<const Flow>(std::move(flow));
  }
}

}  // namespace

GraphDef raise_graph(GraphDef file, const GraphLimits& limits, const UnevenLists& uneven,
                     const FileGradients& gradients) {
  std::unordered_set<std::string> like_reader;
  for (const NodeDef& each : file.nodes)
    if (each.name.find("/_/") != std::string::npos) like_reader.insert(each.name);
  file = inline_functions(std::move(file), limits, gradients);
  if (!like_reader.empty())
    file.like_reader = std::make_shared<const std::unordered_set<std::string>>(std::move(like_reader));
  require_printable(file);
  drop_unknown_hints(file);
  join_list_ops(file);
  split_generators(file);
  split_tile_gradients(file);
  raise_mutable_tables(file);
  search_number_tables(file, limits);
  hash_numbers(file);
  switch_constants(file);
  rename_old_arrays(file);
  raise_frames(file);
  raise_conditions(file);
  split_variants(file, uneven);
  split_complex(file);
  widen_integers(file);
  find_sequences(file);
  add_late_reads(file);
  return file;
}

}  // namespace tapestry::io
