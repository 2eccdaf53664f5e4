// Shapes: what moves elements, joins tensors, cuts them, and makes them of sizes.

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/known_values.hpp"
#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

// ---- New shapes

constexpr std::int64_t unknown_size = detail::KnownValues::unknown_element;

/// The sizes that a Reshape asks for. 0 stands for the size of the input, -1 for what remains. A size that is not known
/// yet, in the list or in the input, is `unknown_size`.
std::vector<std::int64_t> asked_sizes(const OnnxCall& c) {
  std::vector<std::int64_t> sizes = c.numbers("shape", 1);
  if (sizes.size() > Shape::max_rank) c.refuse(detail::join("it asks for ", sizes.size(), " axes"));
  const bool keeps_zero = c.flag("allowzero");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 0 || keeps_zero) continue;
    if (static_cast<int>(i) >= c.rank()) c.refuse(detail::join("it keeps axis ", i, " of ", c.shape()));
    sizes[i] = c.size(static_cast<int>(i)) < 0 ? unknown_size : c.size(static_cast<int>(i));
  }
  return sizes;
}

/// Whether more than one size is not known yet: a single one is what remains.
bool reshape_lacks(const OnnxCall& c) {
  if (!c.shape().has_rank()) return true;
  int open = 0;
  bool empty = false;
  for (const std::int64_t size : asked_sizes(c)) {
    open += size == unknown_size || size == -1;
    empty |= size == 0;
  }
  return open > 1 || (open == 1 && empty);
}

Tensors read_reshape(const OnnxCall& c) {
  std::vector<std::int64_t> sizes = asked_sizes(c);
  for (std::int64_t& each : sizes)
    if (each == unknown_size) each = -1;
  return {reshape(c[0], Shape(sizes))};
}

int rank_of_reshape(const OnnxCall& c) {
  return c.is_known(1) ? static_cast<int>(c.value(1).size())
         : c.has(1)    ? static_cast<int>(c[1].shape().rank() == 1 ? c[1].shape().sizes()[0] : -1)
                       : static_cast<int>(c.ints("shape").size());
}

/// The product of the sizes of some axes; -1 if it is not known.
std::int64_t product_of(const OnnxCall& c, int first, int last) {
  std::int64_t all = 1;
  for (int i = first; i < last; ++i) {
    if (c.size(i) < 0) return -1;
    all = product(all, c.size(i));
  }
  return all;
}

int axis_of_flatten(const OnnxCall& c) {
  const std::int64_t axis = c.whole("axis", 1);
  if (axis < -c.rank() || axis > c.rank()) c.refuse(detail::join("its axis is ", axis));
  return static_cast<int>(axis < 0 ? axis + c.rank() : axis);
}

bool flatten_lacks(const OnnxCall& c) {
  if (!c.shape().has_rank()) return true;
  const int axis = axis_of_flatten(c);
  const std::int64_t rows = product_of(c, 0, axis), columns = product_of(c, axis, c.rank());
  return rows < 0 ? columns <= 0 : columns < 0 && rows == 0;
}

Tensors read_flatten(const OnnxCall& c) {
  const int axis = axis_of_flatten(c);
  return {reshape(c[0], {product_of(c, 0, axis), product_of(c, axis, c.rank())})};
}
int rank_two(const OnnxCall&) { return 2; }

Tensors read_squeeze(const OnnxCall& c) {
  const std::vector<std::int64_t> axes = c.numbers("axes", 1);
  return {axes.empty() ? squeeze(c[0]) : squeeze(c[0], axes)};
}
bool squeeze_lacks(const OnnxCall& c) {
  const bool listed = c.has(1) || c.has_attr("axes");
  return listed ? !c.shape().has_rank() : !c.shape().is_known();
}
Tensors read_unsqueeze(const OnnxCall& c) { return {expand_dims(c[0], c.numbers("axes", 1))}; }

Tensors read_transpose(const OnnxCall& c) { return {transpose(c[0], Ints(c.ints("perm")))}; }

