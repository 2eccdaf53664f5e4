#include "io/tensorflow/foreign_ops.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "io/tensorflow/resize.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {
namespace {

/// More elements than a list of indices of any real graph has.
constexpr std::int64_t most_numbers = 1 << 24;
/// Longer than any list that a real graph stitches together, and than a side of any image.
constexpr std::int64_t most_places = 1 << 20;
/// More than any block size of a real graph.
constexpr std::int64_t most_blocks = 1 << 12;

/// a * b. Throws InvalidArgumentError when it is too large for a size.
std::int64_t product(std::int64_t a, std::int64_t b) { return Shape{a, b}.size(); }

// ---- Conditions -----------------------------------------------------------------------------------------------------

bool lacks_rank(const NodeReader&, const Tensors& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return bool(x) && !x.shape().has_rank(); });
}
bool lacks_any_size(const NodeReader&, const Tensors& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [](const Tensor& x) { return bool(x) && !x.shape().is_known(); });
}
/// For images: their number does not matter.
bool lacks_image_sizes(const NodeReader&, const Tensors& inputs) {
  const Shape& shape = inputs[0].shape();
  return shape.rank() != 4 ? !shape.has_rank() : shape.sizes()[1] < 0 || shape.sizes()[2] < 0 || shape.sizes()[3] < 0;
}
/// For a placeholder with a default: another tensor may be fed, so it is read only when the feeds are known.
bool always(const NodeReader&, const Tensors&) { return true; }

[[noreturn]] void lack(const ForeignNode& n, std::string_view what) {
  throw UnimplementedError(
      detail::join("Node '", n.name(), "' (op: '", n.node.def().op, "'): Tapestry lacks its ", what));
}

void require_nhwc(const ForeignNode& n) {
  if (n.node.attr_or<std::string>("data_format", "NHWC") != "NHWC") lack(n, "'data_format'");
}

void require_images(const ForeignNode& n) {
  if (n.in(0).shape().rank() != 4) n.node.refuse(detail::join("its input is no image: ", n.in(0).shape()));
}

// ---- Constants ------------------------------------------------------------------------------------------------------

Tensor constant_node(const Tensor& value, const std::string& name, Where where) {
  return add_op(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, name, where)[0];
}

Tensor vector_of(const std::vector<std::int64_t>& numbers, DType dtype) {
  Tensor value = detail::make_tensor(dtype, {static_cast<std::int64_t>(numbers.size())}, cpu());
  detail::visit_dtype(dtype, [&]<class T>() {
    std::transform(numbers.begin(), numbers.end(), detail::mutable_data<T>(value),
                   [](std::int64_t each) { return static_cast<T>(each); });
  });
  return value;
}

/// Adds constants as the outputs of a node.
Tensors constant_nodes(const ForeignNode& n, const std::vector<Tensor>& values) {
  Tensors outputs(values.size());
  for (std::size_t i = values.size(); i-- > 0;)
    outputs[i] = constant_node(values[i], i == 0 ? n.name() : detail::join(n.name(), "/_/", i), n.where);
  return outputs;
}

Tensors read_fill(const ForeignNode& n) {
  const OpRule& rule = *rule_of("Fill");
  if (n.node.is_constant(1)) return make_op(rule, n.node, {}, n.node.direct_attrs(rule), n.where);
  return {broadcast_to(n.in(1), n.shape(0), n.name())};
}

Tensors read_range(const ForeignNode& n) {
  double bounds[3];
  const DType dtype = n.node.constant(0).dtype();
  for (std::size_t i = 0; i < 3; ++i) {
    const Tensor value = n.node.constant(i);
    if (value.size() != 1 || value.dtype() != dtype || dtype == boolean) n.node.refuse("its bounds are no numbers");
    bounds[i] = value.item<double>();
  }
  if (!(std::abs(bounds[1] - bounds[0]) <= std::abs(bounds[2]) * most_numbers))
    n.node.refuse(detail::join("its bounds are ", bounds[0], " and ", bounds[1], ", its step is ", bounds[2]));
  return {arange(bounds[0], bounds[1], bounds[2], {.dtype = dtype}, n.name(), n.where)};
}

