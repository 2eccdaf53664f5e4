// Changes of Variables in TensorFlow's graphs that are several of our operations: those of rows, and optimizers' own.

#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::foreign_updates_test {

TEST_CASE("a change that is several of our operations waits for its control inputs") {
  for (const bool is_resource : {true, false}) {
    const std::string prefix = is_resource ? "Resource" : "", two = "dim { size: 2 }";
    const std::string type = t_float + (is_resource ? attr("dtype", "type: DT_FLOAT") : "");
    const std::string index = type + attr("Tindices", "type: DT_INT32");
    const std::vector<std::pair<std::string, Tensor>> changes{
        {node("change", prefix + "ScatterAdd", {"v", "at", "five", "^tens"}, index), tensor<float>({11, 27})},
        {node("change", prefix + "ScatterUpdate", {"v", "at", "five", "^tens"}, index), tensor<float>({11, 5})},
        {node("change", prefix + "ScatterMul", {"v", "at", "five", "^tens"}, index), tensor<float>({11, 110})},
        {node("change", prefix + "ApplyAdagrad", {"v", "s", "one", "slope", "^tens"}, type), tensor<float>({10, 22})}};
    for (const auto& [update, expected] : changes) {
      const std::string& change = update;  // clang 14 takes no structured binding into doctest's function
      CAPTURE(change);
      const Graph graph =
          read(variable_nodes("v", "DT_FLOAT", two, "float_val: 1 float_val: 2", is_resource) +
               variable_nodes("s", "DT_FLOAT", two, "float_val: 0 float_val: 1", is_resource) + ints_node("at", {1}) +
               float_node("one", "1") +
               constant_node("slope", "DT_FLOAT", "tensor_shape {" + two + "} float_val: 1 float_val: 0") +
               constant_node("five", "DT_FLOAT", "tensor_shape { dim { size: 1 } } float_val: 5") +
               constant_node("more", "DT_FLOAT", "tensor_shape {" + two + "} float_val: 10 float_val: 20") +
               node("tens", is_resource ? "AssignAddVariableOp" : "AssignAdd", {"v", "more"}, type) + change +
               node("value", is_resource ? "ReadVariableOp" : "Identity", {"v"}, type));
      const Session session(graph);
      session.run({"v/Assign", "s/Assign"});
      session.run("change");
      check_same(session.run("value:0"), expected);
    }
  }
}

TEST_CASE("changes of rows that do not wait for each other are all there, and each runs alone") {
  for (const bool is_resource : {true, false}) {
    const std::string prefix = is_resource ? "Resource" : "", two = "dim { size: 2 }";
    const std::string type = t_float + (is_resource ? attr("dtype", "type: DT_FLOAT") : "");
    const std::string index = type + attr("Tindices", "type: DT_INT32");
    for (const std::string first : {"ScatterAdd", "ScatterUpdate", "ScatterMul", "ScatterNdUpdate"})
      for (const std::string second : {"ScatterSub", "ScatterUpdate", "ScatterMax"}) {
        CAPTURE(first);
        CAPTURE(second);
        const bool by_places = first.find("Nd") != std::string::npos;
        const Graph graph =
            read(variable_nodes("v", "DT_FLOAT", two, "float_val: 1 float_val: 2", is_resource) + ints_node("at", {1}) +
                 constant_node("place", "DT_INT32", "tensor_shape { dim { size: 1 } dim { size: 1 } } int_val: 0") +
                 ints_node("other", {0}) +
                 constant_node("five", "DT_FLOAT", "tensor_shape { dim { size: 1 } } float_val: 5") +
                 node("first", prefix + first, {"v", by_places ? "place" : "other", "five"}, index) +
                 node("second", prefix + second, {"v", "at", "five"}, index) +
                 node("value", is_resource ? "ReadVariableOp" : "Identity", {"v"}, type));
        for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
          const Session session(each);
          const auto values_after = [&](std::initializer_list<Fetch> changes) {
            session.run("v/Assign");
            session.run(changes);
            return session.run("value:0").to_vector<float>();
          };
          const std::vector<float> one = values_after({"first"}), other = values_after({"second"});
          CHECK(one[0] == (first == "ScatterAdd" ? 6.0F : 5.0F));
          CHECK(one[1] == 2);
          CHECK(other[0] == 1);
          CHECK(other[1] == (second == "ScatterSub" ? -3.0F : 5.0F));
          CHECK(values_after({"first", "second"}) == std::vector<float>{one[0], other[1]});
        }
      }
  }
}

