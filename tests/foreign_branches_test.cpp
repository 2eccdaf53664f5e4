// Tensors in the branches of graphs of others: they are fetched and fed by their names, and differentiated.

#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_branches_test {

namespace {

/// p ? (q ? sin(x + 1) : 2 (x + 1)) : split(x)[1], as TensorFlow 1 writes it, and something that nothing needs.
Graph nested_branches() {
  const std::string pair = attr("N", "i: 2"), t_bool = attr("T", "type: DT_BOOL"),
                    flag = attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }");
  return read(
      placeholder_node("x", "dim { size: 2 }") + node("p", "Placeholder", {}, flag) +
      node("q", "Placeholder", {}, flag) + float_node("one", "1") + float_node("two", "2") +
      node("c/Switch", "Switch", {"x", "p"}, t_float) + node("c/q", "Switch", {"q", "p"}, t_bool) +
      node("c/add", "Add", {"c/Switch:1", "one"}, t_float) + node("c/unused", "Exp", {"c/add"}, t_float) +
      node("c/unread", "Foo", {"c/add"}, t_float) + node("c/in/Switch", "Switch", {"c/add", "c/q:1"}, t_float) +
      node("c/in/sin", "Sin", {"c/in/Switch:1"}, t_float) + node("c/in/twice", "Mul", {"c/in/Switch", "two"}, t_float) +
      node("c/in/Merge", "Merge", {"c/in/twice", "c/in/sin"}, t_float + pair) +
      constant_node("axis", "DT_INT32", "tensor_shape { } int_val: 0") +
      node("c/split", "Split", {"axis", "c/Switch"}, t_float + attr("num_split", "i: 2")) +
      node("c/Merge", "Merge", {"c/split:1", "c/in/Merge"}, t_float + pair) + node("y", "Neg", {"c/Merge"}, t_float) +
      node("alone", "Switch", {"y", "q"}, t_float) + node("end", "Neg", {"alone"}, t_float));
}
Feeds branch_feeds(bool p, bool q) { return {{"x:0", {1.0, 2.0}}, {"p:0", p}, {"q:0", q}}; }

void check_absent(const Graph& graph, const std::string& name, const Feeds& feeds) {
  CAPTURE(name);
  CHECK(message_of<InvalidArgumentError>([&] {
          Session(graph).run(name, feeds);
        }).ends_with("' has no value: it is of a branch that was not taken"));
}

}  // namespace

TEST_CASE("what a Switch passes on is fetched and fed by its name") {
  const Graph graph = nested_branches();
  const Session session(graph);
  const Tensor x = tensor<float>({1, 2});
  check_same(session.run("c/Switch:1", branch_feeds(true, true)), x);
  check_same(session.run("c/Switch:0", branch_feeds(false, true)), x);
  check_absent(graph, "c/Switch:0", branch_feeds(true, true));
  check_absent(graph, "c/Switch:1", branch_feeds(false, true));
  CHECK(session.run("c/q:1", branch_feeds(true, true)).item<bool>());
  check_absent(graph, "c/q:0", branch_feeds(true, true));
  check_same(session.run("c/in/Switch:1", branch_feeds(true, true)), x + 1.0);
  const Feeds feeds{{"x:0", {1.0, 2.0}}, {"p:0", true}, {"q:0", true}, {"c/Switch:1", {5.0, 6.0}}};
  check_same(session.run("c/add:0", feeds), tensor<float>({6, 7}));
  check_same(session.run("y:0", feeds), negative(sin(tensor<float>({6, 7}))));
}

TEST_CASE("a tensor in a branch is fetched by its name, if the branch is taken") {
  Graph graph = nested_branches();
  const Tensor next = tensor<float>({2, 3});
  for (const bool is_written : {false, true}) {
    CAPTURE(is_written);
    const Session session(graph);
    check_same(session.run("c/add:0", branch_feeds(true, true)), next);
    check_same(session.run("c/unused:0", branch_feeds(true, true)), exp(next));
    check_same(session.run("c/in/sin:0", branch_feeds(true, true)), sin(next));
    check_same(session.run("c/in/twice:0", branch_feeds(true, false)), 2.0 * next);
    check_same(session.run("end:0", branch_feeds(true, false)), 2.0 * next);
    check_absent(graph, "c/add:0", branch_feeds(false, true));
    check_absent(graph, "c/in/sin:0", branch_feeds(false, true));
    check_absent(graph, "c/in/sin:0", branch_feeds(true, false));
    check_absent(graph, "end:0", branch_feeds(true, true));
    const std::vector<Tensor> together = session.run({"y:0", "c/in/sin:0", "c/add:0"}, branch_feeds(true, true));
    check_same(together[0], negative(sin(next)));
    check_same(together[1], sin(next));
    check_same(together[2], next);
    graph = Graph::from_graph_def(graph.as_graph_def());
  }
}