/// A size of 1 keeps that of the input: broadcasting goes both ways.
Tensors read_expand(const OnnxCall& c) {
  const Shape shape(c.numbers(1));
  if (!shape.is_known()) c.refuse(detail::join("it asks for the shape ", shape));
  return {broadcast_to(c[0], broadcast_shapes(c.shape(), shape))};
}
int rank_of_expand(const OnnxCall& c) {
  const int list = c[1].shape().rank() == 1 ? static_cast<int>(c[1].shape().sizes()[0]) : -1;
  return list < 0 || c.rank() < 0 ? -1 : std::max(list, c.rank());
}

// ---- Sizes

Tensors read_shape(const OnnxCall& c) {
  const Tensor sizes = shape(c[0]).cast(int64);
  if (!c.has_attr("start") && !c.has_attr("end")) return {sizes};
  const std::int64_t end = c.whole("end", std::numeric_limits<std::int64_t>::max());
  return {sizes(range(c.whole("start", 0), end))};
}
int rank_one(const OnnxCall&) { return 1; }
Tensors read_size(const OnnxCall& c) { return {size(c[0]).cast(int64)}; }
int rank_zero(const OnnxCall&) { return 0; }

Tensor value_of_fill(const OnnxCall& c) {
  const auto* value = c.node().find<TensorDef>("value");
  if (!value) return detail::make_scalar(0, float32);
  if (!value->value) c.lack("the type of its value");
  if (value->value.size() != 1) c.refuse(detail::join("its value has the shape ", value->value.shape()));
  return reshape(value->value, {});
}
Tensors read_constant_of_shape(const OnnxCall& c) {
  const Shape shape(c.numbers(0));
  if (!shape.is_known()) c.refuse(detail::join("it asks for the shape ", shape));
  const Tensor value = value_of_fill(c);
  return {full(shape, value, {.dtype = value.dtype()})};
}
std::vector<DType> type_of_fill(const OnnxCall& c) {
  const auto* value = c.node().find<TensorDef>("value");
  return {value ? dtype_of(value->type) : float32};
}
int rank_of_listed(const OnnxCall& c) { return c.rank() == 1 ? static_cast<int>(c.size(0)) : -1; }

Tensors read_range(const OnnxCall& c) {
  const DType dtype = c.value(0).dtype();
  if (dtype == int32 || dtype == int64) {
    const std::int64_t start = c.number(0), stop = c.number(1), step = c.number(2);
    if (step == 0) c.refuse("its step is 0");
    const double count = (static_cast<double>(stop) - static_cast<double>(start)) / static_cast<double>(step);
    if (count > static_cast<double>(most_numbers)) c.refuse(detail::join("it has ", count, " elements"));
  }
  const double start = c.real(0), stop = c.real(1), step = c.real(2);
  if (step == 0 || !((stop - start) / step <= static_cast<double>(most_numbers)))
    c.refuse(detail::join("it goes from ", start, " to ", stop, " in steps of ", step));
  return {arange(start, stop, step, {.dtype = dtype})};
}

Tensors read_eye_like(const OnnxCall& c) {
  const DType dtype = c.has_attr("dtype") ? c.type("dtype") : c.dtype();
  if (c.rank() != 2) c.refuse(detail::join("its input has the shape ", c.shape()));
  const Tensor row = expand_dims(arange(c.size(0), {.dtype = int64}), 1), column = arange(c.size(1), {.dtype = int64});
  return {equal(row + c.whole("k", 0), column).cast(dtype)};
}
std::vector<DType> type_told(const OnnxCall& c) { return {c.has_attr("dtype") ? c.type("dtype") : c.dtype()}; }

// ---- Windows of signals: sums of cosines

DType type_of_window(const OnnxCall& c) { return c.has_attr("output_datatype") ? c.type("output_datatype") : float32; }
std::vector<DType> types_of_window(const OnnxCall& c) { return {type_of_window(c)}; }

