#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"

/// GraphDefs as text, node by node.

namespace tapestry::test {

inline Graph read(const std::string& text) { return Graph::from_graph_def(io::from_text(text)); }

inline std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                        const std::string& attrs = {}) {
  std::string text = "node { name: '" + name + "' op: '" + op + "'";
  for (const std::string& input : inputs) text += " input: '" + input + "'";
  return text + " " + attrs + " }\n";
}
inline std::string attr(const std::string& name, const std::string& value) {
  return " attr { key: '" + name + "' value { " + value + " } }";
}
inline const std::string t_float = attr("T", "type: DT_FLOAT");

inline std::string placeholder_node(const std::string& name, const std::string& shape = "unknown_rank: true") {
  return node(name, "Placeholder", {}, attr("dtype", "type: DT_FLOAT") + attr("shape", "shape { " + shape + " }"));
}
inline std::string constant_node(const std::string& name, const std::string& type, const std::string& tensor) {
  return node(name, "Const", {},
              attr("dtype", "type: " + type) + attr("value", "tensor { dtype: " + type + " " + tensor + " }"));
}
inline std::string ints_node(const std::string& name, const std::vector<int>& values) {
  std::string tensor = "tensor_shape { dim { size: " + std::to_string(values.size()) + " } }";
  for (const int each : values) tensor += " int_val: " + std::to_string(each);
  return constant_node(name, "DT_INT32", tensor);
}
inline std::string float_node(const std::string& name, const std::string& value) {
  return constant_node(name, "DT_FLOAT", "tensor_shape { } float_val: " + value);
}

inline io::NodeDef def_of(const std::string& bytes, const std::string& name) {
  for (const io::NodeDef& each : io::decode(bytes).nodes)
    if (each.name == name) return each;
  FAIL("no node " << name);
  return {};
}

/// A Variable `name` of either style, which is initialized by "name/Assign".
inline std::string variable_nodes(const std::string& name, const std::string& type, const std::string& dims,
                                  const std::string& values, bool is_resource) {
  const std::string spec = attr("shape", "shape {" + dims + "}") + attr("dtype", "type: " + type);
  return constant_node(name + "/initial", type, "tensor_shape {" + dims + "} " + values) +
         node(name, is_resource ? "VarHandleOp" : "VariableV2", {}, spec) +
         node(name + "/Assign", is_resource ? "AssignVariableOp" : "Assign", {name, name + "/initial"},
              is_resource ? attr("dtype", "type: " + type) : attr("T", "type: " + type));
}

}  // namespace tapestry::test
