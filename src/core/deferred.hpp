#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// An eager tensor without memory. Its origin computes it when its elements are asked for: `origin->tensor()`.
Tensor make_deferred(DType dtype, const Shape& shape, Device device, Intrusive<Origin> origin);

inline bool is_deferred(const Tensor& tensor) { return tensor.impl().origin && !tensor.is_symbolic(); }

/// The tensor with its elements in memory. All code that reads elements and does not get its tensors from an op's
/// inputs, which have been computed, calls this.
inline Tensor computed(const Tensor& tensor) { return is_deferred(tensor) ? tensor.impl().origin->tensor() : tensor; }

}  // namespace tapestry::detail
