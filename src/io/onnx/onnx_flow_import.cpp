// If, Loop and Scan, whose functions are graphs that use the values around them, as nodes of our reader of branches and
// loops, to which these values are arguments.

#include <algorithm>

#include "core/make_tensor.hpp"
#include "io/onnx/onnx_import.hpp"
#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

TensorDef scalar_value(std::int64_t value, DType dtype) {
  return {code_of(dtype), detail::make_scalar(static_cast<double>(value), dtype)};
}

/// The outputs of a graph, as tensors of its builder.
std::vector<std::string> results_of(OnnxBuilder& builder, const OnnxGraphDef& graph) {
  std::vector<std::string> results;
  for (const OnnxValueDef& output : graph.outputs) results.push_back(builder.value(output.name));
  return results;
}

/// ONNX takes a tensor of one element for a scalar.
std::string as_scalar(OnnxBuilder& builder, const std::string& tensor) {
  const TensorDef none{code_of(int64), detail::make_tensor(int64, {0}, cpu())};
  const std::string shape = builder.add_constant(tensor + "/shape", none);
  return builder.add_op(tensor + "/scalar", onnx_op_name("", "Reshape"), {tensor, shape});
}

/// A whole number or a bool that is a constant; -1 for any other tensor.
std::int64_t constant_number(const OnnxBuilder& builder, const std::string& tensor) {
  const TensorDef* constant = builder.constant(builder.behind_identities(tensor));
  if (!constant || !constant->value || constant->value.size() != 1 || is_floating(constant->value.dtype())) return -1;
  return std::max<std::int64_t>(constant->value.cast(int64).to_vector<std::int64_t>()[0], 0);
}

std::string name_of_flow(const OnnxNodeDef& node) {
  for (const std::string& output : node.outputs)
    if (!output.empty()) return output;
  return node.type;
}

/// When a Loop ends: after a number of iterations, when its body says so, or whichever comes first.
struct LoopEnd {
  std::string limit;  ///< the tensor with that number; "": none
  bool counts;        ///< that number is not known before the loop runs
  bool asks;
};

/// A loop in the making. Its variables are numbered in the order in which they are added.
class LoopBuilder {
 public:
  LoopBuilder(OnnxBuilder& around, const OnnxNodeDef& node, std::string_view op)
      : around_(around), body_(around.context(), around), def_{.name = name_of_flow(node), .op = std::string(op)} {
    flow_.is_loop = true;
    flow_.has_condition = false;
    flow_.functions.resize(2);
    flow_.functions[0].name = "body";
    flow_.functions[1].name = "cond";
  }

  OnnxBuilder& body() { return body_; }
  Flow& flow() { return flow_; }

  /// Adds a loop variable and returns its number. `argument`: the node of the body that stands for it.
  std::size_t add_variable(const std::string& initial, const std::string& argument) {
    def_.inputs.push_back(initial);
    FunctionBody& function = flow_.functions[0];
    function.inputs.push_back(argument);
    function.outputs.emplace_back();
    flow_.functions[1].inputs.emplace_back();
    return function.inputs.size() - 1;
  }
  std::size_t add_carried(const std::string& initial, const std::string& argument) {
    flow_.carried.push_back(add_variable(initial, argument));
    return flow_.carried.back();
  }
  void set_next(std::size_t variable, const std::string& tensor) { flow_.functions[0].outputs[variable] = tensor; }
  /// Adds an output that stacks a tensor of the body.
  std::size_t add_stacked(const std::string& element, const std::string& unused) {
    const std::size_t variable = add_variable(unused, "");
    flow_.stacked.push_back({variable, element});
    return variable;
  }

  /// Adds the node, and returns its name.
  std::string finish(GraphDef condition, const std::string& holds) {
    for (const auto& [value, argument] : body_.captured())
      flow_.operands.push_back(add_variable(around_.value(value), argument));
    flow_.functions[0].graph = body_.take();
    flow_.functions[1].graph = std::move(condition);
    flow_.functions[1].outputs = {holds};
    if (!flow_.has_condition) flow_.functions.pop_back();
    def_.flow = std::make_shared<const Flow>(std::move(flow_));
    return around_.add(std::move(def_));
  }

  /// The same for a loop whose variable `counter` is the number of iterations, and `holds` what the body says.
  std::string finish(const LoopEnd& end, std::size_t counter, std::size_t holds) {
    OnnxBuilder condition(around_.context(), around_);
    const std::string& label = def_.name;
    std::string goes;
    if (end.asks) {
      goes = condition.add_argument(label + "/goes_on");
      set_condition_argument(holds, goes);
    }
    if (end.counts) {
      const std::size_t limit = add_variable(as_scalar(around_, end.limit), around_.context().unique(label + "/limit"));
      flow_.operands.push_back(limit);
      const std::string count = condition.add_argument(label + "/count"),
                        last = condition.add_argument(label + "/most");
      set_condition_argument(counter, count);
      set_condition_argument(limit, last);
      const std::string is_less = condition.add_op(label + "/less", onnx_op_name("", "Less"), {count, last});
      goes = goes.empty() ? is_less : condition.add_op(label + "/both", onnx_op_name("", "And"), {goes, is_less});
    }
    return finish(condition.take(), goes);
  }

