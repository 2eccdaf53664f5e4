// Creation, mathematics and reductions: values, dtypes, shapes (also unknown ones), views and errors.

#include <numbers>

#include "core/make_tensor.hpp"
#include "expect.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"
#include "tapestry/tape.hpp"

namespace ops_basic_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor f64(const Init& value) { return tensor<double>(value); }

void check(const Tensor& actual, const Shape& shape, const std::vector<double>& expected, DType dtype = float32) {
  CHECK(to_string(actual.shape()) == to_string(shape));
  CHECK(to_string(actual.dtype()) == to_string(dtype));
  check_values(actual, expected, 1e-6);
}

/// What the registered op infers for inputs without values.
Specs inferred(std::string_view op, const std::vector<Spec>& inputs, const Attrs& attrs = {}) {
  Tensors symbolic;
  for (const Spec& input : inputs) symbolic.push_back(detail::make_symbolic(input.dtype, input.shape));
  const Op* found = find_op(op);
  REQUIRE_MESSAGE(found, op);
  return found->infer(Call(*found, symbolic, attrs, {}));
}

std::string inferred_shape(std::string_view op, const std::vector<Spec>& inputs, const Attrs& attrs = {}) {
  return to_string(inferred(op, inputs, attrs)[0].shape);
}

/// The derivative of the sum of f(x).
template <class F>
Tensor derivative(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  return tape.gradient(f(x), x);
}

}  // namespace

// ---- Creation ---------------------------------------------------------------------------------------------------------

TEST_CASE("constant tensors") {
  check(zeros({2, 3}), {2, 3}, {0, 0, 0, 0, 0, 0});
  check(ones({2}, {.dtype = int64}), {2}, {1, 1}, int64);
  check(ones({}, {.dtype = boolean}), {}, {1}, boolean);
  CHECK(zeros({0, 4}).size() == 0);
  check(zeros_like(tensor({1, 2})), {2}, {0, 0}, int32);
  check(ones_like(f64({{1}, {2}})), {2, 1}, {1, 1}, float64);
}

TEST_CASE("full takes the value's dtype, its digits and its gradient") {
  check(full({2, 2}, 7.0), {2, 2}, {7, 7, 7, 7});
  check(full({2}, 7), {2}, {7, 7}, int32);
  CHECK(full({1}, 0.1, {.dtype = float64}).item<double>() == 0.1);
  const std::int64_t odd = (std::int64_t{1} << 62) + 1;
  CHECK(full({1}, odd).item<std::int64_t>() == odd);
  check(full({2, 2}, f64({1, 2})), {2, 2}, {1, 2, 1, 2}, float64);
  CHECK(full({2, 2}, f64({1, 2})).is_contiguous());
  check_values(derivative([](const Tensor& x) { return full({3}, x); }, f64(2.0)), {3});
}

TEST_CASE("eye, arange, linspace and one_hot") {
  check(eye(2), {2, 2}, {1, 0, 0, 1});
  check(eye(2, 3, {.dtype = int32}), {2, 3}, {1, 0, 0, 0, 1, 0}, int32);
  check(arange(0, 10, 3), {4}, {0, 3, 6, 9}, int32);
  check(arange(4), {4}, {0, 1, 2, 3}, int32);
  check(arange(3, 0, -1), {3}, {3, 2, 1}, int32);
  check(arange(0, 3, {.dtype = float64}), {3}, {0, 1, 2}, float64);
  check(arange(0.0, 1.0, 0.25), {4}, {0, 0.25, 0.5, 0.75});
  CHECK(arange(std::int64_t{2}).dtype() == int64);
  CHECK(arange(3, 0).size() == 0);
  // Beyond 2^53 not every whole number is a double.
  constexpr std::int64_t odd = (std::int64_t{1} << 53) + 1, most = std::numeric_limits<std::int64_t>::max();
  using Numbers = std::vector<std::int64_t>;
  CHECK(full({2}, odd).to_vector<std::int64_t>() == Numbers{odd, odd});
  CHECK(arange(odd - 1, odd + 2).to_vector<std::int64_t>() == Numbers{odd - 1, odd, odd + 1});
  CHECK(arange(odd, odd - 4, -3).to_vector<std::int64_t>() == Numbers{odd, odd - 3});
  CHECK(arange(most - 2, most).to_vector<std::int64_t>() == Numbers{most - 2, most - 1});
  CHECK(arange(0, most, most / 2 + 1).to_vector<std::int64_t>() == Numbers{0, most / 2 + 1});
  CHECK(arange(odd, odd - 2).size() == 0);
  CHECK(arange(odd, odd, -1).size() == 0);
  check(linspace(0.0, 1.0, 5), {5}, {0, 0.25, 0.5, 0.75, 1});
  check(linspace(2, 3, 1), {1}, {2});
  const Tensor tenths = linspace(0.0, 0.3, 4, {.dtype = float64});
  CHECK(tenths(-1).item<double>() == 0.3);
  check(one_hot(tensor({1, 0, 5}), 3), {3, 3}, {0, 1, 0, 1, 0, 0, 0, 0, 0});
  check(one_hot(tensor({{1}, {0}}), 2, boolean), {2, 1, 2}, {0, 1, 1, 0}, boolean);
}

