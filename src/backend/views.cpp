#include "backend/views.hpp"

#include <algorithm>
#include <utility>

#include "backend/strided_loop.hpp"
#include "core/make_tensor.hpp"

namespace tapestry {

using detail::make_view;

Tensor view_of(const Tensor& tensor) { return make_view(tensor, tensor.shape(), tensor.strides()); }

Tensor view_as(const Tensor& tensor, const Shape& shape, std::int64_t begin) {
  return make_view(tensor, shape, row_major_strides(shape), begin);
}

Tensor view_part(const Tensor& tensor, int axis, std::int64_t begin, std::int64_t size) {
  Shape shape = tensor.shape();
  shape.set(axis, size);
  return make_view(tensor, shape, tensor.strides(), begin * tensor.strides()[axis]);
}

Tensor view_at(const Tensor& tensor, int axis, std::int64_t index) {
  Shape shape = tensor.shape();
  shape.erase(axis);
  Strides strides = tensor.impl().strides;
  std::copy(strides.begin() + axis + 1, strides.end(), strides.begin() + axis);
  return make_view(tensor, shape, strides, index * tensor.strides()[axis]);
}

Tensor view_transposed(const Tensor& tensor) {
  const int last = tensor.rank() - 1;
  Shape shape = tensor.shape();
  shape.set(last, tensor.shape().sizes()[last - 1]);
  shape.set(last - 1, tensor.shape().sizes()[last]);
  Strides strides = tensor.impl().strides;
  std::swap(strides[last], strides[last - 1]);
  return make_view(tensor, shape, strides);
}

Tensor view_broadcast(const Tensor& tensor, const Shape& shape) {
  Strides strides{};
  for (int i = 0; i < shape.rank(); ++i)
    strides[i] = broadcast_stride(tensor.shape(), tensor.impl().strides, shape.rank(), i);
  return make_view(tensor, shape, strides);
}

Tensor view_without_repeats(const Tensor& tensor, int axes) {
  Shape shape = tensor.shape();
  for (int i = 0; i < axes; ++i)
    if (tensor.strides()[i] == 0 && shape.sizes()[i] > 1) shape.set(i, 1);
  return make_view(tensor, shape, tensor.strides());
}

}  // namespace tapestry
