#pragma once

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup reduce
/// Functions along axes. `reduce_sum(x)` takes all axes, `reduce_sum(x, 1)` and `reduce_sum(x, {0, 1})` take the given
/// ones, and an explicit empty list takes none. Negative axes count from the end. The functions throw
/// InvalidArgumentError for an axis that x does not have, and for one that is given twice. The axes disappear from the
/// shape, or, with `{.keep_dims = true}`, stay with size 1.
/// @{

/// What happens to the axes along which a function works.
struct ReduceOptions {
  bool keep_dims = false;  ///< whether they stay, with size 1
};

/// The sums of elements, in their dtype; 0 over no elements. Of bools it is the number that are true, in int64.
TAPESTRY_API Tensor reduce_sum(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// The means of elements; NaN over no elements. Integers and bools become float32.
TAPESTRY_API Tensor reduce_mean(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                                std::string_view name = {});
/// The products of elements; 1 over no elements. Any dtype but bool.
TAPESTRY_API Tensor reduce_prod(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                                std::string_view name = {});
/// The largest elements; NaN if there is a NaN, and the dtype's lowest value over no elements. Elements that are
/// equally large share the gradient. Of bools: whether any is true.
TAPESTRY_API Tensor reduce_max(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// The smallest elements; NaN if there is a NaN, and the dtype's highest value over no elements. Elements that are
/// equally small share the gradient. Of bools: whether all are true.
TAPESTRY_API Tensor reduce_min(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// Whether any element, or all elements, are true. Bools only.
/// @{
TAPESTRY_API Tensor reduce_any(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
TAPESTRY_API Tensor reduce_all(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// @}
/// log(sum(exp(x))), without overflow: the maximum is subtracted first.
TAPESTRY_API Tensor reduce_logsumexp(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                                     std::string_view name = {});
/// The variance of the population (divided by the number of elements), in two passes: TensorFlow's reduce_variance.
TAPESTRY_API Tensor variance(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                             std::string_view name = {});

/// The position (int64) of the first of the largest or smallest elements along an axis, or of the first NaN, if any.
/// The axis disappears. Throws InvalidArgumentError for an empty axis.
/// @{
TAPESTRY_API Tensor argmax(In x, std::int64_t axis = 0, std::string_view name = {});
TAPESTRY_API Tensor argmin(In x, std::int64_t axis = 0, std::string_view name = {});
/// @}

/// The elements that a running sum or product includes.
struct ScanOptions {
  bool exclusive = false;  ///< whether to leave element i out of result i
  bool reverse = false;    ///< whether to start from the end
};

/// Running sums, or products, along an axis: element i of the result is x[0] + ... + x[i]. Any dtype but bool;
/// `cumsum` counts the bools that are true, in int64. The second derivative of `cumprod` is exact unless two elements
/// along the axis are 0.
/// @{
TAPESTRY_API Tensor cumsum(In x, std::int64_t axis = 0, const ScanOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor cumprod(In x, std::int64_t axis = 0, const ScanOptions& options = {}, std::string_view name = {});
/// @}

/// The same with default options and a name.
/// @{
inline Tensor reduce_sum(In x, const NodeName auto& name) { return reduce_sum(x, {}, {}, name); }
inline Tensor reduce_mean(In x, const NodeName auto& name) { return reduce_mean(x, {}, {}, name); }
inline Tensor reduce_prod(In x, const NodeName auto& name) { return reduce_prod(x, {}, {}, name); }
inline Tensor reduce_max(In x, const NodeName auto& name) { return reduce_max(x, {}, {}, name); }
inline Tensor reduce_min(In x, const NodeName auto& name) { return reduce_min(x, {}, {}, name); }
inline Tensor reduce_any(In x, const NodeName auto& name) { return reduce_any(x, {}, {}, name); }
inline Tensor reduce_all(In x, const NodeName auto& name) { return reduce_all(x, {}, {}, name); }
inline Tensor reduce_logsumexp(In x, const NodeName auto& name) { return reduce_logsumexp(x, {}, {}, name); }
inline Tensor variance(In x, const NodeName auto& name) { return variance(x, {}, {}, name); }
inline Tensor reduce_sum(In x, const Axes& axes, const NodeName auto& name) { return reduce_sum(x, axes, {}, name); }
inline Tensor reduce_mean(In x, const Axes& axes, const NodeName auto& name) { return reduce_mean(x, axes, {}, name); }
inline Tensor reduce_prod(In x, const Axes& axes, const NodeName auto& name) { return reduce_prod(x, axes, {}, name); }
inline Tensor reduce_max(In x, const Axes& axes, const NodeName auto& name) { return reduce_max(x, axes, {}, name); }
inline Tensor reduce_min(In x, const Axes& axes, const NodeName auto& name) { return reduce_min(x, axes, {}, name); }
inline Tensor reduce_any(In x, const Axes& axes, const NodeName auto& name) { return reduce_any(x, axes, {}, name); }
inline Tensor reduce_all(In x, const Axes& axes, const NodeName auto& name) { return reduce_all(x, axes, {}, name); }
inline Tensor reduce_logsumexp(In x, const Axes& axes, const NodeName auto& name) {
  return reduce_logsumexp(x, axes, {}, name);
}
inline Tensor variance(In x, const Axes& axes, const NodeName auto& name) { return variance(x, axes, {}, name); }
inline Tensor argmax(In x, const NodeName auto& name) { return argmax(x, 0, name); }
inline Tensor argmin(In x, const NodeName auto& name) { return argmin(x, 0, name); }
inline Tensor cumsum(In x, const NodeName auto& name) { return cumsum(x, 0, {}, name); }
inline Tensor cumprod(In x, const NodeName auto& name) { return cumprod(x, 0, {}, name); }
inline Tensor cumsum(In x, std::int64_t axis, const NodeName auto& name) { return cumsum(x, axis, {}, name); }
inline Tensor cumprod(In x, std::int64_t axis, const NodeName auto& name) { return cumprod(x, axis, {}, name); }
/// @}

/// @}

}  // namespace tapestry
