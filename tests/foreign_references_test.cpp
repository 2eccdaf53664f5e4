// TensorFlow 1's reference Variables in its conditions and loops, which pass on the references; and what waits there.

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "node_text.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::foreign_references_test {
namespace {

std::string floats_node(const std::string& name, float a, float b) {
  return constant_node(
      name, "DT_FLOAT",
      "tensor_shape { dim { size: 2 } } float_val: " + std::to_string(a) + " float_val: " + std::to_string(b));
}
std::string variable_node(const std::string& name, float a, float b) {
  return node(name, "VariableV2", {}, attr("dtype", "type: DT_FLOAT") + attr("shape", "shape { dim { size: 2 } }")) +
         floats_node(name + "/value", a, b) + node(name + "/Assign", "Assign", {name, name + "/value"}, t_float);
}

/// A constant that waits for `inputs`.
std::string int_node(const std::string& name, int value, const std::vector<std::string>& inputs) {
  const std::string tensor = "dtype: DT_INT32 tensor_shape { } int_val: " + std::to_string(value);
  return node(name, "Const", inputs, attr("dtype", "type: DT_INT32") + attr("value", "tensor { " + tensor + " }"));
}
std::string enter(const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
                  const std::string& type) {
  return node(name, op, inputs, attr("T", "type: " + type) + attr("frame_name", "s: 'loop/context'"));
}
const std::string t_int = attr("T", "type: DT_INT32");

/// An optimizer's op: how many slots it has behind the Variable, and its other inputs. `g`: the gradient.
struct Update {
  std::string op;
  std::size_t slots;
  std::vector<std::string> inputs;
  std::string attrs{};
};

/// Two steps with the op, by itself or in a branch of a condition that a placeholder decides.
std::string steps(const Update& update, bool is_in_branch) {
  std::string text = floats_node("g", 0.5F, -2.F) + ints_node("rows", {1, 0}) + float_node("a", "0.25") +
                     float_node("b", "0.5") + float_node("c", "0.125") + float_node("power", "-0.5") +
                     node("p", "Placeholder", {}, attr("dtype", "type: DT_BOOL") + attr("shape", "shape { }"));
  std::vector<std::string> inputs, initializers;
  for (std::size_t i = 0; i <= update.slots; ++i) {
    const std::string name = "v" + std::to_string(i);
    const float first = i == 0 ? 1.F : static_cast<float>(i * i);  // a mean square is larger than a square mean
    text += variable_node(name, first, first + 0.5F);
    initializers.push_back("^" + name + "/Assign");
    inputs.push_back(name);
  }
  text += node("init", "NoOp", initializers);
  inputs.insert(inputs.end(), update.inputs.begin(), update.inputs.end());
  const std::string indices = update.op.starts_with("Sparse") ? attr("Tindices", "type: DT_INT32") : "";
  if (!is_in_branch) return text + node("step", update.op, inputs, t_float + indices + update.attrs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string type = inputs[i] == "rows" ? "DT_INT32" : "DT_FLOAT", name = "step/" + std::to_string(i);
    text += node(name, i <= update.slots ? "RefSwitch" : "Switch", {inputs[i], "p"}, attr("T", "type: " + type));
    inputs[i] = name + ":1";
  }
  const std::string t_bool = attr("T", "type: DT_BOOL");
  return text + node("step/update", update.op, inputs, t_float + indices + update.attrs) +
         node("step/Switch", "Switch", {"p", "p"}, t_bool) +
         node("step/then", "Identity", {"step/Switch:1", "^step/update"}, t_bool) +
         node("step/else", "Identity", {"step/Switch"}, t_bool) +
         node("step", "Merge", {"step/else", "step/then"}, t_bool + attr("N", "i: 2"));
}

std::vector<Tensor> after(const Graph& graph, std::size_t slots, const std::vector<bool>& taken) {
  const Session session(graph);
  session.run("init");
  for (const bool each : taken) session.run("step", {{"p:0", each}});
  std::vector<Tensor> values;
  for (std::size_t i = 0; i <= slots; ++i) values.push_back(session.run("v" + std::to_string(i) + ":0"));
  return values;
}

TEST_CASE("an update changes the Variable that RefIdentity or RefSelect passes on") {
  Graph graph = read(variable_nodes("v", "DT_FLOAT", "", "float_val: 1", false) +
                     variable_nodes("w", "DT_FLOAT", "", "float_val: 10", false) +
                     constant_node("one", "DT_FLOAT", "tensor_shape {} float_val: 1") +
                     constant_node("at", "DT_INT32", "tensor_shape {} int_val: 1") +
                     node("same", "RefIdentity", {"v"}, t_float) + node("add", "AssignAdd", {"same", "one"}, t_float) +
                     node("chosen", "RefSelect", {"at", "v", "w"}, t_float + attr("N", "i: 2")) +
                     node("subtract", "AssignSub", {"chosen", "one"}, t_float));
  for (int time = 0; time < 2; ++time) {
    const Session session(graph);
    session.run("v/Assign");
    session.run("w/Assign");
    session.run("add");
    session.run("subtract");
    // A file's initial values are those that the Variables have when it is written.
    check_same(session.run("v:0"), tensor<float>(2.0F + static_cast<float>(time)));
    check_same(session.run("w:0"), tensor<float>(9.0F - static_cast<float>(time)));
    graph = Graph::from_graph_def(graph.as_graph_def({.variables = VariableStyle::reference}));
  }
}

TEST_CASE("a Variable for a while harms nothing until a run needs it") {
  const std::string spec = attr("shape", "shape { dim { size: 1 } }") + attr("dtype", "type: DT_FLOAT");
  const Graph graph =
      read(node("v", "TemporaryVariable", {}, spec + attr("var_name", "s: 'v'")) +
           constant_node("one", "DT_FLOAT", "tensor_shape { dim { size: 1 } } float_val: 1") +
           node("set", "Assign", {"v", "one"}, t_float) + node("add", "AssignAdd", {"set", "one"}, t_float) +
           node("sum", "DestroyTemporaryVariable", {"add"}, t_float + attr("var_name", "s: 'v'")) +
           node("y", "Neg", {"one"}, t_float));
  check_same(Session(graph).run("y:0"), tensor<float>({-1}));
  CHECK_THROWS_AS(Session(graph).run("sum:0"), UnimplementedError);
}

}  // namespace