TEST_CASE("one scalar changes all rows") {
  for (const bool is_resource : {true, false}) {
    const std::string two = "dim { size: 2 }";
    const std::string type = t_float + (is_resource ? attr("dtype", "type: DT_FLOAT") : "");
    const std::vector<std::pair<std::string, Tensor>> changes{
        {"ScatterAdd", tensor<float>({9, 10})},   {"ScatterSub", tensor<float>({-7, -6})},
        {"ScatterUpdate", tensor<float>({8, 8})}, {"ScatterMul", tensor<float>({8, 16})},
        {"ScatterDiv", tensor({0.125F, 0.25F})},  {"ScatterMax", tensor<float>({8, 8})},
        {"ScatterMin", tensor<float>({1, 2})}};
    for (const auto& [op, expected] : changes) {
      const std::string& change = op;  // clang 14 takes no structured binding into doctest's function
      CAPTURE(change);
      const Graph graph = read(variable_nodes("v", "DT_FLOAT", two, "float_val: 1 float_val: 2", is_resource) +
                               ints_node("at", {1, 0}) + float_node("eight", "8") +
                               node("change", (is_resource ? "Resource" : "") + change, {"v", "at", "eight"},
                                    type + attr("Tindices", "type: DT_INT32")) +
                               node("value", is_resource ? "ReadVariableOp" : "Identity", {"v"}, type));
      const Session session(graph);
      session.run("v/Assign");
      session.run("change");
      check_same(session.run("value:0"), expected);
    }
  }
}

TEST_CASE("rows of Variables of all types change as TensorFlow's do on a CPU") {
  // Row 1 comes twice: the last one is kept, and quotients are rounded toward 0.
  const std::vector<std::tuple<std::string, std::string, Tensor>> changes{
      {"DT_BOOL", "Update", tensor<bool>({true, false, true})},
      {"DT_INT8", "Update", tensor<std::int32_t>({-7, 3, 2})},
      {"DT_INT8", "Add", tensor<std::int32_t>({-7, 14, -7})},
      {"DT_INT8", "Mul", tensor<std::int32_t>({-7, 54, -18})},
      {"DT_UINT16", "Sub", tensor<std::int32_t>({65529, 4, 65525})},
      {"DT_INT32", "Div", tensor<std::int32_t>({-7, 1, -4})},
      {"DT_UINT8", "Div", tensor<std::uint8_t>({7, 1, 4})},
      {"DT_INT64", "Update", tensor<std::int64_t>({-7, 3, 2})}};
  for (const auto& change : changes)
    for (const bool is_resource : {true, false}) {
      const std::string &type = std::get<0>(change), &kind = std::get<1>(change);
      const Tensor& expected = std::get<2>(change);
      CAPTURE(type);
      CAPTURE(kind);
      CAPTURE(is_resource);
      const bool is_bool = type == "DT_BOOL", is_natural = type == "DT_UINT8";
      const std::string field = is_bool ? "bool_val: " : type == "DT_INT64" ? "int64_val: " : "int_val: ";
      const auto values = [&](const std::vector<std::string>& numbers) {
        std::string text;
        for (const std::string& each : numbers) text += " " + field + each;
        return text;
      };
      const std::string three = "dim { size: 3 }", t = attr("T", "type: " + type),
                        dtype = attr("dtype", "type: " + type);
      const std::string first = is_bool      ? values({"true", "true", "false"})
                                : is_natural ? values({"7", "9", "9"})
                                             : values({"-7", "9", "-9"});
      const std::string rows = is_bool ? values({"true", "true", "false"}) : values({"2", "2", "3"});
      const Graph graph =
          read(variable_nodes("v", type, three, first, is_resource) + ints_node("at", {2, 1, 1}) +
               constant_node("rows", type, "tensor_shape {" + three + "}" + rows) +
               node("change", (is_resource ? "ResourceScatter" : "Scatter") + kind, {"v", "at", "rows"},
                    (is_resource ? dtype : t) + attr("Tindices", "type: DT_INT32")) +
               node("value", is_resource ? "ReadVariableOp" : "Identity", {"v"}, is_resource ? dtype : t));
      for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
        const Session session(each);
        session.run("v/Assign");
        session.run("change");
        check_same(session.run("value:0"), expected);
      }
    }
}

