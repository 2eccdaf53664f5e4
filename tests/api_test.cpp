// The public interface as a program outside the library spells it: values and ops.

#include "api.hpp"

#include <sstream>

#include <tapestry/tapestry.hpp>

namespace api_test {

using tapestry::test::all_same, tapestry::test::check_same, tapestry::test::caught, tapestry::test::line_before,
    tapestry::test::place, tapestry::test::printed, tapestry::test::text;

namespace {

const std::vector<float> six{1, 2, 3, 4, 5, 6};

}  // namespace

TEST_SUITE("1. values") {
  TEST_CASE("literals follow TensorFlow") {
    CHECK(text(tp::tensor({{1.0, 2.0}, {3.0, 4.0}})) == "float32[2,2]: 1 2 3 4");
    CHECK(text(tp::tensor(1)) == "int32[]: 1");
    CHECK(text(tp::tensor(1.5)) == "float32[]: 1.5");
    CHECK(text(tp::tensor(true)) == "bool[]: 1");
    CHECK(text(tp::tensor(5L)) == "int64[]: 5");
    CHECK(text(tp::tensor({true, false})) == "bool[2]: 1 0");
    CHECK(text(tp::tensor({1, 2.5})) == "float32[2]: 1 2.5");
    CHECK(text(tp::tensor({0})) == "int32[1]: 0");
    CHECK(text(tp::tensor({{0}})) == "int32[1,1]: 0");
    CHECK(text(tp::tensor({0, 0})) == "int32[2]: 0 0");
    CHECK(text(tp::tensor({{{1}, {2}}, {{3}, {4}}})) == "int32[2,2,1]: 1 2 3 4");
    CHECK(text(tp::tensor({})) == "float32[0]:");
    CHECK(text(tp::tensor({{}, {}})) == "float32[2,0]:");
    CHECK(text(tp::tensor<double>({1, 2, 3})) == "float64[3]: 1 2 3");
    CHECK(text(tp::tensor<double>(1)) == "float64[]: 1");
    CHECK(text(tp::tensor<bool>({1, 0, 2})) == "bool[3]: 1 0 1");
    CHECK(text(tp::tensor<std::uint8_t>({0, 255})) == "uint8[2]: 0 255");
    CHECK(text(tp::tensor<std::int64_t>({})) == "int64[0]:");
  }

  TEST_CASE("containers keep their element type") {
    const int plain[] = {1, 2};
    const tp::Tensor row = tp::tensor({1, 2});
    CHECK(text(tp::tensor(six)) == "float32[6]: 1 2 3 4 5 6");
    CHECK(text(tp::tensor(std::vector<bool>{true, false})) == "bool[2]: 1 0");
    CHECK(text(tp::tensor(std::vector<std::uint8_t>{1, 2})) == "uint8[2]: 1 2");
    CHECK(text(tp::tensor(std::vector<long long>{1, 2})) == "int64[2]: 1 2");
    CHECK(text(tp::tensor(std::array<double, 2>{1, 2})) == "float64[2]: 1 2");
    CHECK(text(tp::tensor(std::span(six).first(2))) == "float32[2]: 1 2");
    CHECK(text(tp::tensor(plain)) == "int32[2]: 1 2");
    CHECK(text(tp::tensor(std::vector<std::vector<double>>{{1, 2}, {3, 4}})) == "float64[2,2]: 1 2 3 4");
    CHECK(text(tp::tensor(std::array<std::array<int, 2>, 2>{{{1, 2}, {3, 4}}})) == "int32[2,2]: 1 2 3 4");
    CHECK(text(tp::tensor(std::vector<tp::Tensor>{row, row})) == "int32[2,2]: 1 2 1 2");
    CHECK(text(tp::tensor({row, row})) == "int32[2,2]: 1 2 1 2");
    CHECK(text(tp::tensor<double>(row)) == "float64[2]: 1 2");
    CHECK(text(tp::tensor(row.shape())) == "int64[1]: 2");
  }

  TEST_CASE("a shape behind the value") {
    const std::vector<float> none, one{7};
    CHECK(text(tp::tensor(std::vector<float>(6), {2, 3})) == "float32[2,3]: 0 0 0 0 0 0");
    CHECK(text(tp::tensor(six, {6})) == "float32[6]: 1 2 3 4 5 6");
    CHECK(text(tp::tensor(six, tp::Shape{3, 2})) == "float32[3,2]: 1 2 3 4 5 6");
    CHECK(text(tp::tensor(one, {})) == "float32[]: 7");
    CHECK(text(tp::tensor(none, {0})) == "float32[0]:");
    CHECK(text(tp::tensor(none, {0, 3})) == "float32[0,3]:");
    CHECK(text(tp::tensor({}, {0, 2})) == "float32[0,2]:");
    CHECK(text(tp::tensor({1, 2, 3, 4}, {2, 2})) == "int32[2,2]: 1 2 3 4");
    CHECK(text(tp::tensor<double>(six, {2, 3})) == "float64[2,3]: 1 2 3 4 5 6");
    CHECK(text(tp::tensor<double>(one, {})) == "float64[]: 7");
    CHECK(text(tp::tensor<double>({1, 2}, {2, 1})) == "float64[2,1]: 1 2");
    const auto error = caught<tp::InvalidArgumentError>([] { tp::tensor(six, {}); });
    CHECK(place(error) == line_before());
  }

  TEST_CASE("creation") {
    const int rows = 2;
    const std::int64_t columns = 3;
    CHECK(text(tp::zeros({rows, columns})) == "float32[2,3]: 0 0 0 0 0 0");
    CHECK(text(tp::zeros({2}, {.dtype = tp::float64})) == "float64[2]: 0 0");
    CHECK(text(tp::zeros({})) == "float32[]: 0");
    CHECK(text(tp::zeros({0})) == "float32[0]:");
    CHECK(text(tp::zeros({1}, "z")) == "float32[1]: 0");
    CHECK(text(tp::ones({1}, {}, "z")) == "float32[1]: 1");
    CHECK(text(tp::ones({2}, {.dtype = tp::int64, .device = tp::cpu()})) == "int64[2]: 1 1");
    CHECK(text(tp::ones({1}, {.device = "/device:CPU:0"})) == "float32[1]: 1");
    CHECK(text(tp::full({2}, 7.0)) == "float32[2]: 7 7");
    CHECK(text(tp::full({2}, 7, {.dtype = tp::float64}, "f")) == "float64[2]: 7 7");
    CHECK(text(tp::full({}, true, "f")) == "bool[]: 1");
    CHECK(text(tp::eye(2)) == "float32[2,2]: 1 0 0 1");
    CHECK(text(tp::eye(1, 2, {.dtype = tp::float64})) == "float64[1,2]: 1 0");
    CHECK(text(tp::arange(0, 10, 2)) == "int32[5]: 0 2 4 6 8");
    CHECK(text(tp::arange(3)) == "int32[3]: 0 1 2");
    CHECK(text(tp::arange(0.0, 1.0, 0.5)) == "float32[2]: 0 0.5");
    CHECK(text(tp::arange(0, 2, {.dtype = tp::float64})) == "float64[2]: 0 1");
    CHECK(text(tp::linspace(0.0, 1.0, 5)) == "float32[5]: 0 0.25 0.5 0.75 1");
    CHECK(text(tp::linspace(0, 1, 2, {.dtype = tp::float64})) == "float64[2]: 0 1");
    CHECK(text(tp::zeros_like(tp::tensor({1, 2}))) == "int32[2]: 0 0");
    CHECK(text(tp::ones_like(tp::Variable({1.0, 2.0}), "o")) == "float32[2]: 1 1");
    CHECK(text(tp::one_hot(tp::tensor({1, 0}), 2)) == "float32[2,2]: 0 1 1 0");
    CHECK(text(tp::one_hot(1, 2, tp::int32, "h")) == "int32[2]: 0 1");
    CHECK(text(tp::one_hot({1}, 2, "h")) == "float32[1,2]: 0 1");
  }

  TEST_CASE("random numbers") {
    tp::random::seed(42);
    const tp::Tensor first = tp::random::normal({2, 3}, {.mean = 0, .stddev = 1});
    tp::random::seed(42);
    check_same(tp::random::normal({2, 3}), first);
    CHECK(tp::random::normal({2}, {.dtype = tp::float64}, "n").dtype() == tp::float64);
    const tp::Tensor spread = tp::random::uniform({2, 3}, {.low = 2, .high = 3});
    CHECK(tp::reduce_all(tp::logical_and(tp::greater_equal(spread, 2), tp::less(spread, 3))).item<bool>());
    CHECK(tp::random::uniform({4}, {.low = 0, .high = 9, .dtype = tp::int32}).dtype() == tp::int32);
    tp::random::NumpyLegacy rng(0);
    const tp::Tensor points = rng.randn({50, 2});
    CHECK(points.dtype() == tp::float64);
    CHECK(points(0, 0).item<double>() == 1.764052345967664);
    CHECK(rng.rand({3}).shape() == tp::Shape{3});
  }

  TEST_CASE("shapes and devices") {
    const tp::Shape shape{2, 3}, scalar{}, spec{-1, 784};
    CHECK(printed(shape) + to_string(scalar) + to_string(spec) == "[2,3][][?,784]");
    CHECK(shape.rank() == 2);
    CHECK(shape[1] == 3);
    CHECK(scalar.size() == 1);
    CHECK(tp::Shape(std::vector<std::int64_t>{2, 3}) == shape);
    CHECK(tp::cuda(0) == tp::Device("/device:GPU:0"));
    CHECK(tp::cpu() == tp::Device("cpu"));
    CHECK(tp::devices().front() == tp::cpu());
    CHECK_FALSE(tp::cuda_status().empty());
    tp::set_matmul_precision("high");
    CHECK(tp::matmul_precision() == "high");
    tp::set_matmul_precision("highest");
    CHECK(size_of(tp::float64) + size_of(tp::uint8) == 9);
  }

  TEST_CASE("a Tensor is a value") {
    const tp::Tensor x = tp::tensor({{1.0, 2.0}, {3.0, 4.0}});
    tp::Tensor same;
    const tp::Tensor none;
    same = x;
    CHECK(x.is(same));
    CHECK_FALSE(x.is(tp::tensor(1)));
    CHECK(x);
    CHECK(!none);
    CHECK(x.shape() == tp::Shape{2, 2});
    CHECK(x.dtype() == tp::float32);
    CHECK(x.device() == tp::cpu());
    CHECK(x.rank() == 2);
    CHECK(x.size() == 4);
    CHECK_FALSE(x.is_symbolic());
    CHECK(x(1, 0).item<float>() == 3);
    CHECK(x(1, 0).item<int>() == 3);
    CHECK(x.to_vector<double>() == std::vector<double>{1, 2, 3, 4});
    CHECK(tp::equal(x, 2).to_vector<bool>() == std::vector<bool>{false, true, false, false});
    CHECK(x.data<float>()[3] == 4);
    CHECK(x.to(tp::cpu()).is(x));
    CHECK(x.to("cpu").is(x));
    CHECK(text(x.cast(tp::int64)) == "int64[2,2]: 1 2 3 4");
    static_assert(!std::equality_comparable<tp::Tensor>);
    // x(0) = y would change nothing.
    static_assert(std::is_assignable_v<tp::Tensor&, tp::Tensor> && !std::is_assignable_v<tp::Tensor, tp::Tensor>);
    static_assert(!std::is_assignable_v<tp::Tensor, const tp::Tensor&>);
  }

  TEST_CASE("views share the buffer") {
    const tp::Tensor x = tp::zeros({1, 4, 3});
    CHECK(tp::reshape(x, {2, -1}).data<float>() == x.data<float>());
    CHECK(tp::squeeze(x).data<float>() == x.data<float>());
    CHECK(tp::expand_dims(x, 0).data<float>() == x.data<float>());
    CHECK(tp::slice(x, {0, 0, 0}, {1, 2, 3}).data<float>() == x.data<float>());
    CHECK_FALSE(tp::transpose(x).is_contiguous());
    CHECK(tp::broadcast_to(x, {5, 4, 3}).strides()[0] == 0);
  }

  TEST_CASE("indexing") {
    const tp::Tensor x = tp::reshape(tp::arange(12), {3, 4});
    const std::size_t one = 1;
    CHECK(text(x(0)) == "int32[4]: 0 1 2 3");
    CHECK(text(x(-1, one)) == "int32[]: 9");
    CHECK(x(tp::all, tp::range(0, 5)).shape() == tp::Shape{3, 4});
    CHECK(text(x(tp::ellipsis, 0)) == "int32[3]: 0 4 8");
    CHECK(x(tp::newaxis, tp::all).shape() == tp::Shape{1, 3, 4});
    CHECK(text(x(tp::range(0, 10, 2), 0)) == "int32[2]: 0 8");
    CHECK(text(x(tp::range(2), -1)) == "int32[2]: 3 7");
    CHECK(text(x(0, tp::range({}, {}, -1))) == "int32[4]: 3 2 1 0");
    CHECK(text(x(0, tp::range(2, {}))) == "int32[2]: 2 3");
    CHECK(text(tp::Variable(x)(1, tp::all)) == "int32[4]: 4 5 6 7");
    CHECK(text(tp::slice_update(tp::zeros({2, 2}), tp::ones({2}), tp::all, 0)) == "float32[2,2]: 1 0 1 0");
    CHECK(text(tp::slice_update(tp::zeros({2}), 5, 1)) == "float32[2]: 0 5");
  }

  TEST_CASE("printing follows NumPy") {
    CHECK(printed(tp::tensor({2, -1})) == "[ 2 -1]");
    CHECK(printed(tp::Variable({1.0, 2.5})) == "[1.  2.5]");
    CHECK(printed(tp::arange(1001)) == "[   0    1    2 ...  998  999 1000]");
    CHECK(tp::tensor({1.0, 2.0}).describe() == "float32[2] cpu min 1 max 2 mean 1.5");
    const tp::PrintOptions before = tp::print_options();
    tp::set_print_options({.precision = 2});
    CHECK(printed(tp::tensor({1.0 / 3})) == "[0.33]");
    tp::set_print_options(before);
  }

  TEST_CASE("promotion") {
    const tp::Tensor whole = tp::tensor({1, 2}), real = tp::tensor<double>({1, 2});
    CHECK((whole * 2.0).dtype() == tp::float32);
    CHECK((whole * 2).dtype() == tp::int32);
    CHECK((real * 2.0f).dtype() == tp::float64);
    CHECK((tp::tensor(true) + whole).dtype() == tp::int32);
    CHECK((whole + real).dtype() == tp::float64);
  }
}

namespace {

#define TAPESTRY_UNARY(op) unary(#op, [](tp::In x, auto... name) { return tp::op(x, name...); })
#define TAPESTRY_BINARY(op) binary(#op, [](tp::In a, tp::In b, auto... name) { return tp::op(a, b, name...); })

/// An op of one tensor: of Tensors, Variables, numbers, literals and containers, with and without a name.
void unary(const char* what, auto op) {
  INFO(what);
  const tp::Tensor x = tp::tensor({0.25, 0.5});
  const tp::Variable v(x);
  const tp::Tensor y = op(x);
  for (const tp::Tensor& same : {op(x, "name"), op(v), op(v, std::string("name")), op({0.25, 0.5}, std::string_view()),
                                 op(std::vector<float>{0.25, 0.5})})
    check_same(same, y);
  check_same(op(0.25, "name"), op(tp::tensor(0.25)));
  CHECK(op(1).dtype() == op(tp::tensor(1)).dtype());
}

/// An elementwise op of two tensors: of Tensors, Variables, numbers and literals, with and without a name.
void binary(const char* what, auto op) {
  INFO(what);
  const tp::Tensor x = tp::tensor({3.0, 2.0}), two = tp::tensor(2.0);
  const tp::Variable v(x), w(2.0);
  const tp::Tensor y = op(x, two), z = op(two, x);
  for (const tp::Tensor& same :
       {op(x, two, "name"), op(v, two), op(x, w, "name"), op(v, w), op(x, 2), op(x, 2.0, "name"), op(x, 2.0f),
        op(v, std::size_t{2}), op({3.0, 2.0}, 2), op(x, {2.0, 2.0}, "name")})
    check_same(same, y);
  for (const tp::Tensor& same : {op(2, x), op(2.0, v, "name")}) check_same(same, z);
  CHECK(op(3, 2).shape() == tp::Shape{});
}

/// A reduction: of all axes, one and several, with and without options and a name.
#define TAPESTRY_REDUCTION(op, x)                                                                                    \
  {                                                                                                                  \
    INFO(#op);                                                                                                       \
    const tp::Tensor all = tp::op(x), last = tp::op(x, 1);                                                           \
    for (const tp::Tensor& same : {tp::op(x, {0, 1}), tp::op(x, "name"), tp::op(x, {0, -1}, "name"), tp::op(x, {})}) \
      check_same(same, all);                                                                                         \
    for (const tp::Tensor& same : {tp::op(x, -1), tp::op(x, {1}), tp::op(x, 1, "name"), tp::op(x, {-1}, "name"),     \
                                   tp::op(tp::Variable(x), 1), tp::op(x, std::vector<std::int64_t>{1})})             \
      check_same(same, last);                                                                                        \
    CHECK(tp::op(x, {0, 1}, {.keep_dims = true}).shape() == tp::Shape{1, 1});                                        \
    CHECK(tp::op(x, 1, {.keep_dims = true}, "name").shape() == tp::Shape{2, 1});                                     \
    CHECK(tp::op(x, {}, {.keep_dims = true}).shape() == tp::Shape{1, 1});                                            \
  }

const tp::Tensor a = tp::tensor({{1.0, 2.0}, {3.0, 4.0}}), b = tp::tensor({{0.5, 0.25}, {2.0, 1.0}});

}  // namespace

TEST_SUITE("2. ops") {
  TEST_CASE("elementwise") {
    TAPESTRY_BINARY(add), TAPESTRY_BINARY(subtract), TAPESTRY_BINARY(multiply), TAPESTRY_BINARY(divide);
    TAPESTRY_BINARY(power), TAPESTRY_BINARY(maximum), TAPESTRY_BINARY(minimum), TAPESTRY_BINARY(mod);
    TAPESTRY_BINARY(equal), TAPESTRY_BINARY(not_equal), TAPESTRY_BINARY(less), TAPESTRY_BINARY(less_equal);
    TAPESTRY_BINARY(greater), TAPESTRY_BINARY(greater_equal);
    TAPESTRY_UNARY(negative), TAPESTRY_UNARY(abs), TAPESTRY_UNARY(sign), TAPESTRY_UNARY(square), TAPESTRY_UNARY(sqrt);
    TAPESTRY_UNARY(rsqrt), TAPESTRY_UNARY(exp), TAPESTRY_UNARY(expm1), TAPESTRY_UNARY(log), TAPESTRY_UNARY(log1p);
    TAPESTRY_UNARY(sin), TAPESTRY_UNARY(cos), TAPESTRY_UNARY(tan), TAPESTRY_UNARY(asin), TAPESTRY_UNARY(acos);
    TAPESTRY_UNARY(atan), TAPESTRY_UNARY(sinh), TAPESTRY_UNARY(cosh), TAPESTRY_UNARY(tanh), TAPESTRY_UNARY(sigmoid);
    TAPESTRY_UNARY(softplus), TAPESTRY_UNARY(relu), TAPESTRY_UNARY(leaky_relu), TAPESTRY_UNARY(elu);
    TAPESTRY_UNARY(gelu), TAPESTRY_UNARY(silu), TAPESTRY_UNARY(erf), TAPESTRY_UNARY(floor), TAPESTRY_UNARY(ceil);
    TAPESTRY_UNARY(round), TAPESTRY_UNARY(identity), TAPESTRY_UNARY(stop_gradient), TAPESTRY_UNARY(zeros_like);
    TAPESTRY_UNARY(ones_like), TAPESTRY_UNARY(transpose), TAPESTRY_UNARY(squeeze), TAPESTRY_UNARY(flip);
    check_same(tp::leaky_relu(-a, 0.5, "name"), -a / 2);
    all_same({tp::clip(a, 2, 3), tp::clip(a, 2.0, tp::tensor(3.0), "name"), tp::clip(tp::Variable(a), {2.0}, 3)});
    all_same({tp::cast(a, tp::int32), tp::cast(tp::Variable(a), tp::int32, "name"), a.cast(tp::int32)});
    const tp::Tensor yes = tp::tensor(true), no = tp::tensor(false);
    all_same({yes, tp::logical_and(yes, true, "name"), tp::logical_or(no, yes), tp::logical_not(no, "name")});
    all_same(
        {tp::where(tp::greater(a, 2), a, 0), tp::where({{false, false}, {true, true}}, tp::Variable(a), 0.0, "name")});
  }

  TEST_CASE("operators") {
    const tp::Variable v(a), one(1.0);
    all_same({a + b, v + b, tp::add(a, b), a - -b, 0 + a + b, a + b + 0.0, (a + b) * 1});
    all_same({a * 2, 2 * a, a * 2.0, 2.0 * v, v * 2, a + a, a / 0.5, std::size_t{2} * a, a * 2L});
    all_same({1 - a, 1.0 - v, one - a, -(a - 1), -a + 1.0f});
    all_same({1 / a, one / v, tp::divide(1, a)});
    all_same({-v, -a, tp::negative(a), 0 - v});
    CHECK(text(-one) == "float32[]: -1");
  }

  TEST_CASE("products") {
    const tp::Variable v(a);
    const tp::Tensor row = tp::tensor({1.0, 2.0});
    all_same({tp::matmul(a, b), tp::matmul(v, b, "name"), tp::matmul(tp::transpose(a), b, {.transpose_a = true}),
              tp::matmul(a, tp::transpose(b), {.transpose_b = true}, "name"), tp::tensordot(a, b, 1),
              tp::tensordot(v, b, 1, "name"), tp::tensordot(a, b, {{1}, {0}}), tp::einsum("ij,jk->ik", {a, b}),
              tp::einsum("ij,jk->ik", a, b), tp::einsum("ij,jk->ik", v, b), tp::einsum("ij,jk", {v, b}, "name"),
              tp::einsum("ij,jk->ik", std::vector<tp::Tensor>{a, b})});
    all_same({tp::matmul(row, row), tp::matmul(row, {1.0, 2.0}), tp::einsum("i,i", row, row), tp::tensor(5.0)});
    all_same({tp::tensordot(a, b), tp::tensordot(a, b, "name"), tp::tensordot(a, b, {{0, 1}, {0, 1}})});
    all_same({tp::outer(row, row), tp::outer(row, {1.0, 2.0}, "name"), tp::tensor({{1.0, 2.0}, {2.0, 4.0}})});
    all_same({tp::einsum("ij->ji", a), tp::einsum("ij->ji", {a}), tp::transpose(a)});
  }

  TEST_CASE("shapes") {
    const tp::Variable v(a);
    const tp::Tensor line = tp::tensor({1.0, 2.0, 3.0, 4.0});
    all_same({line, tp::reshape(a, {4}), tp::reshape(v, {-1}, "name"), tp::reshape(line, line.shape())});
    CHECK(tp::reshape(tp::ones({1, 1}), {}).rank() == 0);
    all_same({tp::transpose(a, {1, 0}), tp::transpose(v, {1, 0}, "name"), tp::transpose(a)});
    const tp::Tensor thin = tp::ones({1, 2, 1});
    all_same({tp::squeeze(thin), tp::squeeze(thin, {0, 2}), tp::squeeze(thin, {0, -1}, "name"),
              tp::squeeze(tp::squeeze(thin, 0), -1)});
    all_same(
        {thin, tp::expand_dims(tp::expand_dims(tp::ones({2}), 0), -1, "name"), tp::expand_dims({1.0, 1.0}, {0, 2})});
    all_same({tp::ones({2, 3}), tp::broadcast_to(1.0, {2, 3}, "name"), tp::broadcast_to(tp::Variable(1.0), {2, 3})});
  }

  TEST_CASE("joining and splitting") {
    const tp::Variable v(a);
    const std::vector<tp::Tensor> list{a, b};
    all_same({tp::concat({a, b}, 0), tp::concat({v, b}), tp::concat({a, b}, "name"), tp::concat(list, -2, "name"),
              tp::concat(std::array{a, b}, 0)});
    all_same({tp::stack({a, b}), tp::stack({v, b}, 0), tp::stack({a, b}, "name"), tp::stack(list, -3, "name")});
    CHECK(text(tp::stack({tp::Variable(1.0), tp::Variable(2.0)})) == "float32[2]: 1 2");
    for (const std::vector<tp::Tensor>& rows :
         {tp::unstack(a), tp::unstack(v, 0), tp::unstack(a, 0, "name"), tp::unstack(a, "name")})
      check_same(rows.at(1), a(1));
    for (const std::vector<tp::Tensor>& columns :
         {tp::split(a, 2, 1), tp::split(v, {1, 1}, -1, "name"), tp::split(a, {1, -1}, 1)})
      check_same(columns.at(1), a(tp::all, tp::range(1, 2)));
    CHECK(tp::split(a, 2, "name").size() == 2);
    all_same({tp::slice(a, {0, 1}, {2, 1}), tp::slice(v, {0, 1}, {-1, -1}, "name"), a(tp::all, tp::range(1, 2))});
    all_same({tp::pad(a, {{1, 0}, {0, 2}}), tp::pad(v, {{1, 0}, {0, 2}}, "name"),
              tp::pad(a, {{1, 0}, {0, 2}}, {.value = 0}, "name")});
    CHECK(text(tp::pad({1, 2}, {{1, 1}}, {.mode = tp::PadMode::reflect})) == "int32[4]: 2 1 2 1");
    all_same({tp::tile(a, {2, 1}), tp::tile(v, {2, 1}, "name"), tp::concat({a, a}, 0)});
    all_same({tp::repeat(a, 2, 0), tp::repeat(v, 2, -2, "name"), tp::stack({a(0), a(0), a(1), a(1)})});
    all_same({tp::repeat(a, 2), tp::repeat(a, 2, "name"), tp::tensor({1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0})});
    all_same({tp::flip(a, 1), tp::flip(a, {1}), tp::flip(v, {-1}, "name")});
    all_same({tp::flip(a), tp::flip(a, {0, 1}), tp::flip(a, "name")});
  }

  TEST_CASE("gathering and sorting") {
    const tp::Variable v(a);
    const tp::Tensor order = tp::tensor({1, 0});
    all_same({tp::gather(a, order), tp::gather(v, order, 0, "name"), tp::gather(a, {1, 0}),
              tp::gather(a, order, "name"), tp::gather(a, std::vector<std::int64_t>{1, 0}),
              tp::embedding_lookup(v, order), tp::embedding_lookup(a, {1, 0}, "name")});
    all_same({tp::gather(a, order, 1), tp::gather(a, {1, 0}, -1, "name"), tp::flip(a, 1)});
    all_same({a(0), tp::gather(a, 0), tp::gather_nd(a, {0}), tp::gather_nd(v, {0}, "name")});
    CHECK(text(tp::gather_nd(a, {{0, 1}, {1, 1}})) == "float32[2]: 2 4");
    all_same({tp::scatter_add(a, order, b), tp::scatter_add(v, {1, 0}, b, "name"), a + tp::flip(b, 0)});
    all_same({tp::take_along_axis(a, {{1}, {0}}, 1), tp::take_along_axis(v, {{1}, {0}}, -1, "name"),
              tp::tensor({{2.0}, {3.0}})});
    all_same({tp::sort(b), tp::sort(b, 1), tp::sort(tp::Variable(b), -1, tp::Direction::ascending, "name"),
              tp::sort(b, 1, "name"), tp::sort(b, "name"), tp::flip(tp::sort(b, -1, tp::Direction::descending), 1)});
    const auto [values, indices] = tp::top_k(a, 1);
    all_same({values, tp::top_k(a).values, tp::top_k(v, 1, "name").values, tp::top_k(a, "name").values});
    CHECK(text(indices) == "int32[2,1]: 1 1");
  }

  TEST_CASE("reductions") {
    TAPESTRY_REDUCTION(reduce_sum, a);
    TAPESTRY_REDUCTION(reduce_mean, a);
    TAPESTRY_REDUCTION(reduce_max, a);
    TAPESTRY_REDUCTION(reduce_min, a);
    TAPESTRY_REDUCTION(reduce_prod, a);
    TAPESTRY_REDUCTION(reduce_logsumexp, a);
    TAPESTRY_REDUCTION(variance, a);
    const tp::Tensor flags = tp::tensor({{true, false}, {true, true}});
    TAPESTRY_REDUCTION(reduce_any, flags);
    TAPESTRY_REDUCTION(reduce_all, flags);
    CHECK(text(tp::reduce_sum(a)) == "float32[]: 10");
    CHECK(text(tp::reduce_sum(a, 1)) == "float32[2]: 3 7");
    CHECK(tp::reduce_sum({1, 2, 3}).item<int>() == 6);
    const tp::Variable v(a);
    all_same({tp::argmax(a), tp::argmax(v, 0), tp::argmax(a, -2, "name"), tp::argmax(a, "name"),
              tp::tensor<std::int64_t>({1, 1})});
    all_same({tp::argmin(a, 1), tp::argmin(v, -1, "name"), tp::tensor<std::int64_t>({0, 0})});
    all_same({tp::cumsum(a), tp::cumsum(v, 0), tp::cumsum(a, "name"), tp::cumsum(a, 0, "name"),
              tp::cumsum(a, -2, {.exclusive = false}, "name")});
    CHECK(text(tp::cumsum({1, 2, 3}, 0, {.exclusive = true, .reverse = true})) == "int32[3]: 5 3 0");
    all_same({tp::norm(a), tp::norm(a, "name"), tp::norm(v, {.ord = "euclidean"}),
              tp::norm(a, {.ord = "fro", .axis = {0, 1}}, "name")});
    CHECK(text(tp::norm({3.0, -4.0}, {.ord = 1})) == "float32[]: 7");
    CHECK(tp::norm(a, {.ord = "inf", .axis = -1, .keep_dims = true}).shape() == tp::Shape{2, 1});
  }

  TEST_CASE("neural networks") {
    const tp::Variable v(a);
    all_same({tp::softmax(a), tp::softmax(v, 1), tp::softmax(a, -1, "name"), tp::softmax(a, "name"),
              tp::exp(tp::log_softmax(a))},
             1e-6);
    all_same({tp::log_softmax(a), tp::log_softmax(v, 1), tp::log_softmax(a, -1, "name"), tp::log_softmax(a, "name")});
    const tp::Tensor hot = tp::tensor({{0.0, 1.0}, {1.0, 0.0}});
    all_same(
        {tp::softmax_cross_entropy(hot, a), tp::softmax_cross_entropy(hot, v, "name"),
         tp::sparse_softmax_cross_entropy({1, 0}, a), tp::sparse_softmax_cross_entropy(tp::tensor({1, 0}), v, "name")},
        1e-6);
    all_same({tp::sigmoid_cross_entropy(hot, a), tp::sigmoid_cross_entropy(hot, v, "name")});
    const tp::Tensor image = tp::ones({1, 4, 4, 2}), filter = tp::ones({3, 3, 2, 5});
    all_same({tp::conv2d(image, filter), tp::conv2d(image, tp::Variable(filter), "name"),
              tp::conv2d(image, filter, {.padding = "VALID"}),
              tp::conv2d(image, filter, {.strides = {1, 1}, .padding = 0, .dilations = 1, .groups = 1}, "name")});
    CHECK(tp::conv2d(image, filter, {.strides = 2, .padding = "SAME"}).shape() == tp::Shape{1, 2, 2, 5});
    CHECK(tp::conv2d(image, filter, {.padding = {1, 0, 1, 0}}).shape() == tp::Shape{1, 3, 3, 5});
    all_same({tp::max_pool2d(image), tp::max_pool2d(image, "name"), tp::avg_pool2d(image, {.window = 2}),
              tp::avg_pool2d(image, "name"),
              tp::max_pool2d(image, {.window = {2, 2}, .strides = {2, 2}, .padding = "VALID"}, "name")});
    const tp::Tensor zero = tp::zeros({2}), one = tp::ones({2});
    all_same({tp::batch_norm(a, zero, one, zero, one, 0), tp::batch_norm(v, 0.0, 1.0, 0.0, 1.0, 0, "name"),
              tp::batch_norm(a, zero, one, tp::Tensor(), tp::Tensor(), 0), tp::batch_norm(a, zero, one, {}, {}, 0), a});
    all_same({tp::batch_norm(a, zero, one, zero, one), tp::batch_norm(a, zero, one, zero, one, "name")});
    all_same({tp::layer_norm(a, one, zero), tp::layer_norm(v, one, zero, "name"), tp::layer_norm(a, {}, {}),
              tp::layer_norm(a, one, zero, {.epsilon = 1e-5}, "name")});
    all_same({tp::dropout(a, 0), tp::dropout(v, 0.0, "name"), a});
    CHECK(
        tp::reduce_all(tp::equal(tp::dropout(tp::ones({8}), 0.5) * tp::dropout(tp::ones({8}), 0.5), 2)).item<bool>() ==
        false);
    all_same({tp::gelu(a), tp::gelu(a, false, "name"), tp::gelu(a, "name")});
  }

  TEST_CASE("linear algebra") {
    const tp::Tensor m = tp::tensor({{4.0, 2.0}, {2.0, 3.0}});
    const tp::Variable v(m);
    all_same({tp::cholesky(m), tp::cholesky(v, "name")});
    all_same({tp::solve(m, a), tp::solve(v, a, "name"), tp::solve(m, a, {.adjoint = true}, "name"),
              tp::matmul(tp::inverse(m), a)},
             1e-6);
    all_same({tp::inverse(m), tp::inverse(v, "name")});
    all_same({tp::tensor(8.0), tp::det(m), tp::det(v, "name"), tp::exp(tp::slogdet(v, "name").log_determinant)}, 1e-6);
    const auto [q, r] = tp::qr(m);
    const auto [e, vectors] = tp::eigh(v);
    all_same({m, tp::matmul(q, r), tp::matmul(tp::qr(v, "name").q, r),
              tp::matmul(vectors * tp::eigh(m, "name").e, vectors, {.transpose_b = true})},
             1e-6);
    const auto [s, u, w] = tp::svd(m);
    all_same({m, tp::matmul(u * s, w, {.transpose_b = true}),
              tp::matmul(u, tp::matmul(tp::eye(2) * tp::svd(v, "name").s, tp::transpose(w)))},
             1e-6);
  }
}

}  // namespace api_test