TEST_CASE("creation refuses what cannot be") {
  auto error = caught<InvalidArgumentError>([] { arange(0, 1, 0); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "Requires delta != 0: 0");
  CHECK_THROWS_AS(zeros({2, -1}), InvalidArgumentError);
  CHECK_THROWS_AS(eye(-1), InvalidArgumentError);
  CHECK_THROWS_AS(linspace(0, 1, 0), InvalidArgumentError);
  CHECK_THROWS_AS(arange(0.0, 1e30), InvalidArgumentError);
  CHECK_THROWS_AS(arange(std::numeric_limits<std::size_t>::max()), InvalidArgumentError);
  CHECK_THROWS_AS(arange(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()),
                  InvalidArgumentError);
  CHECK_THROWS_AS(arange(0, std::numeric_limits<std::int64_t>::min(), -1), InvalidArgumentError);
  CHECK_THROWS_AS(arange(0.0, not_a_number), InvalidArgumentError);
  error = caught<InvalidArgumentError>([] { one_hot(tensor({0.5}), 2); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "Value for attr 'TI' of float is not in the list of allowed values: uint8, int32, int64");
}

// ---- Elementwise ------------------------------------------------------------------------------------------------------

TEST_CASE("arithmetic broadcasts") {
  const Tensor a = f64({{1, 2}, {3, 4}}), b = f64({10, 20});
  check(a + b, {2, 2}, {11, 22, 13, 24}, float64);
  check(b - a, {2, 2}, {9, 18, 7, 16}, float64);
  check(a * f64({{2}, {3}}), {2, 2}, {2, 4, 9, 12}, float64);
  check(a / b, {2, 2}, {0.1, 0.1, 0.3, 0.2}, float64);
  check(-a, {2, 2}, {-1, -2, -3, -4}, float64);
  check(a + f64(1), {2, 2}, {2, 3, 4, 5}, float64);
  check(zeros({0, 2}) + ones({2}), {0, 2}, {});
  check(ones({1, 1, 1, 1, 1, 1, 1, 2}) + ones({2, 1}), {1, 1, 1, 1, 1, 1, 2, 2}, {2, 2, 2, 2});
  check(squared_difference(a, b), {2, 2}, {81, 324, 49, 256}, float64);
}

TEST_CASE("views are as good as copies") {
  const Tensor x = tensor<double>(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  check(transpose(x) + f64({10, 20}), {3, 2}, {11, 24, 12, 25, 13, 26}, float64);
  check(exp(flip(x, 1)) - exp(x(all, range(std::nullopt, std::nullopt, -1))), {2, 3}, {0, 0, 0, 0, 0, 0}, float64);
  check(x(all, range(0, 3, 2)) * broadcast_to(f64({2}), {2, 2}), {2, 2}, {2, 6, 8, 12}, float64);
  check(reduce_sum(transpose(x), 1), {3}, {5, 7, 9}, float64);
}

TEST_CASE("dtypes are promoted as PyTorch's result_type does") {
  const Tensor b = tensor({true, false}), u8 = tensor<std::uint8_t>({1, 2}), i32 = tensor({1, 2}),
               i64 = tensor<std::int64_t>({1, 2}), f32 = tensor({1.0, 2.0}), d = f64({1, 2});
  CHECK((u8 + i32).dtype() == int32);
  CHECK((i32 + i64).dtype() == int64);
  CHECK((i64 + f32).dtype() == float32);
  CHECK((f32 + d).dtype() == float64);
  CHECK((b + i32).dtype() == int32);
  CHECK((i32 * 2).dtype() == int32);
  CHECK((i32 * 2.5).dtype() == float32);
  CHECK((i64 + 1).dtype() == int64);
  CHECK((u8 + 1).dtype() == uint8);
  CHECK((f32 * 2).dtype() == float32);
  CHECK((2.0 * d).dtype() == float64);
  CHECK((i32 / i32).dtype() == float32);
  CHECK((d / i32).dtype() == float64);
  CHECK(sin(i32).dtype() == float32);
  CHECK(sqrt(d).dtype() == float64);
  CHECK(add(1.0, 2.0).dtype() == float32);
  CHECK(tapestry::sin(1.0).dtype() == float32);
  CHECK(negative(1.0).dtype() == float32);
  CHECK(add(1, 2).dtype() == int32);
  CHECK(where(b, 1.0, i32).dtype() == float32);
  CHECK(maximum(i32, i64).dtype() == int64);
}

TEST_CASE("a C++ number keeps all its digits") {
  CHECK((f64({1}) * 0.1)(0).item<double>() == 0.1);
  CHECK((tensor<std::int64_t>({0}) + ((std::int64_t{1} << 62) + 1))(0).item<std::int64_t>() ==
        (std::int64_t{1} << 62) + 1);
  CHECK(sqrt(f64({2}))(0).item<double>() == std::numbers::sqrt2);
}

TEST_CASE("functions of floats") {
  const std::vector<double> x{0.25, 0.5, 0.75};
  struct Case {
    Tensor (*op)(In, std::string_view);
    double (*reference)(double);
  };
  const Case cases[] = {
      {exp, std::exp},
      {expm1, std::expm1},
      {log, std::log},
      {log1p, std::log1p},
      {sqrt, std::sqrt},
      {sin, std::sin},
      {cos, std::cos},
      {tan, std::tan},
      {asin, std::asin},
      {acos, std::acos},
      {atan, std::atan},
      {sinh, std::sinh},
      {cosh, std::cosh},
      {tanh, std::tanh},
      {erf, std::erf},
      {floor, std::floor},
      {ceil, std::ceil},
      {square, [](double v) { return v * v; }},
      {rsqrt, [](double v) { return 1 / std::sqrt(v); }},
      {reciprocal, [](double v) { return 1 / v; }},
      {sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {softplus, [](double v) { return std::log(1 + std::exp(v)); }},
      {silu, [](double v) { return v / (1 + std::exp(-v)); }},
  };
  for (const Case& each : cases) {
    std::vector<double> expected;
    expected.reserve(x.size());
    for (const double v : x) expected.push_back(each.reference(v));
    check_values(each.op(tensor(x), {}), expected, 1e-14);
  }
}

TEST_CASE("functions at special places") {
  const Tensor x = f64({-2.5, -0.5, 0.0, 1.5, not_a_number});
  check(abs(x), {5}, {2.5, 0.5, 0, 1.5, not_a_number}, float64);
  check(sign(x), {5}, {-1, -1, 0, 1, not_a_number}, float64);
  check(round(x), {5}, {-2, 0, 0, 2, not_a_number}, float64);
  check(relu(x), {5}, {0, 0, 0, 1.5, not_a_number}, float64);
  check(relu(tensor({-1, 2})), {2}, {0, 2}, int32);
  check(leaky_relu(x, 0.1), {5}, {-0.25, -0.05, 0, 1.5, not_a_number}, float64);
  check(elu(x), {5}, {std::expm1(-2.5), std::expm1(-0.5), 0, 1.5, not_a_number}, float64);
  check(gelu(f64({-1, 0, 2})), {3}, {-0.15865525393145707, 0, 1.9544997361036416}, float64);
  check(gelu(f64({-1, 0, 2}), true), {3}, {-0.15880800939172324, 0, 1.954597694087775}, float64);
  check(sigmoid(f64({-1000, 1000})), {2}, {0, 1}, float64);
  check(softplus(f64({-1000, 1000})), {2}, {0, 1000}, float64);
  check(clip(x, -1, 1), {5}, {-1, -0.5, 0, 1, not_a_number}, float64);
  check(maximum(x, 0), {5}, {0, 0, 0, 1.5, not_a_number}, float64);
  check(minimum(0, x), {5}, {-2.5, -0.5, 0, 0, not_a_number}, float64);
  check(is_nan(x), {5}, {0, 0, 0, 0, 1}, boolean);
  check(is_finite(f64({1, infinity, -infinity, not_a_number})), {4}, {1, 0, 0, 0}, boolean);
}

TEST_CASE("division, remainders and powers") {
  check(floor_divide(tensor({7, -7, 7, -7}), tensor({2, 2, -2, -2})), {4}, {3, -4, -4, 3}, int32);
  check(mod(tensor({7, -7, 7, -7}), tensor({2, 2, -2, -2})), {4}, {1, 1, -1, -1}, int32);
  check(mod(f64({5.5, -5.5}), 2.0), {2}, {1.5, 0.5}, float64);
  check(tensor({1, 3}) / tensor({2, 4}), {2}, {0.5, 0.75});
  check(divide_no_nan(f64({1, 1}), f64({0, 4})), {2}, {0, 0.25}, float64);
  check(power(f64({2, 3, 0, 0}), f64({3, 0.5, 0, 2})), {4}, {8, std::sqrt(3.0), 1, 0}, float64);
  check(power(tensor({2, -3}), 3), {2}, {8, -27}, int32);
  check(atan2(f64({1, -1}), f64({-1, 0})), {2}, {std::atan2(1, -1), std::atan2(-1, 0)}, float64);
  check(xlogy(f64({0, 2}), f64({0, 3})), {2}, {0, 2 * std::log(3.0)}, float64);
}

TEST_CASE("comparisons, logic and where") {
  const Tensor a = tensor({1, 2, 3}), b = tensor({2.0, 2.0, 2.0});
  check(equal(a, b), {3}, {0, 1, 0}, boolean);
  check(not_equal(a, 2), {3}, {1, 0, 1}, boolean);
  check(less(a, b), {3}, {1, 0, 0}, boolean);
  check(less_equal(a, b), {3}, {1, 1, 0}, boolean);
  check(greater(a, b), {3}, {0, 0, 1}, boolean);
  check(greater_equal(a, b), {3}, {0, 1, 1}, boolean);
  const Tensor yes = tensor({true, true, false}), no = tensor({true, false, false});
  check(logical_and(yes, no), {3}, {1, 0, 0}, boolean);
  check(logical_or(yes, no), {3}, {1, 1, 0}, boolean);
  check(logical_not(yes), {3}, {0, 0, 1}, boolean);
  check(equal(yes, no), {3}, {1, 0, 1}, boolean);
  check(where(yes, a, 0), {3}, {1, 2, 0}, int32);
  check(where(tensor({{true}, {false}}), f64({1, 2}), f64(5)), {2, 2}, {1, 2, 5, 5}, float64);
  check(equal(not_a_number, f64({not_a_number})), {1}, {0}, boolean);
}

TEST_CASE("casts") {
  check(cast(tensor({-1.7, 2.7}), int32), {2}, {-1, 2}, int32);
  check(tensor({0, 3}).cast(boolean), {2}, {0, 1}, boolean);
  const Tensor x = tensor({1.0});
  CHECK(x.cast(float32).is(x));
  CHECK(cast(0.1, float64).item<double>() == 0.1);
}

TEST_CASE("gradients by TensorFlow's conventions") {
  const Tensor x = f64({-1, 0, 1});
  check_values(derivative([](const Tensor& t) { return abs(t); }, x), {-1, 0, 1});
  check_values(derivative([](const Tensor& t) { return relu(t); }, x), {0, 0, 1});
  check_values(derivative([](const Tensor& t) { return clip(t, -1, 0); }, x), {1, 1, 0});
  check_values(derivative([](const Tensor& t) { return maximum(t, 0.0); }, x), {0, 1, 1});
  check_values(derivative([](const Tensor& t) { return maximum(0.0, t); }, x), {0, 0, 1});
  check_values(derivative([](const Tensor& t) { return minimum(t, 0.0); }, x), {1, 1, 0});
  check_values(derivative([](const Tensor& t) { return power(0.0, t); }, f64({1, 2})), {0, 0});
  check_values(derivative([](const Tensor& t) { return power(t, 0.0); }, x), {0, 0, 0});
  check_values(derivative([](const Tensor& t) { return where(greater(t, 0.0), t, 2.0 * t); }, x), {2, 2, 1});
  check_values(derivative([](const Tensor& t) { return t.cast(float32); }, x), {1, 1, 1});
}

TEST_CASE("errors of elementwise ops") {
  auto error = caught<InvalidArgumentError>([] { ones({2, 3}) + ones({4, 3}); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "AddV2");
  CHECK(error.message() == "Incompatible shapes: [2,3] vs. [4,3]");
  error = caught<InvalidArgumentError>([] { add(tensor({true}), tensor({false})); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "AddV2");
  CHECK(error.message() ==
        "Value for attr 'T' of bool is not in the list of allowed values: uint8, int32, int64, half, bfloat16, float, "
        "double");
  CHECK_THROWS_AS(logical_and(tensor({1}), tensor({2})), InvalidArgumentError);
  CHECK_THROWS_AS(where(tensor({1}), 1, 2), InvalidArgumentError);
  CHECK_THROWS_AS(less(tensor({true}), tensor({true})), InvalidArgumentError);
  error = caught<InvalidArgumentError>([] { abs(tensor({true})); });
  CHECK(place(error) == line_before());
  const auto empty = caught<FailedPreconditionError>([] { sin(Tensor()); });
  CHECK(place(empty) == line_before());
}

TEST_CASE("elementwise ops with unknown sizes") {
  CHECK(inferred_shape("AddV2", {{float32, {-1, 3}}, {float32, {3}}}) == "[?,3]");
  CHECK(inferred_shape("AddV2", {{float32, {-1, 3}}, {float32, {5, 1}}}) == "[5,3]");
  CHECK(inferred_shape("Mul", {{float32, {-1}}, {float32, {1}}}) == "[?]");
  CHECK(inferred_shape("SelectV2", {{boolean, {-1, 1}}, {float32, {2}}, {float32, {}}}) == "[?,2]");
  CHECK(inferred("Less", {{float32, {-1}}, {float32, {}}})[0] == Spec{boolean, {-1}});
  CHECK(inferred_shape("Sigmoid", {{float32, {-1, 2}}}) == "[?,2]");
}

// ---- Reductions -------------------------------------------------------------------------------------------------------

TEST_CASE("reductions along all axes, one and several") {
  const Tensor x = tensor<double>(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  check(reduce_sum(x), {}, {21}, float64);
  check(reduce_sum(x, 0), {3}, {5, 7, 9}, float64);
  check(reduce_sum(x, -1), {2}, {6, 15}, float64);
  check(reduce_sum(x, {0, 1}, {.keep_dims = true}), {1, 1}, {21}, float64);
  check(reduce_sum(x, 1, {.keep_dims = true}), {2, 1}, {6, 15}, float64);
  check(reduce_sum(x, {}, {.keep_dims = true}), {1, 1}, {21}, float64);
  check(reduce_sum(x, Ints{}), {2, 3}, {1, 2, 3, 4, 5, 6}, float64);
  check(reduce_sum(f64(3)), {}, {3}, float64);
  check(reduce_mean(x, 1), {2}, {2, 5}, float64);
  check(reduce_mean(tensor({1, 2})), {}, {1.5});
  check(reduce_prod(x, 0), {3}, {4, 10, 18}, float64);
  check(reduce_max(x, 0), {3}, {4, 5, 6}, float64);
  check(reduce_min(tensor({3, 1, 2})), {}, {1}, int32);
  check(reduce_max(f64({1, not_a_number})), {}, {not_a_number}, float64);
  check(reduce_any(tensor({{true, false}, {false, false}}), 1), {2}, {1, 0}, boolean);
  check(reduce_all(tensor({{true, false}, {true, true}}), 1), {2}, {0, 1}, boolean);
  check(variance(x), {}, {35.0 / 12}, float64);
  check(variance(x, 0), {3}, {2.25, 2.25, 2.25}, float64);
  check(reduce_logsumexp(f64({1000, 1000})), {}, {1000 + std::log(2.0)}, float64);
  check(reduce_logsumexp(f64({{-infinity, -infinity}, {0, infinity}}), 1), {2}, {-infinity, infinity}, float64);
  check(reduce_logsumexp(tensor({0, 0}), 0, {.keep_dims = true}), {1}, {std::log(2.0)});
}

TEST_CASE("sums count the bools that are true") {
  const Tensor mask = tensor({{true, false, true}, {true, true, true}});
  check(reduce_sum(mask), {}, {5}, int64);
  check(reduce_sum(mask, 1, {.keep_dims = true}), {2, 1}, {2, 3}, int64);
  check(cumsum(mask, 1), {2, 3}, {1, 1, 2, 1, 2, 3}, int64);
}

TEST_CASE("reductions over nothing") {
  const Tensor no_rows = zeros({0, 2}, {.dtype = float64});
  check(reduce_sum(no_rows), {}, {0}, float64);
  check(reduce_prod(no_rows, 0), {2}, {1, 1}, float64);
  check(reduce_max(no_rows, 0), {2}, {-infinity, -infinity}, float64);
  check(reduce_mean(no_rows), {}, {not_a_number}, float64);
  CHECK(reduce_sum(no_rows, 1).size() == 0);
  check(reduce_any(zeros({0}, {.dtype = boolean})), {}, {0}, boolean);
  check(reduce_max(tensor({{true, false}, {false, false}}), 1), {2}, {1, 0}, boolean);
  check(reduce_min(tensor({{true, false}, {true, true}}), 1), {2}, {0, 1}, boolean);
  check(reduce_logsumexp(no_rows, 0), {2}, {-infinity, -infinity}, float64);
  check(derivative([](const Tensor& x) { return reduce_sum(x); }, no_rows), {0, 2}, {}, float64);
}

TEST_CASE("positions and running totals") {
  const Tensor x = f64({{1, 5, 2}, {7, 0, 7}});
  check(argmax(x, 1), {2}, {1, 0}, int64);
  check(argmax(x), {3}, {1, 0, 1}, int64);
  check(argmin(x, -1), {2}, {0, 1}, int64);
  check(argmax(f64({1, not_a_number, 3})), {}, {1}, int64);
  check(cumsum(x, 1), {2, 3}, {1, 6, 8, 7, 7, 14}, float64);
  check(cumsum(x, 1, {.exclusive = true}), {2, 3}, {0, 1, 6, 0, 7, 7}, float64);
  check(cumsum(x, 1, {.reverse = true}), {2, 3}, {8, 7, 2, 14, 7, 7}, float64);
  check(cumprod(x, 0), {2, 3}, {1, 5, 2, 7, 0, 14}, float64);
  check(cumprod(x, 1, {.exclusive = true, .reverse = true}), {2, 3}, {10, 2, 1, 0, 7, 1}, float64);
  const auto error = caught<InvalidArgumentError>([] { argmax(zeros({0, 3}), 0); });
  CHECK(std::string(error.what()) == "Reduction axis 0 is empty in shape [0,3] [Op:ArgMax] at " + line_before());
}

TEST_CASE("gradients of extremes are shared and those of products survive zeros") {
  const auto max = [](const Tensor& x) { return reduce_max(x, 1); };
  check_values(derivative(max, f64({{1, 3, 3}, {2, 0, 1}})), {0, 0.5, 0.5, 1, 0, 0});
  const auto product = [](const Tensor& x) { return reduce_prod(x); };
  check_values(derivative(product, f64({{2, 3}, {4, 5}})), {60, 40, 30, 24});
  check_values(derivative(product, f64({{2, 0}, {4, 5}})), {0, 40, 0, 0});
  check_values(derivative(product, f64({{2, 0}, {0, 5}})), {0, 0, 0, 0});
  const auto twice = [&](const Tensor& x) { return derivative(product, x); };
  check_values(derivative(twice, f64({2, 0, 0, 5})), {0, 10, 10, 0});
  const auto running = [](const Tensor& x) { return cumprod(x); };
  check_values(derivative(running, f64({2, 0, 3, 0})), {1, 2 + 6, 0, 0});
}

TEST_CASE("errors of reductions") {
  const Tensor x = ones({2, 3});
  auto error = caught<InvalidArgumentError>([&] { reduce_sum(x, {0, -2}); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "Sum");
  CHECK(error.message() == "Invalid reduction arguments: Axes contains duplicate dimension: 0");
  error = caught<InvalidArgumentError>([&] { variance(x, 2); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "Expected dimension in the range [-2, 2), but got 2");
  CHECK_THROWS_AS(reduce_prod(tensor({true})), InvalidArgumentError);
  CHECK_THROWS_AS(reduce_any(x), InvalidArgumentError);
  CHECK_THROWS_AS(cumsum(x, 2), InvalidArgumentError);
}

TEST_CASE("reductions with unknown sizes") {
  CHECK(inferred_shape("Sum", {{float32, {-1, 3}}}, {{"axis", Ints{1}}}) == "[?]");
  CHECK(inferred_shape("Mean", {{float32, {-1, 3}}}, {{"axis", Ints{0}}, {"keep_dims", true}}) == "[1,3]");
  CHECK(inferred_shape("Max", {{float32, {-1, 3}}}) == "[]");
  CHECK(inferred("ArgMax", {{float32, {-1, 3}}}, {{"axis", std::int64_t{1}}})[0] == Spec{int64, {-1}});
  CHECK(inferred_shape("ArgMax", {{float32, {-1, 3}}}, {{"axis", std::int64_t{0}}}) == "[3]");
}

}  // namespace ops_basic_test