Tensors read_rank(const ForeignNode& n) {
  return {constant_node(detail::make_scalar(n.in(0).shape().rank(), int32), n.name(), n.where)};
}

Tensors read_shape_n(const ForeignNode& n) {
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("out_type", code_of(int32)));
  if (dtype != int32 && dtype != int64) n.node.refuse("its 'out_type' is neither int32 nor int64");
  Tensors shapes;
  {
    const NameScope inside(n.name() + "/_/", n.where);
    for (const Tensor& each : n.inputs) shapes.push_back(shape(each).cast(dtype));
  }
  shapes[0] = identity(shapes[0], n.name());
  return shapes;
}

Tensors read_broadcast_args(const ForeignNode& n) {
  const Shape both = broadcast_shapes(n.shape(0), n.shape(1));
  return {constant_node(vector_of(both.to_vector(), n.node.constant(0).dtype()), n.name(), n.where)};
}

/// The axes over which the gradients of broadcast operands are summed.
Tensors read_broadcast_gradient_args(const ForeignNode& n) {
  const Shape shapes[] = {n.shape(0), n.shape(1)};
  const int rank = broadcast_shapes(shapes[0], shapes[1]).rank();
  std::vector<Tensor> axes;
  for (std::size_t i = 0; i < 2; ++i) {
    std::vector<std::int64_t> list;
    for (int axis = 0; axis < rank; ++axis) {
      const int own = axis - rank + shapes[i].rank();
      if (own < 0 || shapes[i].sizes()[own] == 1) list.push_back(axis);
    }
    axes.push_back(vector_of(list, n.node.constant(i).dtype()));
  }
  return constant_nodes(n, axes);
}

/// The offset of each tensor in the result of `concat`, from the tensors' shapes.
Tensors read_concat_offset(const ForeignNode& n) {
  if (n.inputs.size() < 2) n.node.refuse("it has no shapes");
  const std::size_t rank = n.numbers(1).size();
  const auto axis = static_cast<std::size_t>(
      normalize_axis(n.number(0), static_cast<int>(std::min<std::size_t>(rank, Shape::max_rank))));
  std::vector<std::int64_t> offset(rank);
  std::vector<Tensor> values;
  for (std::size_t i = 1; i < n.inputs.size(); ++i) {
    const std::vector<std::int64_t> sizes = n.numbers(i);
    if (sizes.size() != rank)
      n.node.refuse(detail::join("its input ", i, " has ", sizes.size(), " elements, not ", rank));
    values.push_back(vector_of(offset, n.node.constant(i).dtype()));
    if (__builtin_add_overflow(offset[axis], sizes[axis], &offset[axis])) n.node.refuse("its sizes are too large");
  }
  return constant_nodes(n, values);
}

/// Merges several lists into one, by the positions of their elements.
Tensors read_dynamic_stitch(const ForeignNode& n) {
  const std::size_t count = n.inputs.size() / 2;
  if (n.inputs.size() != 2 * count) n.node.refuse("it has an odd number of inputs");
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::int64_t> places = n.numbers(i), numbers = n.numbers(count + i);
    if (places.size() != numbers.size()) n.node.refuse("its places and its numbers do not fit together");
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (places[k] < 0 || places[k] >= most_places) n.node.refuse(detail::join("it has the place ", places[k]));
      list.resize(std::max(list.size(), static_cast<std::size_t>(places[k]) + 1));
      list[places[k]] = numbers[k];
    }
  }
  return constant_nodes(n, {vector_of(list, n.node.constant(count).dtype())});
}

// ---- Elementwise ----------------------------------------------------------------------------------------------------

