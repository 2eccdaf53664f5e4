#include "backend/cpu/kernels/winograd.hpp"

#include <cstdint>

#include "backend/cpu/kernels/lanes.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;
using Vector = Register<float>::type;
constexpr int64_t width = register_bytes / 4;

// The transforms along one axis. Element i of a line is line[i * step]. V is a register of channels, or one channel.

template <class V>
[[gnu::always_inline]] inline void transform_input(const V* d, int step, V* t, int t_step) {
  const V a0 = d[0], a1 = d[step], a2 = d[2 * step], a3 = d[3 * step], a4 = d[4 * step], a5 = d[5 * step];
  const V even = a4 - a2 * 4.0F, odd = a3 - a1 * 4.0F, near = a4 - a2, far = (a3 - a1) * 2.0F;
  t[0] = a0 * 4.0F - a2 * 5.0F + a4;
  t[t_step] = even + odd;
  t[2 * t_step] = even - odd;
  t[3 * t_step] = near + far;
  t[4 * t_step] = near - far;
  t[5 * t_step] = a1 * 4.0F - a3 * 5.0F + a5;
}

template <class V>
[[gnu::always_inline]] inline void transform_filter(const V* g, int step, V* t, int t_step) {
  const V a0 = g[0], a1 = g[step], a2 = g[2 * step];
  const V sum = a0 + a2, far = a0 * (1.0F / 24) + a2 * (1.0F / 6), half = a1 * (1.0F / 12);
  t[0] = a0 * 0.25F;
  t[t_step] = (sum + a1) * (-1.0F / 6);
  t[2 * t_step] = (sum - a1) * (-1.0F / 6);
  t[3 * t_step] = far + half;
  t[4 * t_step] = far - half;
  t[5 * t_step] = a2;
}

template <class V>
[[gnu::always_inline]] inline void transform_output(const V* m, int step, V* t, int t_step) {
  const V sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
  const V far_sum = m[3 * step] + m[4 * step], far_difference = m[3 * step] - m[4 * step];
  t[0] = m[0] + sum + far_sum;
  t[t_step] = difference + far_difference * 2.0F;
  t[2 * t_step] = sum + far_sum * 4.0F;
  t[3 * t_step] = difference + far_difference * 8.0F + m[5 * step];
}

template <class V>
[[gnu::always_inline]] inline void transpose_filter(const V* u, int step, V* t, int t_step) {
  const V sum = u[step] + u[2 * step], difference = u[step] - u[2 * step];
  const V far_sum = u[3 * step] + u[4 * step], far_difference = u[3 * step] - u[4 * step];
  t[0] = u[0] * 0.25F - sum * (1.0F / 6) + far_sum * (1.0F / 24);
  t[t_step] = far_difference * (1.0F / 12) - difference * (1.0F / 6);
  t[2 * t_step] = (far_sum - sum) * (1.0F / 6) + u[5 * step];
}

template <class V>
[[gnu::always_inline]] inline void transpose_output(const V* y, int step, V* t, int t_step) {
  const V a0 = y[0], a1 = y[step], a2 = y[2 * step], a3 = y[3 * step];
  const V even = a0 + a2, odd = a1 + a3, far_even = a0 + a2 * 4.0F, far_odd = a1 * 2.0F + a3 * 8.0F;
  t[0] = a0;
  t[t_step] = even + odd;
  t[2 * t_step] = even - odd;
  t[3 * t_step] = far_even + far_odd;
  t[4 * t_step] = far_even - far_odd;
  t[5 * t_step] = a3;
}

template <class V>
[[gnu::always_inline]] inline void input_part(const float* from, int64_t corner, int64_t row, int64_t channels,
                                              const Extent& extent, float* to, int64_t plane) {
  V t[36];  // of which the registers hold most: no other array is alive meanwhile
  for (int x = 0; x < 6; ++x) {
    V line[6];
    for (int y = 0; y < 6; ++y) {
      const bool exists = y >= extent.top && y < extent.bottom && x >= extent.left && x < extent.right;
      line[y] = exists ? load<V>(from + (corner + y * row + x * channels)) : V{};
    }
    transform_input(line, 1, t + x, 6);
  }
  for (int y = 0; y < 6; ++y) {
    V products[6];
    transform_input(t + 6 * y, 1, products, 1);
    for (int x = 0; x < 6; ++x) store(products[x], to + (6 * y + x) * plane);
  }
}

