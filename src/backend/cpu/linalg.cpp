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

/// A matrix as LAPACK takes it.
template <class T>
using ByColumns = xt::xtensor<T, 2, xt::layout_type::column_major>;

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

/// The determinant as sign * exp(logarithm), or as a number.
template <class T>
struct Determinant {
  T sign, logarithm, value;
};
template <class T>
Determinant<T> determinant(const Matrices<const T>& a, std::int64_t i) {
  // LAPACK takes the columns for rows, and the determinant is the same.
  ByColumns<T> lu({a.rows, a.rows});
  std::copy_n(a.matrix(i), lu.size(), lu.data());
  xt::uvector<xt::blas_index_t> pivots(a.rows);
  xt::lapack::getrf(lu, pivots);
  Determinant<T> y{1, 0, 1};
  for (std::size_t j = 0; j < a.rows; ++j) {
    const T pivot = pivots[j] == static_cast<xt::blas_index_t>(j + 1) ? lu(j, j) : -lu(j, j);
    y.value *= pivot;
    y.logarithm += std::log(std::abs(pivot));
    y.sign *= static_cast<T>((pivot > 0) - (pivot < 0));
  }
  return y;
}

template <class T>
void factorize(const Matrices<const T>& a, const Matrices<T>& q, const Matrices<T>& r, std::int64_t i) {
  const std::size_t count = q.columns;
  ByColumns<T> x({a.rows, a.columns});
  for (std::size_t j = 0; j < a.rows; ++j)
    for (std::size_t k = 0; k < a.columns; ++k) x(j, k) = a.matrix(i)[j * a.columns + k];
  xt::uvector<T> reflections(count);
  xt::lapack::geqrf(x, reflections);
  for (std::size_t j = 0; j < count; ++j)
    for (std::size_t k = 0; k < a.columns; ++k) r.matrix(i)[j * a.columns + k] = j > k ? T(0) : x(j, k);
  xt::lapack::orgqr(x, reflections, static_cast<xt::blas_index_t>(count));
  for (std::size_t j = 0; j < a.rows; ++j)
    for (std::size_t k = 0; k < count; ++k) q.matrix(i)[j * count + k] = x(j, k);
}

template <class T>
void decompose_symmetric(const Matrices<const T>& a, T* values, const Matrices<T>& v, std::int64_t i) {
  const std::size_t n = a.rows;
  T* e = values + i * static_cast<std::int64_t>(n);
  if (!all_finite(a.matrix(i), n * n)) {  // LAPACK may not end for these
    constexpr T nan = std::numeric_limits<T>::quiet_NaN();
    std::fill_n(e, n, nan);
    std::fill_n(v.matrix(i), n * n, nan);
    return;
  }
  ByColumns<T> x({n, n});
  std::copy_n(a.matrix(i), n * n, x.data());
  xt::uvector<T> eigenvalues(n);
  if (xt::lapack::syevd(x, 'V', 'U', eigenvalues) != 0)  // LAPACK takes the lower triangle of rows for the upper one
    throw InvalidArgumentError("Self-adjoint eigen decomposition was not successful. The input might not be valid.");
  std::copy_n(eigenvalues.data(), n, e);
  for (std::size_t j = 0; j < n; ++j)
    for (std::size_t k = 0; k < n; ++k) v.matrix(i)[j * n + k] = x(j, k);
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
  const auto y = [&](std::size_t k) { return matrices<T>(outputs[k]); };
  const auto numbers = [&](std::size_t k) { return static_cast<T*>(outputs[k].impl().data); };
  const auto batch = inputs[0].size() / static_cast<std::int64_t>(a.rows * a.columns);
  constexpr double task_work = 1e5;
  const double work = std::pow(static_cast<double>(std::max(a.rows, a.columns)), 3);
  parallel_for(batch, static_cast<std::int64_t>(task_work / work) + 1, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      switch (f) {
        case Linalg::cholesky:
          cholesky(a, y(0), i);
          break;
        case Linalg::solve:
          solve(a, b, adjoint, y(0), i);
          break;
        case Linalg::inverse:
          invert(a, adjoint, y(0), i);
          break;
        case Linalg::svd:
          decompose(a, numbers(0), y(1), y(2), i);
          break;
        case Linalg::triangular_solve:
          solve_triangular(a, b, adjoint, y(0), i);
          break;
        case Linalg::determinant:
          numbers(0)[i] = determinant(a, i).value;
          break;
        case Linalg::log_determinant: {
          const Determinant<T> result = determinant(a, i);
          numbers(0)[i] = result.sign;
          numbers(1)[i] = result.logarithm;
          break;
        }
        case Linalg::qr:
          factorize(a, y(0), y(1), i);
          break;
        case Linalg::eigh:
          decompose_symmetric(a, numbers(0), y(1), i);
          break;
      }
    }
  });
}

}  // namespace

void CpuBackend::linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) {
  if (outputs[0].size() == 0) return;  // then the others are empty, too
  if (inputs[0].size() == 0) {         // the determinant of a matrix without elements
    fill(1, outputs[0]);
    if (f == Linalg::log_determinant) fill(0, outputs[1]);
    return;
  }
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
