#pragma once

#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "tapestry/ops/reduce.hpp"

namespace tapestry {

// Functions that users of NumPy, JAX and PyTorch know, composed of others.

// ---- Elementwise

/// @addtogroup math
/// @{

/// Whether an element is infinite. Integers never are.
TAPESTRY_API Tensor is_inf(In x, std::string_view name = {});
/// log(exp(a) + exp(b)) without overflow.
TAPESTRY_API Tensor logaddexp(In a, In b, std::string_view name = {});

/// The tolerances of `isclose` and `allclose`.
struct CloseOptions {
  double rtol = 1e-5;      ///< relative to |b|
  double atol = 1e-8;      ///< absolute
  bool equal_nan = false;  ///< whether NaN equals NaN
};
/// Whether |a - b| <= atol + rtol |b|, element by element; equal infinities are close. Integers are compared as
/// float64.
TAPESTRY_API Tensor isclose(In a, In b, const CloseOptions& options = {}, std::string_view name = {});
/// Whether all elements are close: a bool scalar.
TAPESTRY_API Tensor allclose(In a, In b, const CloseOptions& options = {}, std::string_view name = {});

/// What `nan_to_num` puts in place of what is no finite number.
struct NanToNumOptions {
  double nan = 0;                     ///< in place of NaN
  std::optional<double> posinf = {};  ///< in place of infinity; by default the highest finite number of the dtype
  std::optional<double> neginf = {};  ///< in place of -infinity; by default the lowest finite number of the dtype
};
/// x with numbers in place of NaN and infinities. These get no gradient.
TAPESTRY_API Tensor nan_to_num(In x, const NanToNumOptions& options = {}, std::string_view name = {});

/// @}

// ---- Along an axis

/// @addtogroup reduce
/// @{

/// The square root of the variance of the population, TensorFlow's `reduce_std`. The gradient where all elements are
/// equal is 0, as that of `norm` at 0.
TAPESTRY_API Tensor reduce_std(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// The elements below which a part q of all elements along an axis lies, or of all elements; between two elements on
/// the line between them; NaN if one of them is NaN. The dtype is that of `reduce_mean`. Throws InvalidArgumentError
/// unless 0 <= q <= 1, and for no elements.
/// @{
TAPESTRY_API Tensor quantile(In x, double q, std::int64_t axis, const ReduceOptions& options = {},
                             std::string_view name = {});
TAPESTRY_API Tensor quantile(In x, double q, std::string_view name = {});
/// @}
/// `quantile` of 1/2: of an even number of elements the mean of both in the middle, as in NumPy.
/// @{
TAPESTRY_API Tensor median(In x, std::int64_t axis, const ReduceOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor median(In x, std::string_view name = {});
/// @}
/// The running maximum or minimum along an axis, or log of the running sum of exp(x), without overflow. Of equal
/// extrema, two that meet share the gradient.
/// @{
TAPESTRY_API Tensor cummax(In x, std::int64_t axis = 0, std::string_view name = {});
TAPESTRY_API Tensor cummin(In x, std::int64_t axis = 0, std::string_view name = {});
TAPESTRY_API Tensor cumulative_logsumexp(In x, std::int64_t axis = 0, std::string_view name = {});
/// @}
/// Differences of neighbours along an axis, x[i + 1] - x[i], n times.
TAPESTRY_API Tensor diff(In x, std::int64_t n = 1, std::int64_t axis = -1, std::string_view name = {});
/// The integral along an axis by the trapezoidal rule, for elements at a distance of dx.
TAPESTRY_API Tensor trapezoid(In y, double dx = 1, std::int64_t axis = -1, std::string_view name = {});
/// The same for elements at x, which has the shape of y or is [size of the axis]. Throws InvalidArgumentError for
/// another shape.
TAPESTRY_API Tensor trapezoid(In y, In x, std::int64_t axis, std::string_view name = {});

/// The covariances of variables, the rows of x [variables, observations], divided by the number of observations minus
/// 1; of a vector a scalar.
TAPESTRY_API Tensor cov(In x, std::string_view name = {});
/// The coefficients of correlation of the rows of x.
TAPESTRY_API Tensor corrcoef(In x, std::string_view name = {});

/// How often each of the whole numbers 0, 1, ..., `size` - 1 occurs in x, int32 [size]. Others do not count.
TAPESTRY_API Tensor bincount(In x, const Shape::Size& size, std::string_view name = {});
/// The sums of the weights, which have the shape of x, for each number.
TAPESTRY_API Tensor bincount(In x, In weights, const Shape::Size& size, std::string_view name = {});
/// How many elements lie in each of `bins` parts of [low, high], int32 [bins]. Elements outside count in the first or
/// the last part, as in TensorFlow. Throws InvalidArgumentError unless low < high and bins >= 1.
TAPESTRY_API Tensor histogram_fixed_width(In x, double low, double high, std::int64_t bins = 100,
                                          std::string_view name = {});

/// @}

// ---- Places

/// @addtogroup array
/// @{

/// The side of equal elements on which `searchsorted` finds a place.
enum class Side : std::uint8_t {
  left,   ///< before them
  right,  ///< behind them
};
/// Where each value would stand in an ascending vector: int32 in the shape of the values.
TAPESTRY_API Tensor searchsorted(In sorted, In values, Side side = Side::left, std::string_view name = {});
/// The values at x of the function that is a line from each point (xp, fp) to the next, vectors of which xp ascends,
/// and constant outside.
TAPESTRY_API Tensor interp(In x, In xp, In fp, std::string_view name = {});

/// The order of the axes of a mesh.
enum class Indexing : std::uint8_t {
  xy,  ///< the second vector runs along axis 0, as in NumPy and TensorFlow
  ij,  ///< vector i runs along axis i
};
/// For each vector its elements at all points of the grid that the vectors make up.
TAPESTRY_API std::vector<Tensor> meshgrid(const InList& vectors, Indexing indexing = Indexing::xy,
                                          std::string_view name = {});
/// x turned by 90 degrees `times` times in the plane of its first two axes, from the first towards the second.
TAPESTRY_API Tensor rot90(In x, std::int64_t times = 1, std::string_view name = {});

/// @}

/// @addtogroup linalg
/// @{

/// The matrices [..., m, n] with zeros above, or below, the diagonal that is `diagonal` places above the main one.
/// @{
TAPESTRY_API Tensor tril(In x, std::int64_t diagonal = 0, std::string_view name = {});
TAPESTRY_API Tensor triu(In x, std::int64_t diagonal = 0, std::string_view name = {});
/// @}
/// The Kronecker product of matrices [m, n] and [p, q]: [m * p, n * q].
TAPESTRY_API Tensor kron(In a, In b, std::string_view name = {});

/// @}

}  // namespace tapestry
