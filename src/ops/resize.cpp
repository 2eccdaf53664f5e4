#include "ops/resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "core/make_tensor.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

// Positions and factors are computed in single precision, as in TensorFlow, so that the same pixels are taken.

namespace tapestry {
namespace {

float scale_of(std::int64_t from, std::int64_t to, PixelCenters centers) {
  const bool corners = centers == PixelCenters::align_corners && to > 1;
  return corners ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                 : static_cast<float>(from) / static_cast<float>(to);
}

/// The position of new element i in the old axis.
float place_of(std::int64_t i, float scale, PixelCenters centers) {
  const auto number = static_cast<float>(i);
  return centers == PixelCenters::half_pixel ? (number + 0.5F) * scale - 0.5F : number * scale;
}

std::int32_t bounded(std::int64_t place, std::int64_t size) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(place, 0, size - 1));
}

template <class T>
Tensor numbers_of(const std::vector<T>& numbers, DType dtype, const Shape& shape) {
  Tensor value = detail::make_tensor(dtype, shape, cpu());
  std::copy(numbers.begin(), numbers.end(), detail::mutable_data<T>(value));
  return value;
}

/// The factors of the four neighbours of a position, by its distance from the second one (Keys 1981). TensorFlow rounds
/// the distance to 1/1024. `a` is the slope of the kernel at distance 1.
std::array<float, 4> cubic_factors(float distance, double a) {
  constexpr std::int64_t steps = 1 << 10;
  const std::int64_t step = std::lrintf(distance * steps);
  const auto near = [&](std::int64_t i) {
    const auto x = static_cast<float>(static_cast<double>(i) / steps);
    return static_cast<float>(((a + 2) * x - (a + 3)) * x * x + 1);
  };
  const auto far = [&](std::int64_t i) {
    const float x = static_cast<float>(static_cast<double>(i) / steps) + 1;
    return static_cast<float>(((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
  };
  return {far(step), near(step), near(steps - step), far(steps - step)};
}

Taps taps_of(const ResizeOptions& options, std::int64_t from, std::int64_t to) {
  switch (options.method) {
    case ResizeMethod::nearest:
      return nearest_taps(from, to, options.centers);
    case ResizeMethod::bilinear:
      return linear_taps(from, to, options.centers);
    case ResizeMethod::bicubic:
      return cubic_taps(from, to, options.centers);
    default:
      return area_taps(from, to, options.centers);
  }
}

}  // namespace

Taps nearest_taps(std::int64_t from, std::int64_t to, PixelCenters centers) {
  const float scale = scale_of(from, to, centers);
  Tap tap;
  for (std::int64_t i = 0; i < to; ++i) {
    const auto number = static_cast<float>(i);
    const float place = centers == PixelCenters::half_pixel      ? std::floor((number + 0.5F) * scale)
                        : centers == PixelCenters::align_corners ? std::round(number * scale)
                                                                 : std::floor(number * scale);
    tap.places.push_back(bounded(static_cast<std::int64_t>(place), from));
  }
  return {tap};
}

Taps linear_taps(std::int64_t from, std::int64_t to, PixelCenters centers) {
  const float scale = scale_of(from, to, centers);
  Tap low, high;
  for (std::int64_t i = 0; i < to; ++i) {
    const float place = place_of(i, scale, centers), below = std::floor(place);
    low.places.push_back(bounded(static_cast<std::int64_t>(below), from));
    high.places.push_back(bounded(static_cast<std::int64_t>(std::ceil(place)), from));
    low.factors.push_back(1 - (place - below));
    high.factors.push_back(place - below);
  }
  return {low, high};
}

Taps cubic_taps(std::int64_t from, std::int64_t to, PixelCenters centers) {
  const float scale = scale_of(from, to, centers);
  // Outside of the image there is nothing with half pixels, and else the element at the border.
  const bool ends = centers == PixelCenters::half_pixel;
  Taps taps(4);
  for (std::int64_t i = 0; i < to; ++i) {
    const float place = place_of(i, scale, centers), below = std::floor(place);
    std::array<float, 4> factors = cubic_factors(place - below, ends ? -0.5 : -0.75);
    float sum = 0;
    for (int k = 0; k < 4; ++k) {
      const std::int64_t at = static_cast<std::int64_t>(below) + k - 1;
      taps[k].places.push_back(bounded(at, from));
      if (ends && taps[k].places.back() != at) factors[k] = 0;
      sum += factors[k];
    }
    const bool divides = ends && std::abs(sum) >= 1000 * std::numeric_limits<float>::min();
    for (int k = 0; k < 4; ++k) taps[k].factors.push_back(divides ? factors[k] / sum : factors[k]);
  }
  return taps;
}

Taps area_taps(std::int64_t from, std::int64_t to, PixelCenters centers) {
  const float scale = scale_of(from, to, centers);
  Taps taps;
  for (std::int64_t i = 0; i < to; ++i) {
    const float begin = static_cast<float>(i) * scale, end = static_cast<float>(i + 1) * scale;
    std::size_t k = 0;
    for (auto place = static_cast<std::int64_t>(begin); static_cast<float>(place) < end; ++place, ++k) {
      const auto left = static_cast<float>(place);
      if (k == taps.size()) taps.push_back({std::vector<std::int32_t>(to, -1), std::vector<float>(to)});
      taps[k].places[i] = bounded(place, from);
      taps[k].factors[i] = (std::min(left + 1, end) - std::max(left, begin)) / scale;
    }
  }
  // A new element that covers fewer old ones counts the last one in halves: 0 times another one could be NaN.
  for (std::size_t k = 1; k < taps.size(); ++k)
    for (std::int64_t i = 0; i < to; ++i)
      if (taps[k].places[i] < 0) {
        taps[k].places[i] = taps[k - 1].places[i];
        taps[k].factors[i] = taps[k - 1].factors[i] /= 2;
      }
  return taps;
}

namespace {

/// The elements of x at the places of some taps, times their factors, and behind the sizes of `shape` those of x.
Tensor at_taps(const Tensor& x, int axis, std::span<const Tap> taps, Shape shape) {
  std::vector<std::int32_t> places;
  std::vector<float> factors;
  for (const Tap& tap : taps) {
    places.insert(places.end(), tap.places.begin(), tap.places.end());
    factors.insert(factors.end(), tap.factors.begin(), tap.factors.end());
  }
  const Tensor found = gather(x, numbers_of(places, int32, shape).to(x.device()), axis);
  if (factors.empty()) return found;
  for (int i = axis + 1; i < x.shape().rank(); ++i) shape.push_back(1);
  return found * numbers_of(factors, float32, shape).to(x.device());
}

}  // namespace

Tensor resized(const Tensor& x, int axis, const Taps& taps) {
  const auto count = static_cast<std::int64_t>(taps.size()), to = static_cast<std::int64_t>(taps[0].places.size());
  // Few taps are added up by one pass over the result; many would be as many operations.
  if (count > 4 && x.shape().rank() < Shape::max_rank) return reduce_sum(at_taps(x, axis, taps, {count, to}), axis);
  Tensor sum;
  for (const Tap& tap : taps) {
    const Tensor part = at_taps(x, axis, {&tap, 1}, {to});
    sum = bool(sum) ? sum + part : part;
  }
  return sum;
}

Tensor resize(In images, Size2d size, const ResizeOptions& options, std::string_view name) {
  return blaming("resize", images.where(), [&] {
    if (rank_of(images) != 4)
      throw InvalidArgumentError(
          detail::join("images must be [batch, height, width, channels], but their shape is ", images->shape()));
    const bool nearest = options.method == ResizeMethod::nearest;
    Tensor x = nearest ? images.tensor() : widened(images);
    // The width comes first, as in TensorFlow.
    for (const int axis : {2, 1}) {
      const std::int64_t from = x.shape().sizes()[axis], to = axis == 1 ? size.height : size.width;
      if (from < 0)
        throw InvalidArgumentError(
            detail::join("height and width must be known, but the shape of the images is ", images->shape()));
      if (std::min(from, to) < 1 || std::max(from, to) > std::numeric_limits<std::int32_t>::max())
        throw InvalidArgumentError(detail::join("images of ", images->shape(), " cannot be made images of height ",
                                                size.height, " and width ", size.width));
      if (from != to) x = resized(x, axis, taps_of(options, from, to));
    }
    return nearest ? named(x, name) : narrowed(x, images, name);
  });
}

}  // namespace tapestry
