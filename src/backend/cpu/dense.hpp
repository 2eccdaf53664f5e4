#pragma once

#include "backend/backend.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {

/// The elements in row-major order without gaps: x itself, or a copy.
inline Tensor dense(Backend& backend, const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor copy = detail::make_tensor(x.dtype(), x.shape(), x.device());
  backend.copy(x, copy);
  return copy;
}

}  // namespace tapestry::host
