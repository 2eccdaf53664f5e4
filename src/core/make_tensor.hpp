#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// An eager tensor with memory and no values yet. Throws InvalidArgumentError for an unknown size,
/// ResourceExhaustedError when there is not enough memory.
TAPESTRY_API Tensor make_tensor(DType dtype, const Shape& shape, Device device);  // NOLINT: xtensor.hpp needs it, too

/// A tensor that shares the memory of the base. Its first element is `offset` elements behind that of the base.
TAPESTRY_API Tensor make_view(const Tensor& base, const Shape& shape, std::span<const std::int64_t> strides,
                              std::int64_t offset = 0);

/// A tensor that has the memory of a contiguous base, with elements of another type.
Tensor make_bitcast(const Tensor& base, DType dtype, const Shape& shape);

/// How many bytes the elements take without gaps.
inline std::size_t nbytes(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype());
}

/// Whether no other handle and no view uses the elements, so that they may be changed in place.
inline bool is_private(const Tensor& tensor) {
  const TensorImpl& impl = tensor.impl();
  return impl.storage && !impl.origin && impl.contiguous && !impl.references.is_shared() &&
         !impl.storage->references.is_shared();
}

/// A tensor without data: it has a dtype and a shape, whose sizes may be unknown.
Tensor make_symbolic(DType dtype, const Shape& shape, Device device = cpu());

/// The same tensor (id, dtype, shape) without its data. A tape keeps this when no gradient needs the elements.
Tensor without_data(const Tensor& tensor);

/// A 0-d tensor on the CPU.
TAPESTRY_API Tensor make_scalar(double value, DType dtype);

/// The elements of an output or of a fresh tensor, to be written.
template <class T>
T* mutable_data(const Tensor& tensor) {
  return static_cast<T*>(tensor.impl().data);
}

// The core calls these two functions. The backends, which are in the layer above it, define them.

/// The elements in row-major order on the CPU: the tensor itself, or a copy that no tape sees.
TAPESTRY_API Tensor on_host(const Tensor& tensor);  // NOLINT: xtensor.hpp needs it, too
/// The allocator of a device; throws InvalidArgumentError when the device does not exist.
Allocator& allocator_of(Device device);

}  // namespace tapestry::detail
