// Images whose channels come before their rows and columns (NCHW), and volumes (NCDHW): the op with the channels last,
// between two transpositions.

#include <algorithm>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// An op that has a data format: which of its inputs are images, which are the sizes of one, and whether its first
/// output is an image.
struct Formatted {
  std::string_view op;
  int inputs;
  std::vector<std::size_t> images;
  std::vector<std::size_t> values = {};  ///< other inputs whose values are needed
  std::vector<std::size_t> sizes = {};
  bool gives_image = true;
  std::vector<OutputType> outputs = {like(0)};
};

const std::vector<Formatted>& formatted_ops() {
  static const auto& ops = *new std::vector<Formatted>{
      {.op = "AvgPool", .inputs = 1, .images = {0}},
      {.op = "AvgPool3D", .inputs = 1, .images = {0}},
      {.op = "AvgPool3DGrad", .inputs = 2, .images = {1}, .sizes = {0}, .outputs = {like(1)}},
      {.op = "AvgPoolGrad", .inputs = 2, .images = {1}, .sizes = {0}, .outputs = {like(1)}},
      {.op = "BiasAdd", .inputs = 2, .images = {0}},
      {.op = "BiasAddGrad", .inputs = 1, .images = {0}, .gives_image = false},
      {.op = "Conv2D", .inputs = 2, .images = {0}},
      {.op = "Conv2DBackpropFilter", .inputs = 3, .images = {0, 2}, .values = {1}, .gives_image = false},
      {.op = "Conv2DBackpropInput", .inputs = 3, .images = {2}, .sizes = {0}, .outputs = {like(2)}},
      {.op = "Conv3D", .inputs = 2, .images = {0}},
      {.op = "Conv3DBackpropFilterV2", .inputs = 3, .images = {0, 2}, .values = {1}, .gives_image = false},
      {.op = "Conv3DBackpropInputV2", .inputs = 3, .images = {2}, .sizes = {0}, .outputs = {like(2)}},
      {.op = "DepthToSpace", .inputs = 1, .images = {0}},
      {.op = "DepthwiseConv2dNative", .inputs = 2, .images = {0}},
      {.op = "DepthwiseConv2dNativeBackpropFilter", .inputs = 3, .images = {0, 2}, .values = {1}, .gives_image = false},
      {.op = "DepthwiseConv2dNativeBackpropInput", .inputs = 3, .images = {2}, .sizes = {0}, .outputs = {like(2)}},
      {.op = "FusedBatchNorm", .inputs = 5, .images = {0}, .outputs = {like(0), like(3), like(4), like(3), like(4)}},
      {.op = "FusedBatchNormGrad",
       .inputs = 5,
       .images = {0, 1},
       .outputs = {like(0), like(2), like(2), like(2), like(2)}},
      {.op = "FusedBatchNormGradV2",
       .inputs = 5,
       .images = {0, 1},
       .outputs = {like(0), like(2), like(2), like(2), like(2)}},
      {.op = "FusedBatchNormGradV3",
       .inputs = 6,
       .images = {0, 1},
       .outputs = {like(0), like(2), like(2), like(2), like(2)}},
      {.op = "FusedBatchNormV2", .inputs = 5, .images = {0}, .outputs = {like(0), like(3), like(4), like(3), like(4)}},
      {.op = "FusedBatchNormV3",
       .inputs = 5,
       .images = {0},
       .outputs = {like(0), like(3), like(4), like(3), like(4), like(3)}},
      {.op = "MaxPool", .inputs = 1, .images = {0}},
      {.op = "MaxPool3D", .inputs = 1, .images = {0}},
      {.op = "MaxPool3DGrad", .inputs = 3, .images = {0, 1, 2}},
      {.op = "MaxPoolGrad", .inputs = 3, .images = {0, 1, 2}},
      {.op = "MaxPoolGradV2", .inputs = 5, .images = {0, 1, 2}, .sizes = {3, 4}},
      {.op = "MaxPoolV2", .inputs = 3, .images = {0}, .sizes = {1, 2}},
      {.op = "SpaceToDepth", .inputs = 1, .images = {0}},
  };
  return ops;
}

