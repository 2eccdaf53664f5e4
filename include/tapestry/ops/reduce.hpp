#pragma once

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup reduce
/// Functions along axes. `reduce_sum(x)` takes all axes, `reduce_sum(x, 1)` and `reduce_sum(x, {0, 1})` those named,
/// and an explicit empty list none. Negative axes count from the end; an axis that x does not have, or one named twice,
/// throws InvalidArgumentError. The axes disappear from the shape, or stay as 1 with `{.keep_dims = true}`.
/// @{

/// What becomes of the axes that a function works along.
struct ReduceOptions {
  bool keep_dims = false;  ///< they stay, of size 1
};

/// Sums; over nothing 0. Any dtype but bool, which it keeps.
TAPESTRY_API Tensor reduce_sum(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// Means; over nothing NaN. Whole numbers and bools become float32.
TAPESTRY_API Tensor reduce_mean(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                                std::string_view name = {});
/// Products; over nothing 1. Any dtype but bool.
TAPESTRY_API Tensor reduce_prod(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                                std::string_view name = {});
/// Largest elements; NaN if there is one, and over nothing the dtype's lowest value. Equal ones share the gradient.
TAPESTRY_API Tensor reduce_max(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// Smallest elements; NaN if there is one, and over nothing the dtype's highest value. Equal ones share the gradient.
TAPESTRY_API Tensor reduce_min(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// Whether any, or all, are true. Of bools only.
/// @{
TAPESTRY_API Tensor reduce_any(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
TAPESTRY_API Tensor reduce_all(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                               std::string_view name = {});
/// @}
/// log(sum(exp(x))), without overflow: the maximum is taken out first.
TAPESTRY_API Tensor reduce_logsumexp(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                                     std::string_view name = {});
/// The population's variance (divided by the number of elements), in two passes: TensorFlow's reduce_variance.
TAPESTRY_API Tensor variance(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                             std::string_view name = {});

/// Position (int64) of the first largest or smallest element along an axis, which disappears; of the first NaN, if any.
/// Throws InvalidArgumentError for an empty axis.
/// @{
TAPESTRY_API Tensor argmax(In x, std::int64_t axis = 0, std::string_view name = {});
TAPESTRY_API Tensor argmin(In x, std::int64_t axis = 0, std::string_view name = {});
/// @}

/// Which elements a running sum or product takes in.
struct ScanOptions {
  bool exclusive = false;  ///< element i is left out of result i
  bool reverse = false;    ///< from the end
};

/// Running sums, or products, along an axis: element i of the result is x[0] + ... + x[i]. Any dtype but bool.
/// The second derivative of `cumprod` is exact unless two elements along the axis are 0.
/// @{
TAPESTRY_API Tensor cumsum(In x, std::int64_t axis = 0, const ScanOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor cumprod(In x, std::int64_t axis = 0, const ScanOptions& options = {}, std::string_view name = {});
/// @}

/// The same with a name and default options.
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