TEST_CASE("an optimizer's step in a condition changes the slots of reference Variables") {
  const std::string nesterov = attr("use_nesterov", "b: true");
  const std::vector<Update> updates{{"ApplyGradientDescent", 0, {"a", "g"}},
                                    {"ApplyMomentum", 1, {"a", "g", "b"}},
                                    {"ApplyMomentum", 1, {"a", "g", "b"}, nesterov},
                                    {"ApplyAdagrad", 1, {"a", "g"}},
                                    {"ApplyAdagradV2", 1, {"a", "b", "g"}},
                                    {"ApplyProximalAdagrad", 1, {"a", "b", "c", "g"}},
                                    {"ApplyAdam", 2, {"b", "c", "a", "b", "c", "a", "g"}},
                                    {"ApplyAdadelta", 2, {"a", "b", "c", "g"}},
                                    {"ApplyRMSProp", 2, {"a", "b", "c", "a", "g"}},
                                    {"ApplyFtrl", 2, {"g", "a", "b", "c", "power"}},
                                    {"ApplyCenteredRMSProp", 3, {"a", "b", "c", "a", "g"}},
                                    {"SparseApplyMomentum", 1, {"a", "g", "rows", "b"}},
                                    {"SparseApplyAdagrad", 1, {"a", "g", "rows"}},
                                    {"SparseApplyRMSProp", 2, {"a", "b", "c", "a", "g", "rows"}}};
  for (const Update& each : updates) {
    CAPTURE(each.op);
    const std::vector<Tensor> expected = after(read(steps(each, false)), each.slots, {true, true});
    const Graph graph = read(steps(each, true));
    for (const Graph& one : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
      const std::vector<Tensor> found = after(one, each.slots, {true, false, true});
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(found[i], expected[i]));
    }
  }
}

