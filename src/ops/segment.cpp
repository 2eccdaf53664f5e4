#include "tapestry/ops/segment.hpp"

#include <algorithm>
#include <limits>

#include "core/make_tensor.hpp"
#include "ops/batching.hpp"
#include "ops/checked_like.hpp"
#include "ops/handles.hpp"
#include "ops/recurrence.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"
#include "tapestry/ops/selection.hpp"

TAPESTRY_OP_FAMILY(segment)

namespace tapestry {
namespace {

// Each op has the inputs (indices, updates, like) of the one that adds, in gather.cpp: element i of the axis of the
// result combines the updates whose index is i.

enum class Combine : std::uint8_t { largest, smallest, product };

/// The type in which elements are combined.
template <class T>
using Combined = std::conditional_t<std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>, float, T>;

template <Combine f, class T>
T combined(T a, T b) {
  if constexpr (f == Combine::product) return static_cast<T>(a * b);
  if (a != a) return a;  // NaN stays
  if constexpr (f == Combine::largest) return a > b ? a : b;
  return a < b ? a : b;
}

/// The result of combining no elements.
template <Combine f, class T>
Combined<T> neutral() {
  if constexpr (f == Combine::product)
    return 1;
  else if constexpr (f == Combine::smallest)
    return highest_number<T>();
  else if constexpr (std::is_integral_v<T>)
    return std::numeric_limits<T>::lowest();
  else
    return -highest_number<T>();
}

template <Combine f, class T>
void combine_elements(const Call& call) {
  const Tensor &indices = call.input(0), &updates = call.input(1), &result = call.output();
  const int axis = normalize_axis(call.attr<std::int64_t>("axis"), result.rank());
  const std::int64_t outer = size_between(result.shape(), 0, axis), count = result.shape().sizes()[axis];
  const std::int64_t inner = size_between(result.shape(), axis + 1, result.rank());
  const std::vector<std::int64_t> places = indices.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i] < 0 || places[i] >= count)
      throw InvalidArgumentError(detail::join("segment_ids[", i, "] = ", places[i], " is not in [0, ", count, ")"));
  const auto* from = static_cast<const T*>(updates.impl().data);
  std::vector<Combined<T>> rows(static_cast<std::size_t>(count * inner));
  T* to = call.output_data<T>();
  for (std::int64_t i = 0; i < outer; ++i) {
    std::fill(rows.begin(), rows.end(), neutral<f, T>());
    for (const std::int64_t place : places) {
      Combined<T>* const row = rows.data() + place * inner;
      for (std::int64_t k = 0; k < inner; ++k) row[k] = combined<f>(row[k], static_cast<Combined<T>>(from[k]));
      from += inner;
    }
    for (const Combined<T> each : rows) *to++ = static_cast<T>(each);
  }
}

template <Combine f>
void run_combine(const Call& call) {
  detail::visit_dtype(call.output().dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>) combine_elements<f, T>(call);
  });
}

/// For each element of the updates that of its segment.
Tensor picked(const Call& call, const Tensor& of_segments) {
  return gather(of_segments, call.input(0), call.attr<std::int64_t>("axis"));
}
Tensor added(const Call& call, const Tensor& updates) {
  return apply(ops::unsorted_segment_sum, {call.input(0), updates, call.output()}, call.attrs());
}
/// Equal extrema share the gradient.
Tensors extremum_gradient(const Call& call, const Tensor& g) {
  const Tensor chosen = equal(call.input(1), picked(call, call.output())).cast(g.dtype());
  return {Tensor(), chosen * picked(call, divide_no_nan(g, added(call, chosen))), Tensor()};
}

/// The derivative by an element is the product of the others of its segment, which are those before it times those
/// behind it when the segments are in order.
Tensors product_gradient(const Call& call, const Tensor& g) {
  const Tensor& given = call.input(1);
  const int depth = rank_of(call.input(0)),
            axis = normalize_axis(call.attr<std::int64_t>("axis"), rank_of(call.input(2)));
  const Shape& sizes = call.input(0).shape();
  Shape flat;  // with one axis for those of the segments
  for (int i = 0; i < axis; ++i) flat.push_back(given.shape()[i]);
  flat.push_back(sizes.is_known() ? sizes.num_elements() : -1);
  for (int i = axis + depth; i < rank_of(given); ++i) flat.push_back(given.shape()[i]);
  const Tensor ids = depth == 1 ? call.input(0) : reshape(call.input(0), {-1});
  const Tensor x = depth == 1 ? given : reshape(given, flat);
  const Tensor order = argsort(ids), sorted = gather(ids, order), in_order = gather(x, order, axis);
  const auto differs = [&](bool reverse) {  // from the neighbour on one side, as the element at the end does
    const Tensor neighbour = element_before(sorted, 0, reverse);
    return beside_axis(not_equal(sorted, neighbour) | is_first_along(sorted, 0, reverse), x, axis);
  };
  const Tensor first = differs(false), last = differs(true), none = zeros_like(in_order);
  const Tensor before = recurrence(where(last, none, in_order), where(first, 1, none), axis, false, true);
  const Tensor behind = recurrence(where(first, none, in_order), where(last, 1, none), axis, true, true);
  const Tensor others = gather(before * behind, argsort(order), axis);
  return {Tensor(), picked(call, g) * (depth == 1 ? others : reshape_like(others, given)), Tensor()};
}

