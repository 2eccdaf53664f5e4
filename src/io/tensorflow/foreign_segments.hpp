#pragma once

#include "io/tensorflow/foreign_parts.hpp"

/// What brings rows of equal numbers together, for scattered elements and sparse tensors.

namespace tapestry::io {

enum class Combine { largest, smallest, product };

/// The sums of the rows of each segment. Those of negative segments are left out.
Tensor added_by_segments(const ForeignNode& n, const Tensor& x, const Tensor& segments, std::int64_t count);
/// Combines the rows of x that have the same segment, those of negative segments left out. A segment without rows is
/// `nothing`, or by default what TensorFlow's ops for unsorted segments make of it.
Tensor combined_by_segments(Combine f, const Tensor& x, const Tensor& segments, std::int64_t count,
                            const Tensor& nothing = {});

/// For each axis of a shape the coordinates of places in the flattened tensor.
std::vector<Tensor> coordinates_of(const Tensor& places, const std::vector<std::int64_t>& sizes);

}  // namespace tapestry::io
