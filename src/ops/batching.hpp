#pragma once

#include "tapestry/batched_call.hpp"

// Functions for the member `batch` of ops, and for jacobians.

namespace tapestry {

/// For an op on the last axes of its inputs, which takes any axes in front: the op with the same attributes.
Tensors batch_in_front(const BatchedCall& call);
/// For an op along the axis, or the axes, that the attribute "axis" names (all, if it is absent): the same op on axes
/// that are one further behind. Those that count from the end stay.
Tensors batch_beside_axis(const BatchedCall& call);
/// For an op on images, [n, height, width, channels]: the op on the images of all examples. No tensors if an input that
/// `shared` names (bit i for input i) has a batch.
template <unsigned shared>
Tensors batch_of_images(const BatchedCall& call);
/// Zeros of the shape of one example, from a tensor with the axis of the batch in front.
Tensor zeros_of_one(const Tensor& batch, Where where);

/// x with `count` axes from `from` on moved, so that they begin at axis `to` of the result.
Tensor with_axes_moved(const Tensor& x, int from, int count, int to, Where where);

/// For each of the n elements of a tensor of that shape, in row-major order, zeros but for a 1 there: [n, n].
Tensor unit_vectors(const Shape& shape, DType dtype, Device device, Where where);

/// A list with more in front.
Ints with_front(const Ints& front, const Ints& list);

/// The attributes with another value of one of them, which may be new.
Attrs with_attr(const Attrs& attrs, std::string_view name, const AttrValue& value);

namespace detail {
Tensors batch_images(const BatchedCall& call, unsigned shared);
}
template <unsigned shared>
Tensors batch_of_images(const BatchedCall& call) {
  return detail::batch_images(call, shared);
}

}  // namespace tapestry