Tensors read_add_all(const ForeignNode& n) {
  const OpRule& add = *rule_of("AddV2");
  Tensor sum = n.in(0);
  if (n.inputs.size() == 1) return {identity(sum, n.name())};
  for (std::size_t i = 1; i < n.inputs.size(); ++i) {
    const bool last = i + 1 == n.inputs.size();
    sum = make_op(add, n.node, {sum, n.in(i)}, {}, n.where, last ? n.name() : detail::join(n.name(), "/AddV2_", i))[0];
  }
  return {sum};
}

Tensors read_relu6(const ForeignNode& n) {
  return n.composed([&] { return minimum(relu(n.in(0)), 6); });
}
Tensors read_selu(const ForeignNode& n) {
  // Klambauer et al. 2017, with TensorFlow's digits.
  constexpr double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
  return n.composed([&] { return relu(n.in(0)) * scale + expm1(minimum(n.in(0), 0)) * (scale * alpha); });
}
Tensors read_softsign(const ForeignNode& n) {
  return n.composed([&] { return n.in(0) / (abs(n.in(0)) + 1); });
}
Tensors read_erfc(const ForeignNode& n) {
  return n.composed([&] { return 1 - erf(n.in(0)); });
}
Tensors read_l2_loss(const ForeignNode& n) {
  return n.composed([&] { return reduce_sum(square(n.in(0))) * 0.5; });
}

/// The op of TensorFlow 1: a condition that is a vector selects rows.
Tensors read_select(const ForeignNode& n) {
  const Tensor &condition = n.in(0), &a = n.in(1), &b = n.in(2);
  if (condition.dtype() != boolean || a.dtype() != b.dtype()) n.node.refuse("its inputs have wrong types");
  if (condition.shape().rank() != 1 || a.shape().rank() < 2) return {where(condition, a, b, n.name())};
  return n.composed([&] {
    Ints axes;
    for (int axis = 1; axis < a.shape().rank(); ++axis) axes.push_back(axis);
    return where(expand_dims(condition, axes), a, b);
  });
}

Tensors read_identities(const ForeignNode& n) {
  Tensors copies(n.inputs.size());
  for (std::size_t i = n.inputs.size(); i-- > 0;)
    copies[i] = identity(n.in(i), i == 0 ? n.name() : detail::join(n.name(), "/_/", i));
  return copies;
}

Tensors read_default(const ForeignNode& n) { return {identity(n.in(0), n.name())}; }

// ---- Slices, joins --------------------------------------------------------------------------------------------------

std::vector<Padding> paddings_of(const ForeignNode& n, std::size_t input = 1) {
  const Tensor value = n.node.constant(input);
  if (value.rank() != 2 || value.shape().sizes()[1] != 2 || (value.dtype() != int32 && value.dtype() != int64))
    n.node.refuse("its paddings are no pairs of whole numbers");
  const std::vector<std::int64_t> list = n.node.listed(value);
  std::vector<Padding> paddings;
  for (std::size_t i = 0; i < list.size(); i += 2) paddings.push_back({list[i], list[i + 1]});
  return paddings;
}

Tensors read_pad(const ForeignNode& n) {
  Ints widths;
  for (const Padding& each : paddings_of(n)) {
    widths.push_back(each.before);
    widths.push_back(each.after);
  }
  return add_op(*rule_of("PadV2")->entry, {n.in(0)}, {{"paddings", widths}, {"constant_values", 0.0}}, n.name(),
                n.where);
}

Tensors read_mirror_pad(const ForeignNode& n) {
  const std::string& mode = n.node.attr<std::string>("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") n.node.refuse("its mode is " + mode);
  return n.composed([&] {
    return pad(n.in(0), paddings_of(n), {.mode = mode == "REFLECT" ? PadMode::reflect : PadMode::symmetric});
  });
}

