// Variables of TensorFlow's whose sizes change, and tables that its graphs fill.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_states_test {
namespace {

const std::string dtype = attr("dtype", "type: DT_FLOAT");
const std::string any_shape = attr("shape", "shape { unknown_rank: true }");

std::string longs(const std::string& name, const std::vector<int>& values) {
  std::string tensor = "tensor_shape { dim { size: " + std::to_string(values.size()) + " } }";
  for (const int each : values) tensor += " int64_val: " + std::to_string(each);
  return constant_node(name, "DT_INT64", tensor);
}
std::string floats(const std::string& name, const std::vector<int>& values) {
  std::string tensor = "tensor_shape { dim { size: " + std::to_string(values.size()) + " } }";
  for (const int each : values) tensor += " float_val: " + std::to_string(each);
  return constant_node(name, "DT_FLOAT", tensor);
}

}  // namespace

TEST_CASE("a Variable of any shape has the shape of its value, in both styles, and is written again") {
  for (const bool is_resource : {true, false}) {
    CAPTURE(is_resource);
    const std::string set = is_resource ? "AssignVariableOp" : "Assign", type = is_resource ? dtype : t_float;
    const std::string unchecked = type + (is_resource ? "" : attr("validate_shape", "b: false"));
    const std::string add = is_resource ? "AssignAddVariableOp" : "AssignAdd";
    Graph graph = read(node("v", is_resource ? "VarHandleOp" : "VariableV2", {}, any_shape + dtype) +
                       floats("two", {1, 2}) + placeholder_node("x") + ints_node("axis", {}) +
                       constant_node("zero", "DT_INT32", "tensor_shape {} int_val: 0") +
                       node("v/Assign", set, {"v", "two"}, unchecked) + node("set", set, {"v", "x"}, unchecked) +
                       node("read", is_resource ? "ReadVariableOp" : "Identity", {"v"}, type) +
                       node("longer", "ConcatV2", {"read", "x", "zero"},
                            t_float + attr("N", "i: 2") + attr("Tidx", "type: DT_INT32")) +
                       node("grow", set, {"v", "longer"}, unchecked) + node("add", add, {"v", "x"}, type) +
                       node("twice", "Add", {"read", "read"}, t_float) +
                       node("shape", "Shape", {"read"}, t_float + attr("out_type", "type: DT_INT32")) +
                       float_node("rate", "0.5") +
                       node("descend", is_resource ? "ResourceApplyGradientDescent" : "ApplyGradientDescent",
                            {"v", "rate", "x"}, t_float));
    for (int again = 0; again < 2; ++again) {
      const std::string written =
          graph.as_graph_def({.variables = is_resource ? VariableStyle::resource : VariableStyle::reference});
      const Session session(graph);
      session.run("v/Assign");
      check_same(session.run("twice:0"), tensor<float>({2, 4}));
      session.run("grow", {{"x:0", {3.0, 4.0, 5.0}}});
      check_same(session.run("twice:0"), tensor<float>({2, 4, 6, 8, 10}));
      check_same(session.run("shape:0"), tensor({5}));
      session.run("add", {{"x:0", ones({5})}});
      session.run("descend", {{"x:0", ones({5})}});
      check_same(session.run("read:0"), tensor<float>({1.5, 2.5, 3.5, 4.5, 5.5}));
      for (const std::string change : {"add", "descend"})
        CHECK(message_of<InvalidArgumentError>([&] {
                session.run(change, {{"x:0", ones({4})}});
              }).find("shapes must be equal") != std::string::npos);
      session.run("set", {{"x:0", ones({2, 3})}});
      check_same(session.run("shape:0"), tensor({2, 3}));
      check_same(session.run("twice:0"), tensor<float>({{2, 2, 2}, {2, 2, 2}}));
      graph = Graph::from_graph_def(written);
    }
  }
}

