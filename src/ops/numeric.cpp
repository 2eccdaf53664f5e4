#include "tapestry/ops/numeric.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/checked_like.hpp"
#include "ops/merged.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/segment.hpp"

namespace tapestry {
namespace {

constexpr double without_end = std::numeric_limits<double>::infinity();

double highest(DType dtype) {
  double number = 0;
  detail::visit_dtype(dtype, [&]<class T>() { number = static_cast<double>(highest_number<T>()); });
  return number;
}

/// A function of x along its last axis, applied along another one.
template <class F>
Tensor along(const Tensor& x, std::int64_t axis, F f) {
  const int rank = rank_of(x), place = normalize_axis(axis, rank);
  if (place == rank - 1) return f(x);
  Ints swapped;
  for (int i = 0; i < rank; ++i) swapped.push_back(i == place ? rank - 1 : i == rank - 1 ? place : i);
  return transpose(f(transpose(x, swapped)), swapped);
}

/// The elements of a tensor in ascending order along an axis, at a fraction q of the way. NaN, which stands last, is
/// the result wherever there is one.
Tensor quantile_along(const Tensor& x, double q, int axis, bool keep) {
  if (x.shape().sizes()[axis] == 0)
    throw InvalidArgumentError(detail::join("axis ", axis, " of x has no elements, its shape is ", x.shape()));
  const Tensor sorted = sort(x, axis);
  const Tensor last = size(sorted, axis).cast(float64) - 1.0;
  const Tensor position = last * q, below = floor(position);
  const Tensor low = gather(sorted, below.cast(int64), axis), high = gather(sorted, ceil(position).cast(int64), axis);
  // Equal infinities have no difference, and the line from -infinity to a finite number stays at -infinity.
  const Tensor stays = equal(low, high) | (equal(low, -without_end) & less(high, without_end));
  const Tensor step = where(stays, 0.0, high - low);
  const Tensor greatest = gather(sorted, last.cast(int64), axis);
  const Tensor y = where(is_nan(greatest), greatest, low + step * (position - below).cast(sorted.dtype()));
  return keep ? expand_dims(y, axis) : y;
}

void require_fraction(double q) {
  if (!(q >= 0 && q <= 1)) throw InvalidArgumentError(detail::join("q must be in [0, 1], but is ", q));
}

/// 0, 1, 2, ... for the elements of a vector.
Tensor numbered(const Tensor& vector) { return cumsum(ones_like(vector).cast(int32)) - 1; }

Tensor counted_values(const Tensor& values, const Tensor& weights, const Shape::Size& size, std::string_view name) {
  // A number behind the last one counts for nothing, as a negative one does.
  const Tensor end = tapestry::size(zeros({size}, {.dtype = int32, .device = values.device()}), 0).cast(values.dtype());
  return unsorted_segment_sum(weights, where(less(values, end), values, -1), size, name);
}

/// A mask of the elements on or below a diagonal.
Tensor lower_mask(const Tensor& x, std::int64_t diagonal) {
  require_rank_at_least(x, 2);
  const Tensor one_each = ones_like(x).cast(int32), columns = cumsum(one_each, -1), rows = cumsum(one_each, -2);
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  return less_equal(columns - rows, std::clamp<std::int64_t>(diagonal, -most, most));
}

/// Whole numbers as float64, in which int32 and almost all of int64 keep their digits.
Tensor comparable(const In& x) { return is_floating(x->dtype()) ? x.tensor() : x.as(float64); }

}  // namespace

Tensor is_inf(In x, std::string_view name) {
  return blaming("is_inf", x.where(), [&] { return equal(abs(as_floats(x)), without_end, name); });
}

Tensor logaddexp(In a, In b, std::string_view name) {
  return blaming("logaddexp", a.where(), [&] {
    // The logarithm is smooth where both are equal, which the maximum and |a - b| are not: their derivatives there
    // would be those of one side.
    const Tensor x = as_floats(a), y = as_floats(b), first = greater_equal(x, y);
    const Tensor high = where(first, x, y), low = where(first, y, x);
    // Equal infinities have no difference.
    const Tensor alike = equal(high, low) & is_inf(high);
    return add(high, softplus(where(alike, 0.0, low) - where(alike, 0.0, high)), name);
  });
}

Tensor isclose(In a, In b, const CloseOptions& options, std::string_view name) {
  return blaming("isclose", a.where(), [&] {
    const Tensor x = comparable(a), y = comparable(b);
    const Tensor near = less_equal(abs(x - y), options.atol + options.rtol * abs(y)) & is_finite(y);
    Tensor close = near | equal(x, y);
    if (options.equal_nan) close = close | (is_nan(x) & is_nan(y));
    return named(close, name);
  });
}

Tensor allclose(In a, In b, const CloseOptions& options, std::string_view name) {
  return reduce_all(isclose(a, b, options), name);
}

Tensor nan_to_num(In x, const NanToNumOptions& options, std::string_view name) {
  return blaming("nan_to_num", x.where(), [&] {
    if (!is_floating(x->dtype())) return named(x, name);
    const double most = highest(x->dtype());
    const Tensor number = where(is_nan(x), options.nan, x);
    const Tensor below = where(equal(x, without_end), options.posinf.value_or(most), number);
    return where(equal(x, -without_end), options.neginf.value_or(-most), below, name);
  });
}

Tensor reduce_std(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return blaming("reduce_std", x.where(), [&] {
    const Tensor squared = variance(x, axes, options), zero = equal(squared, 0.0);
    return where(zero, 0.0, sqrt(where(zero, 1.0, squared)), name);
  });
}

Tensor quantile(In x, double q, std::int64_t axis, const ReduceOptions& options, std::string_view name) {
  return blaming("quantile", x.where(), [&] {
    require_fraction(q);
    return named(quantile_along(as_floats(x), q, normalize_axis(axis, rank_of(x)), options.keep_dims), name);
  });
}
Tensor quantile(In x, double q, std::string_view name) {
  return blaming("quantile", x.where(), [&] {
    require_fraction(q);
    return named(quantile_along(reshape(as_floats(x), {-1}), q, 0, false), name);
  });
}
Tensor median(In x, std::int64_t axis, const ReduceOptions& options, std::string_view name) {
  return quantile(x, 0.5, axis, options, name);
}
Tensor median(In x, std::string_view name) { return quantile(x, 0.5, name); }

namespace {

Tensor differences(const Tensor& x) { return x(ellipsis, range(1, std::nullopt)) - x(ellipsis, range(0, -1)); }
Tensor sums_of_neighbours(const Tensor& x) { return x(ellipsis, range(1, std::nullopt)) + x(ellipsis, range(0, -1)); }

}  // namespace

Tensor diff(In x, std::int64_t n, std::int64_t axis, std::string_view name) {
  return blaming("diff", x.where(), [&] {
    if (n < 0) throw InvalidArgumentError(detail::join("n must not be negative, but is ", n));
    Tensor y = x;
    const int place = normalize_axis(axis, rank_of(x));
    // Where the axis is known, it is empty after as many differences as it has elements.
    constexpr std::int64_t most = 10'000;
    if (x->shape().sizes()[place] < 0 && n > most)
      throw InvalidArgumentError(detail::join("a graph can take at most ", most, " differences of axis ", axis,
                                              " of unknown size, but n is ", n));
    for (std::int64_t i = 0; i < n && y.shape().sizes()[place] != 0; ++i) y = along(y, axis, differences);
    return named(y, name);
  });
}

Tensor trapezoid(In y, double dx, std::int64_t axis, std::string_view name) {
  return blaming("trapezoid", y.where(), [&] {
    const Tensor heights = along(as_floats(y), axis, sums_of_neighbours);
    return multiply(reduce_sum(heights, axis), dx / 2, name);
  });
}

Tensor trapezoid(In y, In x, std::int64_t axis, std::string_view name) {
  return blaming("trapezoid", y.where(), [&] {
    const int place = normalize_axis(axis, rank_of(y));
    const Shape expected = rank_of(x) == 1 ? Shape{y->shape()[place]} : y->shape();
    if (!agree(x->shape(), expected))
      throw InvalidArgumentError(detail::join("x must have the shape of y, ", y->shape(), ", or be [size of axis ",
                                              axis, "], but its shape is ", x->shape()));
    Tensor widths = along(checked_like(as_floats(x), expected), rank_of(x) == 1 ? 0 : axis, differences);
    if (rank_of(x) == 1)
      for (int i = place + 1; i < rank_of(y); ++i) widths = expand_dims(widths, -1);
    const Tensor heights = along(as_floats(y), axis, sums_of_neighbours);
    return multiply(reduce_sum(heights * widths, axis), 0.5, name);
  });
}

Tensor cov(In x, std::string_view name) {
  return blaming("cov", x.where(), [&] {
    const Tensor values = as_floats(x);
    const int rank = rank_of(values);
    if (rank != 1 && rank != 2)
      throw InvalidArgumentError(
          detail::join("x must be [observations] or [variables, observations], but its shape is ", x->shape()));
    const Tensor centred = values - reduce_mean(values, -1, {.keep_dims = true});
    const Tensor count = size(values, -1).cast(values.dtype()) - 1.0;
    return divide(rank == 1 ? reduce_sum(square(centred)) : matmul(centred, centred, {.transpose_b = true}), count,
                  name);
  });
}

Tensor corrcoef(In x, std::string_view name) {
  return blaming("corrcoef", x.where(), [&] {
    const Tensor c = cov(x);
    if (rank_of(c) == 0) return divide(c, c, name);
    const Tensor deviation = sqrt(diag_part(c));
    return divide(c, outer(deviation, deviation), name);
  });
}

Tensor bincount(In x, const Shape::Size& size, std::string_view name) {
  return blaming("bincount", x.where(), [&] {
    require_type(x, index_types);
    return counted_values(x, ones_like(x).cast(int32), size, name);
  });
}
Tensor bincount(In x, In weights, const Shape::Size& size, std::string_view name) {
  return blaming("bincount", x.where(), [&] {
    require_type(x, index_types);
    return counted_values(x, weights, size, name);
  });
}

Tensor histogram_fixed_width(In x, double low, double high, std::int64_t bins, std::string_view name) {
  return blaming("histogram_fixed_width", x.where(), [&] {
    if (!(low < high) || bins < 1)
      throw InvalidArgumentError(
          detail::join("low must be below high and bins at least 1, but they are ", low, ", ", high, " and ", bins));
    const auto count = static_cast<double>(bins);
    const Tensor place = clip(floor((as_floats(x) - low) * (count / (high - low))), 0.0, count - 1).cast(int32);
    return bincount(place, bins, name);
  });
}

Tensor searchsorted(In sorted, In values, Side side, std::string_view name) {
  return blaming("searchsorted", sorted.where(), [&] {
    if (rank_of(sorted) != 1)
      throw InvalidArgumentError(detail::join("sorted must be a vector, but its shape is ", sorted->shape()));
    const DType dtype = promote(sorted->dtype(), values->dtype());
    const Tensor list = sorted->cast(dtype), wanted = reshape(values->cast(dtype), {-1});
    // All in one order, in which of equal elements the one that stands first comes first: the place of a value is the
    // number of elements of the vector before it.
    const bool first = side == Side::left;
    const Tensor from_list =
        concat({first ? zeros_like(wanted) : ones_like(list), first ? ones_like(list) : zeros_like(wanted)})
            .cast(int32);
    const Tensor order = argsort(first ? concat({wanted, list}) : concat({list, wanted}));
    const Tensor before = cumsum(gather(from_list, order));
    const Tensor numbers = first ? numbered(wanted) : numbered(wanted) + size(list, 0);
    return reshape_like(gather(gather(before, argsort(order)), numbers), values, name);
  });
}

Tensor interp(In x, In xp, In fp, std::string_view name) {
  return blaming("interp", x.where(), [&] {
    if (rank_of(xp) != 1 || rank_of(fp) != 1 || !agree(xp->shape(), fp->shape()))
      throw InvalidArgumentError(detail::join("xp and fp must be vectors of one length, but their shapes are ",
                                              xp->shape(), " and ", fp->shape()));
    const Tensor at = as_floats(x), places = checked_like(as_floats(xp), fp), values = as_floats(fp);
    const Tensor last = size(places, 0) - 1;
    const Tensor right = searchsorted(places, at, Side::right);
    const Tensor begin = clip(right - 1, 0, last), end = minimum(right, last);
    const Tensor from = gather(places, begin), low = gather(values, begin);
    const Tensor width = gather(places, end) - from;
    const Tensor inside = greater(right, 0) & greater(width, 0.0);
    const Tensor share = where(inside, (at - from) / where(inside, width, 1.0), 0.0);
    return where(is_nan(at), at, low + share * (gather(values, end) - low), name);
  });
}

std::vector<Tensor> meshgrid(const InList& vectors, Indexing indexing, std::string_view name) {
  return blaming("meshgrid", vectors.where(), [&] {
    const Tensors& list = vectors.tensors();
    const int count = static_cast<int>(list.size());
    if (count > Shape::max_rank)
      throw InvalidArgumentError(detail::join("there are ", count, " vectors, but at most ", Shape::max_rank, " axes"));
    Shape shape;
    const auto axis_of_vector = [&](int i) { return indexing == Indexing::xy && i < 2 && count > 1 ? 1 - i : i; };
    for (int axis = 0; axis < count; ++axis) {
      const Tensor& vector = list[static_cast<std::size_t>(axis_of_vector(axis))];
      if (rank_of(vector) != 1)
        throw InvalidArgumentError(
            detail::join("all arguments must be vectors, but one has the shape ", vector.shape()));
      shape.push_back(vector.shape()[0]);
    }
    std::vector<Tensor> grids;
    for (int i = 0; i < count; ++i) {
      Tensor column = list[static_cast<std::size_t>(i)];
      for (int axis = axis_of_vector(i) + 1; axis < count; ++axis) column = expand_dims(column, -1);
      grids.push_back(broadcast_to(column, shape, name));
    }
    return grids;
  });
}

Tensor rot90(In x, std::int64_t times, std::string_view name) {
  return blaming("rot90", x.where(), [&] {
    require_rank_at_least(x, 2);
    Ints swapped{1, 0};
    for (int axis = 2; axis < rank_of(x); ++axis) swapped.push_back(axis);
    const std::int64_t turns = (times % 4 + 4) % 4;
    if (turns == 0) return named(x, name);
    if (turns == 2) return flip(x, {0, 1}, name);
    return turns == 1 ? flip(transpose(x, swapped), 0, name) : transpose(flip(x, 0), swapped, name);
  });
}

Tensor tril(In x, std::int64_t diagonal, std::string_view name) {
  return blaming("tril", x.where(), [&] { return where(lower_mask(x, diagonal), x, zeros_like(x), name); });
}
Tensor triu(In x, std::int64_t diagonal, std::string_view name) {
  return blaming("triu", x.where(), [&] {
    return where(lower_mask(x, std::max(diagonal, -std::numeric_limits<std::int64_t>::max()) - 1), zeros_like(x), x,
                 name);
  });
}

Tensor kron(In a, In b, std::string_view name) {
  return blaming("kron", a.where(), [&] {
    if (rank_of(a) != 2 || rank_of(b) != 2)
      throw InvalidArgumentError(
          detail::join("a and b must be matrices, but their shapes are ", a->shape(), " and ", b->shape()));
    const Tensor products = expand_dims(a, {1, 3}) * expand_dims(b, {0, 2});  // [m, p, n, q]
    return named(merged(products, {2, 2}), name);
  });
}

}  // namespace tapestry
