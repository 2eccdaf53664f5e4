// What TensorFlow's graphs do with Variables beside training: they count, change parts, and sample classes.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_variables_test {
namespace {

/// A Variable `name` of either style, which is initialized by "name/Assign".
std::string variable_nodes(const std::string& name, const std::string& type, const std::string& dims,
                           const std::string& values, bool is_resource) {
  const std::string spec = attr("shape", "shape {" + dims + "}") + attr("dtype", "type: " + type);
  return constant_node(name + "/initial", type, "tensor_shape {" + dims + "} " + values) +
         node(name, is_resource ? "VarHandleOp" : "VariableV2", {}, spec) +
         node(name + "/Assign", is_resource ? "AssignVariableOp" : "Assign", {name, name + "/initial"},
              is_resource ? attr("dtype", "type: " + type) : attr("T", "type: " + type));
}

}  // namespace

TEST_CASE("a Variable counts up to a limit, in both styles, and is written again in either") {
  for (const bool is_resource : {true, false}) {
    CAPTURE(is_resource);
    const std::string t_int = attr("T", "type: DT_INT64"), one = "int64_val: 1";
    Graph graph =
        read(variable_nodes("step", "DT_INT64", "", one, is_resource) +
             node("next", is_resource ? "ResourceCountUpTo" : "CountUpTo", {"step"}, t_int + attr("limit", "i: 3")) +
             node("twice", "Add", {"next", "next"}, t_int));
    for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
      const std::string written = graph.as_graph_def({.variables = style});
      const Session session(graph);
      session.run("step/Assign");
      CHECK(session.run("next:0").item<std::int64_t>() == 1);
      CHECK(session.run("twice:0").item<std::int64_t>() == 4);
      CHECK(message_of<OutOfRangeError>([&] { session.run("next:0"); }).starts_with("Reached limit of 3"));
      CHECK(def_of(written, "next").op == (style == VariableStyle::resource ? "ResourceCountUpTo" : "CountUpTo"));
      graph = Graph::from_graph_def(written);
    }
  }
  CHECK_THROWS_WITH_AS(read(variable_nodes("w", "DT_FLOAT", "", "float_val: 1", true) +
                            node("next", "ResourceCountUpTo", {"w"}, t_float + attr("limit", "i: 3"))),
                       doctest::Contains("its Variable is float32[], not a whole number"), InvalidArgumentError);
}

TEST_CASE("a Variable that is made of another one's initialized value: the branch reads it, not the graph around") {
  const std::string dtype = attr("dtype", "type: DT_FLOAT");
  const auto function = [](const std::string& name, const std::string& nodes, const std::string& result) {
    return "library { function { signature { name: '" + name +
           "' input_arg { name: 'v' type: DT_RESOURCE } input_arg { name: 'initial' type: DT_FLOAT } output_arg { "
           "name: "
           "'y' type: DT_FLOAT } } " +
           nodes + " ret { key: 'y' value: '" + result + "' } } }\n";
  };
  const std::string functions =
      function("read", "node_def { name: 'r' op: 'ReadVariableOp' input: 'v' " + dtype + " }", "r:value:0") +
      function("first", "", "initial");
  const std::string types = " list { type: DT_RESOURCE type: DT_FLOAT }";
  const std::string conditional =
      node("is_initialized", "VarIsInitializedOp", {"v"}) +
      node("value", "If", {"is_initialized", "v", "v/initial"},
           attr("Tcond", "type: DT_BOOL") + attr("Tin", types) + attr("Tout", "list { type: DT_FLOAT }") +
               attr("then_branch", "func { name: 'read' }") + attr("else_branch", "func { name: 'first' }") +
               attr("output_shapes", "list { shape { } }"));
  const Graph graph =
      read(variable_nodes("v", "DT_FLOAT", "", "float_val: 2", true) + conditional +
           node("average", "VarHandleOp", {}, attr("shape", "shape { }") + dtype) +
           node("average/Assign", "AssignVariableOp", {"average", "value"}, dtype) +
           node("v/now", "ReadVariableOp", {"v"}, dtype) + node("average/now", "ReadVariableOp", {"average"}, dtype) +
           node("init", "NoOp", {"^v/Assign", "^average/Assign"}) + functions);
  const std::string written = graph.as_graph_def({.computed_initial_values = true});
  CHECK(def_of(written, "value").op == "If");
  CHECK(std::ranges::count(def_of(written, "value").inputs, "v") == 1);
  for (const Graph& each : {graph, Graph::from_graph_def(written)}) {
    const Session session(each);
    session.run("init");
    CHECK(session.run("average/now:0").item<float>() == 2);
  }
}

