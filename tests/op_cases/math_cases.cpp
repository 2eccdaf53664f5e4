#include <cmath>
#include <cstring>

#include "op_cases/op_cases.hpp"
#include "ops/bitcast.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;
using Scalar = double (*)(double);
using Scalar2 = double (*)(double, double);

/// A row for a function of one tensor: with a range of arguments that stays away from where it has no derivative.
OpCase unary(const std::string& name, Tensor (*f)(In, std::string_view), Scalar reference, double low, double high,
             int orders = 2) {
  return {.name = name,
          .inputs = {numbers({3, 5}, low, high, 1)},
          .f = [f](const Inputs& x) { return f(x[0], {}); },
          .reference =
              [reference](const std::vector<Elements>& x) {
                Elements y;
                for (const double each : x[0]) y.push_back(reference(each));
                return y;
              },
          .orders = orders};
}

/// A row for a function of two tensors of shapes [2,3,4] and [3,1], which broadcast.
OpCase binary(const std::string& name, Tensor (*f)(In, In, std::string_view), Scalar2 reference, double low,
              double high, int orders = 2) {
  return {.name = name,
          .inputs = {numbers({2, 3, 4}, low, high, 2), numbers({3, 1}, low, high, 3)},
          .f = [f](const Inputs& x) { return f(x[0], x[1], {}); },
          .reference =
              [reference](const std::vector<Elements>& x) {
                Elements y;
                for (std::size_t i = 0; i < 24; ++i) y.push_back(reference(x[0][i], x[1][i / 4 % 3]));
                return y;
              },
          .orders = orders};
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

OpCases math_cases() {
  OpCases rows = {
      unary(
          "negative", negative, [](double x) { return -x; }, -2, 2),
      unary(
          "abs", abs, [](double x) { return std::fabs(x); }, 0.5, 2),
      unary(
          "abs of negative", abs, [](double x) { return std::fabs(x); }, -2, -0.5),
      unary(
          "sign", sign, [](double x) { return double((x > 0) - (x < 0)); }, -2, 2, 0),
      unary(
          "square", square, [](double x) { return x * x; }, -2, 2),
      unary(
          "reciprocal", reciprocal, [](double x) { return 1 / x; }, 0.5, 2),
      unary("sqrt", sqrt, std::sqrt, 0.5, 3),
      unary(
          "rsqrt", rsqrt, [](double x) { return 1 / std::sqrt(x); }, 0.5, 3),
      unary("exp", exp, std::exp, -3, 3),
      unary("expm1", expm1, std::expm1, -3, 3),
      unary("log", log, std::log, 0.2, 5),
      unary("log1p", log1p, std::log1p, -0.5, 5),
      unary("sin", sin, std::sin, -7, 7),
      unary("cos", cos, std::cos, -7, 7),
      unary("tan", tan, std::tan, -1.2, 1.2),
      unary("asin", asin, std::asin, -0.9, 0.9),
      unary("acos", acos, std::acos, -0.9, 0.9),
      unary("atan", atan, std::atan, -3, 3),
      unary("sinh", sinh, std::sinh, -2, 2),
      unary("cosh", cosh, std::cosh, -2, 2),
      unary("tanh", tanh, std::tanh, -3, 3),
      unary("atanh", atanh, std::atanh, -0.9, 0.9),
      unary("acosh", acosh, std::acosh, 1.1, 4),
      unary(
          "sinc", sinc, [](double x) { return std::sin(M_PI * x) / (M_PI * x); }, -2.5, 2.5),
      unary(
          "sinc near 0", sinc, [](double x) { return std::sin(M_PI * x) / (M_PI * x); }, -0.0045, 0.004),
      unary("erf", erf, std::erf, -2, 2),
      unary("floor", floor, std::floor, 1.1, 1.9, 0),
      unary("ceil", ceil, std::ceil, 1.1, 1.9, 0),
      unary("round", round, std::nearbyint, -5, 5, 0),
      unary(
          "relu", relu, [](double x) { return x > 0 ? x : 0.0; }, 0.3, 2),
      unary(
          "relu of negative", relu, [](double x) { return x > 0 ? x : 0.0; }, -2, -0.3),
      unary(
          "elu", elu, [](double x) { return x > 0 ? x : std::expm1(x); }, -2, -0.1),
      unary(
          "elu of positive", elu, [](double x) { return x; }, 0.1, 2),
      unary(
          "silu", silu, [](double x) { return x * logistic(x); }, -4, 4),
      unary("sigmoid", sigmoid, logistic, -6, 6),
      unary(
          "softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }, -6, 6),
      unary(
          "is_nan", is_nan, [](double x) { return double(std::isnan(x)); }, -1, 1, 0),
      unary(
          "is_finite", is_finite, [](double x) { return double(std::isfinite(x)); }, -1, 1, 0),

      binary(
          "add", add, [](double a, double b) { return a + b; }, -2, 2),
      binary(
          "subtract", subtract, [](double a, double b) { return a - b; }, -2, 2),
      binary(
          "multiply", multiply, [](double a, double b) { return a * b; }, -2, 2),
      binary(
          "divide", divide, [](double a, double b) { return a / b; }, 0.5, 2),
      binary(
          "divide_no_nan", divide_no_nan, [](double a, double b) { return b == 0 ? 0 : a / b; }, 0.5, 2),
      binary(
          "floor_divide", floor_divide, [](double a, double b) { return std::floor(a / b); }, 0.5, 9, 0),
      binary(
          "mod", mod, [](double a, double b) { return a - std::floor(a / b) * b; }, 2.1, 3.9),
      binary("power", power, std::pow, 0.5, 2),
      binary(
          "maximum", maximum, [](double a, double b) { return std::fmax(a, b); }, -2, 2),
      binary(
          "minimum", minimum, [](double a, double b) { return std::fmin(a, b); }, -2, 2),
      binary(
          "squared_difference", squared_difference, [](double a, double b) { return (a - b) * (a - b); }, -2, 2),
      binary("atan2", atan2, std::atan2, 0.5, 2),
      binary(
          "xlogy", xlogy, [](double a, double b) { return a * std::log(b); }, 0.5, 2),
      binary(
          "equal", equal, [](double a, double b) { return double(a == b); }, -2, 2, 0),
      binary(
          "not_equal", not_equal, [](double a, double b) { return double(a != b); }, -2, 2, 0),
      binary(
          "less", less, [](double a, double b) { return double(a < b); }, -2, 2, 0),
      binary(
          "less_equal", less_equal, [](double a, double b) { return double(a <= b); }, -2, 2, 0),
      binary(
          "greater", greater, [](double a, double b) { return double(a > b); }, -2, 2, 0),
      binary(
          "greater_equal", greater_equal, [](double a, double b) { return double(a >= b); }, -2, 2, 0),
  };

  rows.push_back({.name = "leaky_relu",
                  .inputs = {numbers({7}, -2, -0.1, 4)},
                  .f = [](const Inputs& x) { return leaky_relu(x[0], 0.3); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (const double each : x[0]) y.push_back(0.3 * each);
                        return y;
                      }});
  for (const bool approximate : {false, true})
    rows.push_back(
        {.name = approximate ? "gelu, approximate" : "gelu",
         .inputs = {numbers({7}, -3, 3, 5)},
         .f = [approximate](const Inputs& x) { return gelu(x[0], approximate); },
         .reference =
             [approximate](const std::vector<Elements>& x) {
               Elements y;
               for (const double v : x[0])
                 y.push_back(approximate ? 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)))
                                         : 0.5 * v * std::erfc(-v / std::sqrt(2.0)));
               return y;
             }});
  rows.push_back({.name = "clip",
                  .inputs = {numbers({4, 4}, -3, 3, 6), tensor<double>(-1.0), tensor<double>(1.5)},
                  .f = [](const Inputs& x) { return clip(x[0], x[1], x[2]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (const double each : x[0]) y.push_back(std::fmin(std::fmax(each, -1.0), 1.5));
                        return y;
                      }});
  rows.push_back({.name = "where",
                  .inputs = {booleans({4, 1}, 7), numbers({4, 3}, -1, 1, 8), numbers({3}, -1, 1, 9)},
                  .f = [](const Inputs& x) { return where(x[0], x[1], x[2]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 12; ++i) y.push_back(x[0][i / 3] != 0 ? x[1][i] : x[2][i % 3]);
                        return y;
                      }});
  rows.push_back({.name = "logic",
                  .inputs = {booleans({8}, 10), booleans({8}, 11)},
                  .f =
                      [](const Inputs& x) {
                        return logical_or(logical_and(x[0], logical_not(x[1])), logical_and(x[1], logical_not(x[0])));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 8; ++i) y.push_back(x[0][i] != x[1][i]);
                        return y;
                      },
                  .orders = 0});
  rows.push_back({.name = "cast",
                  .inputs = {numbers({6}, -9, 9, 12)},
                  .f = [](const Inputs& x) { return x[0].cast(int32).cast(float64); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (const double each : x[0]) y.push_back(std::trunc(each));
                        return y;
                      },
                  .orders = 0});
  // Larger elements, smaller ones, and those of the same size.
  rows.push_back(
      {.name = "bitcast",
       .inputs = {numbers({2, 3}, -9, 9, 12)},
       .f =
           [](const Inputs& x) {
             const Tensor y = x[0].cast(float64), parts = bitcast(transpose(y), int32);
             return concat(
                 {transpose(bitcast(bitcast(parts, int64), float64)), bitcast(flip(y, 0), int64).cast(float64)}, 0);
           },
       .reference =
           [](const std::vector<Elements>& x) {
             Elements y = x[0];
             for (const std::size_t i : {3, 4, 5, 0, 1, 2}) {
               std::int64_t bits = 0;
               std::memcpy(&bits, &x[0][i], sizeof bits);
               y.push_back(static_cast<double>(bits));
             }
             return y;
           },
       .orders = 0});
  // Odd shapes: a scalar, no elements, one element, eight dimensions.
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{1}, Shape{2, 1, 2, 1, 2, 1, 1, 2}})
    rows.push_back({.name = "x * exp(x) of shape " + to_string(shape),
                    .inputs = {numbers(shape, -1, 1, 13)},
                    .f = [](const Inputs& x) { return x[0] * exp(x[0]) / 2.0; },
                    .reference =
                        [](const std::vector<Elements>& x) {
                          Elements y;
                          for (const double each : x[0]) y.push_back(each * std::exp(each) / 2);
                          return y;
                        }});
  rows.push_back(
      {.name = "broadcast of eight dimensions",
       .inputs = {numbers({2, 1, 2, 1, 2, 1, 2, 1}, -1, 1, 14), numbers({1, 2, 1, 2, 1, 2, 1, 2}, -1, 1, 15)},
       .f = [](const Inputs& x) { return x[0] * x[1]; }});
  return rows;
}

}  // namespace tapestry::test
