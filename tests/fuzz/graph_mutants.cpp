#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "dispatch/recorder.hpp"
#include "fuzz/graph_flow.hpp"
#include "fuzz/mutants.hpp"
#include "fuzz/seeds.hpp"
#include "fuzz/wire_damage.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

using io::AttrDef;
using io::GraphDef;
using io::ListDef;
using io::NodeDef;
using io::RawAttr;
using io::TensorDef;
using io::TypeCode;

/// What a graph may cost: enough for every sound one, and so little that 17 runs of a loop without end take less than
/// the 2 s of a case.
constexpr GraphLimits limits{.bytes = 16 << 20, .elements = 1 << 16, .nodes = 1 << 12, .time_in_ms = 80};

/// Ops whose readers are found by their names; those of the seeds come on top.
constexpr auto ops = std::to_array<const char*>({"AddN",
                                                 "AvgPoolGrad",
                                                 "BatchToSpaceND",
                                                 "BiasAddGrad",
                                                 "BroadcastArgs",
                                                 "BroadcastGradientArgs",
                                                 "ConcatOffset",
                                                 "Conv2DBackpropFilter",
                                                 "Conv2DBackpropInput",
                                                 "DepthToSpace",
                                                 "DepthwiseConv2dNative",
                                                 "DynamicStitch",
                                                 "Einsum",
                                                 "Erfc",
                                                 "Fill",
                                                 "FusedBatchNorm",
                                                 "FusedBatchNormV3",
                                                 "Gather",
                                                 "GatherV2",
                                                 "GatherNd",
                                                 "IdentityN",
                                                 "L2Loss",
                                                 "MirrorPad",
                                                 "OneHot",
                                                 "Pad",
                                                 "PlaceholderWithDefault",
                                                 "Range",
                                                 "Rank",
                                                 "Relu6",
                                                 "ResizeBilinear",
                                                 "ResizeNearestNeighbor",
                                                 "ScatterNd",
                                                 "Select",
                                                 "Selu",
                                                 "ShapeN",
                                                 "Shape",
                                                 "Size",
                                                 "Softsign",
                                                 "SpaceToBatchND",
                                                 "UnsortedSegmentSum",
                                                 "StridedSliceGrad",
                                                 "SpaceToDepth",
                                                 "AddV2",
                                                 "Sub",
                                                 "Mul",
                                                 "FloorDiv",
                                                 "FloorMod",
                                                 "Pow",
                                                 "MatMul",
                                                 "BatchMatMulV2",
                                                 "Sum",
                                                 "Mean",
                                                 "Prod",
                                                 "Max",
                                                 "Any",
                                                 "ArgMax",
                                                 "Cumsum",
                                                 "Cumprod",
                                                 "Reshape",
                                                 "BroadcastTo",
                                                 "Transpose",
                                                 "Squeeze",
                                                 "ExpandDims",
                                                 "ReverseV2",
                                                 "Cast",
                                                 "ConcatV2",
                                                 "Pack",
                                                 "Unpack",
                                                 "Split",
                                                 "SplitV",
                                                 "Slice",
                                                 "StridedSlice",
                                                 "Tile",
                                                 "PadV2",
                                                 "TopKV2",
                                                 "Conv2D",
                                                 "MaxPool",
                                                 "AvgPool",
                                                 "MaxPoolGrad",
                                                 "RandomUniform",
                                                 "RandomStandardNormal",
                                                 "Multinomial",
                                                 "Const",
                                                 "Placeholder",
                                                 "NoOp",
                                                 "Identity",
                                                 "VariableV2",
                                                 "Assign",
                                                 "AssignAdd",
                                                 "VarHandleOp",
                                                 "ReadVariableOp",
                                                 "AssignVariableOp",
                                                 "ResourceApplyAdam",
                                                 "Cholesky",
                                                 "Svd",
                                                 "MatrixSolve",
                                                 "MatrixBandPart",
                                                 "Softmax",
                                                 "SparseSoftmaxCrossEntropyWithLogits",
                                                 "EmptyTensorList",
                                                 "Enter",
                                                 "Exit",
                                                 "If",
                                                 "LoopCond",
                                                 "Merge",
                                                 "NextIteration",
                                                 "StatelessCase",
                                                 "StatelessIf",
                                                 "Switch",
                                                 "TensorArrayReadV3",
                                                 "TensorArrayV3",
                                                 "TensorListFromTensor",
                                                 "TensorListGetItem",
                                                 "TensorListPushBack",
                                                 "TensorListReserve",
                                                 "TensorListSetItem",
                                                 "TensorListStack",
                                                 "While"});

constexpr auto words =
    std::to_array<const char*>({"SAME", "VALID", "EXPLICIT", "NHWC", "NCHW", "REFLECT", "SYMMETRIC", "ij,jk->ik",
                                "ii->i", "a,a,b->", "->", "...ij->...ji", "loc:@x", ""});

