#include "backend/cpu/kernels/normalize.hpp"

#include <cstdint>

#include "backend/cpu/kernels/lanes.hpp"
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;

// A row is read several times, but only the first time from memory.

template <class T>
[[gnu::always_inline]] inline auto vector_at(const T* x, int64_t i) {
  return load<typename Register<T>::type>(x + i);
}

template <class T>
[[gnu::always_inline]] inline double sum(const T* x, int64_t n) {
  return sum_lanes<T>(
      n, [x](int64_t i) { return vector_at(x, i); }, [x](int64_t i) { return x[i]; });
}
template <class T>
[[gnu::always_inline]] inline double sum_of_products(const T* x, const T* y, int64_t n) {
  return sum_lanes<T>(
      n, [x, y](int64_t i) { return vector_at(x, i) * vector_at(y, i); }, [x, y](int64_t i) { return x[i] * y[i]; });
}

// Rows too short for the lanes are computed in batches, one row in each lane. Each loop does one thing, because a loop
// that chooses by `logarithm` or does several things at once stays scalar.

constexpr int narrow = 16, batch = 64;

template <class T>
void softmax_narrow(const T* x, int64_t rows, int64_t n, bool logarithm, T* y) {
  T values[narrow][batch], largest[batch], totals[batch];
  for (; rows > 0; rows -= batch, x += batch * n, y += batch * n) {
    const int64_t count = rows < batch ? rows : batch;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t r = 0; r < count; ++r) values[j][r] = x[r * n + j];
      for (int64_t r = count; r < batch; ++r) values[j][r] = 0;
    }
    for (int r = 0; r < batch; ++r) largest[r] = -math::Real<T>::infinity;
    for (int64_t j = 0; j < n; ++j)
      for (int r = 0; r < batch; ++r) largest[r] = Max::combine(largest[r], values[j][r]);
    for (int r = 0; r < batch; ++r) totals[r] = 0;
    for (int64_t j = 0; j < n; ++j) {
      T powers[batch];
      for (int r = 0; r < batch; ++r) values[j][r] -= largest[r];
      for (int r = 0; r < batch; ++r) powers[r] = math::exp_not_above(values[j][r]);
      for (int r = 0; r < batch; ++r) totals[r] += powers[r];
      if (logarithm) continue;
      for (int r = 0; r < batch; ++r) values[j][r] = powers[r];
    }
    if (logarithm) {
      for (int r = 0; r < batch; ++r) totals[r] = math::log(totals[r]);
    } else {
      for (int r = 0; r < batch; ++r) totals[r] = T(1) / totals[r];
    }
    for (int64_t j = 0; j < n; ++j)
      for (int64_t r = 0; r < count; ++r)
        y[r * n + j] = logarithm ? values[j][r] - totals[r] : values[j][r] * totals[r];
  }
}

template <class T>
void softmax(const T* x, int64_t rows, int64_t n, bool logarithm, T* y) {
  if (n < narrow) return softmax_narrow(x, rows, n, logarithm, y);
  for (; rows > 0; --rows, x += n, y += n) {
    const T* __restrict from = x;
    T* __restrict to = y;
    const T largest = reduce_lanes<Max>(
        n, -math::Real<T>::infinity, [from](int64_t i) { return vector_at(from, i); },
        [from](int64_t i) { return from[i]; });
    for (int64_t i = 0; i < n; ++i) to[i] = math::exp_not_above(from[i] - largest);
    const double total = sum(to, n);
    if (logarithm) {
      const T log_total = static_cast<T>(math::log(total));
      for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - largest) - log_total;
    } else {
      const T factor = static_cast<T>(1 / total);
      for (int64_t i = 0; i < n; ++i) to[i] *= factor;
    }
  }
}

