#include "io/tensorflow/op_expansions.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"

namespace tapestry::io {
namespace {

using detail::Node;
using Numbers = std::vector<std::int64_t>;

// Compilers evaluate the arguments of a call in different orders, but a braced list always from left to right. So at
// most one argument of a call adds operations here, and the same graph gives the same file.

Value binary(NodeWriter& w, std::string_view op, const Value& a, const Value& b) { return w.op(op, {a, b}); }
Value mul(NodeWriter& w, const Value& a, const Value& b) { return binary(w, "Mul", a, b); }
Value add(NodeWriter& w, const Value& a, const Value& b) { return binary(w, "AddV2", a, b); }
Value mul(NodeWriter& w, double a, const Value& b) { return mul(w, w.number(a, b.dtype), b); }
Value select(NodeWriter& w, const Value& condition, const Value& a, const Value& b) {
  return w.op("SelectV2", {condition, a, b}, a.dtype, {{"T", code_of(a.dtype)}});
}

Value gather(NodeWriter& w, const Value& x, const Value& indices, std::int64_t axis, std::int64_t batch_dims) {
  const Value along = w.number(static_cast<double>(axis), int32);
  return w.op("GatherV2", {x, indices, along}, x.dtype,
              {{"Tparams", code_of(x.dtype)},
               {"Tindices", code_of(indices.dtype)},
               {"Taxis", code_of(int32)},
               {"batch_dims", batch_dims}});
}

/// The axis that a node names, from the end where the rank is not known.
int axis_of(const NodeWriter& w, std::size_t input) {
  const auto axis = w.node().attr<std::int64_t>("axis");
  const Shape& shape = w.node().input(input).shape();
  return shape.has_rank() ? normalize_axis(axis, shape.rank()) : static_cast<int>(axis);
}

/// The last axis of an input, from the end where the rank is not known.
int last_axis(const NodeWriter& w, std::size_t input) {
  const Shape& shape = w.shape(input);
  return shape.has_rank() ? shape.rank() - 1 : -1;
}

/// The permutation that swaps `axis` with the last axis. It is its own inverse.
Numbers exchange_with_last(int axis, int rank) {
  Numbers perm(static_cast<std::size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[axis], perm.back());
  return perm;
}

}  // namespace

// ---- Conditions -----------------------------------------------------------------------------------------------------

bool have_one_shape(const Node& node) { return node.input(0).shape() == node.input(1).shape(); }
bool has_scalar_bounds(const Node& node) {
  return node.input(1).shape().rank() == 0 && node.input(2).shape().rank() == 0;
}
bool has_one_axis(const Node& node) { return node.attr<Ints>("axis").size() == 1; }
bool always(const Node&) { return true; }
bool is_before_last(const Node& node) { return node.attr<std::int64_t>("axis") != -1; }
bool counts_from_both_ends(const Node& node) {
  const Ints& axes = node.attr<Ints>("axis");
  const auto is_from_end = [](std::int64_t axis) { return axis < 0; };
  return std::any_of(axes.begin(), axes.end(), is_from_end) && !std::all_of(axes.begin(), axes.end(), is_from_end);
}
bool is_behind_first(const Node& node) { return node.attr<std::int64_t>("axis") != 0; }
bool repeats_one_axis(const Node& node) { return !node.attrs().find("multiples"); }
bool has_rank_2(const Node& node) { return node.input(0).shape().rank() == 2; }
bool is_largest_known(const Node& node) {
  const AttrValue* largest = node.attrs().find("largest");
  return (!largest || std::get<bool>(*largest)) && attr_or_implied(node, "k").has_value();
}
bool fills_whole_slice(const Node&) { return false; }

bool has_known_target(const Node& node) {
  const Shape& shape = node.attr<Shape>("shape");
  return std::all_of(shape.sizes().begin(), shape.sizes().end(), [](std::int64_t size) { return size >= 0; });
}

bool has_one_group(const Node& node) {
  const AttrValue* groups = node.attrs().find("groups");
  return !groups || std::get<std::int64_t>(*groups) == 1;
}

bool has_no_explicit_padding(const Node& node) { return node.attr<std::string>("padding") != "EXPLICIT"; }

bool alpha_fits_float(const Node& node) {
  const auto alpha = node.attr<double>("alpha");
  return node.input(0).dtype() == float32 || static_cast<double>(static_cast<float>(alpha)) == alpha;
}

bool is_on_host(const Node& node) {
  const AttrValue* device = node.attrs().find("device");
  return !device || std::get<Device>(*device).is_cpu();
}

bool is_standard_random(const Node& node) {
  const auto is = [&](std::string_view name, double value) {
    const AttrValue* attr = node.attrs().find(name);
    return !attr || std::get<double>(*attr) == value;
  };
  return node.inputs().empty() && is_on_host(node) && is("mean", 0) && is("stddev", 1) && is("minval", 0) &&
         is("maxval", 1);
}

// ---- Rows -----------------------------------------------------------------------------------------------------------

void expand_cross_entropy(NodeWriter& w) {
  const Value logits = w.in(0), labels = w.in(1), full_shape = w.shape_of(logits);
  const bool sparse = !is_floating(labels.dtype);
  const Value classes = w.size(0, -1);
  const Value rows = w.op("Pack", {w.number(-1, int64), classes}, {{"N", std::int64_t{2}}, {"axis", std::int64_t{0}}});
  FieldList fields;
  if (sparse)
    fields.emplace("Tlabels", code_of(labels.dtype));
  else
    fields.emplace(hint_any_sum, true);
  const Value flat = w.op(w.node().type(),
                          {w.reshape(logits, rows), w.reshape(labels, sparse ? w.ints("shape", {-1}) : rows)}, fields);
  const Value loss_shape = w.part(full_shape, 0, -1);
  w.result = {w.reshape(flat, loss_shape), w.reshape({flat.name + ":1", flat.dtype}, full_shape)};
}

void expand_sequence_mask(NodeWriter& w) {
  const Value lengths = w.in(0), zero = w.number(0, lengths.dtype), one = w.number(1, lengths.dtype);
  // The added length 0 is the largest when there are no lengths.
  const Value flat = w.reshape(lengths, w.ints("shape", {-1}));
  const Value with_zero = w.op("ConcatV2", {flat, w.reshape(zero, w.ints("one", {1})), w.number(0, int32)},
                               {{"N", std::int64_t{2}}, {"Tidx", code_of(int32)}});
  const Value longest = w.op("Max", {with_zero, w.ints("axes", {0})}, {{"Tidx", code_of(int32)}, {"keep_dims", false}});
  const Value positions = w.op("Range", {zero, longest, one}, lengths.dtype, {{"Tidx", code_of(lengths.dtype)}});
  const Value ends = w.op("ExpandDims", {lengths, w.number(-1, int32)}, {{"Tdim", code_of(int32)}});
  w.result = {w.op("Less", {positions, ends}, boolean)};
}

// ---- Shapes ---------------------------------------------------------------------------------------------------------

void expand_sum_like(NodeWriter& w) {
  // TensorFlow cannot differentiate a Sum whose axes are int64.
  const Value x = w.in(0), to = w.shape_of(w.in(1), int32), from = w.shape_of(x, int32);
  const Value axes = w.op("BroadcastGradientArgs", {to, from});
  const Value sum = w.op("Sum", {x, axes}, {{"Tidx", code_of(int32)}, {"keep_dims", false}});
  w.result = {w.reshape(sum, to)};
}

void expand_broadcast_like(NodeWriter& w) {
  w.result = {w.op("BroadcastTo", {w.in(0), w.shape_of(w.in(1))}, {{"Tidx", code_of(int64)}})};
}

void expand_reshape_like(NodeWriter& w) { w.result = {w.reshape(w.in(0), w.shape_of(w.in(1)))}; }

void expand_size_like(NodeWriter& w) {
  const auto count = [&](std::size_t i) { return w.op("Size", {w.in(i)}, int64, {{"out_type", code_of(int64)}}); };
  const Value one = w.number(1, int64);
  const Value like = w.cast(binary(w, "Maximum", count(1), one), float64);
  const Value quotient = binary(w, "RealDiv", w.cast(count(0), float64), like);
  w.result = {w.cast(quotient, w.in(0).dtype)};
}

void expand_broadcast_to(NodeWriter& w) {
  // -1 keeps the size of the input. So does a 1, as BroadcastArgs broadcasts it together with this size.
  Shape target = w.node().attr<Shape>("shape");
  for (int i = 0; i < target.rank(); ++i)
    if (target.sizes()[i] < 0) target.set(i, 1);
  const Value shape = w.op("BroadcastArgs", {w.shape_of(w.in(0)), w.cast(w.ints("shape", target.to_vector()), int64)});
  w.result = {w.op("BroadcastTo", {w.in(0), shape}, {{"Tidx", code_of(int64)}})};
}

void expand_expand_dims(NodeWriter& w) {
  const Shape& shape = w.node().output().shape();
  const Ints& given = w.node().attr<Ints>("axis");
  Numbers axes(given.begin(), given.end());
  if (shape.has_rank())
    for (std::int64_t& axis : axes) axis = normalize_axis(axis, shape.rank());
  // Each axis is added where all those are already from which it counts: the front, or the end.
  std::sort(axes.begin(), axes.end());
  if (!axes.empty() && axes.back() < 0) std::reverse(axes.begin(), axes.end());
  Value x = w.in(0);
  for (const std::int64_t axis : axes)
    x = w.op("ExpandDims", {x, w.number(static_cast<double>(axis), int32)}, {{"Tdim", code_of(int32)}});
  if (axes.empty()) x = w.op("Identity", {x});
  w.result = {x};
}

// ---- Devices, constants ---------------------------------------------------------------------------------------------

void expand_identity(NodeWriter& w) { w.result = {w.op("Identity", {w.in(0)})}; }

void expand_fill(NodeWriter& w) {
  const Value value = w.number(w.node().attr<double>("value"), w.node().attr<DType>("dtype"));
  const Value dims = w.ints("dims", w.node().attr<Shape>("shape").to_vector());
  w.result = {
      w.op("Fill", {dims, value}, value.dtype, {{"T", code_of(value.dtype)}, {"index_type", code_of(dims.dtype)}})};
}

/// An unknown size is that of an input's axis. One may instead be an input's number of elements over all other sizes.
void expand_fill_like(NodeWriter& w) {
  const Ints& sizes_of = w.node().attr<Ints>("sizes_of");
  std::vector<Value> sizes;
  std::optional<std::size_t> rest;
  std::size_t rest_of = 0;
  std::size_t next = 0;
  for (const std::int64_t size : w.node().attr<Shape>("shape").sizes()) {
    if (size >= 0) {
      sizes.push_back(w.number(static_cast<double>(size), int64));
      continue;
    }
    const auto input = static_cast<std::size_t>(sizes_of[next]);
    const auto axis = static_cast<int>(sizes_of[next + 1]);
    next += 2;
    if (axis < 0) {
      rest = sizes.size();
      rest_of = input;
    }
    sizes.push_back(axis < 0 ? w.number(1, int64) : w.size(input, axis));
  }
  if (rest) {
    Value others = w.number(1, int64);
    for (const Value& size : sizes) others = w.op("Mul", {others, size});
    const Value all = w.op("Size", {w.in(rest_of)}, int64, {{"out_type", code_of(int64)}});
    sizes[*rest] = w.op("FloorDiv", {all, others});
  }
  const auto count = static_cast<std::int64_t>(sizes.size());
  const Value dims = w.op("Pack", sizes, {{"N", count}, {"axis", std::int64_t{0}}});
  const Value value = w.number(w.node().attr<double>("value"), w.node().attr<DType>("dtype"));
  w.result = {w.op("Fill", {dims, value}, value.dtype, {{"T", code_of(value.dtype)}, {"index_type", code_of(int64)}})};
}

void expand_to_constant(NodeWriter& w) {
  const ExecuteNow now;
  Call call(w.node().op(), {}, w.node().attrs(), w.node().where());
  execute(call, w.node().op().infer(call), cpu());
  w.result = {w.constant("value", call.output())};
}

// ---- Slices ---------------------------------------------------------------------------------------------------------

void expand_concat_grad(NodeWriter& w) {
  const int axis = axis_of(w, 0);
  std::vector<Value> sizes;
  for (std::size_t i = 1; i < w.node().inputs().size(); ++i) sizes.push_back(w.size(i, axis));
  const auto count = static_cast<std::int64_t>(sizes.size());
  const Value list = w.op("Pack", sizes, {{"N", count}, {"axis", std::int64_t{0}}});
  const Value parts =
      w.op("SplitV", {w.in(0), list, w.number(axis, int32)}, {{"Tlen", code_of(int64)}, {"num_split", count}});
  for (std::int64_t i = 0; i < count; ++i)
    w.result.push_back({i == 0 ? parts.name : detail::join(parts.name, ":", i), parts.dtype});
  if (count == 1) w.result = {w.op("Identity", {parts})};
}

namespace {

/// begin, end and strides of a slice, and its masks as TensorFlow's attributes.
struct Region {
  Value begin, end, strides;
  FieldList fields;
};

Region region_of(NodeWriter& w) {
  const auto list = [&](std::string_view name) {
    const Ints& values = w.node().attr<Ints>(name);
    return Numbers(values.begin(), values.end());
  };
  Numbers begin = list("begin"), end, strides, masks(5);
  if (w.node().attrs().find("size")) {
    // The attributes of a Slice: a size of -1 reaches to the end.
    const Numbers size = list("size");
    for (std::size_t i = 0; i < begin.size(); ++i) {
      end.push_back(begin[i] + std::max<std::int64_t>(size[i], 0));
      strides.push_back(1);
      if (size[i] < 0) masks[1] |= std::int64_t{1} << i;
    }
  } else {
    end = list("end");
    strides = list("strides");
    masks = list("masks");
  }
  const auto constant = [&](std::string_view name, const Numbers& values) {
    return w.cast(w.ints(name, values), int64);
  };
  return {constant("begin", begin),
          constant("end", end),
          constant("strides", strides),
          {{"Index", code_of(int64)},
           {"begin_mask", masks[0]},
           {"end_mask", masks[1]},
           {"ellipsis_mask", masks[2]},
           {"new_axis_mask", masks[3]},
           {"shrink_axis_mask", masks[4]}}};
}

}  // namespace

void expand_slice_update(NodeWriter& w) {
  // TensorFlow's op does not broadcast the value.
  const Region region = region_of(w);
  const Value x = w.in(0), old = w.op("StridedSlice", {x, region.begin, region.end, region.strides}, region.fields);
  const Value value = w.op("BroadcastTo", {w.in(1), w.shape_of(old)}, {{"Tidx", code_of(int64)}});
  w.result = {w.op("TensorStridedSliceUpdate", {x, region.begin, region.end, region.strides, value}, region.fields)};
}

void expand_slice_grad(NodeWriter& w) {
  const Region region = region_of(w);
  FieldList fields = region.fields;
  fields.emplace("T", code_of(w.in(0).dtype));
  w.result = {w.op("StridedSliceGrad", {w.shape_of(w.in(1)), region.begin, region.end, region.strides, w.in(0)},
                   w.in(0).dtype, fields)};
}

namespace {

/// The shape of `x` with one of the numbers after each of its sizes, or before each.
Value interleaved(NodeWriter& w, const Numbers& numbers, const Value& x, bool numbers_first) {
  const Value own = w.cast(w.ints("multiples", numbers), int64), shape = w.shape_of(x);
  const Value pairs = w.op("Pack", numbers_first ? std::vector{own, shape} : std::vector{shape, own},
                           {{"N", std::int64_t{2}}, {"axis", std::int64_t{1}}});
  return w.reshape(pairs, w.ints("shape", {-1}));
}

/// How often `repeat` repeats each element along each axis.
Numbers repeats_of(const NodeWriter& w, std::size_t input) {
  Numbers numbers(static_cast<std::size_t>(w.shape(input).rank()), 1);
  numbers[axis_of(w, input)] = w.node().attr<std::int64_t>("repeats");
  return numbers;
}

}  // namespace

void expand_repeat(NodeWriter& w) {
  const Numbers repeats = repeats_of(w, 0);
  const Numbers ones(repeats.size(), 1);
  Numbers multiples;
  for (const std::int64_t each : repeats) multiples.insert(multiples.end(), {1, each});
  const Value columns = w.reshape(w.in(0), interleaved(w, ones, w.in(0), false));
  const Value list = w.ints("multiples", multiples);
  const Value tiled = w.op("Tile", {columns, list}, {{"Tmultiples", code_of(list.dtype)}});
  const Value factors = w.cast(w.ints("repeats", repeats), int64);
  const Value shape = mul(w, w.shape_of(w.in(0)), factors);
  w.result = {w.reshape(tiled, shape)};
}

void expand_tile_grad(NodeWriter& w) {
  const bool tile = w.node().attrs().find("multiples") != nullptr;
  Numbers numbers, axes;
  if (tile) {
    const Ints& multiples = w.node().attr<Ints>("multiples");
    numbers.assign(multiples.begin(), multiples.end());
  } else {
    numbers = repeats_of(w, 1);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) axes.push_back(static_cast<std::int64_t>(2 * i) + (tile ? 0 : 1));
  w.result = {w.sum(w.reshape(w.in(0), interleaved(w, numbers, w.in(1), tile)), axes)};
}

void expand_pad_grad(NodeWriter& w) {
  const Ints& paddings = w.node().attr<Ints>("paddings");
  Numbers begin;
  for (std::size_t i = 0; i < paddings.size(); i += 2) begin.push_back(paddings[i]);
  w.result = {w.op("Slice", {w.in(0), w.cast(w.ints("begin", begin), int64), w.shape_of(w.in(1))},
                   {{"Index", code_of(int64)}})};
}

// ---- Looking up -----------------------------------------------------------------------------------------------------

void expand_segments(NodeWriter& w) {
  const int axis = axis_of(w, 2), count = w.shape(0).rank(), rank = w.shape(1).rank();
  // The axes of the indices come first, then those before them, then those after them.
  Numbers to_front, back;
  for (int i = 0; i < count; ++i) to_front.push_back(axis + i);
  for (int i = 0; i < rank; ++i)
    if (i < axis || i >= axis + count) to_front.push_back(i);
  for (int i = 0; i < w.shape(2).rank(); ++i) back.push_back(i < axis ? i + 1 : i == axis ? 0 : i);
  Value updates = w.in(1);
  if (axis > 0) updates = w.transpose(updates, to_front);
  const Value sums = w.op(w.node().type(), {updates, w.in(0), w.size(2, axis)},
                          {{"Tindices", code_of(w.in(0).dtype)}, {"Tnumsegments", code_of(int64)}});
  w.result = {axis > 0 ? w.transpose(sums, back) : sums};
}

void expand_scatter_nd(NodeWriter& w) {
  const Value indices = w.in(0), updates = w.in(1);
  w.result = {w.op("ScatterNd", {indices, updates, w.shape_of(w.in(2), indices.dtype)}, updates.dtype,
                   {{"T", code_of(updates.dtype)}, {"Tindices", code_of(indices.dtype)}})};
}

void expand_take_along(NodeWriter& w) {
  const int axis = axis_of(w, 0), last = last_axis(w, 0);
  Value x = w.in(0), indices = w.in(1);
  const Numbers perm = axis == last ? Numbers() : exchange_with_last(axis, last + 1);
  if (axis != last) {
    x = w.transpose(x, perm);
    indices = w.transpose(indices, perm);
  }
  Value y = gather(w, x, indices, last, last);
  if (axis != last) y = w.transpose(y, perm);
  w.result = {y};
}

void expand_put_along(NodeWriter& w) {
  // Each update becomes a row that is 0 except at its index; the rows are summed.
  const int axis = axis_of(w, 2), last = last_axis(w, 2);
  Value indices = w.in(0), updates = w.in(1);
  const Numbers perm = axis == last ? Numbers() : exchange_with_last(axis, last + 1);
  if (axis != last) {
    indices = w.transpose(indices, perm);
    updates = w.transpose(updates, perm);
  }
  const Value depth = w.cast(w.size(2, axis), int32);
  const Value yes = w.constant("on", tensor(true)), no = w.constant("off", tensor(false));
  const Value here = w.op("OneHot", {indices, depth, yes, no}, boolean,
                          {{"T", code_of(boolean)}, {"TI", code_of(indices.dtype)}, {"axis", std::int64_t{-1}}});
  const Value columns = w.op("ExpandDims", {updates, w.number(-1, int32)}, {{"Tdim", code_of(int32)}});
  Value y = w.sum(select(w, here, columns, w.number(0, updates.dtype)), {-2});
  if (axis != last) y = w.transpose(y, perm);
  w.result = {y};
}

void expand_top_k(NodeWriter& w) {
  const AttrValue* largest = w.node().attrs().find("largest");
  const bool ascending = largest && !std::get<bool>(*largest);
  // These reverse the order: -x for floats, and ~x, which never overflows, for integers.
  const char* reverse = is_floating(w.in(0).dtype) ? "Neg" : "Invert";
  const Value x = ascending ? w.op(reverse, {w.in(0)}) : w.in(0);
  const auto known = attr_or_implied(w.node(), "k");
  const Value k =
      known ? w.number(static_cast<double>(std::get<std::int64_t>(*known)), int32) : w.cast(w.size(0, -1), int32);
  const Value top = w.op("TopKV2", {x, k}, {{"sorted", true}});
  w.result = {ascending ? w.op(reverse, {top}) : top, {top.name + ":1", int32}};
}

// ---- Images ---------------------------------------------------------------------------------------------------------

namespace {

FieldList window_fields(const Node& node, std::initializer_list<std::string_view> names) {
  FieldList fields{{"data_format", std::string("NHWC")}};
  for (const std::string_view name : names)
    if (const AttrValue* value = node.attrs().find(name)) fields.emplace(name, attr_def(*value));
  return fields;
}

/// Whether a grouped convolution is a DepthwiseConv2dNative, which TensorFlow runs wherever it runs other convolutions.
bool is_depthwise(const Node& node) {
  const Shape& filter = node.input(1).shape();
  const auto square = [&](std::string_view name) {
    const Ints* list = node.attrs().find<Ints>(name);
    return !list || (*list)[1] == (*list)[2];
  };
  const Ints* dilations = node.attrs().find<Ints>("dilations");
  const bool dense = !dilations || std::count(dilations->begin(), dilations->end(), 1) == 4;
  return filter.is_known() && filter[2] == 1 && square("strides") && dense;
}

void expand_depthwise(NodeWriter& w) {
  const Shape& filter = w.shape(1);
  const auto groups = w.node().attr<std::int64_t>("groups");
  const Value by_channel = w.reshape(w.in(1), w.ints("shape", {filter[0], filter[1], groups, filter[3] / groups}));
  w.result = {w.op("DepthwiseConv2dNative", {w.in(0), by_channel},
                   window_fields(w.node(), {"strides", "padding", "explicit_paddings"}))};
}

std::vector<Value> all_inputs(const NodeWriter& w) {
  std::vector<Value> inputs;
  for (std::size_t i = 0; i < w.node().inputs().size(); ++i) inputs.push_back(w.in(i));
  return inputs;
}

void add_conv(NodeWriter& w, const std::vector<Value>& inputs) {
  FieldList fields = window_fields(w.node(), {"strides", "padding", "explicit_paddings", "dilations"});
  const DType dtype = w.node().output().dtype();
  fields.emplace("T", code_of(dtype));
  w.result = {w.op(w.node().type(), inputs, dtype, fields)};
}

/// TensorFlow's op takes the shape of the input `like` in its place.
void add_conv_grad(NodeWriter& w, std::size_t like) {
  std::vector<Value> inputs = all_inputs(w);
  inputs[like] = w.shape_of(inputs[like], int32);
  add_conv(w, inputs);
}

}  // namespace

void expand_conv(NodeWriter& w) {
  if (is_depthwise(w.node())) return expand_depthwise(w);
  add_conv(w, all_inputs(w));
}
void expand_conv_backprop_input(NodeWriter& w) { add_conv_grad(w, 0); }
void expand_conv_backprop_filter(NodeWriter& w) { add_conv_grad(w, 1); }

namespace {

/// The image with the border that our op has and TensorFlow's lacks.
Value with_border(NodeWriter& w, const Value& image) {
  if (has_no_explicit_padding(w.node())) return image;
  const Ints& widths = w.node().attr<Ints>("explicit_paddings");
  const Value pairs = w.reshape(w.ints("paddings", {widths.begin(), widths.end()}), w.ints("pairs", {-1, 2}));
  return w.op("Pad", {image, pairs}, {{"Tpaddings", code_of(pairs.dtype)}});
}

FieldList average_fields(const NodeWriter& w) {
  FieldList fields = window_fields(w.node(), {"ksize", "strides", "padding"});
  if (!has_no_explicit_padding(w.node())) fields.insert_or_assign("padding", std::string("VALID"));
  return fields;
}

/// What of each window is no border, as a part of 1.
Value share_of_image(NodeWriter& w) {
  return w.op("AvgPool", {with_border(w, w.op("OnesLike", {w.in(0)}))}, average_fields(w));
}

}  // namespace

void expand_avg_pool(NodeWriter& w) {
  const Value sum = w.op("AvgPool", {with_border(w, w.in(0))}, average_fields(w));
  w.result = {w.op("RealDiv", {sum, share_of_image(w)})};
}

void expand_avg_pool_grad(NodeWriter& w) {
  const bool has_border = !has_no_explicit_padding(w.node());
  const Value g = has_border ? w.op("RealDiv", {w.in(1), share_of_image(w)}) : w.in(1);
  FieldList fields = average_fields(w);
  fields.emplace("T", code_of(g.dtype));
  w.result = {w.op("AvgPoolGrad", {w.shape_of(with_border(w, w.in(0)), int32), g}, g.dtype, fields)};
  if (!has_border) return;
  const Ints& widths = w.node().attr<Ints>("explicit_paddings");
  const Value begin = w.ints("begin", {0, widths[2], widths[4], 0}), size = w.shape_of(w.in(0), begin.dtype);
  w.result = {w.op("Slice", {w.result[0], begin, size}, {{"Index", code_of(begin.dtype)}})};
}

// ---- Random numbers -------------------------------------------------------------------------------------------------

namespace {

Value shape_to_draw(NodeWriter& w) {
  const Node& node = w.node();
  return node.inputs().empty() ? w.ints("shape", node.attr<Shape>("shape").to_vector()) : w.shape_of(w.in(0));
}

Value draw(NodeWriter& w, std::string_view op) {
  const Value shape = shape_to_draw(w);
  const DType dtype = w.node().output().dtype();
  return w.op(
      op, {shape}, dtype,
      {{"T", code_of(shape.dtype)}, {"dtype", code_of(dtype)}, {"seed", std::int64_t{0}}, {"seed2", std::int64_t{0}}});
}

/// TensorFlow's random numbers, scaled and shifted.
void draw_scaled(NodeWriter& w, double scale, double offset) {
  const Value numbers = draw(w, w.node().type());
  const Value scaled = mul(w, scale, numbers);
  w.result = {add(w, scaled, w.number(offset, numbers.dtype))};
}

}  // namespace

void expand_normal(NodeWriter& w) { draw_scaled(w, w.node().attr<double>("stddev"), w.node().attr<double>("mean")); }

void expand_uniform(NodeWriter& w) {
  const auto least = w.node().attr<double>("minval");
  draw_scaled(w, w.node().attr<double>("maxval") - least, least);
}

void expand_uniform_int(NodeWriter& w) {
  const DType dtype = w.node().output().dtype();
  const Value shape = shape_to_draw(w);
  const Value least = w.number(w.node().attr<double>("minval"), dtype);
  const Value most = w.number(w.node().attr<double>("maxval"), dtype);
  w.result = {w.op(
      "RandomUniformInt", {shape, least, most}, dtype,
      {{"T", code_of(shape.dtype)}, {"Tout", code_of(dtype)}, {"seed", std::int64_t{0}}, {"seed2", std::int64_t{0}}})};
}

void expand_bernoulli(NodeWriter& w) {
  const Value uniform = draw(w, "RandomUniform");
  const Value chance = w.number(w.node().attr<double>("probability"), uniform.dtype);
  w.result = {w.cast(w.op("Less", {uniform, chance}, boolean), uniform.dtype)};
}

void expand_permutation(NodeWriter& w) {
  const Value count =
      w.node().inputs().empty() ? w.number(static_cast<double>(w.node().attr<std::int64_t>("n")), int64) : w.size(0, 0);
  const Value all = w.op("Range", {w.number(0, int64), count, w.number(1, int64)}, int64, {{"Tidx", code_of(int64)}});
  w.result = {w.op("RandomShuffle", {all}, {{"seed", std::int64_t{0}}, {"seed2", std::int64_t{0}}})};
}

}  // namespace tapestry::io