TEST_CASE("a loop waits for an update of a Variable whose result it does not use") {
  // TensorFlow passes the update's result on into the loop, as the reference that it is, for what waits there.
  const Graph graph = read(
      variable_node("v", 1, 2) + node("v/read", "Identity", {"v"}, t_float) + floats_node("one", 1, 1) +
      node("add", "AssignAdd", {"v", "one"}, t_float) + int_node("zero", 0, {}) + floats_node("zeros", 0, 0) +
      enter("loop/i", "Enter", {"zero"}, "DT_INT32") + enter("loop/sum", "Enter", {"zeros"}, "DT_FLOAT") +
      enter("loop/v", "Enter", {"v/read", "^add"}, "DT_FLOAT") + enter("loop/added", "RefEnter", {"add"}, "DT_FLOAT") +
      node("loop/Merge", "Merge", {"loop/i", "loop/Next"}, t_int + attr("N", "i: 2")) +
      node("loop/Merge_1", "Merge", {"loop/sum", "loop/Next_1"}, t_float + attr("N", "i: 2")) +
      node("loop/added/Identity", "Identity", {"loop/added", "^loop/Merge"}, t_float) +
      int_node("loop/end", 3, {"^loop/added/Identity"}) + node("loop/Less", "Less", {"loop/Merge", "loop/end"}, t_int) +
      node("loop/Cond", "LoopCond", {"loop/Less"}) + node("loop/Switch", "Switch", {"loop/Merge", "loop/Cond"}, t_int) +
      node("loop/Switch_1", "Switch", {"loop/Merge_1", "loop/Cond"}, t_float) +
      node("loop/now", "Identity", {"loop/Switch:1"}, t_int) +
      node("loop/added/Identity_1", "Identity", {"loop/added", "^loop/now"}, t_float) +
      int_node("loop/step", 1, {"^loop/added/Identity_1"}) +
      node("loop/add", "AddV2", {"loop/now", "loop/step"}, t_int) +
      node("loop/add_1", "AddV2", {"loop/Switch_1:1", "loop/v"}, t_float) +
      node("loop/Next", "NextIteration", {"loop/add"}, t_int) +
      node("loop/Next_1", "NextIteration", {"loop/add_1"}, t_float) +
      node("loop/Exit", "Exit", {"loop/Switch"}, t_int) + node("loop/Exit_1", "Exit", {"loop/Switch_1"}, t_float));
  const Graph by_reference = Graph::from_graph_def(graph.as_graph_def({.variables = VariableStyle::reference}));
  const Graph by_resource = Graph::from_graph_def(graph.as_graph_def({.variables = VariableStyle::resource}));
  for (const Graph& each : {graph, by_reference, by_resource}) {
    const Session session(each);
    session.run("v/Assign");
    check_same(session.run("loop/Exit:0"), tensor(3));
    check_values(session.run("v/read:0"), {2, 3});  // the loop has waited
    check_values(session.run("loop/Exit_1:0"), {9, 12});
    check_values(session.run("v/read:0"), {3, 4});
  }
}

TEST_CASE("an iteration changes a Variable only if the next one waits for it") {
  for (const bool waits : {true, false}) {
    const Graph graph = read(
        variable_node("v", 1, 2) + node("v/read", "Identity", {"v"}, t_float) + floats_node("one", 1, 1) +
        int_node("zero", 0, {}) + enter("loop/i", "Enter", {"zero"}, "DT_INT32") +
        enter("loop/v", "RefEnter", {"v"}, "DT_FLOAT") + enter("loop/one", "Enter", {"one"}, "DT_FLOAT") +
        node("loop/Merge", "Merge", {"loop/i", "loop/Next"}, t_int + attr("N", "i: 2")) +
        int_node("loop/end", 3, {"^loop/Merge"}) + node("loop/Less", "Less", {"loop/Merge", "loop/end"}, t_int) +
        node("loop/Cond", "LoopCond", {"loop/Less"}) +
        node("loop/Switch", "Switch", {"loop/Merge", "loop/Cond"}, t_int) +
        node("loop/now", "Identity", {"loop/Switch:1"}, t_int) + int_node("loop/step", 1, {"^loop/now"}) +
        node("loop/change", "AssignAdd", {"loop/v", "loop/one", "^loop/now"}, t_float) +
        node("loop/add", "AddV2",
             waits ? std::vector<std::string>{"loop/now", "loop/step", "^loop/change"}
                   : std::vector<std::string>{"loop/now", "loop/step"},
             t_int) +
        node("loop/Next", "NextIteration", {"loop/add"}, t_int) + node("loop/Exit", "Exit", {"loop/Switch"}, t_int));
    const Session session(graph);
    session.run("v/Assign");
    check_same(session.run("loop/Exit:0"), tensor(3));
    check_values(session.run("v/read:0"), waits ? std::vector<double>{4, 5} : std::vector<double>{1, 2});
  }
}

const std::string first_flow =
    attr("dtype", "type: DT_FLOAT") + attr("value", "tensor { dtype: DT_FLOAT tensor_shape {} float_val: 0 }");

