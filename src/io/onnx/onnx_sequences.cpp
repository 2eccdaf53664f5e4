// Sequences of tensors of one shape: a tensor with an axis for the elements before the others.

#include <limits>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();

Tensor onnx_moved_axis(const Tensor& x, int from, int to) {
  return from == to ? x : transpose(x, onnx_moved(x.shape().rank(), from, to));
}

void require_one_shape(const OnnxCall& c, const Shape& a, const Shape& b) {
  if (!can_be(a, b)) c.lack("sequences of tensors of several shapes");
}

Tensors read_construct(const OnnxCall& c) {
  for (std::size_t i = 1; i < c.places(); ++i) require_one_shape(c, c.shape(), c.shape(i));
  std::vector<Tensor> elements;
  for (std::size_t i = 0; i < c.places(); ++i) elements.push_back(c[i]);
  return {stack(InList(elements), 0)};
}

/// The first element of a sequence that had none, whose shape nobody knew.
Tensors read_first(const OnnxCall& c) { return {expand_dims(c[0], 0)}; }

Tensors read_insert(const OnnxCall& c) {
  if (c.rank() < 1) c.refuse("its sequence is a scalar");
  require_one_shape(c, Shape(c.shape().sizes().subspan(1)), c.shape(1));
  const Tensor &all = c[0], element = expand_dims(c[1], 0);
  if (!c.has(2)) return {concat({all, element}, 0)};
  const std::int64_t place = c.number(2);
  return {concat({onnx_cut(all, {{0, 0, place}}), element, onnx_cut(all, {{0, place, to_the_end}})}, 0)};
}

Tensors read_erase(const OnnxCall& c) {
  const Tensor& all = c[0];
  const std::int64_t place = c.has(1) ? c.number(1) : -1;
  if (place == -1) return {onnx_cut(all, {{0, 0, -1}})};
  return {concat({onnx_cut(all, {{0, 0, place}}), onnx_cut(all, {{0, place + 1, to_the_end}})}, 0)};
}

Tensors read_at(const OnnxCall& c) {
  const Tensor& place = c[1];
  const Tensor count = size(c[0], 0).cast(place.dtype());
  return {gather(c[0], where(less(place, 0), place + count, place), 0)};
}

Tensors read_length(const OnnxCall& c) { return {size(c[0], 0).cast(int64)}; }

/// Parts of one size. Without `split` each is one slice, whose axis may be left out.
Tensors read_split_to_sequence(const OnnxCall& c) {
  const int axis = c.axis("axis", 0);
  std::int64_t part = 1;
  if (c.has(1)) {
    const std::vector<std::int64_t> sizes = c.numbers(1);
    part = sizes.empty() ? 0 : sizes[0];
    const bool is_list = c.value(1).rank() > 0;
    for (const std::int64_t each : sizes)
      if (each != part) c.lack("its parts of several sizes");
    if (part < 1 || c.size(axis) % part != 0 ||
        (is_list && static_cast<std::int64_t>(sizes.size()) * part != c.size(axis)))
      c.lack("its parts of several sizes");
  }
  const Tensor front = onnx_moved_axis(c[0], axis, 0);
  if (!c.has(1) && !c.flag("keepdims", true)) return {front};
  Shape cut{c.size(axis) / part, part};
  for (int i = 1; i < c.rank(); ++i) cut.push_back(front.shape().sizes()[i]);
  return {onnx_moved_axis(reshape(front, cut), 1, axis + 1)};
}
bool split_to_sequence_lacks(const OnnxCall& c) { return !c.shape().is_known(); }

/// The elements joined along one of their axes, or along a new one.
Tensors read_concat_from_sequence(const OnnxCall& c) {
  const int rank = c.rank() - (c.flag("new_axis") ? 0 : 1);  // of the result
  const int axis = normalize_axis(c.whole("axis"), rank);
  const Tensor placed = onnx_moved_axis(c[0], 0, axis);
  if (c.flag("new_axis")) return {placed};
  Shape joined;
  for (int i = 0; i < placed.shape().rank(); ++i) {
    const std::int64_t size = placed.shape().sizes()[i];
    if (i == axis + 1) {
      joined.set(axis, product(joined.sizes()[axis], size));
    } else {
      joined.push_back(size);
    }
  }
  return {reshape(placed, joined)};
}

}  // namespace

OnnxOps onnx_sequences() {
  constexpr auto rank = onnx_lacks_rank;
  return {
      {"ConcatFromSequence", 1, 1, read_concat_from_sequence, {}, onnx_lacks_sizes},
      {"SequenceAt", 2, 2, read_at, {}, rank},
      {"SequenceConstruct", 1, any_inputs, read_construct, {}, onnx_lacks_ranks},
      {"SequenceErase", 1, 2, read_erase, {1}, rank, nullptr, onnx_rank_of_input},
      {"SequenceInsert", 2, 3, read_insert, {2}, onnx_lacks_ranks, nullptr, onnx_rank_of_input},
      {"SequenceLength", 1, 1, read_length, {}, rank, onnx_type_int64},
      {"SplitToSequence", 1, 2, read_split_to_sequence, {1}, split_to_sequence_lacks},
      {"tapestry::FirstOfSequence", 1, 1, read_first, {}, rank},
  };
}

}  // namespace tapestry::io
