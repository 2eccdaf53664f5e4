#include "backend/cpu/kernels/normalize.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/dense.hpp"
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

/// body.template operator()<T>(first row, number of rows, elements of a row), on several threads, of a float tensor.
template <class Body>
void for_rows(const Tensor& x, const Body& body) {
  if (x.size() == 0) return;
  const std::int64_t n = x.rank() > 0 ? x.shape().back() : 1;
  const auto run = [&]<class T>() {
    constexpr std::int64_t task_elements = 16384;
    parallel_for(x.size() / n, std::max<std::int64_t>(1, task_elements / n),
                 [&](std::int64_t row, std::int64_t end) { body.template operator()<T>(row, end - row, n); });
  };
  if (x.dtype() == DType::float32) {
    run.template operator()<float>();
  } else {
    run.template operator()<double>();
  }
}

template <class T>
const T* elements(const Tensor& x) {
  return static_cast<const T*>(x.impl().data);
}

}  // namespace

using detail::mutable_data;

void CpuBackend::softmax(const Tensor& x, bool logarithm, const Tensor& y) {
  const Tensor from = dense(*this, x);
  for_rows(y, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().softmax(elements<T>(from) + row * n, rows, n, logarithm, mutable_data<T>(y) + row * n);
  });
}

void CpuBackend::softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) {
  const Tensor output = dense(*this, y), gradient = dense(*this, g);
  for_rows(dx, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().softmax_grad(elements<T>(output) + row * n, elements<T>(gradient) + row * n, rows, n, logarithm,
                              mutable_data<T>(dx) + row * n);
  });
}

void CpuBackend::normalize(const Tensor& x, double epsilon, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  if (x.size() == 0) {  // rows of nothing have no mean
    fill(std::numeric_limits<double>::quiet_NaN(), mean);
    fill(std::numeric_limits<double>::quiet_NaN(), rstd);
    return;
  }
  const Tensor from = dense(*this, x);
  for_rows(y, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().normalize(elements<T>(from) + row * n, rows, n, epsilon, mutable_data<T>(y) + row * n,
                           mutable_data<T>(mean) + row, mutable_data<T>(rstd) + row);
  });
}

void CpuBackend::normalize_grad(const Tensor& y, const Tensor& rstd, const Tensor& g, const Tensor& dx) {
  const Tensor output = dense(*this, y), scale = dense(*this, rstd), gradient = dense(*this, g);
  for_rows(dx, [&]<class T>(std::int64_t row, std::int64_t rows, std::int64_t n) {
    kernels<T>().normalize_grad(elements<T>(output) + row * n, elements<T>(scale) + row,
                                elements<T>(gradient) + row * n, rows, n, mutable_data<T>(dx) + row * n);
  });
}

}  // namespace tapestry::host
