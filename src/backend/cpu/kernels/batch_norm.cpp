#include "backend/cpu/kernels/batch_norm.hpp"

#include <cstdint>

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;

/// total[j] += the sum of term(offset of row i, j) over the rows. Four rows are added at once, so that the totals are
/// loaded and stored a quarter as often.
template <class T, class Term>
[[gnu::always_inline]] inline void add_rows(int64_t rows, int64_t stride, int64_t width, T* total, Term term) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const int64_t a = i * stride, b = a + stride, c = b + stride, d = c + stride;
    TAPESTRY_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) total[j] += (term(a, j) + term(b, j)) + (term(c, j) + term(d, j));
  }
  for (; i < rows; ++i) {
    TAPESTRY_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) total[j] += term(i * stride, j);
  }
}

template <class T>
void sum(const T* x, int64_t rows, int64_t stride, int64_t width, T* total) {
  add_rows(rows, stride, width, total, [=](int64_t row, int64_t j) { return x[row + j]; });
}

template <class T>
void squares(const T* x, int64_t rows, int64_t stride, int64_t width, const T* mean, T* total) {
  add_rows(rows, stride, width, total,
           [=](int64_t row, int64_t j) { return (x[row + j] - mean[j]) * (x[row + j] - mean[j]); });
}

template <class T>
void normalize(const T* x, int64_t rows, int64_t stride, int64_t width, const T* mean, const T* factor, const T* offset,
               T* y) {
  for (; rows > 0; --rows, x += stride, y += stride) {
    TAPESTRY_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) y[j] = (x[j] - mean[j]) * factor[j] + offset[j];
  }
}

template <class T>
void products(const T* x, const T* g, int64_t rows, int64_t stride, int64_t width, const T* mean, T* of_g,
              T* of_products) {
  const auto product = [=](int64_t row, int64_t j) { return g[row + j] * (x[row + j] - mean[j]); };
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {  // as add_rows does, but for both sums at once: each element is loaded once
    const int64_t a = i * stride, b = a + stride, c = b + stride, d = c + stride;
    TAPESTRY_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) {
      of_g[j] += (g[a + j] + g[b + j]) + (g[c + j] + g[d + j]);
      of_products[j] += (product(a, j) + product(b, j)) + (product(c, j) + product(d, j));
    }
  }
  add_rows(rows - i, stride, width, of_g, [=](int64_t row, int64_t j) { return g[i * stride + row + j]; });
  add_rows(rows - i, stride, width, of_products, [=](int64_t row, int64_t j) { return product(i * stride + row, j); });
}

template <class T>
void gradient(const T* x, const T* g, int64_t rows, int64_t stride, int64_t width, const T* mean, const T* level,
              const T* slope, const T* factor, T* dx) {
  for (; rows > 0; --rows, x += stride, g += stride, dx += stride) {
    TAPESTRY_INDEPENDENT
    for (int64_t j = 0; j < width; ++j) dx[j] = ((g[j] - level[j]) - (x[j] - mean[j]) * slope[j]) * factor[j];
  }
}

}  // namespace

const BatchNormTable batch_norm_table = {
    .f32 = {sum<float>, squares<float>, normalize<float>, products<float>, gradient<float>},
    .f64 = {sum<double>, squares<double>, normalize<double>, products<double>, gradient<double>},
};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
