#include <cmath>
#include <limits>

#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

namespace tapestry {
namespace {

/// x to the power of 1/p for x >= 0, with the gradient 0 at 0: the infinite slope there would make it NaN.
Tensor root(const Tensor& x, double p) {
  const Tensor zero = equal(x, 0.0), safe = where(zero, 1.0, x);
  return where(zero, 0.0, p == 2 ? sqrt(safe) : power(safe, 1 / p));
}

Tensor euclidean_norm(const Tensor& x, const Axes& axes) {
  return root(reduce_sum(square(x), axes, {.keep_dims = true}), 2);
}

Tensor vector_norm(const Tensor& x, double p, const Axes& axes) {
  if (p == 0 || p == 2) return euclidean_norm(x, axes);
  if (std::isinf(p)) return reduce_max(abs(x), axes, {.keep_dims = true});
  if (p == 1) return reduce_sum(abs(x), axes, {.keep_dims = true});
  return root(reduce_sum(power(abs(x), p), axes, {.keep_dims = true}), p);
}

/// The largest singular values of the matrices that two axes make up; both axes stay, with size 1.
Tensor spectral_norm(const Tensor& x, int rows, int columns) {
  Ints perm;
  for (int i = 0; i < x.rank(); ++i)
    if (i != rows && i != columns) perm.push_back(i);
  perm.push_back(rows);
  perm.push_back(columns);
  const Tensor found = reduce_max(svd(transpose(x, perm)).s, -1);
  const Tensor largest = where(equal(found, 0.0), 0.0, found);  // the gradient is 0 at 0
  return expand_dims(largest, {std::min(rows, columns), std::max(rows, columns)});
}

Tensor matrix_norm(const Tensor& x, double p, int rows, int columns, Where where) {
  constexpr ReduceOptions keep{.keep_dims = true};
  if (p == 0) return euclidean_norm(x, {rows, columns});
  if (p == 2) return spectral_norm(x, rows, columns);
  if (p == 1) return reduce_max(reduce_sum(abs(x), rows, keep), columns, keep);
  if (std::isinf(p)) return reduce_max(reduce_sum(abs(x), columns, keep), rows, keep);
  throw InvalidArgumentError(detail::join("norm: 'ord' of a matrix is 1, 2, inf, \"fro\" or \"euclidean\", but is ", p),
                             where);
}

}  // namespace

NormOrder::NormOrder(const char* name, Where where) {
  const std::string_view text = name;
  if (text == "inf") {
    p_ = std::numeric_limits<double>::infinity();
  } else if (text != "euclidean" && text != "fro") {
    throw InvalidArgumentError(
        detail::join("norm: 'ord' is a number >= 1, \"euclidean\", \"fro\" or \"inf\", but is \"", text, "\""), where);
  }
}

void NormOrder::check(Where where) const {
  if (!(p_ >= 1)) throw InvalidArgumentError(detail::join("norm: 'ord' must be at least 1, but is ", p_), where);
}

Tensor norm(In x, const NormOptions& options, std::string_view name) {
  return blaming("Norm", x.where(), [&] {
    const Tensor floats = as_floats(x);
    // A sum of squares leaves the range of float16 long before its root does.
    if (is_half(floats.dtype())) return narrowed(norm(widened(floats), options), floats, name);
    const Ints& axes = options.axis.list();
    const double p = options.ord.p();
    Tensor result;
    if (options.axis.all() || axes.size() == 1) {
      result = vector_norm(floats, p, options.axis);
    } else if (axes.size() == 2) {
      const int rank = rank_of(floats);
      const int rows = normalize_axis(axes[0], rank), columns = normalize_axis(axes[1], rank);
      if (rows == columns) throw InvalidArgumentError(detail::join("norm: both axes are ", rows));
      result = matrix_norm(floats, p, rows, columns, x.where());
    } else {
      throw InvalidArgumentError(detail::join("norm: 'axis' is one axis or two, but ", axes.size(), " were given"));
    }
    if (options.keep_dims) return named(result, name);
    if (!options.axis.all()) return squeeze(result, options.axis, name);
    return reshape(result, {}, name);
  });
}

}  // namespace tapestry
