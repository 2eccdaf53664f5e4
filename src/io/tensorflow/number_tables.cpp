#include "io/tensorflow/number_tables.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/node_adder.hpp"
#include "io/tensorflow/nodes.hpp"
#include "io/tensorflow/table_file.hpp"
#include "io/wire.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {
namespace {

/// The keys in order, and the value of each.
struct NumberTable {
  Tensor keys{}, values{};
};

bool is_filling(const NodeDef& node) {
  return (node.op == "LookupTableImportV2" || node.op == "InitializeTableV2") && data_inputs(node) == 3;
}
bool is_filling_from_file(const NodeDef& node) {
  return node.op.starts_with("InitializeTableFromTextFile") && data_inputs(node) == 2;
}
bool is_search(const NodeDef& node) { return node.op == "LookupTableFindV2" && data_inputs(node) == 3; }
bool asks_for_size(const NodeDef& node) { return node.op == "LookupTableSizeV2" && data_inputs(node) == 1; }

Tensor constant_of(const Nodes& nodes, const std::string& tensor) {
  const NodeDef* node = nodes.source(tensor, "Const", 0);
  const auto* value = node ? attr_of<TensorDef>(*node, "value") : nullptr;
  return value ? value->value : Tensor();
}

/// Whether a node is a table from whole numbers to numbers. A server numbers texts; its tables of these stay tables of
/// texts.
bool is_of_numbers(const NodeDef* table) {
  const auto* key = table ? attr_of<TypeCode>(*table, "key_dtype") : nullptr;
  const auto* value = table ? attr_of<TypeCode>(*table, "value_dtype") : nullptr;
  return key && value && is_integer(dtype_of(*key)) && dtype_of(*value) != DType::unknown;
}

/// The text that a constant attribute holds, in the bytes of an AttrValue; "" for none.
std::string text_in(const RawAttr& value) {
  std::string text;
  decoding("a constant of texts is damaged", [&] {
    for_fields(WireReader(value.bytes.data(), value.bytes.size()), 8, [&](WireReader& tensor) {
      for_fields(tensor.get_message(), 8, [&](WireReader& element) { text = element.get_text(); });
    });
  });
  return text;
}

/// The file whose path a tensor is: an asset of the SavedModel, perhaps by a Variable, or a constant; "" if it is not
/// known.
std::string path_in(const GraphDef& graph, const Nodes& nodes, const std::string& tensor) {
  const NodeDef* node = nodes.source(tensor);
  if (node && node->op == "ReadVariableOp" && data_inputs(*node) == 1) {
    const std::string variable = nodes.origin(node->inputs[0]);
    for (const NodeDef& each : graph.nodes)
      if (each.op == "AssignVariableOp" && data_inputs(each) == 2 && nodes.origin(each.inputs[0]) == variable)
        node = nodes.source(each.inputs[1]);
  }
  if (!node) return "";
  if (const auto* asset = attr_of<std::string>(*node, asset_path)) return *asset;
  const auto* raw = node->op == "Const" ? attr_of<RawAttr>(*node, "value") : nullptr;
  return raw ? text_in(*raw) : "";
}

/// The keys and values in the order of the file.
NumberTable filled_by(const GraphDef& graph, const Nodes& nodes, const NodeDef& filling, const GraphLimits& limits) {
  if (!is_filling_from_file(filling))
    return {constant_of(nodes, filling.inputs[1]), constant_of(nodes, filling.inputs[2])};
  const std::string path = path_in(graph, nodes, filling.inputs[1]);
  if (path.empty()) return {};
  constexpr std::int64_t memory_of_byte = 32;  // two texts for a line, which is a digit
  const TableFields fields = read_table_file(filling, path, limits.bytes / memory_of_byte);
  const NodeDef& table = *nodes.source(filling.inputs[0]);
  const auto dtype = [&](const char* name) { return dtype_of(*attr_of<TypeCode>(table, name)); };
  return {numbers_of_fields(filling, fields.keys, dtype("key_dtype")),
          numbers_of_fields(filling, fields.values, dtype("value_dtype"))};
}

/// The table without repetitions, which have to be equal. `table` has the keys in order, and equal ones in that of the
/// file.
template <class T>
NumberTable without_repetitions(const NumberTable& table) {
  const auto keys = table.keys.to_vector<std::int64_t>();
  const auto values = table.values.to_vector<T>();
  std::vector<std::int64_t> first;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1])
      first.push_back(static_cast<std::int64_t>(i));
    else if (values[i] != values[i - 1])
      refuse_second_value(detail::join(keys[i]), detail::join(values[i - 1]), detail::join(values[i]));
  }
  const Tensor places = tensor(first);
  return {gather(table.keys, places), gather(table.values, places)};
}