Tensors read_one_hot(const ForeignNode& n) {
  const std::int64_t depth = n.number(1), axis = n.node.attr_or<std::int64_t>("axis", -1);
  if (depth < 0 || depth > most_numbers) n.node.refuse(detail::join("its depth is ", depth));
  if (axis != -1 && axis != n.in(0).shape().rank()) lack(n, "'axis'");
  if (n.in(2).dtype() != n.in(3).dtype()) n.node.refuse("its values have two types");
  return n.composed([&] { return where(one_hot(n.in(0), depth, boolean), n.in(2), n.in(3)); });
}

Tensors read_gather(const ForeignNode& n) { return {gather(n.in(0), n.in(1), 0, n.name())}; }

bool has_batches(const NodeDef& def) {
  const auto batches = def.attrs.find("batch_dims");
  const auto* count = batches == def.attrs.end() ? nullptr : std::get_if<std::int64_t>(&batches->second);
  return count && *count != 0;
}

/// Gathers from each row by the indices of that row.
Tensors read_batch_gather(const ForeignNode& n) {
  const Tensor &x = n.in(0), &indices = n.in(1);
  const int batches = normalize_axis(n.node.attr<std::int64_t>("batch_dims"), indices.shape().rank() + 1);
  if (batches >= x.shape().rank() || normalize_axis(n.number(2), x.shape().rank()) != batches)
    lack(n, "'batch_dims' beside that 'axis'");
  const auto sizes = [](const Shape& shape, int first) {
    return std::span(shape.sizes().begin() + first, shape.sizes().end());
  };
  Shape rows(std::span(indices.shape().sizes().begin(), indices.shape().sizes().begin() + batches));
  rows.push_back(Shape(sizes(indices.shape(), batches)).num_elements());
  Shape columns = rows, whole = rows, result = indices.shape();
  for (const std::int64_t size : sizes(x.shape(), batches + 1)) {
    columns.push_back(1);
    whole.push_back(size);
    result.push_back(size);
  }
  return n.composed([&] {
    const Tensor places = broadcast_to(reshape(indices, columns), whole);
    return reshape(take_along_axis(x, places, batches), result);
  });
}

Tensors read_einsum(const ForeignNode& n) {
  const std::string& equation = n.node.attr<std::string>("equation");
  for (const Tensor& each : n.inputs)
    if (each.dtype() != n.in(0).dtype()) n.node.refuse("its inputs have several types");
  return n.composed([&] { return einsum(equation, InList(n.inputs, n.where)); });
}

/// Moves blocks of channels to blocks of pixels (DepthToSpace), or back (SpaceToDepth).
Tensors read_depth_to_space(const ForeignNode& n) {
  require_nhwc(n);
  require_images(n);
  const auto block = n.node.attr<std::int64_t>("block_size");
  const Shape& shape = n.in(0).shape();
  const bool to_space = n.node.def().op == "DepthToSpace";
  // With block sizes up to this one, no product of sizes below overflows.
  const std::int64_t largest =
      to_space ? std::min(shape.sizes()[3], most_blocks) : std::min(shape.sizes()[1], shape.sizes()[2]);
  if (block < 1 || block > largest) n.node.refuse(detail::join("its block size is ", block, " for ", shape));
  const std::int64_t height = shape.sizes()[1], width = shape.sizes()[2], depth = shape.sizes()[3];
  return n.composed([&]() -> Tensor {
    if (to_space) {
      const Tensor blocks = reshape(n.in(0), {-1, height, width, block, block, depth / (block * block)});
      return reshape(transpose(blocks, {0, 1, 3, 2, 4, 5}),
                     {-1, height * block, width * block, depth / (block * block)});
    }
    const Tensor blocks = reshape(n.in(0), {-1, height / block, block, width / block, block, depth});
    return reshape(transpose(blocks, {0, 1, 3, 2, 4, 5}), {-1, height / block, width / block, depth * block * block});
  });
}

