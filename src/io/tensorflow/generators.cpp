#include "io/tensorflow/generators.hpp"

#include <algorithm>
#include <array>

#include "core/make_tensor.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/node_adder.hpp"
#include "io/tensorflow/nodes.hpp"
#include "io/tensorflow/unsigned_order.hpp"

namespace tapestry::io {
namespace {

/// What draws numbers from a generator's state, and the op that draws the same from a key and a counter.
struct Draw {
  std::string_view op, stateless;
  std::size_t inputs;
  TypeCode dtype;  ///< by default
};
const auto draws = std::to_array<Draw>({{"StatefulUniform", "StatelessRandomUniformV2", 3, code_of(float32)},
                                        {"StatefulUniformFullInt", "StatelessRandomUniformFullIntV2", 3, uint64_type},
                                        {"StatefulUniformInt", "StatelessRandomUniformIntV2", 5, code_of(int64)},
                                        {"StatefulStandardNormalV2", "StatelessRandomNormalV2", 3, code_of(float32)},
                                        {"StatefulTruncatedNormal", "StatelessTruncatedNormalV2", 3, code_of(float32)},
                                        {"StatefulRandomBinomial", binomial_of_generator, 5, code_of(int64)}});

const Draw* find_draw(const NodeDef& node) {
  const auto* found = std::find_if(draws.begin(), draws.end(), [&](const Draw& each) { return each.op == node.op; });
  return found == draws.end() || data_inputs(node) != found->inputs ? nullptr : found;
}

bool skips(const NodeDef& node) {
  return (node.op == "RngReadAndSkip" || node.op == "RngSkip") && data_inputs(node) == 3;
}
bool uses_generator(const NodeDef& node) { return skips(node) || find_draw(node); }

/// For all algorithms of TensorFlow's that run on CPUs: Philox, and the one that is chosen for the device.
bool is_known_algorithm(const Nodes& nodes, const NodeDef& node) {
  constexpr std::int64_t philox = 1, chosen = 3;
  const auto algorithm = nodes.number(node.inputs[1]);
  return !algorithm || *algorithm == philox || *algorithm == chosen;
}

class GeneratorSplitter {
 public:
  explicit GeneratorSplitter(GraphDef& graph) : graph_(graph) {}