Tensors cosine_window(const OnnxCall& c, double mean, double first, double second = 0) {
  const std::int64_t size = c.number(0);
  if (size < 0 || size > most_numbers) c.refuse(detail::join("it has ", size, " elements"));
  const double period = static_cast<double>(c.flag("periodic", true) ? size : size - 1);
  const Tensor angle = arange(size, {.dtype = float64}) * (2 * std::acos(-1.0)) / period;
  return {(mean - first * cos(angle) + second * cos(2 * angle)).cast(type_of_window(c))};
}
Tensors read_hann_window(const OnnxCall& c) { return cosine_window(c, 0.5, 0.5); }
Tensors read_hamming_window(const OnnxCall& c) { return cosine_window(c, 25.0 / 46, 21.0 / 46); }
Tensors read_blackman_window(const OnnxCall& c) { return cosine_window(c, 0.42, 0.5, 0.08); }

// ---- Joining and cutting

Tensors read_concat(const OnnxCall& c) {
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < c.places(); ++i) {
    if (c.dtype(i) != c.dtype())
      c.refuse(detail::join("its inputs are ", to_string(c.dtype()), " and ", to_string(c.dtype(i))));
    parts.push_back(c[i]);
  }
  return {concat(InList(parts), c.axis("axis", 1))};
}

/// The sizes of the parts, from an attribute or an input; without either they are equal, but for the last one.
std::vector<std::int64_t> sizes_of_parts(const OnnxCall& c, int axis) {
  std::vector<std::int64_t> sizes = c.numbers("split", 1);
  if (!sizes.empty()) return sizes;
  const auto count = static_cast<std::int64_t>(c.outputs());
  const std::int64_t size = c.size(axis), part = (size + count - 1) / count;
  for (std::int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<std::int64_t>(size - i * part, 0, part));
  return sizes;
}
bool split_lacks(const OnnxCall& c) {
  if (!c.shape().has_rank()) return true;
  return !c.has(1) && !c.has_attr("split") && c.size(c.axis("axis", 0)) < 0;
}
Tensors read_split(const OnnxCall& c) {
  const int axis = c.axis("axis", 0);
  const std::vector<std::int64_t> sizes = sizes_of_parts(c, axis);
  if (sizes.size() != c.outputs())
    c.refuse(detail::join("it has ", c.outputs(), " outputs and the sizes of ", sizes.size()));
  const std::vector<Tensor> parts = split(c[0], sizes, axis);
  return Tensors(parts.begin(), parts.end());
}
std::vector<DType> types_like_first(const OnnxCall& c) { return std::vector<DType>(c.outputs(), c.dtype()); }

