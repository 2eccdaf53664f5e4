#include "io/tensorflow/tile_gradients.hpp"

#include "core/make_tensor.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/node_adder.hpp"
#include "io/tensorflow/nodes.hpp"

namespace tapestry::io {
namespace {

/// The gradient of Tile(x, multiples).
struct TileGradient {
  std::string of_result{};           ///< the gradient of the Tile's result
  std::string multiples{}, sizes{};  ///< whole numbers, one for each axis of x
  TypeCode number{}, dtype{};        ///< the types of those, and of the gradients
  int rank = 0;
};

/// The values of a constant with few whole numbers; none for another node.
std::vector<std::int64_t> few_numbers(const Nodes& nodes, const std::string& tensor) {
  const Tensor values = nodes.whole_numbers(tensor);
  return bool(values) && values.size() <= Shape::max_rank ? values.to_vector<std::int64_t>()
                                                          : std::vector<std::int64_t>();
}

/// The gradient that a node is if its tensor has too many axes.
std::optional<TileGradient> too_wide(const Nodes& nodes, const NodeDef& sum) {
  if (sum.op != "Sum" || data_inputs(sum) != 2) return {};
  if (const bool* keeps = attr_of<bool>(sum, "keep_dims"); keeps && *keeps) return {};
  const NodeDef* axes = nodes.source(sum.inputs[1], "Range", 3);
  const NodeDef* wide = nodes.source(sum.inputs[0], "Reshape", 2);
  if (!axes || !wide || nodes.number(axes->inputs[0]) != 0 || nodes.number(axes->inputs[2]) != 2) return {};
  const std::int64_t axis_count = nodes.number(axes->inputs[1]).value_or(0);
  if (axis_count <= Shape::max_rank || axis_count > 2 * Shape::max_rank || axis_count % 2 != 0) return {};
  const NodeDef* flat = nodes.source(wide->inputs[1], "Reshape", 2);
  const NodeDef* columns =
      flat && nodes.number(flat->inputs[1]) == -1 ? nodes.source(flat->inputs[0], "Transpose", 2) : nullptr;
  const NodeDef* rows = columns ? nodes.source(columns->inputs[0], "Pack", 2) : nullptr;
  if (!rows || few_numbers(nodes, columns->inputs[1]) != std::vector<std::int64_t>{1, 0}) return {};
  const auto* axis = attr_of<std::int64_t>(*rows, "axis");
  const auto *number = attr_of<TypeCode>(*rows, "T"), *dtype = attr_of<TypeCode>(sum, "T");
  if ((axis && *axis != 0) || !number || !dtype) return {};
  return TileGradient{wide->inputs[0], rows->inputs[0], rows->inputs[1],
                      *number,         *dtype,          static_cast<int>(axis_count / 2)};
}

class TileGradientSplitter {
 public:
  explicit TileGradientSplitter(GraphDef& graph) : graph_(graph) {}

  void run() {
    std::vector<std::pair<std::size_t, TileGradient>> found;
    std::vector<std::vector<std::int64_t>> multiples;  // none where they are computed
    const Nodes nodes(graph_);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (const auto gradient = too_wide(nodes, graph_.nodes[i])) {
        found.emplace_back(i, *gradient);
        multiples.push_back(few_numbers(nodes, gradient->multiples));
      }
    for (const NodeDef& each : graph_.nodes) names_.insert(each.name);
    for (std::size_t k = 0; k < found.size(); ++k) split(found[k].first, found[k].second, multiples[k]);
  }

 private:
  void split(std::size_t place, const TileGradient& gradient, const std::vector<std::int64_t>& multiples) {
    const std::size_t first_added = graph_.nodes.size();
    NodeAdder add(graph_.nodes, names_, graph_.nodes[place].name + "/_/", graph_.nodes[place].device);
    const AttrDefs numbers{{"T", gradient.number}};
    const auto product_of = [&](const std::string& list, int begin, int size) {
      const std::string part = add.op("Slice", {list, first(add, begin), first(add, size)},
                                      {{"T", gradient.number}, {"Index", code_of(int32)}});
      return add.op("Prod", {part, add.number("axis", 0)},
                    {{"T", gradient.number}, {"Tidx", code_of(int32)}, {"keep_dims", false}});
    };
    const AttrDefs reshaped{{"T", gradient.dtype}, {"Tshape", gradient.number}};
    std::string sum = gradient.of_result;
    for (int axis = 0; axis < gradient.rank; ++axis) {
      if (std::cmp_less(axis, multiples.size()) && multiples[axis] == 1) continue;
      const std::string rest =
          add.op("Mul", {product_of(gradient.sizes, axis, -1), product_of(gradient.multiples, axis + 1, -1)}, numbers);
      const std::string repeated = product_of(gradient.multiples, axis, 1);
      const std::string shape = add.op("Pack", {product_of(gradient.sizes, 0, axis), repeated, rest},
                                       {{"T", gradient.number}, {"N", std::int64_t{3}}, {"axis", std::int64_t{0}}});
      sum = add.op("Sum", {add.op("Reshape", {sum, shape}, reshaped), add.number("axis", 1)},
                   {{"T", gradient.dtype}, {"Tidx", code_of(int32)}, {"keep_dims", false}});
    }
    // In a loop of TensorFlow 1, or on a side of a condition, constants belong to what they wait for.
    for (std::size_t i = first_added; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].inputs.empty()) graph_.nodes[i].inputs.push_back("^" + producer_name(gradient.of_result));
    NodeDef& last = graph_.nodes[place];
    std::vector<std::string> inputs{sum, gradient.sizes};
    inputs.insert(inputs.end(), last.inputs.begin() + 2, last.inputs.end());  // those that it waits for
    last.op = "Reshape";
    last.inputs = std::move(inputs);
    last.attrs = reshaped;
  }
  static std::string first(NodeAdder& add, int number) { return add.shape("numbers", Shape{number}); }

  GraphDef& graph_;
  FileNames names_;
};

}  // namespace

void split_tile_gradients(GraphDef& file) {
  TileGradientSplitter(file).run();
  for (NodeDef& each : file.nodes) {
    if (!each.flow) continue;
    Flow flow = *each.flow;
    for (FunctionBody& function : flow.functions) split_tile_gradients(function.graph);
    each.flow = std::make_shared<const Flow>(std::move(flow));
  }
}

}  // namespace tapestry::io
