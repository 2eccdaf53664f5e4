#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "core/make_tensor.hpp"
#include "io/onnx/onnx_writer.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

// ---- Attributes for formulas, which depend on ranks and sizes -------------------------------------------------------

constexpr std::int64_t furthest = std::numeric_limits<std::int64_t>::max();

int axis_of(const OnnxWriter& w, std::size_t input = 0) {
  return normalize_axis(w.node().attr<std::int64_t>("axis"), w.shape(input).rank());
}

/// first, first + 1, ..., last - 1
Ints range(std::int64_t first, std::int64_t last) {
  Ints list;
  for (; first < last; ++first) list.push_back(first);
  return list;
}
Ints joined(Ints a, const Ints& b) {
  a.append(b.begin(), b.end());
  return a;
}

void compute_product(OnnxWriter& w) {
  constexpr std::string_view flags[2][2] = {{"transpose_a", "adj_x"}, {"transpose_b", "adj_y"}};
  for (std::size_t i = 0; i < 2; ++i) {
    if (!has_flag(w, flags[i][0]) && !has_flag(w, flags[i][1])) continue;
    Ints perm = range(0, w.shape(i).rank());
    std::swap(perm.back(), perm[perm.size() - 2]);
    w.set(i == 0 ? "swap_a" : "swap_b", perm);
  }
}

/// A negative number stands for all diagonals.
void compute_band(OnnxWriter& w) {
  const auto above = w.node().attr<std::int64_t>("num_upper"), below = w.node().attr<std::int64_t>("num_lower");
  if (above >= 0) w.set("above", above);
  if (below >= 0) w.set("below", -below);
}

/// Permutations that move the two axes of the matrices to the front, and back to the end.
void compute_diagonal(OnnxWriter& w) {
  const int last = w.shape().rank() - 1;
  w.set("front", joined({last - 1, last}, range(0, last - 1)));
  w.set("back", joined(range(2, last + 1), {0, 1}));
  w.set("before", joined({last - 1}, range(0, last - 1)));  // the same for the axis of a diagonal
  w.set("behind", joined(range(1, last), {0}));
}

void compute_broadcast(OnnxWriter& w) {
  Shape sizes = w.node().attr<Shape>("shape");
  for (int i = 0; i < sizes.rank(); ++i)
    if (sizes.sizes()[i] < 0) sizes.set(i, 1);  // Expand then keeps the input's size
  w.set("sizes", sizes);
}

/// The summed axes are found when the model runs, as sizes that are not known yet may turn out to be 1.
void compute_sum_like(OnnxWriter& w) {
  w.set("added", Ints(static_cast<std::size_t>(w.shape(0).rank() - w.shape(1).rank()), 1));
}

void compute_reverse(OnnxWriter& w) {
  const std::size_t count = std::get<Ints>(*w.attr("axis")).size();
  w.set("back", Ints(count, -1));
  w.set("first", Ints(count, -furthest));
}

/// The arguments of Slice, Squeeze and Unsqueeze for an index expression. Its five masks have one bit for each entry.
void compute_indexed_part(OnnxWriter& w, int rank) {
  enum Mask : std::uint8_t { no_begin, no_end, ellipsis, new_axis, number };
  const Ints &begin = w.node().attr<Ints>("begin"), &end = w.node().attr<Ints>("end"),
             &strides = w.node().attr<Ints>("strides"), &masks = w.node().attr<Ints>("masks");
  const auto has = [&](Mask mask, std::size_t i) { return (masks[mask] >> i & 1) != 0; };
  int passed = rank;  // the number of axes that the ellipsis stands for
  for (std::size_t i = 0; i < begin.size(); ++i) passed -= !has(ellipsis, i) && !has(new_axis, i);

  Ints starts, ends, axes, steps, dropped, added;
  std::int64_t axis = 0, place = 0;  // the next axis of the tensor, and of the result
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (has(ellipsis, i)) {
      axis += passed;
      place += passed;
    } else if (has(new_axis, i)) {
      added.push_back(place++);
    } else {
      const bool one = has(number, i);
      const std::int64_t step = one ? 1 : strides[i];
      if (one) {
        dropped.push_back(axis);
      } else {
        ++place;
      }
      axes.push_back(axis++);
      steps.push_back(step);
      starts.push_back(one || !has(no_begin, i) ? begin[i] : step > 0 ? 0 : furthest);
      ends.push_back(one ? (begin[i] == -1 ? furthest : begin[i] + 1)
                         : (!has(no_end, i) ? end[i]
                            : step > 0      ? furthest
                                            : -furthest));
    }
  }
  if (!dropped.empty()) w.set("dropped", dropped);
  if (!added.empty()) w.set("new", added);
  if (axes.empty()) return;
  w.set("starts", starts);
  w.set("ends", ends);
  w.set("axes", axes);
  w.set("steps", steps);
}