Tensors read_slice(const OnnxCall& c) {
  const std::vector<std::int64_t> starts = c.numbers("starts", 1), ends = c.numbers("ends", 2);
  std::vector<std::int64_t> axes = c.numbers("axes", 3), steps = c.numbers("steps", 4);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    c.refuse("its lists have different lengths");
  std::vector<OnnxCut> cuts;
  std::vector<char> is_cut(static_cast<std::size_t>(c.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = c.axis(axes[i]);
    if (std::exchange(is_cut[axis], 1) != 0) c.refuse(detail::join("it cuts axis ", axis, " twice"));
    if (steps[i] == 0) c.refuse("a step is 0");
    cuts.push_back({axis, starts[i], ends[i], steps[i]});
  }
  return {onnx_cut(c[0], cuts)};
}

Tensors read_tile(const OnnxCall& c) {
  if (c.version() < 6) {  // one axis
    Ints multiples(static_cast<std::size_t>(c.rank()), 1);
    multiples[c.axis(c.number(2))] = c.number(1);
    return {tile(c[0], multiples)};
  }
  return {tile(c[0], Ints(c.numbers(1)))};
}

/// The pairs of widths for all axes.
std::vector<Padding> widths_of_pad(const OnnxCall& c) {
  std::vector<std::int64_t> widths = c.numbers(c.has_attr("paddings") ? "paddings" : "pads", 1);
  std::vector<std::int64_t> axes = c.has(3) ? c.numbers(3) : std::vector<std::int64_t>();
  if (!c.has(3))
    for (int i = 0; i < c.rank(); ++i) axes.push_back(i);
  if (widths.size() != 2 * axes.size())
    c.refuse(detail::join("it has ", widths.size(), " widths for ", axes.size(), " axes"));
  std::vector<Padding> pairs(static_cast<std::size_t>(c.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) pairs[c.axis(axes[i])] = {widths[i], widths[i + axes.size()]};
  return pairs;
}

/// x with a border along an axis that repeats the edge or, if it `wraps`, goes on from the opposite edge.
Tensor bordered(const OnnxCall& c, const Tensor& x, int axis, Padding width, bool wraps) {
  const std::int64_t size = x.shape().sizes()[axis];
  if (size < 1) c.refuse(detail::join("axis ", axis, " has ", size, " elements"));
  if (width.before > most_places || width.after > most_places) c.refuse("its border is too wide");
  std::vector<std::int64_t> places;
  for (std::int64_t i = -width.before; i < size + width.after; ++i)
    places.push_back(wraps ? (i % size + size) % size : std::clamp<std::int64_t>(i, 0, size - 1));
  return gather(x, vector_of(places, int64), axis);
}

/// Negative widths cut elements off.
Tensors read_pad(const OnnxCall& c) {
  const std::string mode = c.text("mode", "constant");
  std::vector<Padding> pairs = widths_of_pad(c);
  Tensor x = c[0];
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto axis = static_cast<int>(i);
    const std::int64_t before = std::min<std::int64_t>(pairs[i].before, 0),
                       after = std::min<std::int64_t>(pairs[i].after, 0);
    if (before == 0 && after == 0) continue;
    if (-before > most_numbers || -after > most_numbers) c.refuse("its widths are too small");
    if (c.size(axis) >= 0 && c.size(axis) + before + after < 0) c.refuse("it cuts off more than there is");
    x = onnx_cut(x, {{axis, -before, after == 0 ? std::numeric_limits<std::int64_t>::max() : after, 1}});
    pairs[i] = {std::max<std::int64_t>(pairs[i].before, 0), std::max<std::int64_t>(pairs[i].after, 0)};
  }
  if (mode == "edge" || mode == "wrap") {
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (pairs[i].before > 0 || pairs[i].after > 0) x = bordered(c, x, static_cast<int>(i), pairs[i], mode == "wrap");
    return {x};
  }
  if (mode == "reflect") return {pad(x, pairs, {.mode = PadMode::reflect})};
  if (mode != "constant") c.refuse(detail::join("its mode is '", mode, "'"));
  const double value = c.has(2) ? c.real(2) : c.real("value", 0);
  if (x.dtype() != int64 || std::abs(value) < 0x1p53) return {pad(x, pairs, {.value = value})};
  // No double has this number.
  const Tensor exact = c.has(2) ? reshape(c.value(2).cast(int64), {}) : detail::make_scalar(value, int64);
  return {where(greater(pad(ones_like(x), pairs), 0), pad(x, pairs), exact)};
}
bool pad_lacks(const OnnxCall& c) {
  const std::string mode = c.text("mode", "constant");
  return mode == "edge" || mode == "wrap" || !c.shape().has_rank() ? !c.shape().is_known() : false;
}

// ---- Blocks of depth become blocks of the plane, and the reverse: an image is cut into axes, which change places.

std::int64_t block_of(const OnnxCall& c) {
  const std::int64_t block = c.whole("blocksize");
  if (block < 1 || block > most_blocks || c.rank() != 4)
    c.refuse(detail::join("its blocksize is ", block, " for ", c.shape()));
  return block;
}

Tensors read_depth_to_space(const OnnxCall& c) {
  const std::int64_t b = block_of(c), channels = c.size(1) / (b * b), height = c.size(2), width = c.size(3);
  const bool depth_first = c.text("mode", "DCR") == "DCR";
  const Tensor cut =
      reshape(c[0], depth_first ? Shape{-1, b, b, channels, height, width} : Shape{-1, channels, b, b, height, width});
  const Tensor placed = transpose(cut, depth_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3});
  return {reshape(placed, {-1, channels, product(height, b), product(width, b)})};
}