TEST_CASE("a Variable with one open size takes values of that rank only") {
  const std::string rows = attr("shape", "shape { dim { size: -1 } dim { size: 2 } }");
  const Session session(read(node("v", "VarHandleOp", {}, rows + dtype) + placeholder_node("x") +
                             node("set", "AssignVariableOp", {"v", "x"}, dtype) +
                             node("shape", "VariableShape", {"v"}, attr("out_type", "type: DT_INT64")) +
                             node("read", "ReadVariableOp", {"v"}, dtype)));
  CHECK_THROWS_AS(session.run("read:0"), FailedPreconditionError);
  for (const std::int64_t count : {3, 0, 1}) {
    session.run("set", {{"x:0", ones({count, 2})}});
    check_same(session.run("read:0"), ones({count, 2}));
    check_same(session.run("shape:0"), tensor<std::int64_t>({count, 2}));
  }
  CHECK(message_of<InvalidArgumentError>([&] {
          session.run("set", {{"x:0", ones({2, 3})}});
        }).find("[?,2]") != std::string::npos);
  check_same(session.run("read:0"), ones({1, 2}));
}

TEST_CASE("a table is filled, changed and looked up in the order of the graph, and written again") {
  const std::string types = attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: DT_FLOAT");
  const std::string in_out = attr("Tin", "type: DT_INT64") + attr("Tout", "type: DT_FLOAT");
  const auto placeholder = [](const std::string& name, const std::string& type) {
    return node(name, "Placeholder", {},
                attr("dtype", "type: " + type) + attr("shape", "shape { unknown_rank: true }"));
  };
  Graph graph = read(node("table", "MutableHashTableV2", {}, types) + placeholder("keys", "DT_INT64") +
                     placeholder("values", "DT_FLOAT") + float_node("none", "-1") +
                     node("insert", "LookupTableInsertV2", {"table", "keys", "values"}, in_out) +
                     node("import", "LookupTableImportV2", {"table", "keys", "values"}, in_out) +
                     node("remove", "LookupTableRemoveV2", {"table", "keys"}, attr("Tin", "type: DT_INT64")) +
                     node("find", "LookupTableFindV2", {"table", "keys", "none"}, in_out) +
                     node("after", "LookupTableFindV2", {"table", "keys", "none", "^insert"}, in_out) +
                     node("size", "LookupTableSizeV2", {"table"}) +
                     node("all", "LookupTableExportV2", {"table"},
                          attr("Tkeys", "type: DT_INT64") + attr("Tvalues", "type: DT_FLOAT")));
  const auto keys = [](const std::vector<std::int64_t>& list) { return tensor(list); };
  for (int again = 0; again < 2; ++again) {
    const std::string written = graph.as_graph_def();
    const Session session(graph);
    if (again == 1) session.run("init");
    CHECK(session.run("size:0").item<std::int64_t>() == 0);
    check_same(session.run("find:0", {{"keys:0", keys({3, 4})}}), tensor<float>({-1, -1}));
    // The last of several values of one key stays.
    session.run("insert", {{"keys:0", keys({7, -3, 7})}, {"values:0", {1.0, 2.0, 3.0}}});
    check_same(session.run("find:0", {{"keys:0", tensor<std::int64_t>({{7, 0}, {-3, 8}})}}),
               tensor<float>({{3, -1}, {2, -1}}));
    check_same(session.run("after:0", {{"keys:0", keys({8, -3})}, {"values:0", {4.0, 5.0}}}), tensor<float>({4, 5}));
    CHECK(session.run("size:0").item<std::int64_t>() == 3);
    session.run("remove", {{"keys:0", keys({7, 11, 7})}});
    const std::vector<Tensor> all = session.run({"all:0", "all:1"});
    std::map<std::int64_t, float> entries;
    for (std::int64_t i = 0; i < all[0].size(); ++i)
      entries.emplace(all[0].to_vector<std::int64_t>()[i], all[1].to_vector<float>()[i]);
    CHECK(entries == std::map<std::int64_t, float>{{-3, 5}, {8, 4}});
    session.run("import", {{"keys:0", keys({1})}, {"values:0", {9.0}}});
    check_same(session.run("find:0", {{"keys:0", keys({1, 8})}}), tensor<float>({9, -1}));
    if (again == 0)  // what is written consists of other ops
      CHECK_THROWS_WITH_AS(session.run("insert", {{"keys:0", keys({1, 2})}, {"values:0", {9.0}}}),
                           doctest::Contains("Expected shape [2] for value, got [1]"), InvalidArgumentError);
    graph = Graph::from_graph_def(written);
  }
}