/// Moves blocks of pixels to images of the batch (SpaceToBatchND), or back (BatchToSpaceND). TensorFlow writes dilated
/// convolutions by these.
Tensors read_space_to_batch(const ForeignNode& n) {
  const Tensor& x = n.in(0);
  const std::vector<std::int64_t> blocks = n.numbers(1);
  const std::vector<Padding> borders = paddings_of(n, 2);
  if (x.shape().rank() != 4 || blocks.size() != 2 || borders.size() != 2 || blocks[0] < 1 || blocks[1] < 1 ||
      std::max(blocks[0], blocks[1]) > most_numbers)
    lack(n, "blocks of other than two axes of images");
  const Shape& sizes = x.shape();
  const std::int64_t rows = blocks[0], columns = blocks[1], depth = sizes.sizes()[3];
  return n.composed([&]() -> Tensor {
    if (n.node.def().op == "SpaceToBatchND") {
      const Tensor padded = pad(x, {{}, borders[0], borders[1], {}});
      const std::int64_t height = padded.shape().sizes()[1] / rows, width = padded.shape().sizes()[2] / columns;
      const Tensor parts = reshape(padded, {-1, height, rows, width, columns, depth});
      return reshape(transpose(parts, {2, 4, 0, 1, 3, 5}), {-1, height, width, depth});
    }
    const std::int64_t height = product(sizes.sizes()[1], rows), width = product(sizes.sizes()[2], columns);
    const Tensor parts = reshape(x, {rows, columns, -1, sizes.sizes()[1], sizes.sizes()[2], depth});
    const Tensor whole = reshape(transpose(parts, {2, 3, 0, 4, 1, 5}), {-1, height, width, depth});
    const auto [top, bottom] = borders[0];
    const auto [left, right] = borders[1];
    if (std::min({top, bottom, left, right}) < 0 || std::max({top, bottom, left, right}) > most_numbers)
      n.node.refuse("it crops what is not there");
    return slice(whole, {0, top, left, 0}, {-1, height - top - bottom, width - left - right, -1});
  });
}

/// The sum over all axes but the last.
Tensors read_bias_gradient(const ForeignNode& n) {
  require_nhwc(n);
  if (n.in(0).shape().rank() < 1) n.node.refuse("its input is a scalar");
  Ints axes;
  for (int axis = 0; axis + 1 < n.in(0).shape().rank(); ++axis) axes.push_back(axis);
  return add_op(*rule_of("Sum")->entry, {n.in(0)}, {{"axis", axes}, {"keep_dims", false}}, n.name(), n.where);
}

// ---- Images ---------------------------------------------------------------------------------------------------------

/// A tensor of zeros for ops that only use its shape.
Tensor shape_only(const ForeignNode& n, const Shape& shape, DType dtype) {
  return broadcast_to(constant_node(detail::make_scalar(0, dtype), "zero", n.where), shape);
}

Attrs with_groups(const Attrs& attrs, std::int64_t groups) {
  std::vector<Attr> list;
  for (const Attr& each : attrs) list.push_back(each.name == "groups" ? Attr{"groups", groups} : each);
  return Attrs(list);
}

Tensors read_depthwise(const ForeignNode& n) {
  const Tensor &x = n.in(0), &filter = n.in(1);
  if (filter.shape().rank() != 4) n.node.refuse(detail::join("its filter has the shape ", filter.shape()));
  const Shape& sizes = filter.shape();
  const Attrs attrs = with_groups(n.node.direct_attrs(*rule_of("Conv2D")), std::max<std::int64_t>(sizes.sizes()[2], 1));
  return n.composed([&] {
    const Tensor grouped =
        reshape(filter, {sizes.sizes()[0], sizes.sizes()[1], 1, product(sizes.sizes()[2], sizes.sizes()[3])});
    return make_op(*rule_of("Conv2D"), n.node, {x, grouped}, attrs, n.where, "Conv2D")[0];
  });
}
bool lacks_filter_sizes(const NodeReader&, const Tensors& inputs) { return !inputs[1].shape().is_known(); }

