// What TensorFlow's graphs do with Variables beside training: they count, change parts, and sample classes.

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_variables_test {
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

TEST_CASE("a generator draws TensorFlow's numbers from its state, goes on behind them, and is written again") {
  const auto number = [](const std::string& name, const std::string& type, const std::string& value) {
    return constant_node(name, type, "tensor_shape { } " + value);
  };
  const std::string algorithm = number("algorithm", "DT_INT64", "int64_val: 1");
  const auto counted = [&](const std::string& op, const std::string& type, const std::string& count) {
    return number("count", type, count) + node("next", op, {"state", "algorithm", "count"});
  };
  const std::string state =
      variable_nodes("state", "DT_INT64", "dim { size: 3 }", "int64_val: -1 int64_val: 5 int64_val: 77", true) +
      node("now", "ReadVariableOp", {"state"}, attr("dtype", "type: DT_INT64")) + algorithm;
  Graph graph = read(state + ints_node("shape", {3}) +
                     node("next", "StatefulUniformFullInt", {"state", "algorithm", "shape"},
                          attr("dtype", "type: DT_INT32") + attr("shape_dtype", "type: DT_INT32")));
  for (int pass = 0; pass < 2; ++pass) {
    const std::string written = graph.as_graph_def();
    const Session session(graph);
    session.run("state/Assign");
    CHECK(session.run("next:0").to_vector<int>() == std::vector{-1598029263, 61177984, 1030663794});
    CHECK(session.run("now:0").to_vector<std::int64_t>() == std::vector<std::int64_t>{767, 6, 77});
    CHECK(session.run("next:0").to_vector<int>() == std::vector{-569172267, 564546277, 595747349});
    graph = Graph::from_graph_def(written);
  }
  // The counter of 128 bits carries from its first half to the second one, as if it had no sign.
  const Session reads(read(state + counted("RngReadAndSkip", "DT_UINT64", "uint64_val: 3")));
  reads.run("state/Assign");
  CHECK(reads.run("next:0").to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 5, 77});
  CHECK(reads.run("now:0").to_vector<std::int64_t>() == std::vector<std::int64_t>{767, 6, 77});
  CHECK(reads.run("next:0").to_vector<std::int64_t>() == std::vector<std::int64_t>{767, 6, 77});
  const Session skips(read(state + counted("RngSkip", "DT_INT64", "int64_val: 17")));
  skips.run("state/Assign");
  skips.run("next");
  CHECK(skips.run("now:0").to_vector<std::int64_t>() == std::vector<std::int64_t>{4351, 6, 77});
  // Other algorithms need hardware that TensorFlow has not on CPUs.
  const Session other(read(state + number("threefry", "DT_INT64", "int64_val: 2") +
                           node("next", "RngSkip", {"state", "threefry", "algorithm"})));
  CHECK_THROWS_WITH_AS(other.run("next"), doctest::Contains("RngSkip"), UnimplementedError);
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
      node("predicate", "Identity", {"is_initialized"}, attr("T", "type: DT_BOOL")) +
      node("value", "If", {"predicate", "v", "v/initial"},
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

TEST_CASE("a branch reads a Variable after the changes that its inputs wait for") {
  const std::string dtype = attr("dtype", "type: DT_FLOAT"), types = " list { type: DT_RESOURCE }";
  const std::string library =
      "library { function { signature { name: 'read' input_arg { name: 'v' type: DT_RESOURCE } output_arg { name: 'y' "
      "type: DT_FLOAT } } node_def { name: 'r' op: 'ReadVariableOp' input: 'v' " +
      dtype + " } ret { key: 'y' value: 'r:value:0' } } }\n";
  const Graph graph =
      read(variable_nodes("v", "DT_FLOAT", "", "float_val: 2", true) + float_node("one", "1") +
           node("add", "AssignAddVariableOp", {"v", "one"}, dtype) +
           node("always", "Const", {"^add"},
                attr("dtype", "type: DT_BOOL") +
                    attr("value", "tensor { dtype: DT_BOOL tensor_shape { } bool_val: true }")) +
           node("value", "If", {"always", "v"},
                attr("Tcond", "type: DT_BOOL") + attr("Tin", types) + attr("Tout", "list { type: DT_FLOAT }") +
                    attr("then_branch", "func { name: 'read' }") + attr("else_branch", "func { name: 'read' }") +
                    attr("output_shapes", "list { shape { } }")) +
           library);
  const std::string written = graph.as_graph_def();
  for (const std::string& input : def_of(written, "value").inputs)
    if (const io::NodeDef given = def_of(written, input); given.op == "ReadVariableOp")
      CHECK(std::ranges::count(given.inputs, "^always") == 1);
  for (const Graph& each : {graph, Graph::from_graph_def(written)}) {
    const Session session(each);
    session.run("v/Assign");
    CHECK(session.run("value:0").item<float>() == 3);
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

TEST_CASE("initializers, assignments and references by name") {
  const std::string shape = attr("shape", "shape { }") + attr("dtype", "type: DT_FLOAT");
  const Graph graph =
      read(node("w", "VariableV2", {}, shape) + float_node("w/initial_value", "3") +
           node("w/Assign", "Assign", {"w", "w/initial_value"}, t_float) + node("w/read", "Identity", {"w"}, t_float) +
           float_node("one", "1") + node("add", "AssignAdd", {"w", "one"}, t_float) +
           node("after", "Neg", {"add"}, t_float) + node("init", "NoOp", {"^w/Assign"}));
  const Session session(graph);
  check_same(session.run("w/initial_value:0"), tensor(3.F));
  check_same(session.run("w/Assign:0"), tensor(3.F));
  check_same(session.run("add:0"), tensor(4.F));
  check_same(session.run("after:0"), tensor(-5.F));
  check_same(session.run("w/read:0"), tensor(5.F));
  check_same(session.run("w:0"), tensor(5.F));
  session.run("init");
  check_same(session.run("w/read:0"), tensor(3.F));
  check_same(session.run("after:0", {{"add:0", 7.0}}), tensor(-7.F));
}

TEST_CASE("a loop of TensorFlow 1 changes a Variable by its reference") {
  const auto frame = [](const std::string& type, const std::string& constant) {
    return attr("T", "type: " + type) + attr("frame_name", "s: 'loop/context'") +
           attr("is_constant", "b: " + constant) + attr("parallel_iterations", "i: 1");
  };
  const std::string t_int = attr("T", "type: DT_INT32"), two = attr("N", "i: 2");
  const Graph graph =
      read(node("v", "VariableV2", {}, attr("shape", "shape { }") + attr("dtype", "type: DT_FLOAT")) +
           float_node("v/initial_value", "1") + node("v/Assign", "Assign", {"v", "v/initial_value"}, t_float) +
           float_node("one", "1") + constant_node("zero", "DT_INT32", "tensor_shape { } int_val: 0") +
           constant_node("step", "DT_INT32", "tensor_shape { } int_val: 1") +
           constant_node("end", "DT_INT32", "tensor_shape { } int_val: 4") +
           node("loop/i", "Enter", {"zero"}, frame("DT_INT32", "false")) +
           node("loop/v", "RefEnter", {"v"}, frame("DT_FLOAT", "true")) +
           node("loop/one", "Enter", {"one"}, frame("DT_FLOAT", "true")) +
           node("loop/step", "Enter", {"step"}, frame("DT_INT32", "true")) +
           node("loop/end", "Enter", {"end"}, frame("DT_INT32", "true")) +
           node("loop/Merge", "Merge", {"loop/i", "loop/Next"}, t_int + two) +
           node("loop/Less", "Less", {"loop/Merge", "loop/end"}, t_int) + node("loop/Cond", "LoopCond", {"loop/Less"}) +
           node("loop/Switch", "Switch", {"loop/Merge", "loop/Cond"}, t_int) +
           node("loop/now", "Identity", {"loop/Switch:1"}, t_int) +
           node("loop/change", "AssignAdd", {"loop/v", "loop/one", "^loop/now"}, t_float) +
           node("loop/add", "AddV2", {"loop/now", "loop/step", "^loop/change"}, t_int) +
           node("loop/Next", "NextIteration", {"loop/add"}, t_int) + node("loop/Exit", "Exit", {"loop/Switch"}, t_int) +
           node("init", "NoOp", {"^v/Assign"}));
  const Session session(graph);
  session.run("init");
  check_same(session.run("loop/Exit:0"), tensor(4));
  check_same(session.run("v:0"), tensor(5.F));
}

TEST_CASE("Variables of one shared name are one Variable") {
  const std::string spec = attr("shape", "shape { }") + attr("dtype", "type: DT_FLOAT") + attr("shared_name", "s: 'w'");
  const std::string dtype = attr("dtype", "type: DT_FLOAT");
  const Graph graph =
      read(node("a", "VarHandleOp", {}, spec) + node("b", "VarHandleOp", {}, spec) + float_node("two", "2") +
           node("set", "AssignVariableOp", {"a", "two"}, dtype) + node("get", "ReadVariableOp", {"b"}, dtype));
  const Session session(graph);
  session.run("set");
  check_same(session.run("get:0"), tensor(2.F));
  CHECK(graph.variables().size() == 1);
}

TEST_CASE("rows and elements of a Variable") {
  const std::string dtype = attr("dtype", "type: DT_FLOAT"), indices = attr("Tindices", "type: DT_INT32");
  const Graph graph =
      read(node("w", "VarHandleOp", {}, dtype + attr("shape", "shape { dim { size: 2 } dim { size: 2 } }")) +
           constant_node(
               "value", "DT_FLOAT",
               "tensor_shape { dim { size: 2 } dim { size: 2 } } float_val: 1 float_val: 2 float_val: 3 float_val: 4") +
           node("w/Assign", "AssignVariableOp", {"w", "value"}, dtype) + ints_node("places", {1, 0}) +
           node("rows", "ResourceGather", {"w", "places"}, dtype + indices) +
           node("element", "ResourceGatherNd", {"w", "places"}, dtype + indices));
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    session.run("w/Assign");
    check_same(session.run("rows:0"), tensor<float>({{3, 4}, {1, 2}}));
    check_same(session.run("element:0"), tensor(3.F));
  }
}

TEST_CASE("parts of a Variable are changed, in both styles, and whatever is known of the indices") {
  const std::string dtype = attr("dtype", "type: DT_FLOAT"), types = t_float + attr("Tindices", "type: DT_INT32");
  const std::string any_ints = attr("dtype", "type: DT_INT32") + attr("shape", "shape { unknown_rank: true }");
  for (const bool is_resource : {true, false}) {
    CAPTURE(is_resource);
    const auto scatter = [&](const std::string& name, const std::string& op) {
      const std::string attrs = (is_resource ? dtype : t_float) + attr("Tindices", "type: DT_INT32");
      return node(name, (is_resource ? "Resource" : "") + op, {"w", "places", "rows"},
                  op.starts_with("ScatterNd") ? types : attrs);
    };
    const Graph graph =
        read(node("w", is_resource ? "VarHandleOp" : "VariableV2", {},
                  dtype + attr("shape", "shape { dim { size: 3 } dim { size: 2 } }")) +
             constant_node("value", "DT_FLOAT",
                           "tensor_shape { dim { size: 3 } dim { size: 2 } } float_val: 1 float_val: 2 float_val: 3 "
                           "float_val: 4 float_val: 5 float_val: 6") +
             node("init", is_resource ? "AssignVariableOp" : "Assign", {"w", "value"}, is_resource ? dtype : t_float) +
             node("get", is_resource ? "ReadVariableOp" : "Identity", {"w"}, is_resource ? dtype : t_float) +
             node("places", "Placeholder", {}, any_ints) + placeholder_node("rows") +
             scatter("set", "ScatterNdUpdate") + scatter("add", "ScatterNdAdd") + scatter("mul", "ScatterMul") +
             scatter("div", "ScatterDiv") + scatter("max", "ScatterMax") + scatter("min", "ScatterMin"));
    const auto after = [&](const std::string& update, const Init& places, const Init& rows) {
      const Session session(graph);
      session.run("init");
      session.run(update, {{"places:0", places}, {"rows:0", rows}});
      return session.run("get:0");
    };
    check_same(after("set", {{0, 1}, {2, 0}, {0, 1}}, {7.0, 8.0, 9.0}), tensor<float>({{1, 9}, {3, 4}, {8, 6}}));
    check_same(after("set", {{1}}, {{-1.0, -2.0}}), tensor<float>({{1, 2}, {-1, -2}, {5, 6}}));
    check_same(after("add", {{1}, {1}}, {{1.0, 2.0}, {3.0, 4.0}}), tensor<float>({{1, 2}, {7, 10}, {5, 6}}));
    check_same(after("mul", {1, 1}, {{2.0, 2.0}, {3.0, 1.0}}), tensor<float>({{1, 2}, {18, 8}, {5, 6}}));
    check_same(after("div", {2, 0}, 2.0), tensor<float>({{0.5, 1}, {3, 4}, {2.5, 3}}));
    check_same(after("max", {{0, 2}, {0, 1}}, {{{9.0, 0.0}, {0.0, 9.0}}, {{4.0, 4.0}, {0.0, 0.0}}}),
               tensor<float>({{9, 4}, {3, 4}, {5, 9}}));
    check_same(after("min", {1}, 3.5), tensor<float>({{1, 2}, {3, 3.5}, {5, 6}}));
    CHECK_THROWS_AS(after("set", {{3, 0}}, {7.0}), InvalidArgumentError);
    CHECK_THROWS_AS(after("mul", {3}, 2.0), InvalidArgumentError);
  }
}

TEST_CASE("dual averaging is TensorFlow's formula") {
  const std::string spec = attr("dtype", "type: DT_FLOAT") + attr("shape", "shape { dim { size: 2 } }");
  const auto floats = [](const std::string& name, const std::string& a, const std::string& b) {
    return constant_node(name, "DT_FLOAT", "tensor_shape { dim { size: 2 } } float_val: " + a + " float_val: " + b);
  };
  const Graph graph = read(
      node("w", "VariableV2", {}, spec) + node("sum", "VariableV2", {}, spec) +
      node("squares", "VariableV2", {}, spec) + floats("ones", "1", "1") + floats("zeros", "0", "0") +
      floats("g", "1", "-2") + float_node("rate", "0.5") + float_node("l1", "0.1") + float_node("l2", "0.2") +
      constant_node("step", "DT_INT64", "tensor_shape { } int64_val: 2") +
      node("w/Assign", "Assign", {"w", "ones"}, t_float) + node("sum/Assign", "Assign", {"sum", "zeros"}, t_float) +
      node("squares/Assign", "Assign", {"squares", "ones"}, t_float) +
      node("init", "NoOp", {"^w/Assign", "^sum/Assign", "^squares/Assign"}) +
      node("update", "ApplyAdagradDA", {"w", "sum", "squares", "g", "rate", "l1", "l2", "step"}, t_float));
  const Session session(graph);
  session.run("init");
  session.run("update");
  // -rate sign(sum) max(|sum| - l1 step, 0) / (l2 step rate + sqrt(squares))
  check_values(session.run("w:0"), {-0.5 * 0.8 / (0.2 + std::sqrt(2.0)), 0.5 * 1.8 / (0.2 + std::sqrt(5.0))}, 1e-6);
  check_same(session.run("sum:0"), tensor<float>({1, -2}));
  check_same(session.run("squares:0"), tensor<float>({2, 5}));
}

TEST_CASE("what asks whether a Variable is initialized is written in both styles, and not among fixed values") {
  const std::string spec = attr("shape", "shape { }") + attr("dtype", "type: DT_FLOAT");
  const Graph graph = read(node("w", "VarHandleOp", {}, spec) + node("known", "VarIsInitializedOp", {"w"}) +
                           node("gone", "DestroyResourceOp", {"w"}) + float_node("two", "2") +
                           node("w/Assign", "AssignVariableOp", {"w", "two"}, attr("dtype", "type: DT_FLOAT")));
  Session(graph).run("w/Assign");
  CHECK(def_of(graph.as_graph_def({.variables = VariableStyle::resource}), "known").op == "VarIsInitializedOp");
  CHECK(message_of<UnimplementedError>([&] { graph.as_graph_def({.variables = VariableStyle::reference}); }) ==
        "Node 'gone' (op: 'DestroyResourceOp') cannot be written as TensorFlow's: it refers to a Variable as "
        "VariableStyle::resource has it");
  const Graph frozen = Graph::from_graph_def(graph.as_graph_def({.variables = VariableStyle::frozen}));
  CHECK(!frozen.has_operation("known"));
  const Graph other =
      read(node("w", "VarHandleOp", {}, spec) + node("known", "VarIsInitializedOp", {"w"}) + float_node("two", "2") +
           node("w/Assign", "AssignVariableOp", {"w", "two"}, attr("dtype", "type: DT_FLOAT")));
  const std::string reference = other.as_graph_def({.variables = VariableStyle::reference});
  CHECK(def_of(reference, "known").op == "IsVariableInitialized");
  const Graph again = Graph::from_graph_def(reference);
  CHECK(def_of(again.as_graph_def({.variables = VariableStyle::resource}), "known").op == "VarIsInitializedOp");
}

TEST_CASE("a change of a Variable takes what another one refers to") {
  const std::string spec = attr("shape", "shape { dim { size: 2 } }") + attr("dtype", "type: DT_FLOAT");
  const std::string t_index = attr("Tindices", "type: DT_INT32");
  const auto two = [](const std::string& name, const std::string& values) {
    return constant_node(name, "DT_FLOAT", "tensor_shape { dim { size: 2 } } " + values);
  };
  Graph graph = read(node("v", "VariableV2", {}, spec) + two("a", "float_val: 1 float_val: 2") +
                     two("b", "float_val: 10 float_val: 20") + ints_node("first", {0}) + float_node("rate", "2") +
                     constant_node("seven", "DT_FLOAT", "tensor_shape { dim { size: 1 } } float_val: 7") +
                     node("set", "Assign", {"v", "a"}, t_float) + node("add", "AssignAdd", {"set", "b"}, t_float) +
                     node("subtract", "AssignSub", {"add", "a"}, t_float) +
                     node("scatter", "ScatterUpdate", {"subtract", "first", "seven"}, t_float + t_index) +
                     node("descend", "ApplyGradientDescent", {"scatter", "rate", "b"}, t_float) +
                     node("double", "AddV2", {"add", "add"}, t_float));
  const Tensor last = tensor<float>({-13, -20});
  for (int again = 0; again < 2; ++again) {
    const Session session(graph);
    check_same(session.run("subtract:0"), tensor<float>({10, 20}));
    check_same(session.run("double:0"), tensor<float>({22, 44}));
    check_same(session.run("descend:0"), last);
    check_same(session.run("v:0"), last);
    graph = Graph::from_graph_def(graph.as_graph_def({.variables = VariableStyle::reference}));
  }
}

TEST_CASE("an assignment of another shape changes the shape, or harms nothing until it runs") {
  const std::string spec = attr("shape", "shape { dim { size: 1 } }") + attr("dtype", "type: DT_FLOAT");
  const Graph graph = read(node("v", "VariableV2", {}, spec) +
                           constant_node("one", "DT_FLOAT", "tensor_shape { dim { size: 1 } } float_val: 1") +
                           constant_node("two", "DT_FLOAT", "tensor_shape { dim { size: 2 } } float_val: 1") +
                           node("v/Assign", "Assign", {"v", "one"}, t_float) +
                           node("wider", "Assign", {"v", "two"}, t_float + attr("validate_shape", "b: false")) +
                           node("y", "Neg", {"v"}, t_float));
  const Session session(graph);
  session.run("v/Assign");
  check_same(session.run("y:0"), tensor<float>({-1}));
  session.run("wider");
  check_same(session.run("y:0"), tensor<float>({-1, -1}));
  const Graph resource = read(node("v", "VarHandleOp", {}, spec) + float_node("x", "3") +
                              constant_node("two", "DT_FLOAT", "tensor_shape { dim { size: 2 } } float_val: 1") +
                              node("wider", "AssignVariableOp", {"v", "two"}, attr("dtype", "type: DT_FLOAT")) +
                              node("y", "Neg", {"x"}, t_float));
  check_same(Session(resource).run("y:0"), tensor<float>(-3));
  CHECK(message_of<UnimplementedError>([&] { Session(resource).run("wider"); }) ==
        "Node 'wider' (op: 'AssignVariableOp'): its Variable 'v' is [1], the value [2]");
}

TEST_CASE("a Variable whose sizes are open has those of its initial value") {
  const std::string open = attr("shape", "shape { unknown_rank: true }") + attr("dtype", "type: DT_FLOAT");
  for (const std::string op : {"VariableV2", "VarHandleOp"}) {
    const bool refers = op == "VariableV2";
    const std::string dtype = attr("dtype", "type: DT_FLOAT");
    const Graph graph = read(
        node("v", op, {}, open) + constant_node("two", "DT_FLOAT", "tensor_shape { dim { size: 2 } } float_val: 1") +
        node("v/Assign", refers ? "Assign" : "AssignVariableOp", {"v", "two"}, refers ? t_float : dtype) +
        node("read", refers ? "Identity" : "ReadVariableOp", {"v"}, refers ? t_float : dtype));
    const Session session(graph);
    session.run("v/Assign");
    check_same(session.run("read:0"), tensor<float>({1, 1}));
    CHECK(graph.get_tensor_by_name("read:0").shape() == Shape{2});
  }
}

TEST_CASE("a read of a Variable that is fed leaves the others") {
  const std::string dtype = attr("dtype", "type: DT_FLOAT"), two = "dim { size: 2 }";
  const Graph graph = read(variable_nodes("v", "DT_FLOAT", two, "float_val: 1 float_val: 2", true) +
                           ints_node("at", {1}) + node("v/Read/ReadVariableOp", "ReadVariableOp", {"v"}, dtype) +
                           node("Neg/ReadVariableOp", "ReadVariableOp", {"v"}, dtype) +
                           node("y", "Neg", {"Neg/ReadVariableOp"}, t_float) +
                           node("row", "ResourceGather", {"v", "at"}, dtype + attr("Tindices", "type: DT_INT32")));
  const Session session(graph);
  session.run("v/Assign");
  const Feeds fed{{"v/Read/ReadVariableOp:0", {10.0, 20.0}}};
  check_same(session.run("y:0", fed), tensor<float>({-1, -2}));
  check_same(session.run("row:0", fed), tensor<float>({2}));
}

}  // namespace tapestry::test::foreign_variables_test
