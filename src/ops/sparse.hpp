#pragma once

#include "tapestry/ops/math.hpp"
#include "tapestry/sparse.hpp"

namespace tapestry {

/// The sum of two gradients of one tensor: row-sparse if both are.
Tensor add_gradients(const Tensor& a, const Tensor& b);

/// The elements of a gradient that may differ from 0, each once, in a tensor of any shape: those of a row-sparse
/// gradient are sums of rows.
Tensor elements_of(const Tensor& gradient);

/// f of a gradient: of its rows if it is row-sparse. f must be linear, and keep the shape.
template <class F>
Tensor map_rows(const Tensor& gradient, const F& f) {
  const std::optional<IndexedSlices> slices = indexed_slices(gradient);
  return slices ? to_tensor({slices->indices, f(slices->values)}, gradient) : f(gradient);
}

}  // namespace tapestry