TEST_CASE("as references, values that are read before a change outlive it") {
  const Graph graph;
  const Graph::Scope open(graph);
  const Variable v(1.0, {.name = "v"}), kept(0.0, {.name = "kept"}), other(3.0, {.name = "other"});
  const Tensor old = v.value(), beside = other.value();
  const std::string old_name = old.op().name();
  const Tensor now = v.assign(old * 10.0 + 1.0), later = other.assign_add(beside * 2.0);
  const auto after = control_dependencies({now.op()});
  kept.assign(old);
  // Two changes that need each other's value of before.
  const Variable a(1.0, {.name = "a"}), b(2.0, {.name = "b"});
  const Tensor from_a = a.value(), from_b = b.value();
  a.assign(from_a + from_b);
  b.assign(from_a * from_b);
  const std::string written = graph.as_graph_def({.variables = VariableStyle::reference});
  CHECK(def_of(written, old_name).op == "DeepCopy");
  CHECK(def_of(written, beside.op().name()).op == "Identity");
  for (const Tensor& each : {from_a, from_b}) CHECK(def_of(written, each.op().name()).op == "DeepCopy");
  CHECK(def_of(graph.as_graph_def(), old_name).op == "ReadVariableOp");
  const std::string again = Graph::from_graph_def(written).as_graph_def({.variables = VariableStyle::reference});
  CHECK(def_of(again, old_name).op == "Identity");
  CHECK(def_of(again, def_of(again, old_name).inputs[0]).op == "DeepCopy");
}

TEST_CASE("a slice of a Variable is assigned") {
  for (const bool is_resource : {true, false}) {
    CAPTURE(is_resource);
    const Graph graph =
        read(variable_nodes("w", "DT_FLOAT", "dim { size: 3 } dim { size: 4 }", "float_val: 1", is_resource) +
             ints_node("begin", {1, 0}) + ints_node("end", {3, 4}) + ints_node("strides", {1, 2}) +
             placeholder_node("value", "dim { size: 2 } dim { size: 2 }") +
             node("put", is_resource ? "ResourceStridedSliceAssign" : "StridedSliceAssign",
                  {"w", "begin", "end", "strides", "value"}, t_float + attr("Index", "type: DT_INT32")) +
             (is_resource ? node("now", "ReadVariableOp", {"w", "^put"}, attr("dtype", "type: DT_FLOAT"))
                          : node("now", "Identity", {"put"}, t_float)));
    const Tensor expected = tensor<float>({{1, 1, 1, 1}, {5, 1, 0, 1}, {7, 1, 8, 1}});
    for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
      const Session session(each);
      session.run("w/Assign");
      check_same(session.run("now:0", {{"value:0", tensor<float>({{5, 0}, {7, 8}})}}), expected);
    }
  }
}

