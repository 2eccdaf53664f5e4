#include "backend/cuda/kernels/images.hpp"
#include "backend/cuda/kernels/kernel.cuh"

namespace tapestry::gpu {
namespace {

/// A position in an array [batch, height, width, channels].
struct Pixel {
  std::int64_t image, y, x, channel;
};
__device__ Pixel pixel_of(std::int64_t i, std::int64_t height, std::int64_t width, std::int64_t channels) {
  Pixel pixel;
  pixel.channel = i % channels;
  i /= channels;
  pixel.x = i % width;
  i /= width;
  pixel.y = i % height;
  pixel.image = i / height;
  return pixel;
}

/// The first k for which start + k * step is not below 0. Loops begin there, because windows may be far larger than
/// images.
__device__ std::int64_t first_inside(std::int64_t start, std::int64_t step) {
  return start < 0 ? (-start - 1) / step + 1 : 0;
}

/// Calls body(number of the pixel, offset in the image) for the window's elements inside the image, in order.
template <class Body>
__device__ void for_window(const Windows& w, const Pixel& position, const Body& body) {
  const std::int64_t top = position.y * w.stride_y - w.pad_top, left = position.x * w.stride_x - w.pad_left;
  const std::int64_t first_kx = first_inside(left, w.dilation_x);
  for (std::int64_t ky = first_inside(top, w.dilation_y); ky < w.window_height; ++ky) {
    const std::int64_t y = top + ky * w.dilation_y;
    if (y >= w.height) break;
    for (std::int64_t kx = first_kx; kx < w.window_width; ++kx) {
      const std::int64_t x = left + kx * w.dilation_x;
      if (x >= w.width) break;
      body(y * w.width + x, ((position.image * w.height + y) * w.width + x) * w.channels + position.channel);
    }
  }
}

/// The last of `count` positions that is not behind a pixel.
__device__ std::int64_t last_position(std::int64_t pixel, std::int64_t stride, std::int64_t count) {
  const std::int64_t last = pixel / stride;
  return last < count ? last : count - 1;
}

/// Calls body(row and column in the window, position's number) for the windows that cover a pixel: the inverse of
/// `for_window`, in the order of the window's elements. So one thread can sum up each element of the image, always in
/// the same order.
template <class Body>
__device__ void for_positions(const Windows& w, const Pixel& pixel, const Body& body) {
  const std::int64_t y = pixel.y + w.pad_top, x = pixel.x + w.pad_left;
  const std::int64_t height = (w.window_height - 1) * w.dilation_y, width = (w.window_width - 1) * w.dilation_x;
  for (std::int64_t row = last_position(y, w.stride_y, w.rows); row >= 0; --row) {
    const std::int64_t down = y - row * w.stride_y;
    if (down > height) break;
    if (down % w.dilation_y != 0) continue;
    for (std::int64_t column = last_position(x, w.stride_x, w.columns); column >= 0; --column) {
      const std::int64_t right = x - column * w.stride_x;
      if (right > width) break;
      if (right % w.dilation_x != 0) continue;
      body(down / w.dilation_y, right / w.dilation_x, (pixel.image * w.rows + row) * w.columns + column);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) read_patches_kernel(Windows w, const T* image, T* patches) {
  const std::int64_t channels = w.group_channels(), patch = w.patch(), positions = w.positions();
  for (std::int64_t i = global_thread(); i < w.groups * positions * patch; i += grid_threads()) {
    const std::int64_t channel = i % channels, kx = i / channels % w.window_width;
    const std::int64_t ky = i / (channels * w.window_width) % w.window_height;
    const std::int64_t group = i / (patch * positions);
    const Pixel position = pixel_of(i / patch % positions, w.rows, w.columns, 1);  // its channel is 0
    const std::int64_t y = position.y * w.stride_y - w.pad_top + ky * w.dilation_y;
    const std::int64_t x = position.x * w.stride_x - w.pad_left + kx * w.dilation_x;
    const bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
    patches[i] = inside
                     ? image[((position.image * w.height + y) * w.width + x) * w.channels + group * channels + channel]
                     : T(0);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) add_patches_kernel(Windows w, const T* patches, T* image) {
  const std::int64_t channels = w.group_channels(), patch = w.patch(), positions = w.positions();
  for (std::int64_t i = global_thread(); i < w.batch * w.height * w.width * w.channels; i += grid_threads()) {
    const Pixel pixel = pixel_of(i, w.height, w.width, w.channels);
    const std::int64_t group = pixel.channel / channels, channel = pixel.channel % channels;
    T sum = T(0);
    for_positions(w, pixel, [&](std::int64_t ky, std::int64_t kx, std::int64_t position) {
      sum += patches[(group * positions + position) * patch + (ky * w.window_width + kx) * channels + channel];
    });
    image[i] = sum;
  }
}

template <bool maximum, class T>
__global__ void __launch_bounds__(block_threads) pool_kernel(Windows w, const T* x, T* y) {
  for (std::int64_t i = global_thread(); i < w.positions() * w.channels; i += grid_threads()) {
    T result = maximum ? static_cast<T>(-__builtin_huge_val()) : T(0);
    int count = 0;
    for_window(w, pixel_of(i, w.rows, w.columns, w.channels), [&](std::int64_t, std::int64_t offset) {
      const T value = x[offset];
      if (maximum) {
        result = result > value || result != result ? result : value;
      } else {
        result += value;
      }
      ++count;
    });
    y[i] = maximum ? result : result / static_cast<T>(count);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    max_positions_kernel(Windows w, const T* x, const T* y, std::int32_t* positions) {
  for (std::int64_t i = global_thread(); i < w.positions() * w.channels; i += grid_threads()) {
    std::int32_t position = -1;
    for_window(w, pixel_of(i, w.rows, w.columns, w.channels), [&](std::int64_t number, std::int64_t offset) {
      const T value = x[offset];
      if (position < 0 && (value == y[i] || value != value)) position = static_cast<std::int32_t>(number);
    });
    positions[i] = position;
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    pool_grad_kernel(Windows w, const std::int32_t* positions, const T* g, T* dx) {
  for (std::int64_t i = global_thread(); i < w.batch * w.height * w.width * w.channels; i += grid_threads()) {
    const Pixel pixel = pixel_of(i, w.height, w.width, w.channels);
    T sum = T(0);
    const auto number = static_cast<std::int32_t>(pixel.y * w.width + pixel.x);
    for_positions(w, pixel, [&](std::int64_t, std::int64_t, std::int64_t position) {
      const std::int64_t result = position * w.channels + pixel.channel;
      if (positions) {
        if (positions[result] == number) sum += g[result];
        return;
      }
      int count = 0;
      for_window(w, pixel_of(result, w.rows, w.columns, w.channels), [&](std::int64_t, std::int64_t) { ++count; });
      sum += g[result] / static_cast<T>(count);
    });
    dx[i] = sum;
  }
}

std::int64_t pixels(const Windows& w) { return w.batch * w.height * w.width * w.channels; }
std::int64_t results(const Windows& w) { return w.positions() * w.channels; }

}  // namespace

void read_patches(Stream stream, Type type, const Windows& windows, const void* image, void* patches) {
  const unsigned blocks = blocks_for(windows.groups * windows.positions() * windows.patch());
  with_float_type(type, [&](auto t) {
    read_patches_kernel<<<blocks, block_threads, 0, stream>>>(windows, as(image, t), as(patches, t));
  });
}

void add_patches(Stream stream, Type type, const Windows& windows, const void* patches, void* image) {
  with_float_type(type, [&](auto t) {
    add_patches_kernel<<<blocks_for(pixels(windows)), block_threads, 0, stream>>>(windows, as(patches, t),
                                                                                  as(image, t));
  });
}

void max_pool(Stream stream, Type type, const Windows& windows, const void* x, void* y) {
  with_float_type(type, [&](auto t) {
    pool_kernel<true><<<blocks_for(results(windows)), block_threads, 0, stream>>>(windows, as(x, t), as(y, t));
  });
}

void average_pool(Stream stream, Type type, const Windows& windows, const void* x, void* y) {
  with_float_type(type, [&](auto t) {
    pool_kernel<false><<<blocks_for(results(windows)), block_threads, 0, stream>>>(windows, as(x, t), as(y, t));
  });
}

void max_positions(Stream stream, Type type, const Windows& windows, const void* x, const void* y,
                   std::int32_t* positions) {
  with_float_type(type, [&](auto t) {
    max_positions_kernel<<<blocks_for(results(windows)), block_threads, 0, stream>>>(windows, as(x, t), as(y, t),
                                                                                     positions);
  });
}

void pool_grad(Stream stream, Type type, const Windows& windows, const std::int32_t* positions, const void* g,
               void* dx) {
  with_float_type(type, [&](auto t) {
    pool_grad_kernel<<<blocks_for(pixels(windows)), block_threads, 0, stream>>>(windows, positions, as(g, t),
                                                                                as(dx, t));
  });
}

}  // namespace tapestry::gpu