class GraphDamage {
 public:
  GraphDamage(GraphDef& graph, Dice& dice) : graph_(graph), dice_(dice) {}

  void change() {
    if (graph_.nodes.empty()) return;
    NodeDef& node = dice_.of(graph_.nodes);
    switch (dice_.below(14)) {
      case 0:
        return change_inputs(node);
      case 1:
        node.inputs.push_back("^" + dice_.of(graph_.nodes).name);
        return;
      case 2:
        node.op = dice_.one_in(3) ? dice_.of(graph_.nodes).op : std::string(dice_.of(ops));
        return;
      case 3:
        graph_.nodes.erase(graph_.nodes.begin() + (&node - graph_.nodes.data()));
        return;
      case 4:
        return add_copy(node);
      case 5:
        return compute(node);
      case 6:
        node.name = dice_.one_in(2) ? dice_.of(graph_.nodes).name : dice_.damaged(node.name);
        return;
      case 7:
        return change_type(node);
      default:
        return change_attr(node);
    }
  }

 private:
  std::string any_output() {
    const std::string& name = dice_.of(graph_.nodes).name;
    return dice_.one_in(6) ? name + ":" + std::to_string(dice_.below(4)) : name;
  }

  void change_inputs(NodeDef& node) {
    const std::size_t kind = node.inputs.empty() ? 3 : dice_.below(4);
    if (kind == 0) dice_.of(node.inputs) = any_output();
    if (kind == 1)
      node.inputs.erase(node.inputs.begin() + static_cast<std::ptrdiff_t>(dice_.below(node.inputs.size())));
    if (kind == 2) std::swap(dice_.of(node.inputs), dice_.of(node.inputs));
    if (kind == 3) node.inputs.insert(node.inputs.begin(), any_output());
  }

  void add_copy(const NodeDef& node) {
    NodeDef copy = node;
    copy.name += "/copy";
    if (!copy.inputs.empty() && dice_.one_in(2)) dice_.of(copy.inputs) = any_output();
    const std::string name = copy.name;
    graph_.nodes.push_back(std::move(copy));
    NodeDef& user = dice_.of(graph_.nodes);
    if (!user.inputs.empty()) dice_.of(user.inputs) = name;
  }

  NodeDef& add(const std::string& name, const char* op, const std::vector<std::string>& inputs) {
    return graph_.nodes.emplace_back(NodeDef{.name = name, .op = op, .inputs = inputs});
  }

  /// A constant of whole numbers becomes one that depends on a size: its sum, product or the like with that.
  void compute(const NodeDef& node) {
    const auto value = node.attrs.find("value");
    const auto* constant = value == node.attrs.end() ? nullptr : std::get_if<TensorDef>(&value->second);
    if (node.op != "Const" || !constant || !constant->value) return change_inputs(dice_.of(graph_.nodes));
    const TypeCode type = constant->type;
    const std::string name = node.name, size = name + "/size", sized = name + "/sized", changed = name + "/changed";
    const std::string source = any_output();
    for (NodeDef& user : graph_.nodes)
      for (std::string& input : user.inputs)
        if (input == name) input = changed;
    add(size, "Size", {source}).attrs = {{"out_type", io::code_of(int32)}};
    add(sized, "Cast", {size}).attrs = {{"SrcT", io::code_of(int32)}, {"DstT", type}};
    constexpr auto kinds =
        std::to_array<const char*>({"AddV2", "Sub", "Mul", "FloorDiv", "FloorMod", "Maximum", "Pow"});
    add(changed, dice_.of(kinds), {name, sized}).attrs = {{"T", type}};
  }

  TypeCode type() {
    constexpr auto types = std::to_array<std::int32_t>({0, 1, 2, 3, 4, 5, 7, 9, 10, 14, 19, 20, 101, 103, 120});
    return {dice_.of(types)};
  }
  Shape shape() {
    if (dice_.one_in(12)) return Shape::unknown_rank();
    std::vector<std::int64_t> sizes;
    for (std::size_t i = dice_.below(dice_.one_in(8) ? 9 : 5); i > 0; --i)
      sizes.push_back(dice_.one_in(8) ? std::abs(dice_.number() / 2) : static_cast<std::int64_t>(dice_.below(5)) - 1);
    try {
      return sizes;
    } catch (const Error&) {
      return {2, -1};  // no Shape can say what does not fit; damage_field writes such ones
    }
  }

  /// Of the whole graph, or of one node.
  void change_type(NodeDef& node) {
    const TypeCode from = type(), to = type();
    const bool all = dice_.one_in(2);
    const auto replace = [&](NodeDef& each) {
      for (auto& [name, attr] : each.attrs)
        if (auto* code = std::get_if<TypeCode>(&attr); code && (!all || *code == from)) *code = to;
    };
    if (!all) return replace(node);
    std::for_each(graph_.nodes.begin(), graph_.nodes.end(), replace);
  }