  void run() {
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), uses_generator)) return;
    std::vector<std::size_t> found;
    {
      const Nodes nodes(graph_);
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
        if (uses_generator(graph_.nodes[i]) && is_known_algorithm(nodes, graph_.nodes[i])) found.push_back(i);
    }
    if (found.empty()) return;
    for (const NodeDef& each : graph_.nodes) names_.insert(each.name);
    for (const std::size_t i : found) split(i);
  }

 private:
  using Inputs = std::vector<std::string>;
  static Inputs waits_of(const NodeDef& node) {
    return {node.inputs.begin() + static_cast<std::ptrdiff_t>(data_inputs(node)), node.inputs.end()};
  }

  void split(std::size_t place) {
    const std::size_t first_added = graph_.nodes.size();
    const NodeDef node = graph_.nodes[place];
    NodeAdder add(graph_.nodes, names_, node.name + "/_/", node.device);
    const Inputs waits = waits_of(node);
    Inputs handle{node.inputs[0]};
    handle.insert(handle.end(), waits.begin(), waits.end());
    const std::string state = add.op("ReadVariableOp", handle, {{"dtype", code_of(int64)}}, "read");
    const Draw* draw = find_draw(node);
    const std::string count = !draw                           ? node.inputs[2]
                              : node.op.ends_with("Binomial") ? size_of_binomial(add, node)
                                                              : size_of(add, node);
    const std::string change = advance(add, node.inputs[0], state, count);
    NodeDef& last = graph_.nodes[place];
    if (draw) {
      draw_from(add, state, *draw, node, last);
    } else if (node.op == "RngSkip") {
      last.op = "NoOp";
      last.inputs.clear();
    } else {
      last.op = "Identity";
      last.inputs = {state};
    }
    if (!draw) last.attrs = last.inputs.empty() ? AttrDefs() : AttrDefs{{"T", code_of(int64)}};
    last.inputs.push_back("^" + change);
    // In a loop of TensorFlow 1, or on a side of a condition, constants belong to what they wait for.
    for (std::size_t i = first_added; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].inputs.empty()) graph_.nodes[i].inputs.push_back("^" + state);
  }

  static std::string part(NodeAdder& add, const std::string& state, std::int64_t begin, std::int64_t size) {
    return add.op("Slice", {state, add.shape("begin", Shape{begin}), add.shape("size", Shape{size})},
                  {{"T", code_of(int64)}, {"Index", code_of(int32)}});
  }
  static std::string number(NodeAdder& add, double value) {
    return add.constant("number", detail::make_scalar(value, int64));
  }

  static std::string product_of(NodeAdder& add, const std::string& sizes, TypeCode type) {
    const std::string whole = add.op("Cast", {sizes}, {{"SrcT", type}, {"DstT", code_of(int64)}});
    return add.op("Prod", {whole, add.number("axis", 0)},
                  {{"T", code_of(int64)}, {"Tidx", code_of(int32)}, {"keep_dims", false}});
  }

  /// The number of elements that a node draws.
  static std::string size_of(NodeAdder& add, const NodeDef& node) {
    const auto* type = attr_of<TypeCode>(node, node.op.ends_with("Binomial") ? "S" : "shape_dtype");
    return product_of(add, node.inputs[2], type ? *type : code_of(int64));
  }

  /// What TensorFlow reserves for binomial numbers: for each pair of parameters 50 times the number of samples and 3.
  static std::string size_of_binomial(NodeAdder& add, const NodeDef& node) {
    const auto* type = attr_of<TypeCode>(node, "T");
    const auto shape = [&](const std::string& tensor) {
      return add.op("Shape", {tensor}, {{"T", type ? *type : code_of(float64)}, {"out_type", code_of(int32)}});
    };
    const auto whole = [&](std::string_view op, const std::string& a, const std::string& b) {
      return add.op(op, {a, b}, {{"T", code_of(int64)}});
    };
    const std::string common =
        add.op("BroadcastArgs", {shape(node.inputs[3]), shape(node.inputs[4])}, {{"T", code_of(int32)}});
    const std::string pairs = product_of(add, common, code_of(int32));
    const std::string samples = whole("FloorDiv", size_of(add, node), pairs);
    return whole("FloorDiv",
                 whole("Mul", whole("Mul", pairs, number(add, 200)), whole("AddV2", samples, number(add, 3))),
                 number(add, 4));
  }

  /// Adds 256 times as many numbers as are drawn to the counter, the first two elements of the state, as 128 bits.
  /// Returns the node that assigns the state.
  static std::string advance(NodeAdder& add, const std::string& handle, const std::string& state,
                             const std::string& count) {
    const auto whole = [&](std::string_view op, const std::string& a, const std::string& b) {
      return add.op(op, {a, b}, {{"T", code_of(int64)}});
    };
    constexpr double reserved = 256;
    const std::string low = part(add, state, 0, 1),
                      sum = whole("AddV2", low, whole("Mul", count, number(add, reserved)));
    // Numbers without a sign have the order of those with one, from the least of these on.
    const std::string least = number(add, -0x1p63);
    const std::string carries = whole("Less", whole("AddV2", sum, least), whole("AddV2", low, least));
    const std::string carry = add.op("Cast", {carries}, {{"SrcT", code_of(boolean)}, {"DstT", code_of(int64)}});
    const std::string high = whole("AddV2", part(add, state, 1, 1), carry);
    const std::string next = add.op("ConcatV2", {sum, high, part(add, state, 2, -1), add.number("axis", 0)},
                                    {{"N", std::int64_t{3}}, {"T", code_of(int64)}, {"Tidx", code_of(int32)}});
    return add.op("AssignVariableOp", {handle, next}, {{"dtype", code_of(int64)}}, "assign");
  }

  static void draw_from(NodeAdder& add, const std::string& state, const Draw& draw, const NodeDef& node,
                        NodeDef& last) {
    const auto* type = attr_of<TypeCode>(node, node.op.ends_with("Binomial") ? "S" : "shape_dtype");
    last.inputs = {node.inputs[2], part(add, state, 2, 1), part(add, state, 0, 2), add.number("algorithm", 1)};
    for (std::size_t i = 3; i < draw.inputs; ++i) last.inputs.push_back(node.inputs[i]);
    last.op = draw.stateless;
    last.attrs.erase("shape_dtype");
    last.attrs.emplace("dtype", draw.dtype);
    last.attrs["Tshape"] = type ? *type : code_of(int64);
  }

  GraphDef& graph_;
  FileNames names_;
};

