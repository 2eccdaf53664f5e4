#include "io/tensorflow/resize.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/make_tensor.hpp"
#include "tapestry/ops.hpp"

// Positions are computed in single precision, as in TensorFlow, so that the same pixels are taken.

namespace tapestry::io {
namespace {

float scale_of(std::int64_t from, std::int64_t to, Centers centers) {
  const bool corners = centers == Centers::corners && to > 1;
  return corners ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                 : static_cast<float>(from) / static_cast<float>(to);
}

template <class T>
Tensor vector_of(const std::vector<T>& numbers, DType dtype, const Shape& shape) {
  Tensor value = detail::make_tensor(dtype, shape, cpu());
  std::copy(numbers.begin(), numbers.end(), detail::mutable_data<T>(value));
  return value;
}

Tensor picked(const Tensor& x, int axis, const std::vector<std::int32_t>& places) {
  return gather(x, vector_of(places, int32, {static_cast<std::int64_t>(places.size())}), axis);
}

}  // namespace

Tensor resize_nearest(const Tensor& x, int axis, std::int64_t size, Centers centers) {
  const std::int64_t from = x.shape().sizes()[axis];
  const float scale = scale_of(from, size, centers);
  std::vector<std::int32_t> places;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto number = static_cast<float>(i);
    const float place = centers == Centers::half_pixel ? std::floor((number + 0.5F) * scale)
                        : centers == Centers::corners  ? std::round(number * scale)
                                                       : std::floor(number * scale);
    places.push_back(
        static_cast<std::int32_t>(std::clamp<std::int64_t>(static_cast<std::int64_t>(place), 0, from - 1)));
  }
  return picked(x, axis, places);
}

Tensor resize_linear(const Tensor& x, int axis, std::int64_t size, Centers centers) {
  const std::int64_t from = x.shape().sizes()[axis];
  const float scale = scale_of(from, size, centers);
  std::vector<std::int32_t> low, high;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto number = static_cast<float>(i);
    const float place = centers == Centers::half_pixel ? (number + 0.5F) * scale - 0.5F : number * scale;
    const auto below = static_cast<std::int64_t>(std::floor(place)),
               above = static_cast<std::int64_t>(std::ceil(place));
    low.push_back(static_cast<std::int32_t>(std::max<std::int64_t>(below, 0)));
    high.push_back(static_cast<std::int32_t>(std::min(above, from - 1)));
    weights.push_back(place - std::floor(place));
  }
  Shape shape{size};
  for (int i = axis + 1; i < x.rank(); ++i) shape.push_back(1);
  const Tensor first = picked(x, axis, low);
  return first + (picked(x, axis, high) - first) * vector_of(weights, float32, shape);
}

}  // namespace tapestry::io
