#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/conv.hpp"
#include "backend/cpu/kernels/window_run.hpp"
#include "tapestry/detail/small_vector.hpp"

namespace tapestry::host {

/// The elements of a window that are inside the image along one axis: [first, last) of `size`.
struct WindowSpan {
  std::int64_t start, first, last;
};
inline WindowSpan inside_image(std::int64_t index, std::int64_t stride, std::int64_t pad, std::int64_t size,
                               std::int64_t dilation, std::int64_t limit) {
  const std::int64_t start = index * stride - pad;
  const auto steps = [&](std::int64_t distance) { return distance <= 0 ? 0 : (distance - 1) / dilation + 1; };
  const std::int64_t first = std::min(steps(-start), size);
  return {start, first, std::max(first, std::min(steps(limit - start), size))};
}

/// Calls run(index of its first window, WindowRun) for one row of windows of an image: once for each window at the
/// border, which has fewer elements, and once for those between. Only windows with a filter have places: the others may
/// have more elements than an integer can count.
template <bool has_filter, class Run>
void for_window_runs(const ConvGeometry& g, std::int64_t image, std::int64_t row, const Run& run) {
  const Window2d& w = g.window;
  const WindowSpan y = inside_image(row, w.stride_y, w.pad_top, w.height, w.dilation_y, g.height);
  SmallVector<std::int64_t, 16> taps, places;
  for (std::int64_t column = 0; column < g.columns;) {
    const WindowSpan x = inside_image(column, w.stride_x, w.pad_left, w.width, w.dilation_x, g.width);
    std::int64_t windows = 1;
    if (x.first == 0 && x.last == w.width) {
      const std::int64_t last = x.start + (w.width - 1) * w.dilation_x;
      windows = std::min(g.columns - column, (g.width - 1 - last) / w.stride_x + 1);
    }
    taps.clear();
    places.clear();
    for (std::int64_t ky = y.first; ky < y.last; ++ky)
      for (std::int64_t kx = x.first; kx < x.last; ++kx) {
        const std::int64_t line = image * g.height + y.start + ky * w.dilation_y;
        taps.push_back((line * g.width + x.start + kx * w.dilation_x) * g.in);
        if constexpr (has_filter) places.push_back(ky * w.width + kx);
      }
    run((image * g.rows + row) * g.columns + column, WindowRun{.windows = windows,
                                                               .step = windows > 1 ? w.stride_x * g.in : 0,
                                                               .taps = taps.data(),
                                                               .places = places.data(),
                                                               .count = static_cast<std::int64_t>(taps.size())});
    column += windows;
  }
}

}  // namespace tapestry::host
