#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// Throws InvalidArgumentError for a length of a padded sequence that is below 0 or above the number of time steps, as
/// far as both are known.
void require_lengths(const Tensor& lengths, std::int64_t time);

}  // namespace tapestry