TEST_CASE("what a branch makes of several tensors, its operations and its gradients by name") {
  Graph graph = nested_branches();
  const Session session(graph);
  check_same(session.run("c/split:0", branch_feeds(false, true)), tensor<float>({1}));
  check_same(session.run("c/split:1", branch_feeds(false, true)), tensor<float>({2}));
  check_absent(graph, "c/split:1", branch_feeds(true, true));
  CHECK(graph.has_operation("c/add"));
  CHECK(!graph.has_operation("c/other"));
  for (const bool taken : {true, false})
    session.run("c/add", branch_feeds(taken, true));  // an operation, like TensorFlow
  CHECK(message_of<UnimplementedError>([&] { session.run("c/unread:0", branch_feeds(true, true)); }) ==
        "Tapestry lacks the op 'Foo' of node 'c/unread'");
  check_same(session.run("y:0", branch_feeds(true, true)), negative(sin(tensor<float>({2, 3}))));
}

TEST_CASE("the gradient of a tensor in a branch") {
  const Graph graph = nested_branches();
  const Session session(graph);
  const auto scope = graph.as_default();
  const Tensor slope = gradients({graph.get_tensor_by_name("c/in/sin:0")}, {graph.get_tensor_by_name("x:0")})[0];
  check_same(session.run(slope, branch_feeds(true, true)), cos(tensor<float>({2, 3})));
  check_same(session.run(slope, branch_feeds(true, false)), tensor<float>({0, 0}));
}

TEST_CASE("a tensor in a branch is fed by its name") {
  Graph graph = nested_branches();
  const Session session(graph);
  const Tensor value = tensor<float>({5, 7});
  const auto with = [&](const std::string& name, bool p, bool q) {
    Feeds feeds = branch_feeds(p, q);
    feeds.add(name, value);
    return feeds;
  };
  check_same(session.run("y:0", with("c/add:0", true, true)), negative(sin(value)));
  check_same(session.run("c/unused:0", with("c/add:0", true, true)), exp(value));
  check_same(session.run("y:0", with("c/add:0", true, false)), -2.0 * value);
  check_same(session.run("y:0", with("c/add:0", false, true)), tensor<float>({-2}));
  check_same(session.run("c/add:0", with("c/add:0", false, true)), value);
  check_same(session.run("y:0", with("c/in/sin:0", true, true)), negative(value));
  check_same(session.run("y:0", branch_feeds(true, true)), negative(sin(tensor<float>({2, 3}))));
}

TEST_CASE("a Merge takes zeros of a branch's size, where the predicate has a default") {
  // TensorFlow's gradient of what only one branch uses: the other one gives zeros.
  const Graph graph =
      read(placeholder_node("x", "dim { size: -1 }") +
           node("no", "Const", {},
                attr("dtype", "type: DT_BOOL") + attr("value", "tensor { dtype: DT_BOOL bool_val: false }")) +
           node("p", "PlaceholderWithDefault", {"no"}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }")) +
           node("side", "Switch", {"x", "p"}, t_float) + node("square", "Square", {"side:1"}, t_float) +
           node("other", "Switch", {"x", "p"}, t_float) + node("size", "Shape", {"other"}, t_float) +
           node("wait", "Identity", {"other"}, t_float) +
           node("zero", "Const", {"^wait"},
                attr("dtype", "type: DT_FLOAT") + attr("value", "tensor { dtype: DT_FLOAT float_val: 0 }")) +
           node("zeros", "Fill", {"size", "zero"}, t_float) +
           node("merge", "Merge", {"zeros", "square"}, t_float + attr("N", "i: 2")));
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    check_same(session.run("merge:0", {{"x:0", {3.0, 2.0}}}), tensor<float>({0, 0}));
    check_same(session.run("merge:0", {{"x:0", {3.0, 2.0}}, {"p:0", true}}), tensor<float>({9, 4}));
  }
}

