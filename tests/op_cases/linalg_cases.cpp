#include <cmath>

#include "op_cases/op_cases.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Row-major a [m,k] times b [k,n], by definition.
Elements product(const Elements& a, const Elements& b, std::size_t m, std::size_t k, std::size_t n) {
  Elements y(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) y[i * n + j] += a[i * k + l] * b[l * n + j];
  return y;
}

Elements transposed(const Elements& a, std::size_t rows, std::size_t columns) {
  Elements y;
  for (std::size_t j = 0; j < columns; ++j)
    for (std::size_t i = 0; i < rows; ++i) y.push_back(a[i * columns + j]);
  return y;
}

/// Symmetric and positive definite, from a factor.
Tensor positive_definite(const Tensor& factor) {
  return matmul(factor, factor, {.transpose_b = true}) +
         2.0 * eye(factor.shape().back(), {.dtype = float64, .device = factor.device()});
}

OpCases product_cases() {
  OpCases rows;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      rows.push_back({.name = std::string("matmul") + (ta ? ", a transposed" : "") + (tb ? ", b transposed" : ""),
                      .inputs = {numbers(ta ? Shape{5, 3} : Shape{3, 5}, -1, 1, 51),
                                 numbers(tb ? Shape{4, 5} : Shape{5, 4}, -1, 1, 52)},
                      .f = [=](const Inputs& x) { return matmul(x[0], x[1], {.transpose_a = ta, .transpose_b = tb}); },
                      .reference =
                          [=](const std::vector<Elements>& x) {
                            return product(ta ? transposed(x[0], 5, 3) : x[0], tb ? transposed(x[1], 4, 5) : x[1], 3, 5,
                                           4);
                          }});
  rows.push_back({.name = "matmul of a batch, broadcast",
                  .inputs = {numbers({2, 1, 3, 2}, -1, 1, 53), numbers({4, 2, 3}, -1, 1, 54)},
                  .f = [](const Inputs& x) { return matmul(x[0], x[1]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (int i = 0; i < 2; ++i)
                          for (int j = 0; j < 4; ++j) {
                            const Elements a(x[0].begin() + 6 * i, x[0].begin() + 6 * i + 6);
                            const Elements b(x[1].begin() + 6 * j, x[1].begin() + 6 * j + 6);
                            const Elements part = product(a, b, 3, 2, 3);
                            y.insert(y.end(), part.begin(), part.end());
                          }
                        return y;
                      }});
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      rows.push_back(
          {.name = "matmul of a batch, transposed " + std::to_string(ta) + std::to_string(tb),
           .inputs = {numbers(ta ? Shape{2, 4, 3} : Shape{2, 3, 4}, -1, 1, 55),
                      numbers(tb ? Shape{2, 2, 4} : Shape{2, 4, 2}, -1, 1, 56)},
           .f = [=](const Inputs& x) { return matmul(x[0], x[1], {.transpose_a = ta, .transpose_b = tb}); }});
  rows.push_back({.name = "matmul of matrix and vector",
                  .inputs = {numbers({3, 4}, -1, 1, 57), numbers({4}, -1, 1, 58)},
                  .f = [](const Inputs& x) { return matmul(x[0], x[1]); },
                  .reference = [](const std::vector<Elements>& x) { return product(x[0], x[1], 3, 4, 1); }});
  rows.push_back({.name = "matmul of vectors",
                  .inputs = {numbers({4}, -1, 1, 59), numbers({4}, -1, 1, 60)},
                  .f = [](const Inputs& x) { return matmul(x[0], x[1]); },
                  .reference = [](const std::vector<Elements>& x) { return product(x[0], x[1], 1, 4, 1); }});
  rows.push_back({.name = "matmul over nothing",
                  .inputs = {numbers({2, 0}, -1, 1, 61), numbers({0, 3}, -1, 1, 62)},
                  .f = [](const Inputs& x) { return matmul(x[0], x[1]); },
                  .reference = [](const std::vector<Elements>&) { return Elements(6); }});
  rows.push_back({.name = "tensordot",
                  .inputs = {numbers({2, 3, 4}, -1, 1, 63), numbers({3, 4, 2}, -1, 1, 64)},
                  .f = [](const Inputs& x) { return tensordot(x[0], x[1]); },
                  .reference = [](const std::vector<Elements>& x) { return product(x[0], x[1], 2, 12, 2); }});
  rows.push_back({.name = "einsum, trace and outer product",
                  .inputs = {numbers({3, 3}, -1, 1, 65), numbers({2}, -1, 1, 66)},
                  .f =
                      [](const Inputs& x) {
                        return einsum("ii,j->j", {x[0], x[1]});
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const double t = x[0][0] + x[0][4] + x[0][8];
                        return Elements{t * x[1][0], t * x[1][1]};
                      }});
  rows.push_back({.name = "einsum, batched bilinear form",
                  .inputs = {numbers({2, 3}, -1, 1, 67), numbers({3, 4}, -1, 1, 68), numbers({2, 4}, -1, 1, 69)},
                  .f =
                      [](const Inputs& x) {
                        return einsum("bi,ij,bj->b", {x[0], x[1], x[2]});
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y(2);
                        for (std::size_t b = 0; b < 2; ++b)
                          for (std::size_t i = 0; i < 3; ++i)
                            for (std::size_t j = 0; j < 4; ++j)
                              y[b] += x[0][3 * b + i] * x[1][4 * i + j] * x[2][4 * b + j];
                        return y;
                      }});
  rows.push_back({.name = "outer",
                  .inputs = {numbers({3}, -1, 1, 70), numbers({2}, -1, 1, 71)},
                  .f = [](const Inputs& x) { return outer(x[0], x[1]); },
                  .reference = [](const std::vector<Elements>& x) { return product(x[0], x[1], 3, 1, 2); }});
  return rows;
}

OpCases matrix_cases() {
  OpCases rows;
  rows.push_back({.name = "diag_part",
                  .inputs = {numbers({2, 3}, -1, 1, 72)},
                  .f = [](const Inputs& x) { return square(diag_part(x[0])); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        return Elements{x[0][0] * x[0][0], x[0][4] * x[0][4]};
                      }});
  rows.push_back({.name = "set_diag",
                  .inputs = {numbers({2, 2}, -1, 1, 73), numbers({2}, -1, 1, 74)},
                  .f = [](const Inputs& x) { return square(set_diag(x[0], x[1])); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = {x[1][0], x[0][1], x[0][2], x[1][1]};
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "trace",
                  .inputs = {numbers({3, 3}, -1, 1, 75)},
                  .f = [](const Inputs& x) { return square(trace(x[0])); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const double t = x[0][0] + x[0][4] + x[0][8];
                        return Elements{t * t};
                      }});
  rows.push_back({.name = "band_part",
                  .inputs = {numbers({3, 3}, -1, 1, 76)},
                  .f = [](const Inputs& x) { return square(band_part(x[0], -1, 0)); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y(9);
                        for (std::size_t i = 0; i < 3; ++i)
                          for (std::size_t j = 0; j <= i; ++j) y[3 * i + j] = x[0][3 * i + j] * x[0][3 * i + j];
                        return y;
                      }});
  rows.push_back({.name = "cholesky",
                  .inputs = {numbers({3, 3}, -1, 1, 77)},
                  .f = [](const Inputs& x) { return cholesky(positive_definite(x[0])); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements a = product(x[0], transposed(x[0], 3, 3), 3, 3, 3), l(9);
                        for (std::size_t i = 0; i < 3; ++i) a[4 * i] += 2;
                        for (std::size_t i = 0; i < 3; ++i)
                          for (std::size_t j = 0; j <= i; ++j) {
                            double rest = a[3 * i + j];
                            for (std::size_t k = 0; k < j; ++k) rest -= l[3 * i + k] * l[3 * j + k];
                            l[3 * i + j] = i == j ? std::sqrt(rest) : rest / l[4 * j];
                          }
                        return l;
                      }});
  // What solves and inverts is right when the product gives back what was put in.
  rows.push_back({.name = "solve, multiplied back",
                  .inputs = {numbers({2, 3, 3}, -1, 1, 78), numbers({2, 3, 2}, -1, 1, 79)},
                  .f =
                      [](const Inputs& x) {
                        const Tensor a = positive_definite(x[0]);
                        return matmul(a, solve(a, x[1]));
                      },
                  .reference = [](const std::vector<Elements>& x) { return x[1]; },
                  .orders = 0});
  rows.push_back({.name = "inverse, multiplied back",
                  .inputs = {numbers({3, 3}, -1, 1, 80)},
                  .f =
                      [](const Inputs& x) {
                        const Tensor a = positive_definite(x[0]);
                        return matmul(inverse(a), a);
                      },
                  .reference = [](const std::vector<Elements>&) { return Elements{1, 0, 0, 0, 1, 0, 0, 0, 1}; },
                  .orders = 0});
  for (const bool adjoint : {false, true}) {
    rows.push_back({.name = adjoint ? "solve, adjoint" : "solve",
                    .inputs = {numbers({3, 3}, -1, 1, 81), numbers({3, 2}, -1, 1, 82)},
                    .f = [=](const Inputs& x) {
                      return solve(x[0] + 3.0 * eye(3, {.dtype = float64, .device = x[0].device()}), x[1],
                                   {.adjoint = adjoint});
                    }});
    for (const bool lower : {true, false}) {
      const std::string name =
          std::string("triangular_solve") + (lower ? "" : ", upper") + (adjoint ? ", adjoint" : "");
      rows.push_back(
          {.name = name,
           .inputs = {numbers({3, 3}, 0.5, 1.5, 83), numbers({3, 2}, -1, 1, 84)},
           .f = [=](const Inputs& x) { return triangular_solve(x[0], x[1], {.lower = lower, .adjoint = adjoint}); }});
      rows.push_back({.name = name + ", multiplied back",
                      .inputs = {numbers({2, 3, 3}, 0.5, 1.5, 83), numbers({2, 3, 2}, -1, 1, 84)},
                      .f =
                          [=](const Inputs& x) {
                            const Tensor triangle = band_part(x[0], lower ? -1 : 0, lower ? 0 : -1);
                            return matmul(triangle, triangular_solve(x[0], x[1], {.lower = lower, .adjoint = adjoint}),
                                          {.transpose_a = adjoint});
                          },
                      .reference = [](const std::vector<Elements>& x) { return x[1]; },
                      .orders = 0});
    }
  }
  rows.push_back({.name = "inverse", .inputs = {numbers({2, 3, 3}, -1, 1, 85)}, .f = [](const Inputs& x) {
                    return inverse(x[0] + 3.0 * eye(3, {.dtype = float64, .device = x[0].device()}));
                  }});
  rows.push_back({.name = "svd, multiplied back",
                  .inputs = {numbers({4, 3}, -1, 1, 86)},
                  .f =
                      [](const Inputs& x) {
                        const Svd parts = svd(x[0]);
                        return matmul(parts.u * parts.s, parts.v, {.transpose_b = true});
                      },
                  .reference = [](const std::vector<Elements>& x) { return x[0]; },
                  .tolerance = 1e-5});
  rows.push_back({.name = "singular values",
                  .inputs = {numbers({3, 4}, -1, 1, 87)},
                  .f = [](const Inputs& x) { return square(svd(x[0]).s); },
                  .tolerance = 1e-5});
  rows.push_back({.name = "pinv, of full rank",
                  .inputs = {tensor<double>({{1.1, -0.3}, {0.2, 0.9}, {-0.6, 0.5}})},
                  .f = [](const Inputs& x) { return pinv(x[0]); },
                  .reference =
                      [](const std::vector<Elements>& inputs) {
                        const Elements& x = inputs[0];
                        double a = 0, b = 0, c = 0;  // x^T x = [[a, b], [b, c]]
                        for (int i = 0; i < 3; ++i) {
                          a += x[2 * i] * x[2 * i];
                          b += x[2 * i] * x[2 * i + 1];
                          c += x[2 * i + 1] * x[2 * i + 1];
                        }
                        Elements y(6);
                        for (int i = 0; i < 3; ++i) {
                          y[i] = (c * x[2 * i] - b * x[2 * i + 1]) / (a * c - b * b);
                          y[3 + i] = (a * x[2 * i + 1] - b * x[2 * i]) / (a * c - b * b);
                        }
                        return y;
                      },
                  .tolerance = 1e-5});
  rows.push_back({.name = "lstsq, in batches",
                  .inputs = {numbers({2, 2, 3}, -1, 1, 91), numbers({2, 2, 1}, -1, 1, 92)},
                  .f = [](const Inputs& x) { return lstsq(x[0], x[1]); },
                  .tolerance = 1e-5});
  rows.push_back({.name = "matrix_rank",
                  .inputs = {numbers({3, 1}, -1, 1, 93)},
                  .f = [](const Inputs& x) { return matrix_rank(matmul(x[0], x[0], {.transpose_b = true})); },
                  .reference = [](const std::vector<Elements>&) { return Elements{1}; },
                  .orders = 0});
  const auto determinant = [](const Elements& m) {
    return m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) + m[2] * (m[3] * m[7] - m[4] * m[6]);
  };
  const auto of_two = [=](const Elements& x, auto f) {
    return Elements{f(determinant({x.begin(), x.begin() + 9})), f(determinant({x.begin() + 9, x.end()}))};
  };
  rows.push_back(
      {.name = "det",
       .inputs = {numbers({2, 3, 3}, -1, 1, 90)},
       .f = [](const Inputs& x) { return det(x[0]); },
       .reference = [=](const std::vector<Elements>& x) { return of_two(x[0], [](double y) { return y; }); }});
  rows.push_back(
      {.name = "slogdet",
       .inputs = {numbers({2, 3, 3}, -1, 1, 91)},
       .f = [](const Inputs& x) { return slogdet(x[0]).log_determinant; },
       .reference =
           [=](const std::vector<Elements>& x) { return of_two(x[0], [](double y) { return std::log(std::abs(y)); }); },
       .tolerance = 1e-5});
  rows.push_back(
      {.name = "slogdet's sign",
       .inputs = {numbers({2, 3, 3}, -1, 1, 92)},
       .f = [](const Inputs& x) { return slogdet(x[0]).sign; },
       .reference =
           [=](const std::vector<Elements>& x) { return of_two(x[0], [](double y) { return y < 0 ? -1.0 : 1.0; }); }});
  for (const auto& shape : {Shape{2, 4, 3}, Shape{3, 3}, Shape{2, 3, 5}}) {
    rows.push_back({.name = detail::join("qr of ", shape, ", multiplied back"),
                    .inputs = {numbers(shape, -1, 1, 102)},
                    .f =
                        [](const Inputs& x) {
                          const Qr parts = qr(x[0]);
                          return matmul(parts.q, parts.r);
                        },
                    .reference = [](const std::vector<Elements>& x) { return x[0]; },
                    .orders = 0});
    rows.push_back({.name = detail::join("q of ", shape),
                    .inputs = {numbers(shape, -1, 1, 94)},
                    .f = [](const Inputs& x) { return qr(x[0]).q; },
                    .tolerance = 1e-5});
    rows.push_back({.name = detail::join("r of ", shape),
                    .inputs = {numbers(shape, -1, 1, 95)},
                    .f = [](const Inputs& x) { return qr(x[0]).r; },
                    .tolerance = 1e-5});
  }
  rows.push_back({.name = "eigh, multiplied back",
                  .inputs = {numbers({2, 3, 3}, -1, 1, 96)},
                  .f =
                      [](const Inputs& x) {
                        const Eigh parts = eigh(x[0]);
                        return matmul(parts.v * expand_dims(parts.e, -2), parts.v, {.transpose_b = true});
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        for (std::size_t i = 0; i < y.size(); i += 9)
                          for (const std::size_t j : {1, 2, 5}) y[i + j] = y[i + (j % 3) * 3 + j / 3];
                        return y;
                      },
                  .tolerance = 1e-5});
  rows.push_back({.name = "eigenvalues",
                  .inputs = {numbers({2, 3, 3}, -1, 1, 97)},
                  .f = [](const Inputs& x) { return eigh(x[0]).e; },
                  .tolerance = 1e-5});
  rows.push_back({.name = "eigenvectors",
                  .inputs = {numbers({2, 3, 3}, -1, 1, 98)},
                  .f = [](const Inputs& x) { return square(eigh(x[0]).v); },
                  .tolerance = 1e-5});
  rows.push_back({.name = "norm",
                  .inputs = {numbers({2, 3}, 0.2, 1, 88)},
                  .f = [](const Inputs& x) { return norm(x[0]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        double total = 0;
                        for (const double each : x[0]) total += each * each;
                        return Elements{std::sqrt(total)};
                      }});
  rows.push_back({.name = "norm 1 of rows",
                  .inputs = {numbers({2, 2}, 0.2, 1, 89)},
                  .f = [](const Inputs& x) { return norm(x[0], {.ord = 1, .axis = 1}); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        return Elements{x[0][0] + x[0][1], x[0][2] + x[0][3]};
                      }});
  return rows;
}

}  // namespace

OpCases linalg_cases() {
  OpCases rows = product_cases();
  for (OpCase& row : matrix_cases()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tapestry::test
