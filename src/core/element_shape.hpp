#pragma once

#include "tapestry/error.hpp"
#include "tapestry/shape.hpp"

namespace tapestry::detail {

/// The shape of the elements of a sequence along axis 0; unknown if the sequence's rank is. Throws InvalidArgumentError
/// for a scalar.
inline Shape element_shape(const Shape& sequence) {
  if (!sequence.has_rank()) return sequence;
  if (sequence.rank() == 0) throw InvalidArgumentError("A sequence needs an axis 0, but its shape is []");
  return Shape(sequence.sizes().subspan(1));
}

}  // namespace tapestry::detail
