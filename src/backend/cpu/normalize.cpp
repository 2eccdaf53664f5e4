#include "backend/cpu/kernels/normalize.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

template <class T>
const RowKernels<T>& kernels() {
  static const NormalizeTable& table = TAPESTRY_PICK_LEVEL(normalize_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

/// The fewest elements of a task.
constexpr std::int64_t task_elements = 16384;

std::int64_t row_length(const Tensor& x) { return x.rank() > 0 ? x.shape().sizes().back() : 1; }

/// Calls body.template operator()<T>(first row, number of rows, elements of a row) for all rows of a float tensor, on
/// several threads.
template <class Body>
void for_rows(const Tensor& x, std::int64_t grain, const Body& body) {
  const std::int64_t n = row_length(x);
  const auto run = [&]<class T>() {
    parallel_for(x.size() / n, grain,
                 [&](std::int64_t row, std::int64_t end) { body.template operator()<T>(row, end - row, n); });
  };
  if (x.dtype() == DType::float32) {
    run.template operator()<float>();
  } else {
    run.template operator()<double>();
  }
}
template <class Body>
void for_rows(const Tensor& x, const Body& body) {
  if (x.size() == 0) return;
  for_rows(x, std::max<std::int64_t>(1, task_elements / row_length(x)), body);
}

template <class T>
const T* elements(const Tensor& x) {
  return static_cast<const T*>(x.impl().data);
}

}  // namespace

using detail::mutable_data;

void CpuBackend::softmax(const Tensor& x, bool logarithm, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::softmax(x, logarithm, y);
  const Tensor from = contiguous(x);
  for_rows(y, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().softmax(elements<T>(from) + row * n, rows, n, logarithm, mutable_data<T>(y) + row * n);
  });
}

void CpuBackend::softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) {
  if (is_half(dx.dtype())) return Backend::softmax_grad(y, g, logarithm, dx);
  const Tensor output = contiguous(y), gradient = contiguous(g);
  for_rows(dx, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().softmax_grad(elements<T>(output) + row * n, elements<T>(gradient) + row * n, rows, n, logarithm,
                              mutable_data<T>(dx) + row * n);
  });
}

void CpuBackend::normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                           const Tensor& mean, const Tensor& rstd) {
  if (is_half(x.dtype())) return Backend::normalize(x, scale, offset, epsilon, y, mean, rstd);
  if (x.size() == 0) {  // rows without elements have no mean
    fill(std::numeric_limits<double>::quiet_NaN(), mean);
    fill(std::numeric_limits<double>::quiet_NaN(), rstd);
    return;
  }
  const Tensor from = contiguous(x), weight = contiguous(scale), bias = contiguous(offset);
  for_rows(y, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().normalize(elements<T>(from) + row * n, elements<T>(weight), elements<T>(bias), rows, n, epsilon,
                           mutable_data<T>(y) + row * n, mutable_data<T>(mean) + row, mutable_data<T>(rstd) + row);
  });
}

void CpuBackend::normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                const Tensor& g, const Tensor& dx, const Tensor& dscale, const Tensor& doffset) {
  if (is_half(x.dtype())) return Backend::normalize_grad(x, scale, mean, rstd, g, dx, dscale, doffset);
  if (x.size() == 0) {
    fill(0, dscale);
    fill(0, doffset);
    return;
  }
  const Tensor from = contiguous(x), weight = contiguous(scale), middle = contiguous(mean), factor = contiguous(rstd),
               gradient = contiguous(g);
  // Each task sums its own rows: so many that there are few sums to add, and so few that the sums are accurate.
  const std::int64_t length = row_length(x), count = x.size() / length;
  const std::int64_t grain = std::clamp<std::int64_t>(4 * task_elements / length, 16, 256);
  const std::int64_t tasks = (count + grain - 1) / grain;
  const Tensor scales = detail::make_tensor(x.dtype(), {tasks, length}, x.device());
  const Tensor offsets = detail::make_tensor(x.dtype(), {tasks, length}, x.device());
  for_rows(dx, grain, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    T* const of_scale = std::fill_n(mutable_data<T>(scales) + row / grain * n, n, T(0)) - n;
    T* const of_offset = std::fill_n(mutable_data<T>(offsets) + row / grain * n, n, T(0)) - n;
    kernels<T>().normalize_grad(elements<T>(from) + row * n, elements<T>(weight), elements<T>(middle) + row,
                                elements<T>(factor) + row, elements<T>(gradient) + row * n, rows, n,
                                mutable_data<T>(dx) + row * n, of_scale, of_offset);
  });
  reduce(ReduceFunction::sum, scales, 1, dscale);
  reduce(ReduceFunction::sum, offsets, 1, doffset);
}

}  // namespace tapestry::host
