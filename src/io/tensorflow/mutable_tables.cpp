#include "io/tensorflow/mutable_tables.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/node_adder.hpp"
#include "io/tensorflow/nodes.hpp"
#include "io/tensorflow/table_rows.hpp"

namespace tapestry::io {
namespace {

/// More elements than a value of any real table has.
constexpr std::int64_t most_value_elements = 1 << 20;

/// The name without the version.
std::string_view base_name(std::string_view op) { return op.substr(0, op.size() - (op.ends_with("V2") ? 2 : 0)); }

bool makes_table(const NodeDef& node) {
  const std::string_view op = base_name(node.op);
  return op == "MutableHashTable" || op == "MutableHashTableOfTensors" || op == "MutableDenseHashTable";
}

enum class TableUse { none, find, insert, import, remove, size, exports };
TableUse use_of(const NodeDef& node) {
  struct Known {
    std::string_view op;
    std::size_t inputs;
    TableUse use;
  };
  constexpr Known known[] = {
      {"LookupTableFind", 3, TableUse::find},     {"LookupTableInsert", 3, TableUse::insert},
      {"LookupTableImport", 3, TableUse::import}, {"LookupTableRemove", 2, TableUse::remove},
      {"LookupTableSize", 1, TableUse::size},     {"LookupTableExport", 1, TableUse::exports},
  };
  for (const Known& each : known)
    if (base_name(node.op) == each.op && data_inputs(node) == each.inputs) return each.use;
  return TableUse::none;
}

struct MutableTable {
  std::string name{};
  Shape value_shape{};
  std::vector<std::int64_t> reserved{};
};
using MutableTables = std::map<std::string, MutableTable, std::less<>>;  ///< by node

/// Where the tables of a graph are: which of its tensors are which of them.
class TableHandles {
 public:
  TableHandles(const GraphDef& graph, const MutableTables& tables) : nodes_(graph), tables_(tables) {}

  const MutableTable* find(std::string tensor) const {
    constexpr int most_passes = 1000;
    for (int steps = 0; steps < most_passes; ++steps) {
      const auto [node, output] = nodes_.endpoint(tensor);
      if (!node) return nullptr;
      if (const auto found = tables_.find(node->name); found != tables_.end()) return &found->second;
      if (node->op == "IdentityN" && output < data_inputs(*node))
        tensor = node->inputs[output];
      else if (passes_on(*node))
        tensor = node->inputs[0];
      else
        return nullptr;
    }
    return nullptr;
  }

 private:
  Nodes nodes_;
  const MutableTables& tables_;
};

/// The tables that a function is given, by the nodes of its arguments.
MutableTables given_to(const FunctionBody& function, const NodeDef& node, const TableHandles& handles) {
  MutableTables given;
  const std::size_t first = node.flow->is_loop ? 0 : 1;
  for (std::size_t i = first; i < data_inputs(node) && i - first < function.inputs.size(); ++i)
    if (const MutableTable* table = handles.find(node.inputs[i])) given.emplace(function.inputs[i - first], *table);
  return given;
}

/// What a graph and its functions do with tables, by the table's node.
struct TableFacts {
  int constants = 0;  ///< how often it is filled with constants
  bool changes = false;
};
void note_uses(const GraphDef& graph, const MutableTables& tables, std::map<std::string, TableFacts>& facts) {
  const TableHandles handles(graph, tables);
  const Nodes nodes(graph);
  for (const NodeDef& node : graph.nodes) {
    if (node.flow)
      for (const FunctionBody& each : node.flow->functions) note_uses(each.graph, given_to(each, node, handles), facts);
    const TableUse use = use_of(node);
    const MutableTable* table = use == TableUse::none ? nullptr : handles.find(node.inputs[0]);
    if (!table) continue;
    TableFacts& known = facts[table->name];
    const auto is_constant = [&](std::size_t i) { return nodes.source(node.inputs[i], "Const", 0) != nullptr; };
    if (use == TableUse::import && is_constant(1) && is_constant(2))
      ++known.constants;
    else if (use != TableUse::find && use != TableUse::size)
      known.changes = true;
  }
}

/// A table whose keys and values are numbers; nothing for any other.
std::optional<MutableTable> mutable_table_of(const NodeDef& node, const Nodes& nodes) {
  const auto *key = attr_of<TypeCode>(node, "key_dtype"), *value = attr_of<TypeCode>(node, "value_dtype");
  if (!key || !value || !is_integer(dtype_of(*key)) || !has_rows(dtype_of(*value))) return {};
  MutableTable table{.name = node.name};
  if (const auto* shape = attr_of<Shape>(node, "value_shape")) table.value_shape = *shape;
  const std::int64_t elements = table.value_shape.num_elements();
  if (!table.value_shape.is_known() || elements < 1 || elements > most_value_elements) return {};
  for (std::size_t i = 0; i < data_inputs(node); ++i) {
    const Tensor reserved = nodes.whole_numbers(node.inputs[i]);
    if (!reserved || reserved.rank() != 0) return {};
    table.reserved.push_back(reserved.item<std::int64_t>());
  }
  return table;
}

class TableRaiser {
 public:
  TableRaiser(GraphDef& graph, const MutableTables& tables) : graph_(graph) {
    const TableHandles handles(graph, tables);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      NodeDef& node = graph.nodes[i];
      names_.insert(node.name);
      if (use_of(node) != TableUse::none)
        if (const MutableTable* table = handles.find(node.inputs[0])) uses_.emplace_back(i, *table);
      if (!node.flow) continue;
      Flow flow = *node.flow;
      for (FunctionBody& each : flow.functions)
        if (const MutableTables given = given_to(each, node, handles); !given.empty())
          TableRaiser(each.graph, given).run();
      node.flow = std::make_shared<const Flow>(std::move(flow));
    }
  }

