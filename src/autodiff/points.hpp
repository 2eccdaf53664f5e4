#pragma once

#include <vector>

#include "tapestry/tape.hpp"

namespace tapestry::detail {

/// The points as arguments of their own; see `own_argument`.
inline Tensors own_points(const std::vector<Value>& points, Where where) {
  Tensors own;
  for (const Value& each : points) own.push_back(own_argument(each.tensor({}, where), where));
  return own;
}

/// A gradient or direction for a tensor, whose dtype a literal gets.
inline Tensor like(const Value& value, const Tensor& tensor, Where where) {
  return value.is_tensor() ? value.tensor({}, where) : value.tensor(tensor.dtype(), where);
}

/// The sizes of one shape followed by those of another.
inline Shape joined(Shape first, const Shape& second) {
  for (const Dimension& size : second) first.push_back(size);
  return first;
}

}  // namespace tapestry::detail