TEST_CASE("a model that changes rows of a Variable is saved with what its functions need") {
  const std::string two = "dim { size: 2 }", dtype = attr("dtype", "type: DT_FLOAT");
  const Graph graph =
      read(variable_nodes("v", "DT_FLOAT", two, "float_val: 1 float_val: 2", true) +
           placeholder_node("x", "dim { size: 1 }") +
           constant_node("at", "DT_INT32", "tensor_shape { dim { size: 1 } dim { size: 1 } } int_val: 1") +
           node("change", "ResourceScatterNdUpdate", {"v", "at", "x"}, t_float + attr("Tindices", "type: DT_INT32")) +
           node("y", "ReadVariableOp", {"v", "^change"}, dtype));
  const TemporaryFolder folder;
  const std::string path = (folder / "model").string();
  saved_model::save(path, Model({.inputs = {{"x", graph.get_tensor_by_name("x:0")}},
                                 .outputs = {{"y", graph.get_tensor_by_name("y:0")}}}));
  const Model again = saved_model::load(path);
  check_same(again(Feeds{{"x", tensor<float>({7})}})[0], tensor<float>({1, 7}));
}

namespace {

/// Variables w = [1, 1, ...] and its slot s = [0.1, 0.1, ...] of six rows with one column, and constants for an update.
std::string rows_to_update(bool is_resource, const std::string& indices, const std::string& gradient) {
  const std::string six = "dim { size: 6 } dim { size: 1 }", type = t_float + attr("dtype", "type: DT_FLOAT");
  std::string text = variable_nodes("w", "DT_FLOAT", six, "float_val: 1", is_resource) +
                     variable_nodes("s", "DT_FLOAT", six, "float_val: 0.1", is_resource);
  for (const std::string name : {"w", "s"})
    text += node(name + "/value", is_resource ? "ReadVariableOp" : "Identity", {name}, type);
  return text + constant_node("rows", "DT_INT32", "tensor_shape { dim { size: 4 } } " + indices) +
         constant_node("g", "DT_FLOAT", "tensor_shape { dim { size: 4 } dim { size: 1 } } " + gradient) +
         constant_node("all", "DT_FLOAT", "tensor_shape {" + six + "} float_val: 2") + float_node("rate", "0.1") +
         float_node("small", "0.01") + float_node("momentum", "0.9");
}

const std::string one_to_four = "float_val: 1 float_val: 2 float_val: 3 float_val: 4";

/// What a run of the node "update" makes of w and s, and the same after the graph was written and read again.
void check_update(const std::string& text, const std::vector<double>& w, const std::vector<double>& s) {
  const Graph graph = read(text);
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    session.run({"w/Assign", "s/Assign"});
    session.run("update");
    check_values(session.run("w/value:0"), w, 1e-6);
    check_values(session.run("s/value:0"), s, 1e-6);
  }
}

}  // namespace