  void run() {
    for (const auto& [place, table] : uses_) replace(place, table);
  }

 private:
  void replace(std::size_t place, const MutableTable& table) {
    const std::size_t first_added = graph_.nodes.size();
    const NodeDef node = graph_.nodes[place];
    NodeAdder add(graph_.nodes, names_, node.name + "/_/", node.device);
    const std::string& handle = node.inputs[0];
    std::vector<std::string> waiting{handle};
    for (const std::string& each : node.inputs)
      if (each.starts_with('^')) waiting.push_back(each);
    const std::string rows = add.op("ReadVariableOp", waiting, {{"dtype", code_of(int64)}}, "read");
    AttrDefs attrs{{"value_shape", table.value_shape}, {"reserved", ListDef{.ints = table.reserved}}};
    NodeDef last{.name = node.name, .device = node.device};
    const auto assign = [&](const std::string& value) {
      last.op = "NoOp";
      last.inputs = {"^" + add.op("AssignVariableOp", {handle, value}, {{"dtype", code_of(int64)}}, "assign")};
    };
    const auto give = [&](std::string_view op, std::vector<std::string> inputs) {
      last.op = op;
      last.inputs = std::move(inputs);
      for (const char* each : {"Tkeys", "Tvalues", "Tin", "Tout"})
        if (const auto* type = attr_of<TypeCode>(node, each)) attrs.emplace(each, *type);
      last.attrs = std::move(attrs);
    };
    const TableUse use = use_of(node);
    if (use == TableUse::find) {
      give(find_in_table, {rows, node.inputs[1], node.inputs[2]});
    } else if (use == TableUse::insert) {
      assign(add.op(insert_in_table, {rows, node.inputs[1], node.inputs[2]}, attrs, "rows"));
    } else if (use == TableUse::import) {
      assign(imported(add, node, table, rows, attrs));
    } else if (use == TableUse::remove) {
      assign(add.op(remove_from_table, {rows, node.inputs[1]}, attrs, "rows"));
    } else if (use == TableUse::size) {
      give(size_of_table, {rows});
    } else {
      give(export_table, {rows});
    }
    graph_.nodes[place] = std::move(last);
    // In a loop of TensorFlow 1, or on a side of a condition, constants belong to what they wait for.
    for (std::size_t i = first_added; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].inputs.empty()) graph_.nodes[i].inputs.push_back("^" + rows);
  }

  /// The rows of these keys alone. The export of a dense table also has keys that stand for none.
  static std::string imported(NodeAdder& add, const NodeDef& node, const MutableTable& table, const std::string& rows,
                              AttrDefs attrs) {
    const auto type = [&](const char* name) {
      const auto* known = attr_of<TypeCode>(node, name);
      return known ? *known : code_of(int64);
    };
    const std::string none = add.constant("none", empty_table(table.value_shape));
    const auto list = [&](const std::string& tensor, const char* name, const Shape& element) {
      Shape shape{-1};
      for (const std::int64_t each : element.sizes()) shape.push_back(each);
      return add.op("Reshape", {tensor, add.shape("shape", shape)}, {{"T", type(name)}, {"Tshape", code_of(int32)}});
    };
    const std::string keys = list(node.inputs[1], "Tin", Shape()),
                      values = list(node.inputs[2], "Tout", table.value_shape);
    attrs["reserved"] = ListDef();
    const std::string all = add.op(insert_in_table, {none, keys, values, "^" + rows}, attrs, "rows");
    if (table.reserved.empty()) return all;
    const std::string reserved = add.constant("reserved", vector_of(table.reserved, int64));
    return add.op(remove_from_table, {all, reserved}, attrs, "rows");
  }

  GraphDef& graph_;
  FileNames names_;
  std::vector<std::pair<std::size_t, MutableTable>> uses_;  ///< by the place of the node
};

void make_variable(NodeDef& node, const MutableTable& table) {
  AttrDefs attrs{{"dtype", code_of(int64)},
                 {"shape", Shape{-1, 1 + table.value_shape.num_elements()}},
                 {std::string(hint_table), *attr_of<TypeCode>(node, "value_dtype")}};
  if (!table.reserved.empty()) attrs.emplace(hint_reserved, ListDef{.ints = table.reserved});
  for (const char* each : {"container", "shared_name"})
    if (const auto found = node.attrs.find(each); found != node.attrs.end()) attrs.insert(*found);
  node.op = "VarHandleOp";
  node.inputs.clear();
  node.attrs = std::move(attrs);
}

}  // namespace

void raise_mutable_tables(GraphDef& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), makes_table)) return;
  MutableTables tables;
  {
    const Nodes nodes(graph);
    for (const NodeDef& node : graph.nodes)
      if (makes_table(node))
        if (std::optional<MutableTable> table = mutable_table_of(node, nodes))
          tables.emplace(node.name, *std::move(table));
  }
  std::map<std::string, TableFacts> facts;
  note_uses(graph, tables, facts);
  std::erase_if(tables, [&](const auto& each) {
    const TableFacts& known = facts[each.first];
    return known.constants == 1 && !known.changes;
  });
  if (tables.empty()) return;
  TableRaiser(graph, tables).run();
  for (NodeDef& node : graph.nodes)
    if (const auto found = tables.find(node.name); found != tables.end()) make_variable(node, found->second);
}

}  // namespace tapestry::io