TEST_CASE("a Variable that a file calls a table, and is none, is refused") {
  for (const std::string shape : {"unknown_rank: true", "dim { size: -1 }", "dim { size: -1 } dim { size: -1 }",
                                  "dim { size: 2 } dim { size: 2 }"}) {
    CAPTURE(shape);
    CHECK_THROWS_AS(read(node("t", "VarHandleOp", {},
                              attr("dtype", "type: DT_INT64") + attr("shape", "shape { " + shape + " }") +
                                  attr("_tapestry_table", "type: DT_FLOAT"))),
                    InvalidArgumentError);
  }
}

TEST_CASE("a node waits for what a constant waits for that becomes its attribute") {
  const Session session(read(
      variable_nodes("v", "DT_FLOAT", "", "float_val: 1", true) + float_node("two", "2") +
      node("add", "AssignAddVariableOp", {"v", "two"}, dtype) +
      node("size", "Const", {"^add"},
           attr("dtype", "type: DT_INT32") + attr("value", "tensor { dtype: DT_INT32 tensor_shape {} int_val: 3 }")) +
      node("sizes", "Pack", {"size", "size"}, attr("T", "type: DT_INT32") + attr("N", "i: 2")) +
      node("filled", "Fill", {"sizes", "two"}, t_float) + node("read", "ReadVariableOp", {"v"}, dtype)));
  session.run("v/Assign");
  check_same(session.run("filled:0"), full({3, 3}, 2.0F));
  check_same(session.run("read:0"), tensor<float>(3));
}

TEST_CASE("a dense table takes no key that stands for none") {
  const std::string types = attr("key_dtype", "type: DT_INT64") + attr("value_dtype", "type: DT_FLOAT") +
                            attr("value_shape", "shape { dim { size: 2 } }");
  const std::string in_out = attr("Tin", "type: DT_INT64") + attr("Tout", "type: DT_FLOAT");
  const auto number = [](const std::string& name, int value) {
    return constant_node(name, "DT_INT64", "tensor_shape { } int64_val: " + std::to_string(value));
  };
  const Session session(read(number("empty", -1) + number("deleted", -2) + longs("keys", {5, 6}) +
                             node("table", "MutableDenseHashTableV2", {"empty", "deleted"}, types) +
                             node("given", "Placeholder", {},
                                  attr("dtype", "type: DT_INT64") + attr("shape", "shape { unknown_rank: true }")) +
                             placeholder_node("values") + floats("none", {7, 8}) +
                             node("insert", "LookupTableInsertV2", {"table", "keys", "values"}, in_out) +
                             node("find", "LookupTableFindV2", {"table", "given", "none"}, in_out)));
  session.run("insert", {{"values:0", {{1.0, 2.0}, {3.0, 4.0}}}});
  const auto find = [&](const std::vector<std::int64_t>& keys) {
    return session.run("find:0", {{"given:0", tensor(keys)}});
  };
  check_same(find({6, 4, 5}), tensor<float>({{3, 4}, {7, 8}, {1, 2}}));
  CHECK(message_of<InvalidArgumentError>([&] { find({5, -1}); }).find("Using the empty_key") != std::string::npos);
  CHECK(message_of<InvalidArgumentError>([&] { find({-2}); }).find("Using the deleted_key") != std::string::npos);
}

}  // namespace tapestry::test::foreign_states_test