bool has_channels_first(const NodeDef& def) {
  const auto found = def.attrs.find("data_format");
  const auto* format = found == def.attrs.end() ? nullptr : std::get_if<std::string>(&found->second);
  return format && (*format == "NCHW" || *format == "NCDHW");
}

/// The order of axes that moves the channels to the end, or from there to the front.
std::vector<std::int64_t> axes_to_last(std::int64_t rank) {
  std::vector<std::int64_t> axes{0};
  for (std::int64_t i = 2; i < rank; ++i) axes.push_back(i);
  if (rank > 1) axes.push_back(1);
  return axes;
}
std::vector<std::int64_t> axes_from_last(std::int64_t rank) {
  std::vector<std::int64_t> axes{0};
  if (rank > 1) axes.push_back(rank - 1);
  for (std::int64_t i = 1; i + 1 < rank; ++i) axes.push_back(i);
  return axes;
}

/// A list of some numbers for each axis, in the order of the channels last.
std::vector<std::int64_t> reordered(const ForeignNode& n, const std::vector<std::int64_t>& list, std::int64_t each) {
  const auto rank = static_cast<std::int64_t>(list.size()) / each;
  if (list.empty()) return list;
  if (rank < 2 || rank > Shape::max_rank || std::cmp_not_equal(rank * each, list.size()))
    n.node.refuse(detail::join("it has a list of ", list.size(), " numbers"));
  std::vector<std::int64_t> made;
  for (const std::int64_t axis : axes_to_last(rank))
    made.insert(made.end(), list.begin() + axis * each, list.begin() + (axis + 1) * each);
  return made;
}

/// The node with the channels last.
NodeDef with_channels_last(const ForeignNode& n) {
  NodeDef def = n.node.def();
  def.name += "/_/channels_last";
  def.attrs.insert_or_assign("data_format", n.node.attr<std::string>("data_format") == "NCHW" ? "NHWC" : "NDHWC");
  for (const std::string name : {"strides", "ksize", "dilations", "explicit_paddings"})
    if (const auto* list = n.node.find<ListDef>(name))
      def.attrs.insert_or_assign(name, ListDef{.ints = reordered(n, list->ints, name == "explicit_paddings" ? 2 : 1)});
  return def;
}

Tensors read_channels_first(const ForeignNode& n) {
  const auto& all = formatted_ops();
  const Formatted& op =
      *std::find_if(all.begin(), all.end(), [&](const Formatted& each) { return each.op == n.node.def().op; });
  const NodeDef def = with_channels_last(n);
  std::vector<Source> sources;
  Tensors inputs = n.inputs, values(n.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i < n.node.input_count()) sources.push_back(n.node.input(i));
    if (n.node.is_constant(i)) values[i] = n.node.constant(i);
  }
  for (const std::size_t i : op.sizes) values[i] = vector_of(reordered(n, n.numbers(i), 1), values[i].dtype());
  int rank = 0;
  {
    const NameScope inside(n.name() + "/_/", n.where);
    for (const std::size_t i : op.images) {
      rank = inputs[i].shape().rank();
      if (rank < 2) n.node.refuse(detail::join("its input has the shape ", inputs[i].shape()));
      inputs[i] = transpose(inputs[i], Ints(axes_to_last(rank)));
    }
  }
  Tensors outputs = read_op(NodeReader(def, sources, values), inputs, n.where);
  outputs[0] =
      op.gives_image ? transpose(outputs[0], Ints(axes_from_last(rank)), n.name()) : identity(outputs[0], n.name());
  return outputs;
}

}  // namespace

ForeignOps foreign_channels_first() {
  ForeignOps ops;
  for (const Formatted& each : formatted_ops()) {
    std::vector<std::size_t> values = each.sizes;
    values.insert(values.end(), each.values.begin(), each.values.end());
    ops.push_back({.name = each.op,
                   .inputs = each.inputs,
                   .values = values,
                   .applies = has_channels_first,
                   .lacks_sizes = lacks_any_size,
                   .outputs = each.outputs,
                   .read = read_channels_first});
  }
  return ops;
}

}  // namespace tapestry::io