std::optional<NumberTable> table_of(const GraphDef& graph, const Nodes& nodes, const NodeDef& filling,
                                    const GraphLimits& limits) {
  if (!is_of_numbers(nodes.source(filling.inputs[0]))) return {};
  const auto [keys, values] = [&]() -> NumberTable {
    try {
      return filled_by(graph, nodes, filling, limits);
    } catch (const NotFoundError&) {
      return {};  // only a run that looks something up needs the file
    }
  }();
  if (!keys || !values || !is_integer(keys.dtype()) || keys.rank() != 1 || values.shape() != keys.shape()) return {};
  if (keys.size() == 0) return {};
  const ExecuteNow now;
  const Tensor order = argsort(keys);
  NumberTable table{gather(keys, order), gather(values, order)};
  if (!is_filling_from_file(filling)) return table;
  return is_integer(table.values.dtype()) ? without_repetitions<std::int64_t>(table)
                                          : without_repetitions<double>(table);
}

/// The place of each number is found as in a book: it lies a power of 2 behind the last one found, or not.
void replace(NodeDef& node, const NumberTable& table, NodeAdder add) {
  const TypeCode key = code_of(table.keys.dtype()), value = code_of(table.values.dtype()), place = code_of(int32);
  const std::string x = node.inputs[1];
  const std::string keys = add.constant("keys", table.keys), axis = add.number("axis", 0);
  const auto at = [&](const std::string& list, TypeCode type, const std::string& places) {
    return add.op("GatherV2", {list, places, axis}, {{"Tparams", type}, {"Tindices", place}, {"Taxis", place}});
  };
  const std::string last = add.number("last", table.keys.size() - 1);
  std::string found = add.op("Cast", {add.op("ZerosLike", {x}, {{"T", key}})}, {{"SrcT", key}, {"DstT", place}});
  for (auto step = std::int64_t(std::bit_floor(static_cast<std::uint64_t>(table.keys.size()))); step > 0; step /= 2) {
    const std::string next = add.whole("Minimum", add.whole("AddV2", found, add.number("step", step)), last);
    const std::string is_there = add.op("LessEqual", {at(keys, key, next), x}, {{"T", key}});
    found = add.op("SelectV2", {is_there, next, found}, {{"T", place}});
  }
  const std::string is_known = add.op("Equal", {at(keys, key, found), x}, {{"T", key}});
  const std::string known = at(add.constant("values", table.values), value, found);
  std::vector<std::string> inputs{is_known, known, node.inputs[2]};
  inputs.insert(inputs.end(), node.inputs.begin() + 3, node.inputs.end());
  node.op = "SelectV2";
  node.inputs = std::move(inputs);
  node.attrs = {{"T", value}};
}

void replace_size(NodeDef& node, std::int64_t size) {
  node.op = "Const";
  node.inputs.erase(node.inputs.begin());
  node.attrs = {{"dtype", code_of(int64)},
                {"value", TensorDef{code_of(int64), detail::make_scalar(static_cast<double>(size), int64)}}};
}

}  // namespace

void search_number_tables(GraphDef& graph, const GraphLimits& limits) {
  const auto needs_table = [](const NodeDef& each) { return is_search(each) || asks_for_size(each); };
  const auto forget_assets = [&] {
    for (NodeDef& each : graph.nodes)
      std::erase_if(each.attrs, [](const auto& attr) { return attr.first == asset_path; });
  };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), needs_table)) return forget_assets();
  std::vector<NodeDef> added;
  FileNames names;
  std::unordered_map<std::string, const NodeDef*> fillings;  // by table; nullptr where there are several
  {
    const Nodes nodes(graph);
    for (const NodeDef& each : graph.nodes) {
      names.insert(each.name);
      if (!is_filling(each) && !is_filling_from_file(each)) continue;
      const auto [at, is_new] = fillings.emplace(nodes.origin(each.inputs[0]), &each);
      if (!is_new) at->second = nullptr;
    }
    std::vector<std::pair<NodeDef*, NumberTable>> found;
    std::unordered_map<const NodeDef*, std::optional<NumberTable>> tables;  // by filling
    for (NodeDef& each : graph.nodes) {
      if (!needs_table(each)) continue;
      const auto filling = fillings.find(nodes.origin(each.inputs[0]));
      if (filling == fillings.end() || !filling->second) continue;
      const auto [table, is_new] = tables.try_emplace(filling->second);
      if (is_new) table->second = table_of(graph, nodes, *filling->second, limits);
      if (table->second) found.emplace_back(&each, *table->second);
    }
    for (auto& [node, table] : found)
      if (asks_for_size(*node))
        replace_size(*node, table.keys.size());
      else
        replace(*node, table, NodeAdder(added, names, node->name + "/_/", node->device));
  }
  std::move(added.begin(), added.end(), std::back_inserter(graph.nodes));
  forget_assets();
}

}  // namespace tapestry::io