/// The op that draws by a seed what an op draws from the stream; "" for any other op.
std::string_view seeded_op(const NodeDef& node) {
  if (data_inputs(node) != 2) return {};
  return node.op == "RandomGamma"                                     ? "StatelessRandomGammaV2"
         : node.op == "RandomPoisson" || node.op == "RandomPoissonV2" ? "StatelessRandomPoisson"
                                                                      : "";
}

void seed_draws(GraphDef& graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(),
                   [](const NodeDef& each) { return !seeded_op(each).empty(); }))
    return;
  FileNames names;
  for (const NodeDef& each : graph.nodes) names.insert(each.name);
  for (std::size_t i = 0, count = graph.nodes.size(); i < count; ++i) {
    NodeDef node = graph.nodes[i];
    const std::string_view op = seeded_op(node);
    if (op.empty()) continue;
    const std::size_t first_added = graph.nodes.size();
    NodeAdder add(graph.nodes, names, node.name + "/_/", node.device);
    const auto type = [&](const char* name, DType otherwise) {
      const auto* known = attr_of<TypeCode>(node, name);
      return known ? *known : code_of(otherwise);
    };
    const bool is_gamma = node.op == "RandomGamma";
    const TypeCode sizes = type("S", int32);
    const TypeCode parameter =
        is_gamma ? type("T", float32) : type(node.op == "RandomPoisson" ? "dtype" : "R", float64);
    AttrDefs drawn{{"T", code_of(int32)}, {"Tout", code_of(int64)}};
    for (const char* each : {"seed", "seed2"})
      if (const auto found = node.attrs.find(each); found != node.attrs.end()) drawn.insert(*found);
    std::vector<std::string> range{add.shape("two", Shape{2}), add.constant("low", detail::make_scalar(0, int64)),
                                   add.constant("high", detail::make_scalar(0x7fffffff, int64))};
    range.insert(range.end(), node.inputs.begin() + 2, node.inputs.end());
    const std::string seed = add.op("RandomUniformInt", range, drawn, "seed");
    const std::string own = add.op("Shape", {node.inputs[1]}, {{"T", parameter}, {"out_type", sizes}});
    const std::string shape = add.op("ConcatV2", {node.inputs[0], own, add.number("axis", 0)},
                                     {{"N", std::int64_t{2}}, {"T", sizes}, {"Tidx", code_of(int32)}});
    node.inputs.erase(node.inputs.begin());
    node.inputs.insert(node.inputs.begin(), {shape, seed});
    node.op = op;
    const TypeCode result = is_gamma ? parameter : type("dtype", int64);
    node.attrs = {{"T", sizes}, {"Tseed", code_of(int64)}, {"Rtype", parameter}, {"dtype", result}};
    for (std::size_t k = first_added; k < graph.nodes.size(); ++k)
      if (graph.nodes[k].inputs.empty()) graph.nodes[k].inputs.push_back("^" + producer_name(node.inputs[2]));
    graph.nodes[i] = std::move(node);
  }
}

}  // namespace

void split_generators(GraphDef& file) {
  seed_draws(file);
  GeneratorSplitter(file).run();
  for (NodeDef& each : file.nodes) {
    if (!each.flow) continue;
    Flow flow = *each.flow;
    for (FunctionBody& function : flow.functions) split_generators(function.graph);
    each.flow = std::make_shared<const Flow>(std::move(flow));
  }
}

}  // namespace tapestry::io
