#include "io/tensorflow/saver.hpp"

#include <algorithm>
#include <unordered_map>

#include "io/tensorflow/table_rows.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

constexpr TypeCode string_type{7};

/// "x" of "x:0" and of "^x".
std::string_view node_name(std::string_view input) {
  input.remove_prefix(input.starts_with('^') ? 1 : 0);
  return input.substr(0, input.rfind(':'));
}

/// The number of the output in "x:1"; 0 for "x".
std::size_t output_number(std::string_view input) {
  const std::size_t colon = input.rfind(':');
  std::size_t number = 0;
  for (const char c : colon == std::string_view::npos ? "" : input.substr(colon + 1))
    number = c >= '0' && c <= '9' && number < 1'000'000 ? 10 * number + static_cast<std::size_t>(c - '0') : 1'000'000;
  return number;
}

/// The strings of a Const. The last one stands for all that are missing.
std::vector<std::string> strings_of(const NodeDef& node) {
  const auto found = node.attrs.find("value");
  const auto* raw = found == node.attrs.end() ? nullptr : std::get_if<RawAttr>(&found->second);
  std::vector<std::string> strings;
  if (!raw || node.op != "Const") return strings;
  decoding(detail::join("The value of node '", node.name, "' is damaged"), [&] {
    WireReader attr(raw->bytes.data(), raw->bytes.size());
    while (attr.next()) {
      if (attr.tag() != 8) {
        attr.skip();
        continue;
      }
      WireReader tensor = attr.get_message();
      while (tensor.next()) {
        if (tensor.tag() == 8) {
          strings.emplace_back(tensor.get_text());
        } else {
          tensor.skip();
        }
      }
    }
  });
  return strings;
}

/// The nodes of a graph by name.
class NodesByName {
 public:
  explicit NodesByName(const GraphDef& graph) {
    for (const NodeDef& each : graph.nodes) nodes_.emplace(each.name, &each);
  }
  const NodeDef* find(std::string_view input) const {
    const auto found = nodes_.find(node_name(input));
    return found == nodes_.end() ? nullptr : found->second;
  }
  /// The output from which an input comes, past nodes that only pass it on.
  std::string_view origin(std::string_view input) const {
    for (int steps = 0; steps < 100; ++steps) {
      const NodeDef* node = find(input);
      if (!node || node->inputs.empty() || (node->op != "Identity" && node->op != "Reshape")) break;
      input = node->inputs[0];
    }
    return input;
  }

 private:
  std::unordered_map<std::string_view, const NodeDef*> nodes_;
};

bool is_variable_node(const NodeDef* node) {
  return node && (node->op == "VarHandleOp" || node->op == "VariableV2" || node->op == "Variable");
}

/// A Const of strings.
NodeDef string_constant(const std::string& name, const std::vector<std::string>& strings) {
  std::string bytes;
  protozero::pbf_writer attr(bytes);
  add_message(attr, 8, [&](protozero::pbf_writer& tensor) {
    tensor.add_enum(1, string_type.value);
    const std::int64_t sizes[] = {static_cast<std::int64_t>(strings.size())};
    add_message(tensor, 2, [&](protozero::pbf_writer& shape) { write_sizes(shape, sizes); });
    for (const std::string& each : strings) tensor.add_bytes(8, each);
  });
  return {.name = name, .op = "Const", .attrs = {{"dtype", string_type}, {"value", RawAttr{bytes}}}};
}

}  // namespace