/// The gradients of a convolution. The gradient for the image is also a layer, the transposed convolution.
Tensors read_conv_gradient(const ForeignNode& n) {
  const bool of_image = n.node.def().op == "Conv2DBackpropInput";
  const std::size_t sized = of_image ? 0 : 1;
  const Shape sizes = n.shape(sized);
  Tensors inputs = n.inputs;
  const DType dtype = n.in(2).dtype();
  const auto depth = [&](std::size_t i, int axis) {
    const Shape& shape = i == sized ? sizes : n.in(i).shape();
    return shape.rank() == 4 ? shape.sizes()[axis] : -1;
  };
  const std::int64_t in = depth(0, 3), filter_in = depth(1, 2);
  const std::int64_t groups = in > 0 && filter_in > 0 ? std::max<std::int64_t>(in / filter_in, 1) : 1;
  const Attrs attrs = with_groups(n.node.direct_attrs(*rule_of("Conv2D")), groups);
  return n.composed([&] {
    inputs[sized] = shape_only(n, sizes, dtype);
    return make_op(*rule_of(n.node.def().op), n.node, inputs, attrs, n.where, "Conv2D")[0];
  });
}

Tensors read_average_gradient(const ForeignNode& n) {
  const Attrs attrs = n.node.direct_attrs(*rule_of("AvgPool"));
  return n.composed([&] {
    const Tensor like = shape_only(n, n.shape(0), n.in(1).dtype());
    return make_op(*rule_of("AvgPoolGrad"), n.node, {like, n.in(1)}, attrs, n.where, "AvgPool")[0];
  });
}

Tensors read_scatter(const ForeignNode& n) {
  return n.composed([&] {
    const Tensor like = shape_only(n, n.shape(2), n.in(1).dtype());
    return make_op(*rule_of("ScatterNd"), n.node, {n.in(0), n.in(1), like}, {}, n.where, "ScatterNd")[0];
  });
}

Tensors read_segment_sum(const ForeignNode& n) {
  const Tensor &x = n.in(0), &segments = n.in(1);
  if (segments.shape().rank() > x.shape().rank()) n.node.refuse("it has more segments than elements");
  std::vector<std::int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().end());
  sizes.erase(sizes.begin(), sizes.begin() + segments.shape().rank());
  sizes.insert(sizes.begin(), n.number(2));
  return n.composed([&] {
    const Tensor like = shape_only(n, sizes, x.dtype());
    const Attrs along{{"axis", std::int64_t{0}}};
    return make_op(*rule_of("UnsortedSegmentSum"), n.node, {segments, x, like}, along, n.where, "Sum")[0];
  });
}

Tensors read_slice_gradient(const ForeignNode& n) {
  const Attrs attrs = n.node.direct_attrs(*rule_of("StridedSlice"));
  return n.composed([&] {
    const Tensor like = shape_only(n, n.shape(0), n.in(4).dtype());
    return make_op(*rule_of("StridedSliceGrad"), n.node, {n.in(4), like}, attrs, n.where, "Slice")[0];
  });
}

Tensors read_batch_norm(const ForeignNode& n) {
  require_nhwc(n);
  if (n.node.attr_or<bool>("is_training", true)) lack(n, "'is_training'");
  const auto epsilon = n.node.attr_or<float>("epsilon", 0.0001F);
  const Tensor &x = n.in(0), &scale = n.in(1), &offset = n.in(2), &mean = n.in(3), &variance = n.in(4);
  for (const Tensor& each : n.inputs)
    if (each.dtype() != x.dtype()) n.node.refuse("its inputs have several types");
  Tensor reserved;  // what a training step would keep for its gradient
  const Tensors result = n.composed([&] {
    const DType dtype = mean.dtype() == DType::unknown ? float32 : mean.dtype();
    if (n.node.def().op == "FusedBatchNormV3")
      reserved = constant_node(detail::make_scalar(0, dtype), "reserve_space_3", n.where);
    return batch_norm(x, mean, variance, offset, scale, epsilon);
  });
  Tensors outputs{result[0], mean, variance, mean, variance};
  if (reserved) outputs.push_back(reserved);
  return outputs;
}