 private:
  /// The node that stands for a variable in the condition.
  void set_condition_argument(std::size_t variable, const std::string& argument) {
    flow_.functions[1].inputs[variable] = argument;
  }

  OnnxBuilder& around_;
  OnnxBuilder body_;
  NodeDef def_;
  Flow flow_;
};

std::string output_of(const std::string& node, std::size_t number) {
  return number == 0 ? node : detail::join(node, ":", number);
}

/// Finds how a Loop ends, and notes in it what is known. `first` tells whether it begins; the argument `goes_on` of its
/// body becomes `result`.
LoopEnd find_end(const OnnxBuilder& around, LoopBuilder& loop, const std::string& limit, const std::string& first,
                 const std::string& goes_on, const std::string& result) {
  constexpr std::int64_t endless = std::int64_t{1} << 62;
  const std::int64_t known_limit = limit.empty() ? -1 : constant_number(around, limit);
  const bool is_limited = !limit.empty() && known_limit < endless;
  if (is_limited) loop.flow().iterations = known_limit;
  const bool begins = first.empty() || constant_number(around, first) == 1;
  const bool stays = loop.body().behind_identities(result) == goes_on || constant_number(loop.body(), result) == 1;
  LoopEnd end{limit, is_limited && known_limit < 0, !(begins && stays && is_limited)};
  loop.flow().has_condition = end.counts || end.asks;
  return end;
}

void require_graph(bool fits) {
  if (!fits) throw InvalidArgumentError("its graph does not fit its inputs and outputs");
}

}  // namespace

void OnnxBuilder::add_if(const OnnxNodeDef& node) {
  require_graph(node.inputs.size() == 1 && node.graphs.contains("then_branch") && node.graphs.contains("else_branch"));
  Flow flow;
  std::vector<std::string> captured;
  std::vector<std::map<std::string, std::string>> arguments;
  for (const std::string name : {"then_branch", "else_branch"}) {
    const OnnxGraphDef& graph = *node.graphs.at(name);
    OnnxBuilder branch(context_, *this);
    branch.add_contents(graph);
    FunctionBody function{.name = name, .outputs = results_of(branch, graph)};
    require_graph(function.outputs.size() == node.outputs.size());
    arguments.emplace_back(branch.captured().begin(), branch.captured().end());
    for (const auto& [value, argument] : branch.captured())
      if (std::find(captured.begin(), captured.end(), value) == captured.end()) captured.push_back(value);
    function.graph = branch.take();
    flow.functions.push_back(std::move(function));
  }
  NodeDef def{
      .name = name_of_flow(node), .op = onnx_op_name("", "If"), .inputs = {as_scalar(*this, value(node.inputs[0]))}};
  for (const std::string& name : captured) {
    def.inputs.push_back(value(name));
    for (std::size_t b = 0; b < 2; ++b) {
      const auto found = arguments[b].find(name);
      flow.functions[b].inputs.push_back(found == arguments[b].end() ? detail::join("^", name) : found->second);
    }
  }
  def.flow = std::make_shared<const Flow>(std::move(flow));
  define_outputs(node, add(std::move(def)), {});
}

/// A Loop counts its iterations, up to a number that may be left out, and goes on while its body says so.
void OnnxBuilder::add_loop(const OnnxNodeDef& node) {
  const OnnxGraphDef& graph = *node.graphs.begin()->second;
  const std::size_t inputs = std::max<std::size_t>(node.inputs.size(), 2), states = inputs - 2;
  require_graph(graph.inputs.size() == inputs && graph.outputs.size() >= states + 1 &&
                node.outputs.size() <= graph.outputs.size() - 1);
  LoopBuilder loop(*this, node, onnx_op_name("", "Loop"));
  OnnxBuilder& body = loop.body();
  std::vector<std::string> arguments;
  for (const OnnxValueDef& input : graph.inputs) {
    arguments.push_back(body.add_argument(input.name));
    body.define(input.name, arguments.back());
  }
  body.add_contents(graph);
  const std::vector<std::string> results = results_of(body, graph);

  const auto given = [&](std::size_t i) {
    return i < node.inputs.size() && !node.inputs[i].empty() ? value(node.inputs[i]) : std::string();
  };
  const std::string first = given(1), label = name_of_flow(node);
  const LoopEnd end = find_end(*this, loop, given(0), first, arguments[1], results[0]);

  const std::string zero = add_constant(label + "/first", scalar_value(0, int64));
  const std::size_t counter = loop.add_carried(zero, arguments[0]);
  const std::string one = body.add_constant(label + "/one", scalar_value(1, int64));
  loop.set_next(counter, body.add_op(label + "/next", onnx_op_name("", "Add"), {arguments[0], one}));
  const std::string holds_first =
      first.empty() ? add_constant(label + "/true", scalar_value(1, boolean)) : as_scalar(*this, first);
  const std::size_t holds = loop.add_carried(holds_first, arguments[1]);
  loop.set_next(holds, as_scalar(body, results[0]));
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < states; ++i) {
    const std::string initial = value(node.inputs[i + 2]), element = body.appended(results[i + 1], arguments[i + 2]);
    if (is_empty_sequence(initial) && !element.empty()) {  // a sequence to which each iteration adds an element
      numbers.push_back(loop.add_stacked(element, zero));
      continue;
    }
    numbers.push_back(loop.add_carried(initial, arguments[i + 2]));
    loop.set_next(numbers.back(), results[i + 1]);
  }
  for (std::size_t i = states + 1; i < results.size(); ++i) numbers.push_back(loop.add_stacked(results[i], zero));

  const std::string name = loop.finish(end, counter, holds);
  std::vector<std::string> outputs;
  outputs.reserve(numbers.size());
  for (const std::size_t number : numbers) outputs.push_back(output_of(name, number));
  define_outputs(node, name, outputs);
}