/// The same for the attributes of our Slice, or for those of an index expression.
void compute_part_of(OnnxWriter& w, const Shape& shape) {
  const int rank = shape.rank();
  const Ints* sizes = w.node().attrs().find<Ints>("size");
  if (!sizes) return compute_indexed_part(w, rank);
  const Ints& begin = w.node().attr<Ints>("begin");
  Ints end = *sizes;
  for (std::size_t i = 0; i < end.size(); ++i) end[i] = end[i] < 0 ? furthest : begin[i] + end[i];
  w.set("starts", begin);
  w.set("ends", end);
  w.set("axes", range(0, rank));
  w.set("steps", Ints(end.size(), 1));
}

void compute_part(OnnxWriter& w) { compute_part_of(w, w.shape()); }
void compute_part_grad(OnnxWriter& w) { compute_part_of(w, w.shape(1)); }

void compute_repeat(OnnxWriter& w) {
  const auto axis = static_cast<std::size_t>(axis_of(w)), rank = static_cast<std::size_t>(w.shape().rank());
  Ints multiples(rank, 1), times(rank + 1, 1);
  multiples[axis] = times[axis + 1] = w.node().attr<std::int64_t>("repeats");
  w.set("multiples", multiples);
  w.set("times", times);
  w.set("behind", Ints{static_cast<std::int64_t>(axis) + 1});
}

/// Each axis becomes three: how often `tile` repeated it, its size, and how often `repeat` repeated its elements.
void compute_repeat_grad(OnnxWriter& w) {
  const auto rank = static_cast<std::size_t>(w.shape(1).rank());
  const Ints* tiled = w.node().attrs().find<Ints>("multiples");
  Ints elements(rank, 1), axes;
  if (!tiled) elements[axis_of(w, 1)] = w.node().attr<std::int64_t>("repeats");
  for (std::int64_t i = 0; i < w.shape(1).rank(); ++i) axes = joined(axes, {3 * i, 3 * i + 2});
  w.set("front", tiled ? *tiled : Ints(rank, 1));
  w.set("times", elements);
  w.set("axes", axes);
}

void compute_pads(OnnxWriter& w) {
  const Ints& pairs = w.node().attr<Ints>("paddings");
  Ints before, after;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    before.push_back(pairs[i]);
    after.push_back(pairs[i + 1]);
  }
  w.set("before", before);
  w.set("pads", joined(before, after));
}

/// Permutations that move the axis of the segments (in the updates, the axes of the indices) to the front, and back.
void compute_segments(OnnxWriter& w) {
  const int axis = axis_of(w, 2), rank = w.shape(2).rank(), depth = w.shape(0).rank();
  w.set("front", joined(joined({axis}, range(0, axis)), range(axis + 1, rank)));
  if (axis == 0) return;
  w.set("updates", joined(joined(range(axis, axis + depth), range(0, axis)), range(axis + depth, rank + depth - 1)));
  w.set("back", joined(joined(range(1, axis + 1), {0}), range(axis + 1, rank)));
}

/// The attributes of a window over our first input, an image, as ONNX has them for NCHW images.
void compute_window(OnnxWriter& w) {
  const Node& node = w.node();
  const Ints& strides = node.attr<Ints>("strides");
  const Ints *dilations = node.attrs().find<Ints>("dilations"), *pool = node.attrs().find<Ints>("ksize");
  const auto* groups = node.attrs().find<std::int64_t>("groups");
  const auto& scheme = node.attr<std::string>("padding");
  const Shape &image = w.shape(), &filter = pool ? image : w.shape(1);
  Ints window, pads(4), reaches, rest, most;
  bool known = true;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t size = image.sizes()[i + 1], stride = strides[i + 1];
    const std::int64_t dilation = dilations ? (*dilations)[i + 1] : 1;
    window.push_back(pool ? (*pool)[i + 1] : filter.sizes()[i]);
    const std::int64_t reach = (window[i] - 1) * dilation + 1;
    reaches.push_back(reach);
    most.push_back(stride - 1);
    if (scheme == "EXPLICIT") {
      const Ints& widths = node.attr<Ints>("explicit_paddings");
      pads[i] = widths[2 * i + 2];
      pads[i + 2] = widths[2 * i + 3];
    } else if (scheme == "SAME") {
      if (window[i] < 0 || (size < 0 && stride > 1 && dilation > 1))
        w.refuse("its padding depends on a size that is not known yet");
      known &= size >= 0 || stride == 1;
      // The padding that the last window needs; with stride 1 it does not depend on the size of the image.
      const std::int64_t total = std::max<std::int64_t>(reach - (stride > 1 ? (size - 1) % stride + 1 : 1), 0);
      pads[i] = total / 2;
      pads[i + 2] = total - total / 2;
    }
    // The pixels that no window reaches.
    if (window[i] >= 0 && (size >= 0 || stride == 1))
      rest.push_back(stride == 1 ? 0 : (size + pads[i] + pads[i + 2] - reach) % stride);
  }
  w.set("steps", Ints{strides[1], strides[2]});
  if (dilations) w.set("spread", Ints{(*dilations)[1], (*dilations)[2]});
  w.set("window", window);
  w.set("reach", reaches);
  w.set("most", most);
  if (known) {
    w.set("pads", pads);
  } else {
    w.set("auto", std::string("SAME_UPPER"));
  }
  if (known && rest.size() == 2) w.set("rest", rest);
  w.set("kernel", Ints{1, 1, window[0], window[1]});
  w.set("count", static_cast<double>(window[0] * window[1]));
  w.set("whole", known && (!groups || *groups == 1));
}

