#include "fuzz/graph_flow.hpp"

#include <algorithm>

#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/op_outputs.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

using io::FunctionDef;
using io::GraphDef;
using io::ListDef;
using io::NodeDef;
using io::TensorDef;
using io::TypeCode;

class FlowMaker {
 public:
  FlowMaker(GraphDef& graph, const NodeDef& node, TypeCode type, Dice& dice)
      : graph_(graph), original_(node), type_(type), dice_(dice) {}

  void run() {
    const std::string function = add_function();
    switch (dice_.below(4)) {
      case 0:
        return replace("StatelessIf", selector(dice_.one_in(2)),
                       {{"Tcond", io::code_of(boolean)},
                        {"then_branch", io::function_attr(function)},
                        {"else_branch", io::function_attr(dice_.one_in(2) ? function : add_function())}});
      case 1:
        return replace("StatelessCase", selector(static_cast<int>(dice_.below(4)) - 1),
                       {{"branches", io::functions_attr({function, add_function(), function})}});
      case 2:
        return replace("PartitionedCall", {}, {{"f", io::function_attr(function)}});
      default:
        return replace_by_loop(function);
    }
  }

 private:
  std::string unique(const std::string& label) const {
    return original_.name + "/" + label + std::to_string(graph_.library.size() + graph_.nodes.size());
  }

  std::string constant(const Tensor& value) {
    const TypeCode type = io::code_of(value.dtype());
    return graph_.nodes
        .emplace_back(NodeDef{
            .name = unique("value"), .op = "Const", .attrs = {{"dtype", type}, {"value", TensorDef{type, value}}}})
        .name;
  }
  std::vector<std::string> selector(bool value) { return {constant(tensor(value))}; }
  std::vector<std::string> selector(int value) { return {constant(tensor(value))}; }

  static std::string output_of(const NodeDef& node) { return node.name + ":" + io::output_in_function(node, 0); }

  FunctionDef taking(const std::string& label, std::size_t first) const {
    FunctionDef function{.name = unique(label)};
    std::replace(function.name.begin(), function.name.end(), '/', '_');
    for (std::size_t i = 0; i < first; ++i) function.inputs.push_back({.name = "count", .type = io::code_of(int32)});
    for (std::size_t i = 0; i < original_.inputs.size(); ++i)
      function.inputs.push_back({.name = "a" + std::to_string(i), .type = type_});
    return function;
  }
  NodeDef inner() const {
    NodeDef copy = original_;
    copy.name = "inner";
    for (std::size_t i = 0; i < copy.inputs.size(); ++i) copy.inputs[i] = "a" + std::to_string(i);
    return copy;
  }
  static void give(FunctionDef& function, const std::string& from, TypeCode type) {
    function.outputs.push_back({.name = "y" + std::to_string(function.outputs.size()), .type = type});
    function.returns.emplace(function.outputs.back().name, from);
  }
  std::string add(const FunctionDef& function) {
    graph_.library += io::encode_function(function);
    return function.name;
  }

  /// The node as a function.
  std::string add_function() {
    FunctionDef function = taking("f", 0);
    function.nodes = {inner()};
    give(function, output_of(function.nodes[0]), type_);
    return add(function);
  }

  ListDef types(std::size_t count) const {
    ListDef list;
    list.types.assign(count, type_);
    return list;
  }

  /// The node in the graph, whose nodes may have moved since it was drawn.
  NodeDef& node() {
    return *std::find_if(graph_.nodes.begin(), graph_.nodes.end(),
                         [&](const NodeDef& each) { return each.name == original_.name; });
  }

  void replace(const char* op, std::vector<std::string> inputs, io::AttrDefs attrs) {
    inputs.insert(inputs.end(), original_.inputs.begin(), original_.inputs.end());
    attrs.emplace("Tin", types(original_.inputs.size()));
    attrs.emplace("Tout", types(1));
    node().op = op;
    node().inputs = std::move(inputs);
    node().attrs = std::move(attrs);
  }

  /// A loop that counts, and whose first other variable becomes the value of the node.
  void replace_by_loop(const std::string& function) {
    FunctionDef condition = taking("cond", 1), body = taking("body", 1);
    const TypeCode whole = io::code_of(int32);
    const auto number = [&](FunctionDef& to, int value) {
      to.nodes.push_back(NodeDef{
          .name = "number", .op = "Const", .attrs = {{"dtype", whole}, {"value", TensorDef{whole, tensor(value)}}}});
    };
    number(condition, static_cast<int>(dice_.below(4)));
    condition.nodes.push_back(
        NodeDef{.name = "holds", .op = "Less", .inputs = {"count", "number:output:0"}, .attrs = {{"T", whole}}});
    give(condition, "holds:z:0", io::code_of(boolean));
    number(body, 1);
    body.nodes.push_back(
        NodeDef{.name = "next", .op = "AddV2", .inputs = {"count", "number:output:0"}, .attrs = {{"T", whole}}});
    NodeDef call{.name = "call", .op = "PartitionedCall", .attrs = {{"f", io::function_attr(function)}}};
    for (std::size_t i = 0; i < original_.inputs.size(); ++i) call.inputs.push_back("a" + std::to_string(i));
    call.attrs.emplace("Tin", types(original_.inputs.size()));
    call.attrs.emplace("Tout", types(1));
    body.nodes.push_back(call);
    give(body, "next:z:0", whole);
    for (std::size_t i = 0; i < original_.inputs.size(); ++i)
      give(body, i == 0 ? "call:output:0" : call.inputs[i], type_);
    std::vector<std::string> inputs{constant(tensor(0))};
    inputs.insert(inputs.end(), original_.inputs.begin(), original_.inputs.end());
    ListDef all = types(original_.inputs.size());
    all.types.insert(all.types.begin(), whole);
    const std::string loop = unique("loop");
    graph_.nodes.push_back(NodeDef{
        .name = loop,
        .op = "StatelessWhile",
        .inputs = inputs,
        .attrs = {{"T", all}, {"cond", io::function_attr(add(condition))}, {"body", io::function_attr(add(body))}}});
    node().op = "Identity";
    node().inputs = {loop + ":1"};
    node().attrs = {{"T", type_}};
  }

  GraphDef& graph_;
  const NodeDef original_;  ///< with at least one input
  const TypeCode type_;     ///< of all that it reads and gives
  Dice& dice_;
};

}  // namespace

void put_into_flow(GraphDef& graph, Dice& dice) {
  if (graph.nodes.empty()) return;
  NodeDef& node = dice.of(graph.nodes);
  const auto type = node.attrs.find("T");
  const bool is_plain = std::none_of(node.inputs.begin(), node.inputs.end(),
                                     [](const std::string& input) { return input.starts_with('^'); });
  if (type == node.attrs.end() || !std::holds_alternative<TypeCode>(type->second) || node.inputs.empty() || !is_plain)
    return;
  FlowMaker(graph, node, std::get<TypeCode>(type->second), dice).run();
}

}  // namespace tapestry::test
