#include "backend/strided_loop.hpp"

#include "core/make_tensor.hpp"

namespace tapestry {

Tensor view_broadcast(const Tensor& tensor, const Shape& shape) {
  Strides strides{};
  for (int i = 0; i < shape.rank(); ++i)
    strides[i] = broadcast_stride(tensor.shape(), tensor.impl().strides, shape.rank(), i);
  return detail::make_view(tensor, shape, strides);
}

}  // namespace tapestry