// ---- Ops of any number of inputs or outputs -------------------------------------------------------------------------

void write_pack(OnnxWriter& w) {
  const auto axis = w.node().attr<std::int64_t>("axis");
  const std::string list = w.ints({axis});
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < w.node().inputs().size(); ++i) rows.push_back(w.op("Unsqueeze", {w.in(i), list}));
  w.finish({w.op("Concat", rows, {{"axis", axis}})});
}

void write_unpack(OnnxWriter& w) {
  std::vector<std::string> rows(w.node().outputs().size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (w.is_used(i))
      rows[i] = w.op("Gather", {w.in(), w.number(static_cast<double>(i), int64)}, {{"axis", axis_of(w)}});
  w.finish(rows);
}

void write_values(OnnxWriter& w) {
  std::vector<std::string> values(w.node().outputs().size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = w.op("Identity", {w.in(i)});
  w.finish(values);
}

void write_split(OnnxWriter& w) {
  const int axis = axis_of(w);
  const OnnxField along{"axis", axis};
  std::vector<std::int64_t> sizes;
  for (const Tensor& each : w.node().outputs()) sizes.push_back(each.shape().sizes()[axis]);
  if (std::find(sizes.begin(), sizes.end(), -1) == sizes.end())
    return w.finish(w.ops("Split", {w.in(), w.ints(sizes)}, {along}, sizes.size()));
  if (!w.find("num_split")) w.refuse("the size of a part is not known yet");
  const auto parts = static_cast<std::int64_t>(sizes.size());
  w.finish(w.ops("Split", {w.in()}, {along, {"num_outputs", parts}}, sizes.size()));
}

void write_concat_grad(OnnxWriter& w) {
  const int axis = axis_of(w, 1);
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < w.node().outputs().size(); ++i)
    sizes.push_back(w.op("Shape", {w.in(i + 1)}, {{"start", axis}, {"end", axis + 1}}));
  w.finish(w.ops("Split", {w.in(), w.op("Concat", sizes, {{"axis", 0}})}, {{"axis", axis}}, sizes.size()));
}

/// The first inputs are indices, the others the data for them. Rows that no index names are 0.
void write_stitch(OnnxWriter& w) {
  const std::size_t count = w.node().inputs().size() / 2;
  const std::string rest = w.op("Shape", {w.in(count)}, {{"start", w.shape(0).rank()}});
  const auto joined = [&](const std::vector<std::string>& parts) { return w.op("Concat", parts, {{"axis", 0}}); };
  std::vector<std::string> places{w.ints({-1})}, rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string all = w.op("Reshape", {w.in(i), w.ints({-1})});
    places.push_back(w.op("Cast", {all}, {{"to", 7}}));
    const std::string size = w.op("Shape", {all});
    rows.push_back(w.op("Reshape", {w.in(count + i), joined({size, rest})}, {{"allowzero", 1}}));
  }
  const std::string length = w.op("Add", {w.op("ReduceMax", {joined(places)}), w.ints({1})});
  places.erase(places.begin());
  const std::string zeros = w.op("Expand", {w.number(0, w.node().output().dtype()), joined({length, rest})});
  w.finish({w.op("ScatterND", {zeros, w.op("Unsqueeze", {joined(places), w.ints({-1})}), joined(rows)})});
}