Tensors read_space_to_depth(const OnnxCall& c) {
  const std::int64_t b = block_of(c), channels = c.size(1), height = c.size(2) / b, width = c.size(3) / b;
  const Tensor cut = reshape(c[0], {-1, channels, height, b, width, b});
  return {reshape(transpose(cut, {0, 3, 5, 1, 2, 4}), {-1, product(channels, b * b), height, width})};
}

/// An axis of a scan or of a sequence, moved to the front or back; made by the reader itself.
Tensors read_move_axis(const OnnxCall& c) {
  return {transpose(c[0], onnx_moved(c.rank(), c.axis("from", 0), c.axis("to", 0)))};
}
Tensors read_flip(const OnnxCall& c) { return {flip(c[0], c.whole("axis", 0))}; }

}  // namespace

OnnxOps onnx_arrays() {
  constexpr auto rank = onnx_lacks_rank;
  return {
      {"BlackmanWindow", 1, 1, read_blackman_window, {0}, nullptr, types_of_window, rank_one},
      {"Concat", 1, any_inputs, read_concat, {}, onnx_lacks_ranks, nullptr, onnx_rank_of_input},
      {"ConstantOfShape", 1, 1, read_constant_of_shape, {0}, nullptr, type_of_fill, rank_of_listed},
      {"DepthToSpace", 1, 1, read_depth_to_space, {}, onnx_lacks_plane, nullptr, onnx_rank_of_input},
      {"Expand", 2, 2, read_expand, {1}, onnx_lacks_sizes, nullptr, rank_of_expand},
      {"EyeLike", 1, 1, read_eye_like, {}, onnx_lacks_sizes, type_told, onnx_rank_of_input},
      {"Flatten", 1, 1, read_flatten, {}, flatten_lacks, nullptr, rank_two},
      {"HammingWindow", 1, 1, read_hamming_window, {0}, nullptr, types_of_window, rank_one},
      {"HannWindow", 1, 1, read_hann_window, {0}, nullptr, types_of_window, rank_one},
      {"Pad", 1, 4, read_pad, {1, 2, 3}, pad_lacks, nullptr, onnx_rank_of_input},
      {"Range", 3, 3, read_range, {0, 1, 2}, nullptr, nullptr, rank_one},
      {"Reshape", 1, 2, read_reshape, {1}, reshape_lacks, nullptr, rank_of_reshape, {}, true},
      {"Shape", 1, 1, read_shape, {}, rank, onnx_type_int64, rank_one},
      {"Size", 1, 1, read_size, {}, nullptr, onnx_type_int64, rank_zero},
      {"Slice", 1, 5, read_slice, {1, 2, 3, 4}, rank, nullptr, onnx_rank_of_input},
      {"SpaceToDepth", 1, 1, read_space_to_depth, {}, onnx_lacks_plane, nullptr, onnx_rank_of_input},
      {"Split", 1, 2, read_split, {1}, split_lacks, types_like_first, onnx_rank_of_input},
      {"Squeeze", 1, 2, read_squeeze, {1}, squeeze_lacks},
      {"Tile", 2, 3, read_tile, {1, 2}, rank, nullptr, onnx_rank_of_input},
      {"Transpose", 1, 1, read_transpose, {}, rank, nullptr, onnx_rank_of_input},
      {"Unsqueeze", 1, 2, read_unsqueeze, {1}, rank},
      {"tapestry::MoveAxis", 1, 1, read_move_axis, {}, rank, nullptr, onnx_rank_of_input},
      {"tapestry::Flip", 1, 1, read_flip, {}, rank, nullptr, onnx_rank_of_input},
  };
}

}  // namespace tapestry::io
