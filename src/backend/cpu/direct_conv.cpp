#include "backend/cpu/kernels/direct_conv.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/conv.hpp"
#include "backend/cpu/threads.hpp"
#include "backend/cpu/window_runs.hpp"

// A convolution with few elements per window, such as the first of a network for images, as plain sums. For a product
// of matrices each window would be copied, which takes longer than the multiplications.

namespace tapestry::host {
namespace {

template <class T>
const DirectConvKernels<T>& kernels() {
  static const DirectConvTable& table = TAPESTRY_PICK_LEVEL(direct_conv_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

}  // namespace

bool is_direct(const ConvGeometry& g) {
  constexpr std::int64_t most_elements = 32, most_channels = 64;
  return g.window.groups == 1 && g.patch() <= most_elements && g.out <= most_channels;
}

template <class T>
void direct_conv(const ConvGeometry& g, const T* x, const T* filter, T* y) {
  constexpr std::int64_t task_positions = 1024;
  parallel_for(g.batch * g.rows, std::max<std::int64_t>(1, task_positions / g.columns),
               [&](std::int64_t row, std::int64_t end) {
                 for (; row < end; ++row)
                   for_window_runs<true>(g, row / g.rows, row % g.rows, [&](std::int64_t window, const WindowRun& run) {
                     kernels<T>().convolve(run, g.in, g.out, x, filter, y + window * g.out);
                   });
               });
}

template <class T>
void direct_filter_gradients(const ConvGeometry& g, const T* x, const T* gradient, T* parts, std::int64_t count) {
  const std::int64_t share = (g.batch + count - 1) / count, size = g.patch() * g.out;
  parallel_for(count, 1, [&](std::int64_t part, std::int64_t) {
    std::fill_n(parts + part * size, size, T(0));
    for (std::int64_t image = part * share; image < std::min((part + 1) * share, g.batch); ++image)
      for (std::int64_t row = 0; row < g.rows; ++row)
        for_window_runs<true>(g, image, row, [&](std::int64_t window, const WindowRun& run) {
          kernels<T>().grad_filter(run, g.in, g.out, x, gradient + window * g.out, parts + part * size);
        });
  });
}

template void direct_conv(const ConvGeometry&, const float*, const float*, float*);
template void direct_conv(const ConvGeometry&, const double*, const double*, double*);
template void direct_filter_gradients(const ConvGeometry&, const float*, const float*, float*, std::int64_t);
template void direct_filter_gradients(const ConvGeometry&, const double*, const double*, double*, std::int64_t);

}  // namespace tapestry::host