TEST_CASE("the number of the input that a Merge takes is fetched, whether a node uses it or not") {
  // A condition, in one of whose branches is another one.
  const auto predicate = [](const std::string& name) {
    return node(name, "Placeholder", {}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }"));
  };
  const auto t_bool = attr("T", "type: DT_BOOL"), two = t_float + attr("N", "i: 2");
  const Graph graph =
      read(placeholder_node("x", "dim { size: 1 }") + predicate("p") + predicate("q") +
           node("outer", "Switch", {"x", "p"}, t_float) + node("q_in", "Switch", {"q", "p"}, t_bool) +
           node("inner", "Switch", {"outer:1", "q_in:1"}, t_float) + node("sin", "Sin", {"inner:1"}, t_float) +
           node("exp", "Exp", {"inner"}, t_float) + node("inner_merge", "Merge", {"sin", "exp"}, two) +
           node("minus", "Neg", {"inner_merge"}, t_float) + node("cos", "Cos", {"outer"}, t_float) +
           node("merge", "Merge", {"cos", "minus"}, two));
  const Session session(graph);
  for (const bool p : {true, false})
    for (const bool q : {true, false}) {
      const Feeds feeds{{"x:0", {3.0}}, {"p:0", p}, {"q:0", q}};
      check_same(session.run("merge:1", feeds), tensor(p ? 1 : 0));
      if (p) {
        check_same(session.run("inner_merge:0", feeds), p && q ? sin(tensor<float>({3})) : exp(tensor<float>({3})));
        check_same(session.run("inner_merge:1", feeds), tensor(q ? 0 : 1));
      }
    }
}

TEST_CASE("the number of the input that a Merge has taken tells the side, as in gradients of gradients") {
  // x * -x where p holds, else -x; by a Switch of the branch's number, on which TensorFlow's gradient of a Merge is.
  const Graph graph =
      read(placeholder_node("x", "dim { size: 1 }") +
           node("p", "Placeholder", {}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }")) +
           node("switch", "Switch", {"x", "p"}, t_float) + node("minus", "Neg", {"switch:1"}, t_float) +
           node("merge", "Merge", {"minus", "switch"}, t_float + attr("N", "i: 2")) +
           node("zero", "Const", {},
                attr("dtype", "type: DT_INT32") + attr("value", "tensor { dtype: DT_INT32 int_val: 0 }")) +
           node("is_first", "Equal", {"merge:1", "zero"}, attr("T", "type: DT_INT32")) +
           node("first", "Switch", {"x", "is_first"}, t_float) + node("product", "Mul", {"first:1", "minus"}, t_float) +
           node("other", "Neg", {"switch"}, t_float) +
           node("result", "Merge", {"product", "other"}, t_float + attr("N", "i: 2")) +
           node("twice", "AddV2", {"merge:1", "merge:1"}, attr("T", "type: DT_INT32")));
  const Session session(graph);
  for (const bool p : {true, false}) {
    const Feeds feeds{{"x:0", {3.0}}, {"p:0", p}};
    check_same(session.run("result:0", feeds), tensor<float>({p ? -9.0F : -3.0F}));
    check_same(session.run("twice:0", feeds), tensor(p ? 0 : 2));
    check_same(session.run("merge:1", feeds), tensor(p ? 0 : 1));
    check_same(Session(Graph::from_graph_def(graph.as_graph_def())).run("result:0", feeds),
               tensor<float>({p ? -9.0F : -3.0F}));
  }
}

TEST_CASE("of two conditions of one predicate, one that changes a Variable runs only where it is needed") {
  const std::string pair = attr("N", "i: 2"), handle = attr("T", "type: DT_RESOURCE"),
                    dtype = attr("dtype", "type: DT_FLOAT");
  Graph graph =
      read(placeholder_node("x", "") +
           node("p", "Placeholder", {}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }")) +
           variable_nodes("v", "DT_FLOAT", "", "float_val: 1", true) + node("c/x", "Switch", {"x", "p"}, t_float) +
           node("c/exp", "Exp", {"c/x:1"}, t_float) + node("c/Merge", "Merge", {"c/x", "c/exp"}, t_float + pair) +
           node("d/x", "Switch", {"x", "p"}, t_float) + node("d/v", "Switch", {"v", "p"}, handle) +
           node("d/add", "AssignAddVariableOp", {"d/v:1", "d/x:1"}, dtype) +
           node("d/read", "ReadVariableOp", {"d/v:1", "^d/add"}, dtype) + node("d/neg", "Neg", {"d/x"}, t_float) +
           node("d/Merge", "Merge", {"d/neg", "d/read"}, t_float + pair) +
           node("read", "ReadVariableOp", {"v"}, dtype) + node("both", "AddV2", {"c/Merge", "d/Merge"}, t_float));
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    const auto run = [&](const char* name, bool p) { return session.run(name, {{"x:0", 2.0}, {"p:0", p}}); };
    session.run("v/Assign");
    check_same(run("c/Merge:0", true), exp(tensor(2.F)));
    check_same(run("d/Merge:0", false), tensor(-2.F));
    check_same(run("read:0", true), tensor(1.F));
    check_same(run("d/Merge:0", true), tensor(3.F));
    check_same(run("both:0", true), exp(tensor(2.F)) + 5.0);
    check_same(run("both:0", false), tensor(0.F));
    check_same(run("read:0", true), tensor(5.F));
  }
  // The number of the input that a Merge takes comes with what the branch changes.
  const Session session(graph);
  session.run("v/Assign");
  for (const bool p : {true, false}) {
    check_same(session.run("d/Merge:1", {{"x:0", 2.0}, {"p:0", p}}), tensor(p ? 1 : 0));
    check_same(session.run("read:0"), tensor(3.F));
  }
}

