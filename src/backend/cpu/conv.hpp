#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/backend.hpp"

namespace tapestry::host {

/// The sizes of a convolution with the image x [batch, height, width, in] and the result y [batch, rows, columns, out].
struct ConvGeometry {
  std::int64_t batch, height, width, in, rows, columns, out;
  Window2d window;

  ConvGeometry(const Shape& x, const Shape& y, const Window2d& w)
      : batch(x[0]), height(x[1]), width(x[2]), in(x[3]), rows(y[1]), columns(y[2]), out(y[3]), window(w) {}

  std::int64_t positions() const { return batch * rows * columns; }
  std::int64_t group_in() const { return in / window.groups; }
  std::int64_t group_out() const { return out / window.groups; }
  /// The number of elements that one output element reads.
  std::int64_t patch() const { return window.height * window.width * group_in(); }
  /// The number of output positions whose patches fill half of a second-level cache, but at least 16.
  template <class T>
  std::int64_t tile() const {
    constexpr std::int64_t bytes = 1 << 20;
    return std::max<std::int64_t>(16, bytes / (patch() * static_cast<std::int64_t>(sizeof(T))));
  }
  /// Whether the image itself is the matrix of patches.
  bool is_pointwise() const {
    return window.height == 1 && window.width == 1 && window.stride_y == 1 && window.stride_x == 1 && rows == height &&
           columns == width;
  }
};

/// Computes y of a 3 x 3 convolution of stride 1 by Winograd's method, with a quarter of the multiplications. Returns
/// false, and does nothing, where the method does not apply or does not pay.
bool winograd(const ConvGeometry& geometry, const float* x, const float* filter, float* y);
/// The same for the gradient of the filter.
bool winograd_grad_filter(Backend& backend, const ConvGeometry& geometry, const float* x, const float* g,
                          float* dfilter);

/// Whether `direct_conv` and `direct_filter_gradients` are the fastest way to compute a convolution and its gradient.
bool is_direct(const ConvGeometry& geometry);
/// Computes y of a convolution of float or double.
template <class T>
void direct_conv(const ConvGeometry& geometry, const T* x, const T* filter, T* y);
/// Computes `count` partial sums of the gradient of the filter, each over its share of the images. `parts` is [count,
/// elements of a filter].
template <class T>
void direct_filter_gradients(const ConvGeometry& geometry, const T* x, const T* g, T* parts, std::int64_t count);

}  // namespace tapestry::host