template <Combine f>
Op combine_op(const char* name, Gradient gradient) {
  return {
      .name = name,
      .attrs = {{"axis", AttrKind::number}},
      .infer = [](const Call& call) -> Specs { return ops::unsorted_segment_sum.infer(call); },
      .cpu = run_combine<f>,
      .gradient = std::move(gradient),
      .needs = f == Combine::product ? Needs{3, 0} : Needs{3, 1},
      .precision = Precision::full,
      .shape_inputs = 4,
      .batch = [](const BatchedCall& call) -> Tensors {
        return call.has_batch(0) ? Tensors() : ops::unsorted_segment_sum.batch(call);
      },
  };
}

TAPESTRY_OP(segment_max_op)(combine_op<Combine::largest>("UnsortedSegmentMax", extremum_gradient));
TAPESTRY_OP(segment_min_op)(combine_op<Combine::smallest>("UnsortedSegmentMin", extremum_gradient));
TAPESTRY_OP(segment_prod_op)(combine_op<Combine::product>("UnsortedSegmentProd", product_gradient));

// ---- The functions ----------------------------------------------------------------------------------------------------

/// Something of each segment, or of each part, with axes of size 1 behind its own, up to the rank of x.
Tensor beside(Tensor of_segments, const Tensor& x) {
  for (int axis = rank_of(of_segments); axis < rank_of(x); ++axis) of_segments = expand_dims(of_segments, -1);
  return of_segments;
}

bool may_be_negative(const Tensor& segments) {
  return segments.is_symbolic() || reduce_any(segments < 0).to(cpu()).item<bool>();
}

/// Parts of data and their segments, none of them negative.
struct Parts {
  Tensor data, segments, like;
};

/// Zeros with one row for each segment, of which only the shape is used.
Tensor rows_like(const Tensor& data, const Tensor& segments, const Shape::Size& count) {
  Shape shape{count};
  for (int axis = rank_of(segments); axis < rank_of(data); ++axis) shape.push_back(data.shape()[axis]);
  return zeros(shape, {.dtype = data.dtype(), .device = data.device()});
}

/// The parts with a negative segment are left out: `nothing`, which changes no result, stands for them in segment 0.
Parts parts_of(const Tensor& data, const Tensor& given, const Shape::Size& count, const Tensor& nothing) {
  require_type(given, index_types, "segment_ids");
  Shape start;
  for (int axis = 0; axis < std::min(rank_of(given), rank_of(data)); ++axis) start.push_back(data.shape()[axis]);
  if (rank_of(given) > rank_of(data) || !agree(start, given.shape()))
    throw InvalidArgumentError(
        detail::join("data.shape = ", data.shape(), " does not start with segment_ids.shape = ", given.shape()));
  const Tensor segments = start.is_known() && given.shape().is_known() ? given : checked_like(given, start);
  const Tensor like = rows_like(data, segments, count);
  if (!may_be_negative(segments)) return {data, segments, like};
  if (like.shape().sizes()[0] == 0) {  // there is no segment 0
    const Tensor stays = segments >= 0;
    return {boolean_mask(data, stays), boolean_mask(segments, stays), like};
  }
  return {where(beside(segments < 0, data), nothing, data), maximum(segments, 0), like};
}

/// What an op gives for no elements, as a scalar.
Tensor nothing_for(const Op& op, DType dtype) {
  const Combine f = &op == &segment_max_op   ? Combine::largest
                    : &op == &segment_min_op ? Combine::smallest
                                             : Combine::product;
  Tensor value = detail::make_tensor(dtype, Shape(), cpu());
  detail::visit_dtype(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, bool>)
      *detail::mutable_data<T>(value) = static_cast<T>(f == Combine::largest    ? neutral<Combine::largest, T>()
                                                       : f == Combine::smallest ? neutral<Combine::smallest, T>()
                                                                                : neutral<Combine::product, T>());
  });
  return value;
}

Tensor reduced_by(const Op& op, const In& data, const In& segments, const Shape::Size& count, std::string_view name) {
  return blaming(op.name, data.where(), [&] {
    const bool adds = &op == &ops::unsorted_segment_sum;
    require_type(data, number_types);
    const Tensor nothing = adds ? tensor(0).cast(data->dtype()) : nothing_for(op, data->dtype());
    const Parts parts = parts_of(data, segments, count, nothing.to(data->device()));
    return apply(op, {parts.segments, parts.data, parts.like}, {{"axis", std::int64_t{0}}}, name);
  });
}