TEST_CASE("a branch changes a Variable only in runs that need the change") {
  const std::string pair = attr("N", "i: 2"), dtype = attr("dtype", "type: DT_FLOAT");
  for (const bool resource : {true, false}) {
    // p ? (sin(2 x), v += 2 x, cos(v)) : (x, v)
    const std::string change =
        resource ? node("c/v", "Switch", {"v", "p"}, attr("T", "type: DT_RESOURCE")) +
                       node("c/add", "AssignAddVariableOp", {"c/v:1", "c/twice"}, dtype) +
                       node("c/new", "ReadVariableOp", {"c/v:1", "^c/add"}, dtype) +
                       node("c/old", "ReadVariableOp", {"c/v"}, dtype) + node("read", "ReadVariableOp", {"v"}, dtype)
                 : node("c/v", "RefSwitch", {"v", "p"}, t_float) +
                       node("c/add", "AssignAdd", {"c/v:1", "c/twice"}, t_float) +
                       node("c/new", "Identity", {"c/add"}, t_float) + node("c/old", "Identity", {"c/v"}, t_float) +
                       node("read", "Identity", {"v"}, t_float);
    const Graph graph =
        read(placeholder_node("x", "") +
             node("p", "Placeholder", {}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }")) +
             variable_nodes("v", "DT_FLOAT", "", "float_val: 1", resource) +
             node("c/p", "Switch", {"p", "p"}, attr("T", "type: DT_BOOL")) +
             node("c/pivot", "Identity", {"c/p:1"}, attr("T", "type: DT_BOOL")) +
             node("c/x", "Switch", {"x", "p"}, t_float) +
             node("c/two", "Const", {"^c/pivot"}, dtype + attr("value", "tensor { dtype: DT_FLOAT float_val: 2 }")) +
             node("c/twice", "Mul", {"c/x:1", "c/two"}, t_float) + node("c/sin", "Sin", {"c/twice"}, t_float) + change +
             node("c/cos", "Cos", {"c/new", "^c/pivot"}, t_float) +
             node("c/Merge", "Merge", {"c/x", "c/sin"}, t_float + pair) +
             node("c/Merge_1", "Merge", {"c/old", "c/cos"}, t_float + pair) + node("change", "NoOp", {"^c/add"}));
    for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
      const Session session(each);
      const auto run = [&](const char* name, bool p) { return session.run(name, {{"x:0", 3.0}, {"p:0", p}}); };
      session.run("v/Assign");
      check_same(run("c/Merge:0", true), sin(tensor(6.F)));
      check_same(run("read:0", true), tensor(1.F));
      check_same(run("c/Merge_1:0", true), cos(tensor(7.F)));
      check_same(run("c/Merge_1:0", false), tensor(7.F));
      session.run("change", {{"x:0", 3.0}, {"p:0", true}});
      session.run("change", {{"x:0", 3.0}, {"p:0", false}});
      check_same(run("read:0", true), tensor(13.F));
      check_same(run("c/Merge:0", false), tensor(3.F));
      check_same(run("read:0", true), tensor(13.F));
    }
  }
}

TEST_CASE("very many conditions outside of all scopes, and a node that waits for all") {
  constexpr int count = 20'000;
  std::string text = placeholder_node("m0", "") + node("p", "Placeholder", {}, attr("dtype", "type: DT_BOOL"));
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) {
    const std::string at = std::to_string(i), next = "m" + std::to_string(i + 1);
    text += node("s" + at, "Switch", {"m" + at, "p"}, t_float) + node("a" + at, "Neg", {"s" + at + ":1"}, t_float) +
            node("b" + at, "Relu6", {"s" + at}, t_float) +
            node(next, "Merge", {"b" + at, "a" + at}, t_float + attr("N", "i: 2"));
    all.push_back("^" + next);
  }
  const Graph graph = read(text + node("all", "NoOp", all));
  const std::string last = "m" + std::to_string(count) + ":0";
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const Session session(each);
    for (const bool side : {false, true})
      CHECK(session.run(last, {{"m0:0", 7.0F}, {"p:0", tensor(side)}}).item<float>() == (side ? 7 : 6));
  }
}

}  // namespace tapestry::test::foreign_branches_test
