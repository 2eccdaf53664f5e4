#include "ops/batching.hpp"

#include <algorithm>

#include "dispatch/recorder.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

namespace tapestry {

BatchedCall::BatchedCall(const Call& one, Tensors inputs, std::vector<bool> has_batch, Dimension count, Vmap map)
    : one_(one), inputs_(std::move(inputs)), has_batch_(std::move(has_batch)), count_(std::move(count)), vmap_(map) {}

int BatchedCall::rank(std::size_t i) const { return inputs_[i].rank() - (has_batch_[i] ? 1 : 0); }

Shape BatchedCall::with_batch(const Shape& shape) const {
  Shape whole = shape;
  whole.insert(0, count());
  return whole;
}

Tensor BatchedCall::all(std::size_t i) const {
  return has_batch_[i] ? inputs_[i] : broadcast_to(In(inputs_[i], one_.where()), with_batch(inputs_[i].shape()));
}

Tensors BatchedCall::all() const {
  Tensors list;
  for (std::size_t i = 0; i < inputs_.size(); ++i) list.push_back(all(i));
  return list;
}

Tensor BatchedCall::aligned(std::size_t i, int rank) const {
  if (!has_batch_[i] || this->rank(i) >= rank) return inputs_[i];
  Ints added;
  for (int axis = 1; axis <= rank - this->rank(i); ++axis) added.push_back(axis);
  return expand_dims(In(inputs_[i], one_.where()), added);
}

Tensors BatchedCall::apply(const Tensors& inputs, const Attrs& attrs) const {
  return apply_all(one_.op(), inputs, attrs, {}, one_.where());
}

Tensor zeros_of_one(const Tensor& batch, Where where) {
  Shape shape;
  for (int axis = 1; axis < batch.rank(); ++axis) shape.push_back(batch.shape()[axis]);
  return zeros(shape, {.dtype = batch.dtype(), .device = batch.device()}, {}, where);
}

Tensor with_axes_moved(const Tensor& x, int from, int count, int to, Where where) {
  Ints rest, perm;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (axis < from || axis >= from + count) rest.push_back(axis);
  perm.append(rest.begin(), rest.begin() + to);
  for (int axis = from; axis < from + count; ++axis) perm.push_back(axis);
  perm.append(rest.begin() + to, rest.end());
  return transpose(In(x, where), perm);
}

Tensor unit_vectors(const Shape& shape, DType dtype, Device device, Where where) {
  const TensorOptions options{.dtype = dtype, .device = device};
  if (shape.is_known()) return eye(shape.size(), shape.size(), options, {}, where);
  return blaming({}, where, [&] {
    const Tensor number = cumsum(reshape(ones(shape, {.dtype = int64, .device = device}), {-1}));
    return equal(expand_dims(number, 1), expand_dims(number, 0)).cast(dtype);
  });
}

Ints with_front(const Ints& front, const Ints& list) {
  Ints whole = front;
  whole.append(list.begin(), list.end());
  return whole;
}

Attrs with_attr(const Attrs& attrs, std::string_view name, const AttrValue& value) {
  std::vector<Attr> list(attrs.begin(), attrs.end());
  const auto found = std::find_if(list.begin(), list.end(), [&](const Attr& each) { return each.name == name; });
  if (found == list.end())
    list.emplace_back(name, value);
  else
    found->value = value;
  return Attrs(list);
}

Tensors batch_in_front(const BatchedCall& call) { return call.apply(call.all(), call.one().attrs()); }

Tensors batch_beside_axis(const BatchedCall& call) {
  const Attrs& attrs = call.one().attrs();
  const auto moved = [](std::int64_t axis) { return axis < 0 ? axis : axis + 1; };
  const AttrValue* axis = attrs.find("axis");
  if (const auto* one = axis ? std::get_if<std::int64_t>(axis) : nullptr)
    return call.apply(call.all(), with_attr(attrs, "axis", moved(*one)));
  Ints axes;
  if (axis)
    for (const std::int64_t each : std::get<Ints>(*axis)) axes.push_back(moved(each));
  for (int i = 0; !axis && i < call.rank(0); ++i) axes.push_back(i + 1);
  return call.apply(call.all(), with_attr(attrs, "axis", axes));
}

namespace {

/// All images of a tensor [count, n, height, width, channels] as one batch.
Tensor joined_images(const Tensor& x, Where where) {
  Shape shape{-1};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(x.shape()[axis]);
  if (x.shape().is_known()) shape.set(0, x.shape()[0] * x.shape()[1]);
  return reshape(In(x, where), shape);
}

}  // namespace

Tensors detail::batch_images(const BatchedCall& call, unsigned shared) {
  Tensors inputs;
  for (std::size_t i = 0; i < call.size(); ++i) {
    const bool is_shared = (shared >> i & 1) != 0;
    if (is_shared && call.has_batch(i)) return {};
    inputs.push_back(is_shared ? call.input(i) : joined_images(call.all(i), call.one().where()));
  }
  Tensors outputs = call.apply(inputs, call.one().attrs());
  for (Tensor& output : outputs) {
    Shape shape{call.count(), call.all(0).shape()[1]};
    for (int axis = 1; axis < output.rank(); ++axis) shape.push_back(output.shape()[axis]);
    output = reshape(In(output, call.one().where()), shape);
  }
  return outputs;
}

}  // namespace tapestry
