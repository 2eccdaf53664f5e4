#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// 0, 1, 2, ... for the elements of an axis, int32.
Tensor places_along(const Tensor& x, int axis);
/// Whether an element of an axis is the first one, or in reverse the last one.
Tensor is_first_along(const Tensor& x, int axis, bool reverse);
/// A vector for the elements of an axis of x, with axes of size 1 for those behind it.
Tensor beside_axis(const Tensor& vector, const Tensor& x, int axis);
/// For each element of an axis the one before it, or in reverse behind it; for the first one 0.
Tensor element_before(const Tensor& x, int axis, bool reverse);

/// y[i] = a[i] y[i - 1] + b[i] along an axis, from y[0] = b[0] on, or in reverse; if it is late, y[i] = a[i - 1] y[i -
/// 1] + b[i]. The derivatives are such recurrences, so that those of products are right for factors of 0, too, in any
/// order.
Tensor recurrence(const Tensor& a, const Tensor& b, int axis, bool reverse, bool late);

}  // namespace tapestry