std::map<std::string, CheckpointTensor, std::less<>> restored_variables(const GraphDef& graph) {
  const NodesByName nodes(graph);
  std::unordered_map<const NodeDef*, std::pair<std::vector<std::string>, std::vector<std::string>>> restores;
  std::map<std::string, CheckpointTensor, std::less<>> restored;
  for (const NodeDef& node : graph.nodes) {
    if ((node.op != "Assign" && node.op != "AssignVariableOp") || node.inputs.size() < 2) continue;
    const NodeDef* variable = nodes.find(node.inputs[0]);
    std::string_view value = nodes.origin(node.inputs[1]);
    const NodeDef* insertion = nodes.find(value);
    const bool is_table = insertion && insertion->op == insert_in_table && insertion->inputs.size() > 2;
    if (is_table) value = nodes.origin(insertion->inputs[1]);
    const NodeDef* restore = nodes.find(value);
    if (!is_variable_node(variable) || !restore || restore->op != "RestoreV2" || restore->inputs.size() < 3) continue;
    const auto [found, is_new] = restores.try_emplace(restore);
    auto& [names, slices] = found->second;
    if (is_new) {
      const NodeDef *first = nodes.find(restore->inputs[1]), *second = nodes.find(restore->inputs[2]);
      if (first) names = strings_of(*first);
      if (second) slices = strings_of(*second);
    }
    const std::size_t i = output_number(value);
    if (i >= names.size()) continue;
    const std::string slice = slices.empty() ? "" : slices[std::min(i, slices.size() - 1)];
    if (is_table && names[i].ends_with(table_keys)) names[i].resize(names[i].size() - table_keys.size());
    restored.insert_or_assign(variable->name, CheckpointTensor{names[i], slice});
  }
  return restored;
}

GraphDef without_saver(GraphDef graph, std::string_view filename) {
  std::unordered_map<std::string_view, std::vector<std::size_t>> users;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& each : graph.nodes[i].inputs) users[node_name(each)].push_back(i);
  std::vector<char> dropped(graph.nodes.size());
  std::vector<std::string_view> pending{node_name(filename)};
  while (!pending.empty()) {
    const std::string_view name = pending.back();
    pending.pop_back();
    if (const auto found = users.find(name); found != users.end())
      for (const std::size_t i : found->second)
        if (!std::exchange(dropped[i], 1)) pending.emplace_back(graph.nodes[i].name);
  }
  std::vector<NodeDef> kept;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (!dropped[i]) kept.push_back(std::move(graph.nodes[i]));
  graph.nodes = std::move(kept);
  return graph;
}

Saver add_saver(GraphDef& graph, std::vector<Saver::Part> variables) {
  std::string scope = "save";
  const auto is_taken = [&] {
    return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                       [&](const NodeDef& each) { return each.name == scope || each.name.starts_with(scope + "/"); });
  };
  for (int i = 1; is_taken(); ++i) scope = detail::join("save_", i);
  const std::string filename = scope + "/filename", names = scope + "/tensor_names",
                    slices = scope + "/shape_and_slices", restore = scope + "/RestoreV2";
  ListDef types;
  std::vector<std::string> keys;
  for (const Saver::Part& each : variables) {
    keys.push_back(checkpoint_key(each.variable));
    types.types.push_back(each.type);
  }
  NodeDef save{.name = scope + "/SaveV2", .op = "SaveV2", .inputs = {filename, names, slices}};
  NodeDef restored{.name = scope + "/restore_all", .op = "NoOp"};
  save.attrs.emplace("dtypes", types);
  const auto add = [&](NodeDef node) { graph.nodes.push_back(std::move(node)); };
  add({.name = filename, .op = "Placeholder", .attrs = {{"dtype", string_type}, {"shape", Shape()}}});
  add(string_constant(names, keys));
  add(string_constant(slices, std::vector<std::string>(variables.size())));
  add({.name = restore, .op = "RestoreV2", .inputs = {filename, names, slices}, .attrs = {{"dtypes", types}}});
  for (std::size_t i = 0; i < variables.size(); ++i) {
    Saver::Part& each = variables[i];
    each.read = detail::join(scope, "/read_", i);
    each.assign = detail::join(scope, "/assign_", i);
    const std::string value = i == 0 ? restore : detail::join(restore, ":", i);
    add({.name = each.read, .op = "ReadVariableOp", .inputs = {each.variable}, .attrs = {{"dtype", each.type}}});
    add({.name = each.assign,
         .op = "AssignVariableOp",
         .inputs = {each.variable, value},
         .attrs = {{"dtype", each.type}}});
    save.inputs.push_back(each.read);
    restored.inputs.push_back("^" + each.assign);
  }
  const std::string saved = scope + "/saved";
  add({.name = saved, .op = "Identity", .inputs = {filename, "^" + save.name}, .attrs = {{"T", string_type}}});
  Saver saver{filename + ":0", saved + ":0", restored.name, std::move(variables)};
  add(std::move(save));
  add(std::move(restored));
  return saver;
}

}  // namespace tapestry::io