/// A Scan goes through sequences, along any axis and from either end.
void OnnxBuilder::add_scan(const OnnxNodeDef& node) {
  const OnnxGraphDef& graph = *node.graphs.begin()->second;
  const auto attrs = attrs_of(node);
  const auto listed = [&](std::string_view name, std::size_t count) {
    const auto found = attrs.find(name);
    const auto* list = found == attrs.end() ? nullptr : std::get_if<ListDef>(&found->second);
    std::vector<std::int64_t> numbers = list ? list->ints : std::vector<std::int64_t>();
    numbers.resize(std::max(count, numbers.size()), 0);
    require_graph(numbers.size() == count);
    return numbers;
  };
  const auto found = attrs.find("num_scan_inputs");
  const auto* told = found == attrs.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
  require_graph(told && *told >= 1 && *told <= static_cast<std::int64_t>(node.inputs.size()));
  const auto sequences = static_cast<std::size_t>(*told);
  const std::size_t states = node.inputs.size() - sequences;
  require_graph(graph.inputs.size() == node.inputs.size() && graph.outputs.size() >= states &&
                node.outputs.size() <= graph.outputs.size());
  const std::size_t stacks = graph.outputs.size() - states;
  const auto axes = listed("scan_input_axes", sequences), stacked_axes = listed("scan_output_axes", stacks);
  auto backwards = listed("scan_input_directions", sequences),
       stacked_backwards = listed("scan_output_directions", stacks);

  LoopBuilder loop(*this, node, onnx_op_name("", "Scan"));
  const std::string label = name_of_flow(node);
  const auto is_one = [](std::int64_t each) { return each == 1; };
  if (std::all_of(backwards.begin(), backwards.end(), is_one) &&
      std::all_of(stacked_backwards.begin(), stacked_backwards.end(), is_one)) {
    loop.flow().reverse = true;
    backwards.assign(sequences, 0);
    stacked_backwards.assign(stacks, 0);
  }
  OnnxBuilder& body = loop.body();
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string argument = body.add_argument(graph.inputs[i].name);
    body.define(graph.inputs[i].name, argument);
    std::string tensor = value(node.inputs[i]);
    if (i < states) {
      numbers.push_back(loop.add_carried(tensor, argument));
      continue;
    }
    const std::size_t k = i - states;
    if (axes[k] != 0) tensor = add_op(label + "/sequence", "tapestry::MoveAxis", {tensor}, {{"from", axes[k]}});
    if (backwards[k] != 0) tensor = add_op(label + "/reversed", "tapestry::Flip", {tensor});
    loop.flow().sequences.push_back({loop.add_variable(tensor, ""), argument});
  }
  body.add_contents(graph);
  const std::vector<std::string> results = results_of(body, graph);
  for (std::size_t i = 0; i < states; ++i) loop.set_next(numbers[i], results[i]);
  const std::string unused = add_constant(label + "/unused", scalar_value(0, int64));
  for (std::size_t i = states; i < results.size(); ++i) numbers.push_back(loop.add_stacked(results[i], unused));

  const std::string name = loop.finish({}, {});
  std::vector<std::string> outputs;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    std::string tensor = output_of(name, numbers[i]);
    if (i >= states && stacked_backwards[i - states] != 0)
      tensor = add_op(label + "/stacked", "tapestry::Flip", {tensor});
    if (i >= states && stacked_axes[i - states] != 0)
      tensor = add_op(label + "/moved", "tapestry::MoveAxis", {tensor}, {{"to", stacked_axes[i - states]}});
    outputs.push_back(tensor);
  }
  define_outputs(node, name, outputs);
}

}  // namespace tapestry::io