template <class V>
[[gnu::always_inline]] inline void filter_part(const float* filter, int64_t n, float* to) {
  V g[9], t[18], products[36];
  for (int i = 0; i < 9; ++i) g[i] = load<V>(filter + i * n);
  for (int x = 0; x < 3; ++x) transform_filter(g + x, 3, t + x, 3);
  for (int y = 0; y < 6; ++y) transform_filter(t + 3 * y, 1, products + 6 * y, 1);
  for (int p = 0; p < 36; ++p) store(products[p], to + p * n);
}

template <class V>
[[gnu::always_inline]] inline void output_part(const float* from, int64_t plane, int64_t row, int64_t channels,
                                               const Extent& extent, float* image) {
  V t[24];
  for (int x = 0; x < 6; ++x) {
    V line[6];
    for (int y = 0; y < 6; ++y) line[y] = load<V>(from + (6 * y + x) * plane);
    transform_output(line, 1, t + x, 6);
  }
  for (int y = 0; y < 4; ++y) {
    if (y < extent.top || y >= extent.bottom) continue;
    V line[4];
    transform_output(t + 6 * y, 1, line, 1);
    for (int x = 0; x < 4; ++x)
      if (x >= extent.left && x < extent.right) store(line[x], image + y * row + x * channels);
  }
}

template <class V>
[[gnu::always_inline]] inline void filter_gradient_part(const float* from, int64_t n, float* filter) {
  V u[36], t[18], g[9];
  for (int p = 0; p < 36; ++p) u[p] = load<V>(from + p * n);
  for (int x = 0; x < 6; ++x) transpose_filter(u + x, 6, t + x, 6);
  for (int y = 0; y < 3; ++y) transpose_filter(t + 6 * y, 1, g + 3 * y, 1);
  for (int i = 0; i < 9; ++i) store(g[i], filter + i * n);
}

template <class V>
[[gnu::always_inline]] inline void output_gradient_part(const float* image, int64_t row, int64_t channels,
                                                        const Extent& extent, float* to, int64_t plane) {
  V t[24];
  for (int x = 0; x < 4; ++x) {
    V line[4];
    for (int y = 0; y < 4; ++y)
      line[y] = y < extent.bottom && x < extent.right ? load<V>(image + y * row + x * channels) : V{};
    transpose_output(line, 1, t + x, 4);
  }
  for (int y = 0; y < 6; ++y) {
    V products[6];
    transpose_output(t + 4 * y, 1, products, 1);
    for (int x = 0; x < 6; ++x) store(products[x], to + (6 * y + x) * plane);
  }
}

void input(const float* x, int64_t corner, int64_t row, int64_t channels, const Extent& extent, float* to,
           int64_t plane) {
  int64_t c = 0;
  for (; c + width <= channels; c += width) input_part<Vector>(x, corner + c, row, channels, extent, to + c, plane);
  for (; c < channels; ++c) input_part<float>(x, corner + c, row, channels, extent, to + c, plane);
}

void filter(const float* from, int64_t n, float* to) {
  int64_t c = 0;
  for (; c + width <= n; c += width) filter_part<Vector>(from + c, n, to + c);
  for (; c < n; ++c) filter_part<float>(from + c, n, to + c);
}

void output(const float* from, int64_t plane, int64_t row, int64_t channels, const Extent& extent, float* image) {
  int64_t c = 0;
  for (; c + width <= channels; c += width) output_part<Vector>(from + c, plane, row, channels, extent, image + c);
  for (; c < channels; ++c) output_part<float>(from + c, plane, row, channels, extent, image + c);
}

void filter_gradient(const float* from, int64_t n, float* to) {
  int64_t c = 0;
  for (; c + width <= n; c += width) filter_gradient_part<Vector>(from + c, n, to + c);
  for (; c < n; ++c) filter_gradient_part<float>(from + c, n, to + c);
}

void output_gradient(const float* image, int64_t row, int64_t channels, const Extent& extent, float* to,
                     int64_t plane) {
  int64_t c = 0;
  for (; c + width <= channels; c += width)
    output_gradient_part<Vector>(image + c, row, channels, extent, to + c, plane);
  for (; c < channels; ++c) output_gradient_part<float>(image + c, row, channels, extent, to + c, plane);
}

}  // namespace

const WinogradTable winograd_table = {.input = input,
                                      .filter = filter,
                                      .output = output,
                                      .filter_gradient = filter_gradient,
                                      .output_gradient = output_gradient};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
