#pragma once

#include <cstdint>

#include "tapestry/tensor.hpp"

namespace tapestry {

// Views, which share the elements of a tensor. No tape sees that one is made.

/// A view of the same shape: a tensor with an id of its own.
TAPESTRY_API Tensor view_of(const Tensor& tensor);
/// A view in another shape of the elements that follow each other in memory, from the given one on.
TAPESTRY_API Tensor view_as(const Tensor& tensor, const Shape& shape, std::int64_t begin = 0);
/// A view of the `size` elements of a tensor from `begin` on along one axis.
Tensor view_part(const Tensor& tensor, int axis, std::int64_t begin, std::int64_t size);
/// A view of the elements at one index of an axis, without that axis.
Tensor view_at(const Tensor& tensor, int axis, std::int64_t index);
/// A view with the last two axes exchanged.
TAPESTRY_API Tensor view_transposed(const Tensor& tensor);
/// A view that is broadcast to a shape.
Tensor view_broadcast(const Tensor& tensor, const Shape& shape);
/// A view that has only the first of the elements that strides of 0 repeat along the first `axes` axes: these have size
/// 1 then. `view_broadcast` repeats them again.
Tensor view_without_repeats(const Tensor& tensor, int axes);

}  // namespace tapestry
