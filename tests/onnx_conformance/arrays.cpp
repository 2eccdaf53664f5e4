#include <limits>

#include "onnx_conformance/ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::onnx_case {
namespace {

using Axis = std::int64_t;

/// Positions that count from the end where they are negative, as ours do not.
Tensor from_the_start(const Tensor& indices, std::int64_t size) {
  return where(less(indices, 0), indices + size, indices);
}

/// The axes come as an attribute or, newer, as an input.
Ints axes_of(const Node& node, const Inputs& in) { return optional_input(in, 1) ? ints_of(in[1]) : node.ints("axes"); }

Outputs sliced(const Node&, const Inputs& in) {
  const Tensor& x = in.at(0);
  const Ints starts = ints_of(in.at(1)), ends = ints_of(in.at(2));
  Ints axes, steps(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<Axis>(i));
  std::fill(steps.begin(), steps.end(), 1);
  if (optional_input(in, 3)) axes = ints_of(in[3]);
  if (optional_input(in, 4)) steps = ints_of(in[4]);
  Tensor y = x;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = normalize_axis(axes[i], x.rank());
    const std::int64_t size = x.shape()[axis];
    // An end before the first element, which Python writes as None, is one that stays negative.
    const bool to_the_start = steps[i] < 0 && ends[i] < -size;
    const RangeIndex part = range(starts[i], to_the_start ? std::optional<Axis>() : ends[i], steps[i]);
    y = axis == 0 ? y(part) : axis == 1 ? y(all, part) : axis == 2 ? y(all, all, part) : y(all, all, all, part);
  }
  return {y};
}

Outputs reshaped(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  Ints sizes = ints_of(in.at(1));
  if (node.whole("allowzero", 0) == 0)
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0) sizes[i] = x.shape()[static_cast<int>(i)];
  return {reshape(x, shape_of(sizes))};
}

Outputs flattened(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const Axis given = node.whole("axis", 1);
  std::int64_t rows = 1;
  for (int i = 0; i < (given < 0 ? given + x.rank() : given); ++i) rows *= x.shape()[i];
  return {reshape(x, {rows, -1})};
}

/// TensorFlow's and ONNX's broadcasting differ: this one goes both ways.
Outputs expanded(const Node&, const Inputs& in) {
  const Tensor& x = in.at(0);
  return {broadcast_to(x, broadcast_shapes(x.shape(), shape_of(ints_of(in.at(1)))))};
}

Outputs split_up(const Node& node, const Inputs& in) {
  const Axis axis = node.whole("axis", 0);
  if (!optional_input(in, 1)) return split(in.at(0), node.outputs.size(), axis);
  const Ints sizes = ints_of(in[1]);
  return split(in.at(0), SplitParts(std::vector<std::int64_t>(sizes.begin(), sizes.end())), axis);
}

Outputs padded(const Node& node, const Inputs& in) {
  const Ints widths = ints_of(in.at(1));
  const std::string mode = node.text("mode", "constant");
  if (mode == "edge") throw Inexpressible{"padding with the elements of the edge"};
  std::vector<Padding> pairs;
  for (std::size_t i = 0; i < widths.size() / 2; ++i) pairs.push_back({widths[i], widths[i + widths.size() / 2]});
  const Tensor value = optional_input(in, 2);
  return {pad(
      in.at(0), pairs,
      {.mode = mode == "reflect" ? PadMode::reflect : PadMode::constant, .value = value ? value.item<double>() : 0})};
}

Outputs gathered(const Node& node, const Inputs& in) {
  const int axis = normalize_axis(node.whole("axis", 0), in.at(0).rank());
  return {gather(in[0], from_the_start(in.at(1), in[0].shape()[axis]), axis)};
}

Outputs gathered_elements(const Node& node, const Inputs& in) {
  const int axis = normalize_axis(node.whole("axis", 0), in.at(0).rank());
  return {take_along_axis(in[0], from_the_start(in.at(1), in[0].shape()[axis]), axis)};
}

/// Updates at coordinates, which replace what is there or are added to it.
Tensor scattered(const Node& node, const Tensor& x, const Tensor& coordinates, const Tensor& updates) {
  const std::string how = node.text("reduction", "none");
  if (how != "none" && how != "add") throw Inexpressible{"updates that are multiplied"};
  return tensor_scatter_nd_add(x, coordinates, how == "add" ? updates : updates - gather_nd(x, coordinates));
}

Outputs scattered_elements(const Node& node, const Inputs& in) {
  const Tensor &x = in.at(0), &indices = in.at(1);
  const int axis = normalize_axis(node.whole("axis", 0), x.rank());
  std::vector<Tensor> coordinates;
  for (int i = 0; i < x.rank(); ++i) {
    Ints others;
    for (int k = 0; k < x.rank(); ++k)
      if (k != i) others.push_back(k);
    const Tensor along = expand_dims(arange(indices.shape()[i]).cast(indices.dtype()), others);
    coordinates.push_back(i == axis ? from_the_start(indices, x.shape()[i]) : broadcast_like(along, indices));
  }
  return {scattered(node, x, stack(coordinates, -1), in.at(2))};
}

