#pragma once

// The bridge between tensors and xtensor. It is the only header of Tapestry that includes xtensor, and is not part of
// tapestry.hpp.

#include <xtensor/xtensor_config.hpp>
// These must come before any other header of xtensor:
#include <xtensor/xexpression_traits.hpp>
#include <xtensor/xstorage.hpp>

// xtensor up to 0.24 chooses the result type of xt::eval by partial specialisations that g++ from C++17 on matches more
// widely than intended: a value of an xarray becomes an xtensor of rank 4, and what reads it accesses memory out of
// bounds. xtensor guards against this in C++17 only. The full specialisations here for the two dynamic shapes come
// first in every mode.
#if defined(__GNUC__) && !defined(__clang__) && __cplusplus > 201703L && XTENSOR_VERSION_MAJOR == 0 && \
    XTENSOR_VERSION_MINOR <= 24
namespace xt::detail {
template <>
struct xtype_for_shape<dynamic_shape<std::size_t>> {
  template <class T, layout_type L>
  using type = xarray<T, L>;
};
template <>
struct xtype_for_shape<dynamic_shape<std::ptrdiff_t>> {
  template <class T, layout_type L>
  using type = xarray<T, L>;
};
}  // namespace xt::detail
#endif

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#include <xtensor/xnoalias.hpp>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup tensors
/// @{

namespace detail {

// These are declared in internal headers, too.
TAPESTRY_API Tensor make_tensor(DType dtype, const Shape& shape, Device device);
TAPESTRY_API Tensor on_host(const Tensor& tensor);

}  // namespace detail

/// A tensor with the values of any xtensor expression, which is evaluated once, directly into the tensor's memory. The
/// element type must be one of Tapestry's: bool, uint8_t, int32_t, int64_t, float or double. Throws
/// InvalidArgumentError for more than 8 dimensions.
template <class E>
Tensor from_xt(const xt::xexpression<E>& expression, Where where = Where::here()) {
  using T = std::remove_cv_t<typename E::value_type>;
  const E& values = expression.derived_cast();
  std::vector<std::int64_t> sizes;
  for (const auto size : values.shape()) sizes.push_back(static_cast<std::int64_t>(size));
  Tensor tensor = detail::make_tensor(dtype_of<T>(), Shape(sizes, where), cpu());
  const std::vector<std::size_t> shape(sizes.begin(), sizes.end());
  auto elements = xt::adapt<xt::layout_type::row_major>(
      static_cast<T*>(tensor.impl().data), static_cast<std::size_t>(tensor.size()), xt::no_ownership(), shape);
  xt::noalias(elements) = values;
  return tensor;
}

/// A read-only xarray adaptor of a tensor's memory, which it keeps alive. Nothing is copied, except a view whose
/// elements are not in row-major order. Throws InvalidArgumentError when T is not the tensor's element type or the
/// tensor is not on the CPU, and FailedPreconditionError when it has no value yet.
template <class T>
auto as_xt(const Tensor& tensor, Where where = Where::here()) {
  if (tensor.dtype() != dtype_of<T>())
    throw InvalidArgumentError(
        detail::join("as_xt<", to_string(dtype_of<T>()), ">() of a ", to_string(tensor.dtype()), " tensor"), where);
  if (!tensor.device().is_cpu())
    throw InvalidArgumentError(detail::join("as_xt() of a tensor on ", to_string(tensor.device()),
                                            "; bring it to the CPU with .to(tp::cpu())"),
                               where);
  if (tensor.is_symbolic()) throw FailedPreconditionError("as_xt() of a symbolic tensor, which has no value", where);
  // xtensor stores a smart pointer with the elements. This one keeps the tensor alive.
  auto owner = std::make_shared<const Tensor>(detail::on_host(tensor));
  const xt::dynamic_shape<std::size_t> shape(tensor.shape().sizes().begin(), tensor.shape().sizes().end());
  const T* elements = owner->template data<T>(where);
  return xt::adapt_smart_ptr<xt::layout_type::row_major>(std::move(elements), shape, std::move(owner));
}

/// @}

}  // namespace tapestry