TEST_CASE("the constants of a loop wait for its first variable, which may be an array") {
  for (const std::string version : {"V3", "V2", ""}) {  // the last two are of before TensorFlow 1.0
    CAPTURE(version);
    const bool is_old = version != "V3";
    const std::string array = attr("dtype", "type: DT_FLOAT") + attr("element_shape", "shape { dim { size: 2 } }");
    const std::string two = attr("N", "i: 2");
    const Graph graph =
        read(placeholder_node("x", "dim { size: 2 }") + int_node("zero", 0, {}) + int_node("three", 3, {}) +
             ints_node("all", {0, 1, 2}) + node("array", "TensorArray" + version, {"three"}, array) +
             node("flow", "Const", {"^array"}, first_flow) +
             enter("loop/flow", "Enter", {is_old ? "flow" : "array:1"}, "DT_FLOAT") +
             enter("loop/i", "Enter", {"zero"}, "DT_INT32") +
             enter("loop/array", "Enter", {"array"}, is_old ? "DT_STRING" : "DT_RESOURCE") +
             enter("loop/x", "Enter", {"x"}, "DT_FLOAT") +
             node("loop/Merge", "Merge", {"loop/flow", "loop/Next"}, t_float + two) +
             node("loop/Merge_1", "Merge", {"loop/i", "loop/Next_1"}, t_int + two) +
             int_node("loop/end", 3, {"^loop/Merge"}) + node("loop/Less", "Less", {"loop/Merge_1", "loop/end"}, t_int) +
             node("loop/Cond", "LoopCond", {"loop/Less"}) +
             node("loop/Switch", "Switch", {"loop/Merge", "loop/Cond"}, t_float) +
             node("loop/Switch_1", "Switch", {"loop/Merge_1", "loop/Cond"}, t_int) +
             node("loop/first", "Identity", {"loop/Switch:1"}, t_float) +
             node("loop/now", "Identity", {"loop/Switch_1:1"}, t_int) + int_node("loop/step", 1, {"^loop/first"}) +
             node("loop/add", "AddV2", {"loop/now", "loop/step"}, t_int) +
             node("loop/Cast", "Cast", {"loop/add"}, attr("SrcT", "type: DT_INT32") + attr("DstT", "type: DT_FLOAT")) +
             node("loop/mul", "Mul", {"loop/x", "loop/Cast"}, t_float) +
             node("loop/write", "TensorArrayWrite" + version, {"loop/array", "loop/now", "loop/mul", "loop/first"},
                  t_float) +
             node("loop/Next", "NextIteration", {"loop/write"}, t_float) +
             node("loop/Next_1", "NextIteration", {"loop/add"}, t_int) +
             node("loop/Exit", "Exit", {"loop/Switch"}, t_float) +
             (version.empty() ? node("rows", "TensorArrayPack", {"array", "loop/Exit"}, array)
                              : node("rows", "TensorArrayGather" + version, {"array", "all", "loop/Exit"}, array)));
    for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
      const auto scope = each.as_default();
      const Tensor x = each.get_tensor_by_name("x:0"), rows = each.get_tensor_by_name("rows:0");
      const Tensor gradient = gradients({rows}, {x})[0];
      const std::vector<Tensor> found = Session(each).run({rows, gradient}, {{x, {1.0, -1.0}}});
      check_same(found[0], tensor<float>({{1, -1}, {2, -2}, {3, -3}}));
      check_same(found[1], tensor<float>({6, 6}));
    }
  }
}

TEST_CASE("an array of before TensorFlow 1.0 is filled with all rows of a tensor") {
  const std::string array = attr("dtype", "type: DT_FLOAT");
  const Graph graph =
      read(placeholder_node("x", "dim { size: -1 } dim { size: 2 }") + int_node("two", 2, {}) + int_node("one", 1, {}) +
           node("array", "TensorArray", {"two"}, array) + node("flow", "Const", {"^array"}, first_flow) +
           node("filled", "TensorArrayUnpack", {"array", "x", "flow"}, t_float) +
           node("row", "TensorArrayRead", {"array", "one", "filled"}, array) +
           node("rows", "TensorArrayPack", {"array", "filled"}, array));
  const Tensor x = tensor<float>({{1, 2}, {3, 4}});
  for (const Graph& each : {graph, Graph::from_graph_def(graph.as_graph_def())}) {
    const std::vector<Tensor> found = Session(each).run({"row:0", "rows:0"}, {{"x:0", x}});
    check_same(found[0], tensor<float>({3, 4}));
    check_same(found[1], x);
  }
}

}  // namespace tapestry::test::foreign_references_test