Tensors read_resize(const ForeignNode& n) {
  require_images(n);
  const bool align = n.node.attr_or<bool>("align_corners", false);
  const bool half = n.node.attr_or<bool>("half_pixel_centers", false);
  const std::vector<std::int64_t> sizes = n.numbers(1);
  if (sizes.size() != 2 || (align && half)) n.node.refuse("its attributes make no sense");
  const Centers centers = align ? Centers::corners : half ? Centers::half_pixel : Centers::legacy;
  const bool nearest = n.node.def().op == "ResizeNearestNeighbor";
  return n.composed([&] {
    Tensor x = n.in(0);
    if (!nearest) x = x.cast(float32);
    // The width comes first, as in TensorFlow.
    for (const int axis : {2, 1}) {
      const std::int64_t from = x.shape().sizes()[axis], to = sizes[axis - 1];
      if (from < 1 || to < 1 || to > most_places) n.node.refuse(detail::join("it makes the size ", to, " of ", from));
      x = nearest ? resize_nearest(x, axis, to, centers) : resize_linear(x, axis, to, centers);
    }
    return x;
  });
}

// ---- The table ------------------------------------------------------------------------------------------------------

const std::unordered_map<std::string_view, ForeignOp>& foreign_ops() {
  static const auto& ops = *new std::unordered_map<std::string_view, ForeignOp>([] {
    std::unordered_map<std::string_view, ForeignOp> made;
    for (const ForeignOp& each : std::initializer_list<ForeignOp>{
             {.name = "AddN", .inputs = -1, .read = read_add_all},
             {.name = "AvgPoolGrad", .inputs = 2, .values = {0}, .read = read_average_gradient},
             {.name = "BatchToSpaceND",
             .inputs = 3,
             .values = {1, 2},
             .lacks_sizes = lacks_image_sizes,
             .read = read_space_to_batch},
             {.name = "BiasAddGrad", .inputs = 1, .lacks_sizes = lacks_rank, .read = read_bias_gradient},
             {.name = "BroadcastArgs", .inputs = 2, .values = {0, 1}, .read = read_broadcast_args},
             {.name = "BroadcastGradientArgs", .inputs = 2, .values = {0, 1}, .read = read_broadcast_gradient_args},
             {.name = "ConcatOffset", .inputs = -1, .all_values = true, .read = read_concat_offset},
             {.name = "Conv2DBackpropFilter", .inputs = 3, .values = {1}, .read = read_conv_gradient},
             {.name = "Conv2DBackpropInput", .inputs = 3, .values = {0}, .read = read_conv_gradient},
             {.name = "DepthToSpace", .inputs = 1, .lacks_sizes = lacks_image_sizes, .read = read_depth_to_space},
             {.name = "DepthwiseConv2dNative", .inputs = 2, .lacks_sizes = lacks_filter_sizes, .read = read_depthwise},
             {.name = "DynamicStitch", .inputs = -1, .all_values = true, .read = read_dynamic_stitch},
             {.name = "Einsum", .inputs = -1, .lacks_sizes = lacks_any_size, .read = read_einsum},
             {.name = "Erfc", .inputs = 1, .read = read_erfc},
             {.name = "Fill", .inputs = 2, .values = {0}, .values_if_constant = {1}, .read = read_fill},
             {.name = "FusedBatchNorm", .inputs = 5, .lacks_sizes = lacks_rank, .read = read_batch_norm},
             {.name = "FusedBatchNormV2", .inputs = 5, .lacks_sizes = lacks_rank, .read = read_batch_norm},
             {.name = "FusedBatchNormV3", .inputs = 5, .lacks_sizes = lacks_rank, .read = read_batch_norm},
             {.name = "Gather", .inputs = 2, .read = read_gather},
             {.name = "GatherV2",
             .inputs = 3,
             .values = {2},
             .applies = has_batches,
             .lacks_sizes = lacks_any_size,
             .read = read_batch_gather},
             {.name = "IdentityN", .inputs = -1, .read = read_identities},
             {.name = "L2Loss", .inputs = 1, .read = read_l2_loss},
             {.name = "MirrorPad", .inputs = 2, .values = {1}, .lacks_sizes = lacks_any_size, .read = read_mirror_pad},
             {.name = "OneHot", .inputs = 4, .values = {1}, .lacks_sizes = lacks_rank, .read = read_one_hot},
             {.name = "Pad", .inputs = 2, .values = {1}, .read = read_pad},
             {.name = "PlaceholderWithDefault", .inputs = 1, .lacks_sizes = always, .read = read_default},
             {.name = "Range", .inputs = 3, .values = {0, 1, 2}, .read = read_range},
             {.name = "Rank", .inputs = 1, .lacks_sizes = lacks_rank, .read = read_rank},
             {.name = "Relu6", .inputs = 1, .read = read_relu6},
             {.name = "ResizeBilinear",
             .inputs = 2,
             .values = {1},
             .lacks_sizes = lacks_image_sizes,
             .read = read_resize},
             {.name = "ResizeNearestNeighbor",
             .inputs = 2,
             .values = {1},
             .lacks_sizes = lacks_image_sizes,
             .read = read_resize},
             {.name = "ScatterNd", .inputs = 3, .values = {2}, .read = read_scatter},
             {.name = "Select", .inputs = 3, .lacks_sizes = lacks_rank, .read = read_select},
             {.name = "Selu", .inputs = 1, .read = read_selu},
             {.name = "ShapeN", .inputs = -1, .read = read_shape_n},
             {.name = "Softsign", .inputs = 1, .read = read_softsign},
             {.name = "SpaceToBatchND",
             .inputs = 3,
             .values = {1, 2},
             .lacks_sizes = lacks_image_sizes,
             .read = read_space_to_batch},
             {.name = "UnsortedSegmentSum",
             .inputs = 3,
             .values = {2},
             .lacks_sizes = lacks_any_size,
             .read = read_segment_sum},
             {.name = "StridedSliceGrad", .inputs = 5, .values = {0, 1, 2, 3}, .read = read_slice_gradient},
             {.name = "SpaceToDepth", .inputs = 1, .lacks_sizes = lacks_image_sizes, .read = read_depth_to_space},
         })
      made.emplace(each.name, each);
    return made;
  }());
  return ops;
}

}  // namespace

std::vector<std::int64_t> ForeignNode::numbers(std::size_t i) const {
  const Tensor value = node.constant(i);
  if ((value.dtype() != int32 && value.dtype() != int64) || value.rank() > 1)
    node.refuse(detail::join("its input ", i, " is ", to_string(value.dtype()), value.shape()));
  return node.listed(value);
}

Shape ForeignNode::shape(std::size_t i) const {
  Shape shape(numbers(i));
  if (!shape.is_known()) node.refuse(detail::join("its input ", i, " is the shape ", shape));
  return shape;
}

std::int64_t ForeignNode::number(std::size_t i) const {
  const std::vector<std::int64_t> all = numbers(i);
  if (all.size() != 1) node.refuse(detail::join("its input ", i, " has ", all.size(), " elements"));
  return all[0];
}

Tensor ForeignNode::named(const Tensor& result) const { return identity(result, name()); }

const ForeignOp* find_foreign_op(const NodeDef& def) {
  const auto found = foreign_ops().find(def.op);
  return found == foreign_ops().end() || (found->second.applies && !found->second.applies(def)) ? nullptr
                                                                                                : &found->second;
}

}  // namespace tapestry::io