/// An unknown size is that of an input's axis. One may instead be an input's number of elements over all other sizes.
void write_fill_like(OnnxWriter& w) {
  const Ints& sizes_of = w.node().attr<Ints>("sizes_of");
  std::vector<std::string> sizes;
  std::optional<std::size_t> rest;
  std::size_t rest_of = 0, next = 0;
  for (const std::int64_t size : w.node().attr<Shape>("shape").sizes()) {
    if (size >= 0) {
      sizes.push_back(w.ints({size}));
      continue;
    }
    const auto input = static_cast<std::size_t>(sizes_of[next]);
    const std::int64_t axis = sizes_of[next + 1];
    next += 2;
    if (axis < 0) {
      rest = sizes.size();
      rest_of = input;
    }
    sizes.push_back(axis < 0 ? w.ints({1}) : w.op("Shape", {w.in(input)}, {{"start", axis}, {"end", axis + 1}}));
  }
  if (rest) {
    std::string others = w.ints({1});
    for (const std::string& size : sizes) others = w.op("Mul", {others, size});
    sizes[*rest] = w.op("Div", {w.op("Size", {w.in(rest_of)}), others});
  }
  const std::string value = w.number(w.node().attr<double>("value"), w.node().attr<DType>("dtype"));
  w.finish({w.op("Expand", {value, w.op("Concat", sizes, {{"axis", 0}})})});
}

/// onnxruntime has no Where of bools.
void compute_selection(OnnxWriter& w) { w.set("logical", w.node().output().dtype() == boolean); }

/// NonZero takes a scalar for a vector.
void require_axes(OnnxWriter& w) {
  if (w.shape(0).rank() == 0) w.refuse("its input is a scalar");
}

struct Function {
  std::string_view op;
  void (*run)(OnnxWriter&);
};
constexpr std::array computations = std::to_array<Function>({{"MatMul", compute_product},
                                                             {"BatchMatMulV2", compute_product},
                                                             {"MatrixBandPart", compute_band},
                                                             {"MatrixDiagPart", compute_diagonal},
                                                             {"MatrixSetDiag", compute_diagonal},
                                                             {"BroadcastTo", compute_broadcast},
                                                             {"SumLike", compute_sum_like},
                                                             {"ReverseV2", compute_reverse},
                                                             {"Slice", compute_part},
                                                             {"StridedSlice", compute_part},
                                                             {"StridedSliceGrad", compute_part_grad},
                                                             {"TensorStridedSliceUpdate", compute_part},
                                                             {"Repeat", compute_repeat},
                                                             {"TileGrad", compute_repeat_grad},
                                                             {"PadV2", compute_pads},
                                                             {"PadGrad", compute_pads},
                                                             {"UnsortedSegmentSum", compute_segments},
                                                             {"SelectV2", compute_selection},
                                                             {"Where", require_axes},
                                                             {"Conv2D", compute_window},
                                                             {"Conv2DBackpropInput", compute_window},
                                                             {"Conv2DBackpropFilter", compute_window},
                                                             {"MaxPool", compute_window},
                                                             {"MaxPoolGrad", compute_window},
                                                             {"MaxPoolGradGrad", compute_window},
                                                             {"AvgPool", compute_window},
                                                             {"AvgPoolGrad", compute_window}});
constexpr std::array writers = std::to_array<Function>({{"Pack", write_pack},
                                                        {"Unpack", write_unpack},
                                                        {"Split", write_split},
                                                        {"SplitV", write_split},
                                                        {"ConcatGrad", write_concat_grad},
                                                        {"DynamicStitch", write_stitch},
                                                        {"FillLike", write_fill_like},
                                                        {"RegisteredGradients", write_values}});

template <std::size_t count>
const Function* find(const std::array<Function, count>& functions, const OnnxWriter& w) {
  const auto found = std::find_if(functions.begin(), functions.end(),
                                  [&](const Function& each) { return each.op == w.node().type(); });
  return found == functions.end() ? nullptr : found;
}

}  // namespace

std::optional<std::string> write_onnx(OnnxWriter& writer) {
  for (const Tensor& each : writer.node().inputs())
    if (!each.shape().has_rank()) writer.refuse("the rank of an input is not known yet");
  if (const Function* whole = find(writers, writer)) return whole->run(writer), std::nullopt;
  if (const Function* compute = find(computations, writer)) compute->run(writer);
  bool known = false;
  const auto formula = formula_of(writer, known);
  if (!formula) return detail::join("ONNX has no op that does the same", known ? " for its type and attributes" : "");
  writer.finish(writer.formula(*formula));
  return {};
}

}  // namespace tapestry::io
