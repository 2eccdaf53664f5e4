#pragma once

#include <string_view>

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

// Reductions of the rows that have the same number, such as the messages that reach a node of a graph.

/// @addtogroup reduce
/// @{

/// The sum, the mean, the largest and smallest element, the product, and the sum divided by the root of the number of
/// those parts of `data` that have the segment 0, 1, ..., `num_segments` - 1. The segments, int32 or int64, have the
/// shape of data or of its first axes, and any order; parts with a negative segment are left out. The result is
/// [num_segments, other axes of data...], and `num_segments` a number or the size of a tensor, `x.shape()[0]`. A
/// segment without parts is 0, for the product 1, for the largest the lowest finite number and for the smallest the
/// highest. Equal extrema share the gradient. Sums and products are of any dtype but bool; means of floats, integers
/// become float32. Throws InvalidArgumentError for a segment of `num_segments` or more.
/// @{
TAPESTRY_API Tensor unsorted_segment_sum(In data, In segment_ids, const Shape::Size& num_segments,
                                         std::string_view name = {});
TAPESTRY_API Tensor unsorted_segment_mean(In data, In segment_ids, const Shape::Size& num_segments,
                                          std::string_view name = {});
TAPESTRY_API Tensor unsorted_segment_max(In data, In segment_ids, const Shape::Size& num_segments,
                                         std::string_view name = {});
TAPESTRY_API Tensor unsorted_segment_min(In data, In segment_ids, const Shape::Size& num_segments,
                                         std::string_view name = {});
TAPESTRY_API Tensor unsorted_segment_prod(In data, In segment_ids, const Shape::Size& num_segments,
                                          std::string_view name = {});
TAPESTRY_API Tensor unsorted_segment_sqrt_n(In data, In segment_ids, const Shape::Size& num_segments,
                                            std::string_view name = {});
/// @}

/// The same for the rows of `data`, whose segments [rows] ascend: there are as many as the last one tells. A segment
/// without rows is 0, for the product 1. Throws InvalidArgumentError for segments that are negative or do not ascend. A
/// graph takes segments in any order: there are as many as the largest one tells, and negative ones are left out.
/// @{
TAPESTRY_API Tensor segment_sum(In data, In segment_ids, std::string_view name = {});
TAPESTRY_API Tensor segment_mean(In data, In segment_ids, std::string_view name = {});
TAPESTRY_API Tensor segment_max(In data, In segment_ids, std::string_view name = {});
TAPESTRY_API Tensor segment_min(In data, In segment_ids, std::string_view name = {});
TAPESTRY_API Tensor segment_prod(In data, In segment_ids, std::string_view name = {});
/// @}

/// @}

}  // namespace tapestry
