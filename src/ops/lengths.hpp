#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// Throws InvalidArgumentError for a length of a padded sequence that is below 0 or above the number of time steps, as
/// far as both are known.
void require_lengths(const Tensor& lengths, std::int64_t time);
/// The lengths of sequences along an axis of x, as int64. Throws InvalidArgumentError for one that there is not; where
/// sizes or lengths become known later, the run does.
Tensor checked_lengths(const Tensor& lengths, const Tensor& x, int time);

}  // namespace tapestry