  void change_attr(NodeDef& node) {
    if (node.attrs.empty()) return change_inputs(node);
    auto& [name, attr] = *std::next(node.attrs.begin(), static_cast<std::ptrdiff_t>(dice_.below(node.attrs.size())));
    const NodeDef& other = dice_.of(graph_.nodes);
    if (dice_.one_in(10)) {
      if (const auto same = other.attrs.find(name); same != other.attrs.end()) attr = same->second;
    } else if (dice_.one_in(20)) {
      node.attrs.erase(std::string(name));
    } else {
      std::visit([&](auto& value) { change_value(value); }, attr);
    }
  }

  void change_value(std::monostate&) {}
  void change_value(std::string& text) { text = dice_.one_in(2) ? dice_.of(words) : dice_.damaged(text); }
  void change_value(std::int64_t& number) { number = dice_.number(); }
  void change_value(float& number) { number = real<float>(); }
  void change_value(bool& flag) { flag = !flag; }
  void change_value(TypeCode& code) { code = type(); }
  void change_value(RawAttr&) {}
  void change_value(Shape& value) { value = shape(); }
  void change_value(ListDef& list) {
    if (!list.ints.empty() && !dice_.one_in(4)) {
      dice_.of(list.ints) = dice_.number();
    } else if (!list.ints.empty() && dice_.one_in(2)) {
      list.ints.pop_back();
    } else if (!list.strings.empty()) {
      change_value(dice_.of(list.strings));
    } else {
      list.ints.insert(list.ints.end(), 1 + dice_.below(3), dice_.number());
    }
  }

  template <class T>
  T real() {
    constexpr auto edges =
        std::to_array<double>({0, -0.0, 1, -1, 0.5, 2, 1e-40, 1e30, -1e300, 3e9, 1e19, NAN, INFINITY, -INFINITY});
    return static_cast<T>(dice_.of(edges));
  }

  /// One element, or all, or another shape of as many.
  void change_value(TensorDef& tensor) {
    constexpr std::int64_t most_elements = 1 << 12;
    if (!tensor.value || tensor.value.size() == 0 || tensor.value.size() > most_elements) return;
    const ExecuteNow now;
    if (dice_.one_in(6)) {
      const std::int64_t size = tensor.value.size();
      const Shape other = dice_.one_in(2) ? Shape{size} : size % 2 == 0 ? Shape{2, size / 2} : Shape{1, size, 1};
      tensor.value = reshape(tensor.value, other);
      return;
    }
    std::vector<double> reals = tensor.value.to_vector<double>();
    std::vector<std::int64_t> wholes = tensor.value.to_vector<std::int64_t>();
    const std::size_t first = dice_.below(reals.size()), last = dice_.one_in(8) ? reals.size() : first + 1;
    for (std::size_t i = first; i < last; ++i) {
      reals[i] = real<double>();
      wholes[i] = dice_.number();
    }
    const DType dtype = tensor.value.dtype();
    const Tensor changed = is_floating(dtype) ? tapestry::tensor(reals) : tapestry::tensor(wholes);
    tensor.value = reshape(changed.cast(dtype), tensor.value.shape());
  }

  GraphDef& graph_;
  Dice& dice_;
};

/// Damages the nodes of one function of a branch or a loop, or what it takes and returns.
void damage_function(GraphDef& graph, Dice& dice) {
  std::vector<io::FunctionDef> functions;
  try {
    functions = io::decode_library(graph.library, GraphLimits::none());
  } catch (const Error&) {
    return;  // a library that another damage has hit
  }
  if (functions.empty()) return;
  io::FunctionDef& function = dice.of(functions);
  switch (dice.below(6)) {
    case 0:
      std::swap(dice.of(functions).name, function.name);
      break;
    case 1:
      if (!function.inputs.empty()) function.inputs.pop_back();
      break;
    case 2:
      if (!function.outputs.empty()) std::swap(dice.of(function.outputs), dice.of(function.outputs));
      break;
    case 3:
      if (!function.returns.empty()) function.returns.begin()->second = std::prev(function.returns.end())->second;
      break;
    default:
      GraphDef body{.nodes = function.nodes};
      GraphDamage(body, dice).change();
      function.nodes = body.nodes;
  }
  graph.library.clear();
  for (const io::FunctionDef& each : functions) graph.library += io::encode_function(each);
}

