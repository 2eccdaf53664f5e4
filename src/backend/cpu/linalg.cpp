// This header comes first, because it mends xtensor for C++20 before xtensor-blas includes it.
// clang-format off
#include "tapestry/xtensor.hpp"
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>

#include <xtensor-blas/xlinalg.hpp>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"

namespace tapestry::host {
namespace {

constexpr const char* not_invertible = "Input matrix is not invertible.";

/// The matrices of a batch; `Element` is const for an input.
template <class Element>
struct Matrices {
  Element* data;
  std::size_t rows, columns;

  Element* matrix(std::int64_t i) const { return data + i * static_cast<std::int64_t>(rows * columns); }
  auto operator[](std::int64_t i) const {
    return xt::adapt<xt::layout_type::row_major>(matrix(i), rows * columns, xt::no_ownership(),
                                                 std::array<std::size_t, 2>{rows, columns});
  }
};
template <class Element>
Matrices<Element> matrices(const Tensor& x) {
  const auto size = [&](int from_end) { return static_cast<std::size_t>(x.shape().sizes()[x.rank() - from_end]); };
  return {static_cast<Element*>(x.impl().data), size(2), size(1)};
}

template <class T>
bool all_finite(const T* x, std::size_t count) {
  return std::all_of(x, x + count, [](T value) { return std::isfinite(value); });
}

template <class T>
void cholesky(const Matrices<const T>& a, const Matrices<T>& l, std::int64_t i) {
  constexpr const char* message = "Cholesky decomposition was not successful. The input might not be valid.";
  try {
    xt::noalias(l[i]) = xt::linalg::cholesky(a[i]);
  } catch (const std::runtime_error&) {
    throw InvalidArgumentError(message);
  }
  // OpenBLAS passes NaN on without complaint.
  for (std::size_t j = 0; j < l.rows; ++j)
    if (!(l.matrix(i)[j * (l.columns + 1)] > T(0))) throw InvalidArgumentError(message);
}

template <class T>
void solve(const Matrices<const T>& a, const Matrices<const T>& b, bool adjoint, const Matrices<T>& x, std::int64_t i) {
  try {
    if (adjoint) {
      xt::noalias(x[i]) = xt::linalg::solve(xt::transpose(a[i]), b[i]);
    } else {
      xt::noalias(x[i]) = xt::linalg::solve(a[i], b[i]);
    }
  } catch (const std::runtime_error&) {
    throw InvalidArgumentError(not_invertible);
  }
}

template <class T>
void invert(const Matrices<const T>& a, bool adjoint, const Matrices<T>& x, std::int64_t i) {
  try {
    const auto inverse = xt::linalg::inv(a[i]);
    if (adjoint) {
      xt::noalias(x[i]) = xt::transpose(inverse);
    } else {
      xt::noalias(x[i]) = inverse;
    }
  } catch (const std::runtime_error&) {
    throw InvalidArgumentError(not_invertible);
  }
}

template <class T>
void decompose(const Matrices<const T>& a, T* values, const Matrices<T>& u, const Matrices<T>& v, std::int64_t i) {
  const std::size_t count = u.columns;
  T* s = values + i * static_cast<std::int64_t>(count);
  if (!all_finite(a.matrix(i), a.rows * a.columns)) {  // LAPACK refuses these, and xtensor-blas does not notice
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    std::fill_n(s, count, nan);
    std::fill_n(u.matrix(i), u.rows * count, nan);
    std::fill_n(v.matrix(i), v.rows * count, nan);
    return;
  }
  try {
    const auto [left, singular, right] = xt::linalg::svd(a[i], false);
    std::copy_n(singular.begin(), count, s);
    xt::noalias(u[i]) = left;
    xt::noalias(v[i]) = xt::transpose(right);
  } catch (const std::runtime_error&) {
    throw InvalidArgumentError("Singular value decomposition was not successful. The input might not be valid.");
  }
}

template <class T>
void solve_triangular(const Matrices<const T>& l, const Matrices<const T>& b, bool adjoint, const Matrices<T>& x,
                      std::int64_t i) {
  for (std::size_t j = 0; j < l.rows; ++j)
    if (l.matrix(i)[j * (l.columns + 1)] == T(0)) throw InvalidArgumentError(not_invertible);
  std::copy_n(b.matrix(i), x.rows * x.columns, x.matrix(i));
  const auto n = static_cast<xt::blas_index_t>(x.rows), columns = static_cast<xt::blas_index_t>(x.columns);
  cxxblas::trsm<xt::blas_index_t>(cxxblas::RowMajor, cxxblas::Left, cxxblas::Lower,
                                  adjoint ? cxxblas::Trans : cxxblas::NoTrans, cxxblas::NonUnit, n, columns, T(1),
                                  l.matrix(i), n, x.matrix(i), columns);
}

template <class T>
void run(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) {
  const auto a = matrices<const T>(inputs[0]);
  const auto b = matrices<const T>(inputs.back());
  const auto first = f == Linalg::svd ? Matrices<T>{} : matrices<T>(outputs[0]);
  const auto batch = inputs[0].size() / static_cast<std::int64_t>(a.rows * a.columns);
  constexpr double task_work = 1e5;
  const double work = std::pow(static_cast<double>(std::max(a.rows, a.columns)), 3);
  parallel_for(batch, static_cast<std::int64_t>(task_work / work) + 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      switch (f) {
        case Linalg::cholesky:
          cholesky(a, first, i);
          break;
        case Linalg::solve:
          solve(a, b, adjoint, first, i);
          break;
        case Linalg::inverse:
          invert(a, adjoint, first, i);
          break;
        case Linalg::svd:
          decompose(a, static_cast<T*>(outputs[0].impl().data), matrices<T>(outputs[1]), matrices<T>(outputs[2]), i);
          break;
        case Linalg::triangular_solve:
          solve_triangular(a, b, adjoint, first, i);
          break;
      }
    }
  });
}

}  // namespace

void CpuBackend::linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) {
  if (outputs[0].size() == 0) return;  // then the others are empty, too
  if (is_half(outputs[0].dtype())) return Backend::linalg(f, inputs, adjoint, outputs);
  prepare_blas();
  const Tensor plain[] = {contiguous(inputs.front()), contiguous(inputs.back())};
  if (outputs[0].dtype() == DType::float32) {
    run<float>(f, plain, adjoint, outputs);
  } else {
    run<double>(f, plain, adjoint, outputs);
  }
}

}  // namespace tapestry::host