/// The number of parts of each segment, at least 1, in the type and rank of a sum.
Tensor divisor(const Tensor& data, const Tensor& segments, const Shape::Size& count) {
  const Tensor one_each = ones_like(segments).cast(data.dtype());
  return maximum(reduced_by(ops::unsorted_segment_sum, one_each, segments, count, {}), 1.0);
}

Tensor mean_of(const In& data, const In& segments, const Shape::Size& count, bool root, std::string_view name) {
  return blaming(root ? "unsorted_segment_sqrt_n" : "unsorted_segment_mean", data.where(), [&] {
    const Tensor x = as_floats(data), sum = reduced_by(ops::unsorted_segment_sum, x, segments, count, {});
    const Tensor numbers = beside(divisor(x, segments, count), sum);
    return divide(sum, root ? sqrt(numbers) : numbers, name);
  });
}

/// The number of ascending segments, 1 more than the last one. A graph has it only as the size of a tensor, here of a
/// mask of that length.
Dimension count_of(const In& segments, const Tensor& data) {
  require_type(segments, index_types, "segment_ids");
  if (rank_of(segments) != 1 || rank_of(data) < 1)
    throw InvalidArgumentError(detail::join("data must be [rows, ...] and segment_ids [rows], but their shapes are ",
                                            data.shape(), " and ", segments->shape()));
  if (!segments->is_symbolic()) {
    const std::vector<std::int64_t> list = segments->to_vector<std::int64_t>();
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i] < (i == 0 ? 0 : list[i - 1]))
        throw InvalidArgumentError(i == 0 ? detail::join("segment_ids[0] = ", list[0], " is negative")
                                          : detail::join("segment ids are not increasing: segment_ids[", i,
                                                         "] = ", list[i], " follows ", list[i - 1]));
  }
  return reshape(sequence_mask(
                     reduce_max(concat(
                         {segments->cast(int64), full({1}, -1, {.dtype = int64, .device = segments->device()})}, 0)) +
                     1),
                 {-1})
      .shape()[0];
}

/// 0 where a segment has no rows.
Tensor zero_if_empty(const Op& op, const In& data, const In& segments, std::string_view name) {
  return blaming(op.name, data.where(), [&] {
    const Dimension count = count_of(segments, data);
    const Tensor found = reduced_by(op, data, segments, count, {});
    const Tensor numbers = reduced_by(ops::unsorted_segment_sum, ones_like(segments), segments, count, {});
    return where(beside(greater(numbers, 0), found), found, 0, name);
  });
}

}  // namespace

Tensor unsorted_segment_sum(In data, In segment_ids, const Shape::Size& num_segments, std::string_view name) {
  return reduced_by(ops::unsorted_segment_sum, data, segment_ids, num_segments, name);
}
Tensor unsorted_segment_mean(In data, In segment_ids, const Shape::Size& num_segments, std::string_view name) {
  return mean_of(data, segment_ids, num_segments, false, name);
}
Tensor unsorted_segment_sqrt_n(In data, In segment_ids, const Shape::Size& num_segments, std::string_view name) {
  return mean_of(data, segment_ids, num_segments, true, name);
}
Tensor unsorted_segment_max(In data, In segment_ids, const Shape::Size& num_segments, std::string_view name) {
  return reduced_by(segment_max_op, data, segment_ids, num_segments, name);
}
Tensor unsorted_segment_min(In data, In segment_ids, const Shape::Size& num_segments, std::string_view name) {
  return reduced_by(segment_min_op, data, segment_ids, num_segments, name);
}
Tensor unsorted_segment_prod(In data, In segment_ids, const Shape::Size& num_segments, std::string_view name) {
  return reduced_by(segment_prod_op, data, segment_ids, num_segments, name);
}

Tensor segment_sum(In data, In segment_ids, std::string_view name) {
  return blaming("segment_sum", data.where(), [&] {
    return reduced_by(ops::unsorted_segment_sum, data, segment_ids, count_of(segment_ids, data), name);
  });
}
Tensor segment_mean(In data, In segment_ids, std::string_view name) {
  return blaming("segment_mean", data.where(),
                 [&] { return mean_of(data, segment_ids, count_of(segment_ids, data), false, name); });
}
Tensor segment_max(In data, In segment_ids, std::string_view name) {
  return zero_if_empty(segment_max_op, data, segment_ids, name);
}
Tensor segment_min(In data, In segment_ids, std::string_view name) {
  return zero_if_empty(segment_min_op, data, segment_ids, name);
}
Tensor segment_prod(In data, In segment_ids, std::string_view name) {
  return blaming("segment_prod", data.where(),
                 [&] { return reduced_by(segment_prod_op, data, segment_ids, count_of(segment_ids, data), name); });
}

}  // namespace tapestry