std::string make_graph_mutant(Dice& dice) {
  const std::vector<std::string>& seeds = graph_seeds();
  std::string bytes = dice.of(seeds);
  if (!dice.one_in(6)) {
    GraphDef graph = io::decode(bytes);
    if (dice.one_in(10)) {
      // Two files in one.
      GraphDef other = io::decode(dice.of(seeds));
      std::move(other.nodes.begin(), other.nodes.end(), std::back_inserter(graph.nodes));
    }
    GraphDamage damage(graph, dice);
    if (dice.one_in(4)) put_into_flow(graph, dice);
    for (std::size_t count = dice.below(5); count > 0; --count) {
      if (!graph.library.empty() && dice.one_in(2))
        damage_function(graph, dice);
      else
        damage.change();
    }
    bytes = io::encode(graph);
  }
  if (dice.one_in(2))
    for (std::size_t count = 1 + dice.below(2); count > 0; --count) bytes = damage_field(bytes, dice);
  if (dice.one_in(64)) bytes = dice.damaged(bytes);
  return bytes;
}

/// What nobody in the graph uses: first what is run for its effect, such as what initializes Variables.
std::vector<Fetch> sinks_of(const Graph& graph) {
  std::set<std::int64_t> used;
  for (const Operation& each : graph.operations())
    for (const Tensor& input : each.inputs()) used.insert(input.id());
  std::vector<Fetch> effects, values;
  for (const Operation& each : graph.operations()) {
    if (each.outputs().empty()) effects.emplace_back(each);
    for (const Tensor& output : each.outputs())
      if (output.dtype() != DType::resource && !used.contains(output.id())) values.emplace_back(output);
  }
  effects.insert(effects.end(), values.begin(), values.end());
  return effects;
}

Feeds zeros_for(const Graph& graph, Dice& dice) {
  Feeds feeds;
  for (const Tensor& each : graph.placeholders()) {
    Shape shape = each.shape().has_rank() ? each.shape() : Shape{2};
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (!shape[axis].is_known()) shape.set(axis, 1 + static_cast<std::int64_t>(dice.below(3)));
    if (shape.num_elements() >= 0 && shape.num_elements() <= limits.elements)
      feeds.add(each, zeros(shape, {.dtype = each.dtype()}));
  }
  return feeds;
}

/// Fetches and feeds tensors by the names that their nodes have in the file, also those that became attributes.
void run_by_names(const Graph& graph, const std::vector<std::string>& names, Dice& dice) {
  const Session session(graph);
  for (int turn = 0; turn < 4 && !names.empty(); ++turn) {
    try {
      const std::string fetch = dice.of(names) + (dice.one_in(6) ? ":1" : ":0"), key = dice.of(names) + ":0";
      Feeds feeds = zeros_for(graph, dice);
      const Tensor fed = graph.get_tensor_by_name(key);
      if (fed.shape().is_known() && fed.shape().num_elements() <= limits.elements && fed.dtype() != DType::unknown &&
          fed.dtype() != DType::resource)
        feeds.add(fed, zeros(fed.shape(), {.dtype = fed.dtype()}));
      session.run(fetch, feeds);
    } catch (const Error&) {
      // There is no such tensor, or the session says no.
    }
  }
}

/// Runs each sink by itself, so that one that is refused hides no other; then all at once.
void run(const Graph& graph, Dice& dice) {
  const Session session(graph, {.optimize = !dice.one_in(4)});
  const Feeds feeds = zeros_for(graph, dice);
  const std::vector<Fetch> sinks = sinks_of(graph);
  const auto attempt = [&](const std::vector<Fetch>& fetches) {
    try {
      session.run(fetches, feeds);
    } catch (const Error&) {
      // This is how a session says no.
    }
  };
  constexpr std::size_t most_sinks = 12;
  for (std::size_t i = 0; i < std::min(sinks.size(), most_sinks); ++i) attempt({sinks[i]});
  if (!sinks.empty()) attempt(sinks);
}

bool use_graph(const std::string& bytes, Dice& dice) {
  Graph graph;
  std::vector<std::string> names;
  try {
    const std::string file = dice.one_in(8) ? io::from_text(io::to_text(bytes)) : bytes;
    graph = Graph::from_graph_def(file, limits);
    for (const NodeDef& each : io::decode(file).nodes) names.push_back(each.name);
  } catch (const Error&) {
    return false;
  }
  run(graph, dice);
  run_by_names(graph, names, dice);
  try {
    const auto style = dice.one_in(2) ? VariableStyle::resource : VariableStyle::reference;
    Graph::from_graph_def(graph.as_graph_def({.variables = style, .output_shapes = true}), limits);
  } catch (const Error&) {
    // TensorFlow has no word for all that we can do, and sizes that are not known yet.
  }
  return true;
}

}  // namespace

Mutants graph_mutants() { return {.name = "mutate_graph", .make = make_graph_mutant, .use = use_graph}; }

}  // namespace tapestry::test