TEST_CASE("Keras' momentum has TensorFlow's numbers") {
  const auto pair = [](const std::string& name, const std::string& a, const std::string& b) {
    return variable_nodes(name, "DT_FLOAT", "dim { size: 2 }", "float_val: " + a + " float_val: " + b, true);
  };
  const auto value_of = [](const std::string& name) {
    return node(name + "/value", "ReadVariableOp", {name}, attr("dtype", "type: DT_FLOAT"));
  };
  const std::string gradient =
      constant_node("g", "DT_FLOAT", "tensor_shape { dim { size: 2 } } float_val: 0.3 float_val: -0.7");
  for (const bool nesterov : {false, true}) {
    const Graph graph = read(pair("w", "1", "-2") + pair("a", "0.5", "0.25") + gradient + float_node("rate", "0.1") +
                             float_node("momentum", "0.9") + value_of("w") + value_of("a") +
                             node("train", "ResourceApplyKerasMomentum", {"w", "a", "rate", "g", "momentum"},
                                  t_float + attr("use_nesterov", nesterov ? "b: true" : "b: false")));
    const Session session(graph);
    for (const char* each : {"w/Assign", "a/Assign", "train", "train"}) session.run(each);
    check_same(session.run("w/value:0"), nesterov ? tensor<float>({1.6312, -1.29255}) : tensor<float>({1.768, -1.3695}),
               1e-6);
    check_same(session.run("a/value:0"), tensor<float>({0.348, 0.3355}), 1e-6);
  }
}

TEST_CASE("classes are sampled as often as is expected") {
  random::seed(5);
  const auto sampler = [](const std::string& op, bool unique, const std::string& more) {
    return read(constant_node("true", "DT_INT64",
                              "tensor_shape { dim { size: 1 } dim { size: 4 } } int64_val: 0 int64_val: 1 int64_val: 2 "
                              "int64_val: 3") +
                node("sample", op, {"true"},
                     attr("num_true", "i: 4") + attr("num_sampled", "i: 5") +
                         attr("unique", unique ? "b: true" : "b: false") + more));
  };
  const std::string twenty = attr("range_max", "i: 20");
  SUBCASE("TensorFlow's numbers where samples may repeat") {
    const auto expected = [&](const std::string& op, const std::string& more) {
      return Session(sampler(op, false, more)).run("sample:1");
    };
    check_same(expected("LogUniformCandidateSampler", twenty),
               tensor<float>({{1.1383512, 0.66589284, 0.4724584, 0.36646724}}), 1e-6);
    check_same(expected("UniformCandidateSampler", twenty), tensor<float>({{0.25, 0.25, 0.25, 0.25}}));
  }
  SUBCASE("the counts of many samples") {
    for (const bool unique : {false, true})
      for (const std::string op : {"LogUniformCandidateSampler", "UniformCandidateSampler"}) {
        CAPTURE(op);
        CAPTURE(unique);
        const Session session(sampler(op, unique, twenty));
        std::vector<double> counts(20);
        std::vector<float> expected;
        constexpr int runs = 400;
        for (int i = 0; i < runs; ++i) {
          const std::vector<Tensor> drawn = session.run({"sample:0", "sample:1", "sample:2"});
          const auto classes = drawn[0].to_vector<std::int64_t>();
          for (std::size_t k = 0; k < classes.size(); ++k) {
            counts[static_cast<std::size_t>(classes[k])] += 1.0 / runs;
            if (unique) CHECK(std::count(classes.begin(), classes.end(), classes[k]) == 1);
            if (classes[k] < 4)
              CHECK(drawn[2].to_vector<float>()[k] ==
                    doctest::Approx(drawn[1].to_vector<float>()[static_cast<std::size_t>(classes[k])]));
          }
          expected = drawn[1].to_vector<float>();
        }
        // Of a class that is sampled nearly always, more is expected than once in a draw at most.
        for (std::size_t k = 1; k < 4; ++k)
          CHECK(counts[k] == doctest::Approx(static_cast<double>(expected[k])).epsilon(unique ? 0.6 : 0.15));
      }
  }
  CHECK_THROWS_WITH_AS(sampler("UniformCandidateSampler", true, attr("range_max", "i: 3")),
                       doctest::Contains("it samples 5 of 3 classes"), InvalidArgumentError);
}

}  // namespace tapestry::test::foreign_variables_test