Outputs one_hot_values(const Node& node, const Inputs& in) {
  const auto depth = in.at(1).item<std::int64_t>();
  const Tensor rows = one_hot(from_the_start(in.at(0).cast(int64), depth), depth, in.at(2).dtype());
  const int axis = normalize_axis(node.whole("axis", -1), rows.rank());
  Ints perm;
  for (int i = 0; i < rows.rank(); ++i) perm.push_back(i < axis ? i : i == axis ? rows.rank() - 1 : i - 1);
  return {in[2](0) + (in[2](1) - in[2](0)) * transpose(rows, perm)};
}

Outputs triangle(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const bool upper = node.whole("upper", 1) != 0;
  const std::int64_t k = optional_input(in, 1) ? in[1].item<std::int64_t>() : 0;
  if (upper) return {k <= 0 ? band_part(x, -k, -1) : x - band_part(x, -1, k - 1)};
  return {k >= 0 ? band_part(x, -1, k) : x - band_part(x, -k - 1, -1)};
}

Outputs eye_like(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const DType dtype = node.has("dtype") ? type_of_code(node.whole("dtype", 0)) : x.dtype();
  const Tensor row = expand_dims(arange(x.shape()[0]), 1), column = arange(x.shape()[1]);
  return {equal(row + node.whole("k", 0), column).cast(dtype)};
}

Outputs shape_part(const Node& node, const Inputs& in) {
  const std::int64_t end = node.whole("end", std::numeric_limits<std::int64_t>::max());
  return {shape(in.at(0))(range(node.whole("start", 0), end))};
}

Outputs constant_of_shape(const Node& node, const Inputs& in) {
  const Tensor value = node.tensor("value");
  const Shape shape = shape_of(ints_of(in.at(0)));
  return {value ? broadcast_to(reshape(value, {}), shape) : zeros(shape)};
}

Outputs counted(const Node&, const Inputs& in) {
  const double start = in.at(0).item<double>(), stop = in.at(1).item<double>(), step = in.at(2).item<double>();
  return {arange(start, stop, step).cast(in[0].dtype())};
}

/// Blocks of depth become blocks of the plane, and the reverse: an image is cut into axes, which change their places.
Outputs depth_to_space(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const Shape& s = x.shape();
  const std::int64_t b = node.whole("blocksize", 0), channels = s[1] / (b * b);
  const bool depth_first = node.text("mode", "DCR") == "DCR";
  const Tensor cut =
      reshape(x, depth_first ? Shape{s[0], b, b, channels, s[2], s[3]} : Shape{s[0], channels, b, b, s[2], s[3]});
  const Tensor placed = transpose(cut, depth_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
  return {reshape(placed, {s[0], channels, s[2] * b, s[3] * b})};
}

Outputs space_to_depth(const Node& node, const Inputs& in) {
  const Shape& s = in.at(0).shape();
  const std::int64_t b = node.whole("blocksize", 0);
  const Tensor cut = reshape(in[0], {s[0], s[1], s[2] / b, b, s[3] / b, b});
  return {reshape(transpose(cut, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * b * b, s[2] / b, s[3] / b})};
}

}  // namespace

Functions array_functions() {
  Functions table;
  table["Concat"] = [](const Node& node, const Inputs& in) -> Outputs { return {concat(in, node.whole("axis", 0))}; };
  table["Constant"] = [](const Node& node, const Inputs&) -> Outputs {
    return {node.has("value_int") ? tensor(node.whole("value_int", 0)) : node.tensor("value")};
  };
  table["ConstantOfShape"] = constant_of_shape;
  table["DepthToSpace"] = depth_to_space;
  table["Expand"] = expanded;
  table["EyeLike"] = eye_like;
  table["Flatten"] = flattened;
  table["Gather"] = gathered;
  table["GatherElements"] = gathered_elements;
  table["GatherND"] = [](const Node& node, const Inputs& in) -> Outputs {
    if (node.whole("batch_dims", 0) != 0) throw Inexpressible{"coordinates for each example of a batch"};
    return {gather_nd(in.at(0), in.at(1))};
  };
  table["OneHot"] = one_hot_values;
  table["Pad"] = padded;
  table["Range"] = counted;
  table["Reshape"] = reshaped;
  table["Scatter"] = table["ScatterElements"] = scattered_elements;
  table["ScatterND"] = [](const Node& node, const Inputs& in) -> Outputs {
    return {scattered(node, in.at(0), in.at(1), in.at(2))};
  };
  table["Shape"] = shape_part;
  table["Size"] = [](const Node&, const Inputs& in) -> Outputs { return {size(in.at(0))}; };
  table["Slice"] = sliced;
  table["SpaceToDepth"] = space_to_depth;
  table["Split"] = split_up;
  table["Squeeze"] = [](const Node& node, const Inputs& in) -> Outputs {
    const Ints axes = axes_of(node, in);
    return {axes.empty() ? squeeze(in.at(0)) : squeeze(in.at(0), axes)};
  };
  table["Tile"] = [](const Node&, const Inputs& in) -> Outputs { return {tile(in.at(0), ints_of(in.at(1)))}; };
  table["Transpose"] = [](const Node& n, const Inputs& in) -> Outputs { return {transpose(in.at(0), n.ints("perm"))}; };
  table["Trilu"] = triangle;
  table["Unsqueeze"] = [](const Node& node, const Inputs& in) -> Outputs {
    return {expand_dims(in.at(0), axes_of(node, in))};
  };
  return table;
}

}  // namespace tapestry::test::onnx_case