template <class T>
void softmax_grad_narrow(const T* y, const T* g, int64_t rows, int64_t n, bool logarithm, T* dx) {
  T out[narrow][batch], gradient[narrow][batch], totals[batch];
  for (; rows > 0; rows -= batch, y += batch * n, g += batch * n, dx += batch * n) {
    const int64_t count = rows < batch ? rows : batch;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t r = 0; r < count; ++r) {
        out[j][r] = y[r * n + j];
        gradient[j][r] = g[r * n + j];
      }
      for (int64_t r = count; r < batch; ++r) out[j][r] = gradient[j][r] = 0;
    }
    for (int r = 0; r < batch; ++r) totals[r] = 0;
    if (logarithm) {
      for (int64_t j = 0; j < n; ++j)
        for (int r = 0; r < batch; ++r) totals[r] += gradient[j][r];
      for (int64_t j = 0; j < n; ++j)
        for (int r = 0; r < batch; ++r) out[j][r] = gradient[j][r] - math::exp_not_above(out[j][r]) * totals[r];
    } else {
      for (int64_t j = 0; j < n; ++j)
        for (int r = 0; r < batch; ++r) totals[r] += gradient[j][r] * out[j][r];
      for (int64_t j = 0; j < n; ++j)
        for (int r = 0; r < batch; ++r) out[j][r] = (gradient[j][r] - totals[r]) * out[j][r];
    }
    for (int64_t j = 0; j < n; ++j)
      for (int64_t r = 0; r < count; ++r) dx[r * n + j] = out[j][r];
  }
}

template <class T>
void softmax_grad(const T* y, const T* g, int64_t rows, int64_t n, bool logarithm, T* dx) {
  if (n < narrow) return softmax_grad_narrow(y, g, rows, n, logarithm, dx);
  for (; rows > 0; --rows, y += n, g += n, dx += n) {
    const T* __restrict out = y, * __restrict gradient = g;
    T* __restrict to = dx;
    if (logarithm) {
      const T total = static_cast<T>(sum(gradient, n));
      for (int64_t i = 0; i < n; ++i) to[i] = gradient[i] - math::exp_not_above(out[i]) * total;
    } else {
      const T total = static_cast<T>(sum_of_products(gradient, out, n));
      for (int64_t i = 0; i < n; ++i) to[i] = (gradient[i] - total) * out[i];
    }
  }
}

template <class T>
void normalize(const T* x, const T* scale, const T* offset, int64_t rows, int64_t n, double epsilon, T* y, T* mean,
               T* rstd) {
  const auto count = static_cast<double>(n);
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    const T* __restrict from = x;
    T* __restrict to = y;
    const T middle = static_cast<T>(sum(from, n) / count);
    const double squares = sum_lanes<T>(
        n, [=](int64_t i) { return (vector_at(from, i) - middle) * (vector_at(from, i) - middle); },
        [=](int64_t i) { return (from[i] - middle) * (from[i] - middle); });
    const T factor = static_cast<T>(1 / math::sqrt(squares / count + epsilon));
    for (int64_t i = 0; i < n; ++i) to[i] = (from[i] - middle) * factor * scale[i] + offset[i];
    mean[row] = middle;
    rstd[row] = factor;
  }
}

template <class T>
void normalize_grad(const T* x, const T* scale, const T* mean, const T* rstd, const T* g, int64_t rows, int64_t n,
                    T* dx, T* dscale, T* doffset) {
  const auto count = static_cast<double>(n);
  for (int64_t row = 0; row < rows; ++row, x += n, g += n, dx += n) {
    const T* __restrict from = x, * __restrict gradient = g, * __restrict weight = scale;
    T* __restrict to = dx, * __restrict of_scale = dscale, * __restrict of_offset = doffset;
    const T middle = mean[row], factor = rstd[row];
    const T level = static_cast<T>(sum_of_products(gradient, weight, n) / count);
    const auto product = [=](const auto& at) { return at(gradient) * at(weight) * ((at(from) - middle) * factor); };
    const T slope =
        static_cast<T>(sum_lanes<T>(
                           n, [=](int64_t i) { return product([i](const T* data) { return vector_at(data, i); }); },
                           [=](int64_t i) { return product([i](const T* data) { return data[i]; }); }) /
                       count);
    TAPESTRY_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T normal = (from[i] - middle) * factor;
      to[i] = factor * ((gradient[i] * weight[i] - level) - normal * slope);
      of_scale[i] += gradient[i] * normal;
      of_offset[i] += gradient[i];
    }
  }
}

}  // namespace

const NormalizeTable normalize_table = {
    .f32 = {softmax<float>, softmax_grad<float>, normalize<float>, normalize_grad<float>},
    .f64 = {softmax<double>, softmax_grad<double>, normalize<double>, normalize_grad<double>},
};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
