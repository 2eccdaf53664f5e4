#include "io/tensorflow/read_graph.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>
#include <unordered_map>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/inline_functions.hpp"
#include "io/tensorflow/late_reads.hpp"
#include "io/tensorflow/list_writer.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "io/tensorflow/raise_conditions.hpp"
#include "io/tensorflow/raise_frames.hpp"
#include "io/tensorflow/split_variants.hpp"
#include "io/tensorflow/tile_gradients.hpp"
#include "io/tensorflow/updates.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

using protozero::pbf_wire_type;

/// The numbers and wire types of the fields of a message; none for bytes that are no message.
std::set<std::pair<std::uint32_t, pbf_wire_type>> fields_of(std::string_view bytes) {
  try {
    std::set<std::pair<std::uint32_t, pbf_wire_type>> fields;
    WireReader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      fields.emplace(reader.tag(), reader.wire_type());
      reader.skip();
    }
    return fields;
  } catch (const protozero::exception&) {
    return {};
  }
}

/// Whether the bytes begin as a text of protobuf does: "node {", "saved_model_schema_version: 1".
bool is_text_format(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 256);
  const auto is_printed = [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) || std::isspace(static_cast<unsigned char>(c));
  };
  if (!std::all_of(head.begin(), head.end(), is_printed)) return false;
  const auto is_of_name = [](char c) { return std::islower(static_cast<unsigned char>(c)) || c == '_'; };
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  const auto* name = std::find_if_not(head.begin(), head.end(), is_space);
  const auto* end = std::find_if_not(name, head.end(), is_of_name);
  const auto* next = std::find_if_not(end, head.end(), is_space);
  return end - name > 1 && next != head.end() && (*next == '{' || *next == ':' || *next == '<');
}

/// The name as a message may show it: "a\x0ab".
std::string escaped(std::string_view name) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::iscntrl(byte)) {
      text += {'\\', 'x', digits[byte / 16], digits[byte % 16]};
    } else {
      text += c;
    }
  }
  return text;
}

/// Messages quote names: no control character of a file reaches a terminal or a log.
void require_printable(std::string_view name) {
  if (std::any_of(name.begin(), name.end(), [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; }))
    throw InvalidArgumentError(detail::join("The name '", escaped(name), "' has a control character"));
}

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

/// The kind of a file, as its bytes tell it, and what reads it; "" for one that is not known.
std::string_view known_format(std::string_view bytes) {
  if (is_text_format(bytes))
    return "a text, such as a GraphDef's; tp::Graph::load reads one from a file whose name ends in .pbtxt";
  if (bytes.starts_with("PK\3\4")) return "a zip archive, such as NumPy's .npz, Keras's .keras or PyTorch's .pt";
  if (bytes.starts_with("\x89HDF")) return "an HDF5 file, such as Keras's .h5";
  if (bytes.starts_with("\x1f\x8b")) return "compressed by gzip";
  const auto fields = fields_of(bytes);
  const auto has = [&](std::uint32_t tag, pbf_wire_type type) { return fields.contains({tag, type}); };
  constexpr auto message = pbf_wire_type::length_delimited, number = pbf_wire_type::varint;
  if (has(1, number) && has(7, message)) return "an ONNX model; read it with tp::onnx::load";
  if (has(1, number) && has(2, message)) return "a SavedModel; read its folder with tp::saved_model::load";
  if (has(1, message) && has(2, message) && (has(3, message) || has(6, message) || has(7, message)))
    return "a MetaGraphDef (.meta), no GraphDef";
  if (has(1, message)) return "a GraphDef; read it with tp::Graph::load";
  return {};
}

void refuse_format(std::string_view format, const std::string& what) {
  throw InvalidArgumentError(detail::join(what, what == "The data" ? " are " : " is ", format));
}

}  // namespace

void refuse_other_formats(std::string_view bytes, const std::string& what) {
  const std::string_view format = known_format(bytes);
  if (!format.empty() && !format.starts_with("a GraphDef;")) refuse_format(format, what);
}

void refuse_all_but_onnx(std::string_view bytes, const std::string& what) {
  const std::string_view format = known_format(bytes);
  if (!format.empty() && !format.starts_with("an ONNX model")) refuse_format(format, what);
}

void require_printable(const GraphDef& file) {
  for (const NodeDef& node : file.nodes) {
    for (const std::string* each : {&node.name, &node.op, &node.device}) require_printable(*each);
    for (const std::string& each : node.inputs) require_printable(each);
    for (const auto& [name, value] : node.attrs) require_printable(name);
    for (std::size_t i = 0; node.flow && i < node.flow->functions.size(); ++i) {
      require_printable(node.flow->functions[i].name);
      require_printable(node.flow->functions[i].graph);
    }
  }
}

GraphDef read_graph(std::string_view bytes, const GraphLimits& limits, const UnevenLists& uneven) {
  refuse_other_formats(bytes, "The data");
  return read_graph(decode(bytes, limits), limits, uneven);
}

GraphDef read_graph(GraphDef file, const GraphLimits& limits, const UnevenLists& uneven) {
  file = inline_functions(std::move(file), limits);
  require_printable(file);
  drop_unknown_hints(file);
  join_list_ops(file);
  split_tile_gradients(file);
  switch_constants(file);
  raise_frames(file);
  raise_conditions(file);
  split_variants(file, uneven);
  find_sequences(file);
  add_late_reads(file);
  return file;
}

}  // namespace tapestry::io