TEST_CASE("Adagrad leaves its slot where the node says so") {
  const std::vector<double> slot(6, 0.1);
  const std::string index = t_float + attr("Tindices", "type: DT_INT32"), fixed = attr("update_slots", "b: false");
  for (const std::string prefix : {"Resource", ""}) {
    CAPTURE(prefix);
    const std::string rows =
        rows_to_update(!prefix.empty(), "int_val: 0 int_val: 2 int_val: 3 int_val: 5", one_to_four);
    check_update(rows + node("update", prefix + "ApplyAdagradV2", {"w", "s", "rate", "small", "all"}, t_float + fixed),
                 std::vector<double>(6, 0.38693136), slot);
    check_update(
        rows + node("update", prefix + "SparseApplyAdagradV2", {"w", "s", "rate", "small", "g", "rows"}, index + fixed),
        {0.6934657, 1, 0.38693136, 0.08039701, 1, -0.22613728}, slot);
    check_update(rows + node("update", prefix + "SparseApplyAdagrad", {"w", "s", "rate", "g", "rows"}, index + fixed),
                 {0.6837722, 1, 0.36754447, 0.05131668, 1, -0.26491106}, slot);
  }
}

TEST_CASE("rows of one index are added up before an update") {
  const std::string index = t_float + attr("Tindices", "type: DT_INT32");
  const std::string rows = rows_to_update(true, "int_val: 1 int_val: 4 int_val: 1 int_val: 5", one_to_four);
  check_update(
      rows + node("update", "ResourceSparseApplyKerasMomentum", {"w", "s", "rate", "g", "rows", "momentum"}, index),
      {1, 0.69, 1, 1, 0.89, 0.69}, {0.1, -0.31, 0.1, 0.1, -0.11, -0.31});
  // Of several rows for one index TensorFlow's CPU takes the last.
  check_update(
      rows + node("update", "ResourceScatterUpdate", {"w", "rows", "g"}, index + attr("dtype", "type: DT_FLOAT")),
      {1, 3, 1, 1, 2, 4}, std::vector<double>(6, 0.1));
}

TEST_CASE("a change that Tapestry lacks is written again as it is, and only its run is refused") {
  const std::string powers = float_node("power1", "0.9") + float_node("power2", "0.99");
  const std::string index = t_float + attr("Tindices", "type: DT_INT32");
  for (const std::string prefix : {"Resource", ""}) {
    CAPTURE(prefix);
    const std::string spec =
        attr("shape", "shape { dim { size: 6 } dim { size: 1 } }") + attr("dtype", "type: DT_FLOAT");
    const Graph graph =
        read(rows_to_update(!prefix.empty(), "int_val: 1", one_to_four) + powers +
             node("v", prefix.empty() ? "VariableV2" : "VarHandleOp", {}, spec) +
             node("adam", prefix + "ApplyAdam",
                  {"w", "s", "v", "power1", "power2", "rate", "momentum", "momentum", "small", "all"},
                  t_float + attr("use_nesterov", "b: true")) +
             constant_node("places", "DT_INT32", "tensor_shape { dim { size: 4 } dim { size: 1 } } int_val: 1") +
             node("scatter", prefix + "ScatterNdAdd", {"w", "places", "g"},
                  index + attr("bad_indices_policy", "s: 'IGNORE'")));
    const std::string written =
        graph.as_graph_def({.variables = prefix.empty() ? VariableStyle::reference : VariableStyle::resource});
    for (const std::string name : {"adam", "scatter"}) {
      CHECK_THROWS_AS(Session(graph).run(name), UnimplementedError);
      CHECK(def_of(written, name).op.starts_with(prefix));
      CHECK(def_of(written, name).inputs[0] == "w");
    }
    CHECK(std::get<bool>(def_of(written, "adam").attrs.at("use_nesterov")));
    const Session session(graph);
    session.run({"w/Assign"});
    CHECK(session.run("w/value:0").shape() == Shape{6, 1});
  }
}

}  // namespace tapestry::test::foreign_updates_test
