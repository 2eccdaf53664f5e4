// The functional forms: grad, value_and_grad, hessian, vjp, jvp, custom_gradient, recompute.

#include <algorithm>
#include <thread>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/device.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/transformations.hpp"

namespace functional_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor f64(const Init& value) { return tensor<double>(value); }

const Tensor weights = f64({{1, 2, -1}, {0.5, -1, 2}});

/// From [3] to [2], with derivatives of every order.
Tensor curve(const Tensor& x) { return sin(matmul(weights, x)) * exp(reduce_sum(x) * 0.3); }

TEST_CASE("derivatives of a power with the exponent 0") {
  const auto by_base = [](const Tensor& a, const Tensor& b) {
    return grad([&](const Tensor& x) { return power(x, b); })(a);
  };
  const Tensor zero = tensor<double>(0), base = tensor<double>(4);
  CHECK(by_base(base, zero).item<double>() == 0);
  CHECK(by_base(zero, zero).item<double>() == 0);
  CHECK(by_base(tensor<double>(std::numeric_limits<double>::infinity()), zero).item<double>() == 0);
  // d/db of b a^(b - 1), which is 1 / a at b = 0
  CHECK(grad([&](const Tensor& b) { return by_base(base, b); })(zero).item<double>() == 0.25);
}

TEST_CASE("the spectral norm has the gradient 0 at 0") {
  const auto spectral = [](const Tensor& x) { return norm(x, {.ord = 2, .axis = {0, 1}}); };
  CHECK(values(grad(spectral)(zeros({2, 2}))) == std::vector<double>(4, 0));
}

TEST_CASE("grad and value_and_grad") {
  const Tensor x = f64({1, 2});
  check_values(grad([](const Tensor& v) { return reduce_sum(v * v * v); })(x), {3, 12});
  const auto f = [](const Tensor& a, const Tensor& b) { return reduce_sum(a * a * b); };
  const auto [value, gradients] = value_and_grad(f)(x, f64({3, 4}));
  CHECK(value.item<double>() == 19);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(gradients)>, std::array<Tensor, 2>>);
  check_values(gradients[0], {6, 16});
  check_values(gradients[1], {1, 4});
}

TEST_CASE("a derivative is that by the argument, though f captures the same tensor or takes it twice") {
  const auto all = [](const Tensor& x) -> std::vector<Tensor> {
    const TensorFunction f = [&](const Tensor& a) { return reduce_sum(a * a * x); };
    const auto product = [](const Tensor& a, const Tensor& b) { return reduce_sum(a * a * b); };
    const auto of_list = [](const std::vector<Tensor>& a) { return reduce_sum(a[0] * a[0] * a[1]); };
    const auto twice = grad(product)(x, x);
    const std::vector<Tensor> listed = grad(of_list)(std::vector<Tensor>{x, x});
    const Tensor ones = ones_like(x);
    return {grad(f)(x),
            value_and_grad(f)(x).second,
            vjp(f, x, tensor<double>(1)).second,
            vjp(f, x).second(tensor<double>(1)),
            jacobian(f)(x),
            jacrev(f)(x),
            jacfwd(f)(x),
            twice[0],
            listed[0],
            jvp(f, x, ones).second * ones,
            hessian(f)(x),
            twice[1],
            listed[1],
            grad([](const Tensor& a) {
              return reduce_sum(grad([&](const Tensor& b) { return reduce_sum(a * b * b); })(a));
            })(x)};
  };
  const Tensor x = f64({3, 0.5});
  const auto check = [](const std::vector<Tensor>& found) {
    for (std::size_t i = 0; i < 9; ++i) check_values(found[i], {18, 0.5});
    check_values(found[9], {18.5, 18.5});
    check_values(found[10], {6, 0, 0, 1});
    check_values(found[11], {9, 0.25});
    check_values(found[12], {9, 0.25});
    check_values(found[13], {12, 2});
  };
  check(all(x));
  check(trace(all, {spec(x)})(x));
}

TEST_CASE("at a number") {
  const auto cube = [](const Tensor& a) { return a * a * a; };
  check_values(grad(cube)(2.0), {12});
  check_values(grad(grad(cube))(2.0), {12});
  const auto [value, gradients] = value_and_grad([](const Tensor& a, const Tensor& b) { return a * b; })(2.0F, f64(3));
  check_values(value, {6});
  check_values(gradients[1], {2});
}

TEST_CASE("of Variables, trainable or not") {
  const Variable w({1.0, 2.0}), b(0.5, {.trainable = false});
  const auto [value, gradients] =
      value_and_grad([](const Tensor& v, const Tensor& c) { return reduce_sum(v * v + c); })(w, b);
  CHECK(value.item<float>() == 6);
  check_values(gradients[0], {2, 4});
  check_values(gradients[1], {2});
}

TEST_CASE("grad of grad") {
  const auto f = [](const Tensor& x) { return sin(x); };
  CHECK(agree(grad(grad(grad(f)))(f64(0.4)).item<double>(), -std::cos(0.4), 1e-15));
}

TEST_CASE("hessian") {
  const auto f = [](const Tensor& x) { return reduce_sum(curve(x) * curve(x)); };
  const Tensor x = f64({0.3, -0.2, 0.7});
  const Tensor h = hessian(f)(x);
  CHECK(to_string(h.shape()) == "[3,3]");
  const double step = 1e-5;
  for (int j = 0; j < 3; ++j) {
    std::vector<double> up = values(x), down = up;
    up[static_cast<std::size_t>(j)] += step;
    down[static_cast<std::size_t>(j)] -= step;
    check_values(h(all, j), values((grad(f)(f64(up)) - grad(f)(f64(down))) / (2 * step)), 1e-8);
  }
  check_same(h, transpose(h), 1e-13);
}

TEST_CASE("hessian of a linear and of a constant function is zero, of x's shape twice") {
  const Tensor x = f64({{1, 2}});
  const Tensor linear = hessian([](const Tensor& v) { return reduce_sum(v); })(x);
  CHECK(to_string(linear.shape()) == "[1,2,1,2]");
  check_values(linear, {0, 0, 0, 0});
  check_values(hessian([](const Tensor&) { return f64(1.0); })(x), {0, 0, 0, 0});
}

TEST_CASE("a hessian of more than one value is refused") {
  TAPESTRY_REFUSED(InvalidArgumentError, "a function with one value, not [2]",
                   hessian([](const Tensor& x) { return x * x; })(tensor({1.0, 2.0})));
  CHECK(hessian([](const Tensor& x) { return reshape(reduce_sum(x * x), {1}); })(ones({2})).shape() == Shape{2, 2});
}

/// Of two tensors [3] and [2] to [2].
Tensor bend(const Tensor& x, const Tensor& y) { return curve(x) * sin(y) + y * reduce_sum(x * x); }

TEST_CASE("derivatives by several arguments") {
  const Tensor x = f64({0.3, -0.2, 0.7}), y = f64({1, -0.5}), dx = f64({1, 2, -0.5}), dy = f64({-1, 3}),
               v = f64({2, -1});
  GradientTape tape({.persistent = true});
  tape.watch({x, y});
  const Tensor value = bend(x, y), by_x = tape.jacobian(value, x), by_y = tape.jacobian(value, y);
  for (const auto& of_bend : {jacobian(bend), jacrev(bend), jacfwd(bend)}) {
    const auto [jx, jy] = of_bend(x, y);
    check_same(jx, by_x, 1e-13);
    check_same(jy, by_y, 1e-13);
  }
  const auto [pushed_value, pushed] = jvp(bend, {x, y}, {dx, dy});
  check_same(pushed_value, value);
  check_same(pushed, matmul(by_x, dx) + matmul(by_y, dy), 1e-13);
  check_same(jvp(bend)({x, y}, {dx, dy}).second, pushed);
  const auto [pulled_value, pulled] = vjp(bend, {x, y}, v);
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(pulled)>, std::array<Tensor, 2>>);
  check_same(pulled_value, value);
  check_same(pulled[0], matmul(v, by_x), 1e-13);
  check_same(pulled[1], matmul(v, by_y), 1e-13);
  const auto [again, pullback] = vjp(bend, {x, y});
  check_same(again, value);
  for (int i = 0; i < 2; ++i) check_same(pullback(v)[static_cast<std::size_t>(i)], pulled[static_cast<std::size_t>(i)]);
  check_same(vjp(bend)({x, y}, v).second[1], pulled[1]);

  const auto energy = [](const Tensor& a, const Tensor& b) { return reduce_sum(bend(a, b) * bend(a, b)); };
  const auto [row_x, row_y] = hessian(energy)(x, y);
  check_same(row_x[0], hessian([&](const Tensor& a) { return energy(a, y); })(x), 1e-12);
  check_same(row_y[1], hessian([&](const Tensor& b) { return energy(x, b); })(y), 1e-12);
  CHECK(row_x[1].shape() == Shape{3, 2});
  check_same(row_x[1], transpose(row_y[0]), 1e-12);
  check_same(row_x[1], jacfwd([&](const Tensor& b) { return grad(energy)(x, b)[0]; })(y), 1e-12);
  check_values(hessian([](const Tensor& a, const Tensor& b) { return reduce_sum(a) + reduce_sum(b); })(x, y)[0][1],
               {0, 0, 0, 0, 0, 0});

  const auto of_list = [](const std::vector<Tensor>& list) { return bend(list[0], list[1]); };
  const std::vector<Tensor> listed = jacobian(of_list)({x, y});
  check_same(listed[1], by_y, 1e-13);
  check_same(jvp(of_list, {x, y}, {dx, dy}).second, pushed);
  check_same(vjp(of_list, std::vector<Tensor>{x, y}, v).second[0], pulled[0]);
  const auto energy_of_list = [&](const std::vector<Tensor>& list) { return energy(list[0], list[1]); };
  check_same(hessian(energy_of_list)({x, y})[0][1], row_x[1], 1e-13);
}

TEST_CASE("derivatives by several arguments in a trace have the numbers of eager mode") {
  const Tensor x = f64({0.3, -0.2, 0.7}), y = f64({1, -0.5}), dx = f64({1, 2, -0.5}), dy = f64({-1, 3});
  const auto energy = [](const Tensor& a, const Tensor& b) { return reduce_sum(bend(a, b)); };
  const auto all = [&](const Tensor& a, const Tensor& b) -> std::vector<Tensor> {
    return {jacrev(bend)(a, b)[1], jacfwd(bend)(a, b)[0], jvp(bend, {a, b}, {dx, dy}).second,
            vjp(bend, {a, b}, dy).second[0], hessian(energy)(a, b)[1][0]};
  };
  const auto eager = all(x, y), traced = trace(all, {spec(float64, {3}), spec(float64, {2})})(x, y);
  for (std::size_t i = 0; i < eager.size(); ++i) check_same(traced[i], eager[i], 1e-13);
  const auto both = trace(jacobian(bend), {spec(float64, {3}), spec(float64, {2})})(x, y);
  check_same(both[1], eager[0], 1e-13);
}

TEST_CASE("literals are points, directions and gradients") {
  const auto cube = [](const Tensor& x) { return x * x * x; };
  const auto product = [](const Tensor& a, const Tensor& b) { return reduce_sum(a) * b; };
  CHECK(hessian(cube)(2.0).item<float>() == 12);
  CHECK(jacobian(cube)(2.0).item<float>() == 12);
  check_values(jacfwd(cube)({1.0, 2.0}), {3, 0, 0, 12});
  check_values(hessian([](const Tensor& m) { return reduce_sum(m * m); })({{1.0, 2.0}}), {2, 0, 0, 2});
  check_values(jvp(cube, {1.0, 2.0}, {1.0, 0.5}).second, {3, 6});
  check_values(vjp(cube, {1.0, 2.0}, {1, 2}).second, {3, 24});
  check_values(vjp(cube, {1.0, 2.0}).second({1.0, 2.0}), {3, 24});
  check_values(jvp(cube, f64({1, 2}), {1.0, 0.5}).second, {3, 6});
  CHECK(jvp(product, {{1.0, 2.0}, 3.0}, {{1.0, 0.0}, 2.0}).second.item<float>() == 9);
  CHECK(jacobian(product)({1.0, 2.0}, 3.0)[1].item<float>() == 3);
  check_values(vjp(product)({{1.0, 2.0}, 3.0}, 1.0).second[0], {3, 3});
  check_values(vmap(product)({{1.0, 2.0}, {3.0, 4.0}}, {5.0, 6.0}), {15, 42});
  check_values(vmap(cube)({1.0, 2.0}), {1, 8});
}

TEST_CASE("points and directions in a wrong number") {
  const Tensor x = f64({1, 2});
  const auto f = [](const Tensor& a, const Tensor& b) { return a * b; };
  TAPESTRY_REFUSED(InvalidArgumentError, "The function takes 2 tensors, not 3", vjp(f, {x, x, x}));
  TAPESTRY_REFUSED(InvalidArgumentError, "there are 1 directions for 2 arguments", jvp(f, {x, x}, {x}));
}

TEST_CASE("vjp") {
  const Tensor x = f64({0.3, -0.2, 0.7}), v = f64({2, -1});
  GradientTape tape;
  tape.watch(x);
  const Tensor jacobian = tape.jacobian(curve(x), x);
  const auto [y, pulled] = vjp(curve, x, v);
  check_same(y, curve(x));
  check_same(pulled, matmul(v, jacobian), 1e-14);
  check_same(vjp(curve)(x, v).second, pulled);
}

TEST_CASE("a pullback can be called again, later, and from anywhere") {
  const Tensor x = f64({0.3, -0.2, 0.7}), v = f64({2, -1});
  const auto [y, pullback] = vjp(curve, x);
  const Tensor expected = vjp(curve, x, v).second;
  check_same(pullback(v), expected);
  const Tensor between = curve(x) * 2.0;
  check_same(pullback(v * 2.0), expected * 2.0);
  Tensor elsewhere;
  std::thread([&, &pullback = pullback] { elsewhere = pullback(v); }).join();
  check_same(elsewhere, expected);
}

TEST_CASE("jvp against a difference in the direction") {
  const Tensor x = f64({0.3, -0.2, 0.7}), v = f64({1, 2, -0.5});
  const auto [y, pushed] = jvp(curve, x, v);
  check_same(y, curve(x));
  const double h = 1e-6;
  check_values(pushed, values((curve(x + v * h) - curve(x - v * h)) / (2 * h)), 1e-9);
  check_same(jvp(curve)(x, v).second, pushed);
  check_values(jvp([](const Tensor&) { return f64({1, 1}); }, x, v).second, {0, 0});
  CHECK_THROWS_AS(jvp(curve, x, f64({1, 2})), InvalidArgumentError);
}

TEST_CASE("jvp of what draws random numbers, reads Variables, branches and loops") {
  const Variable w(f64({0.5, 2, -1}));
  const auto f = [&](const Tensor& x) {
    Tensor y = x * w;
    for (int i = 0; i < 100 && reduce_sum(y * y).item<double>() < 50; ++i) y = 1.3 * y + sin(x);
    return cond(
        greater(y(0), 0.0), [&] { return y * stop_gradient(x); }, [&] { return exp(y); });
  };
  const Tensor x = f64({0.3, -0.2, 0.7}), v = f64({1, 2, -0.5});
  GradientTape tape;
  tape.watch(x);
  const Tensor jacobian = tape.jacobian(f(x), x);
  check_same(jvp(f, x, v).second, matmul(jacobian, v), 1e-12);
}

TEST_CASE("jvp and gradients in each other") {
  const auto f = [](const Tensor& x) { return reduce_sum(exp(x) * sin(flip(x))); };
  const Tensor x = f64({0.3, -0.2, 0.7}), v = f64({1, 2, -0.5}), u = f64({-1, 0.5, 2});
  const Tensor h = hessian(f)(x);
  check_same(jvp(grad(f), x, v).second, matmul(h, v), 1e-13);
  check_same(grad([&](const Tensor& z) { return jvp(f, z, v).second; })(x), matmul(h, v), 1e-13);
  const auto along_v = [&](const Tensor& z) { return jvp(f, z, v).second; };
  check_same(jvp(along_v, x, u).second, reduce_sum(u * matmul(h, v)), 1e-13);
}

TEST_CASE("jvp passes an op without a gradient, unless the result depends on it") {
  const Tensor x = f64({0.3, -0.2, 0.3});
  const auto beside = [&](const Tensor& z) { return argmax(z).cast(float64) + reduce_sum(z); };
  CHECK(jvp(beside, x, ones_like(x)).second.item<double>() == 3);
  static const Op& rough =
      register_op({.name = "RoughJvp", .infer = same_shape, .cpu = [](const Call& call) {
                     std::copy_n(call.input(0).data<double>(), call.input(0).size(), call.output_data<double>());
                   }});
  check_values(jvp(
                   [&](const Tensor& z) {
                     apply(rough, {2.0 * z}) * 3.0;
                     return z * z;
                   },
                   x, ones_like(x))
                   .second,
               {0.6, -0.4, 0.6}, 1e-15);
  CHECK_THROWS_AS(jvp([&](const Tensor& z) { return apply(rough, {z}) * 3.0; }, x, ones_like(x)), LookupError);
}

TEST_CASE("jvp keeps no derivative of a tensor that is gone") {
  const Tensor x = zeros({1 << 16}, {.dtype = float64}), v = ones_like(x);
  const auto f = [](Tensor y) {
    for (int i = 0; i < 400; ++i) y = sin(y);
    return y;
  };
  reset_peak_memory();
  const std::int64_t before = memory_stats().in_use;
  jvp(f, x, v);
  const std::int64_t tensors = (memory_stats().peak - before) / (8 << 16);
  CHECK(tensors < 40);  // of 800
}

TEST_SUITE("custom_gradient") {
  const auto log1pexp = custom_gradient([](const Tensor& x) -> CustomGradient {
    const Tensor e = exp(x);
    return {log(1.0 + e), [=](const Tensor& g) -> Tensors { return {g * (1.0 - 1.0 / (1.0 + e))}; }};
  });

  TEST_CASE("replaces the gradient that the ops would have") {
    const Tensor x = f64({0.0, 1000.0});  // where the plain gradient of the second is inf / inf
    GradientTape tape({.persistent = true});
    tape.watch(x);
    check_values(tape.gradient(log1pexp(x), x), {0.5, 1});
    CHECK(std::isnan(values(tape.gradient(log(1.0 + exp(x)), x))[1]));
  }

  TEST_CASE("is differentiated again, as its gradient is made of ops") {
    const Tensor x = f64(0.5);
    const double s = 1 / (1 + std::exp(-0.5));
    CHECK(agree(grad(grad(log1pexp))(x).item<double>(), s * (1 - s), 1e-15));
    CHECK(agree(grad(grad(grad(log1pexp)))(x).item<double>(), s * (1 - s) * (1 - 2 * s), 1e-14));
  }

  TEST_CASE("with several arguments, of which some have no gradient") {
    const auto f = custom_gradient([](const Tensor& a, const Tensor& b) -> CustomGradient {
      return {a * b, [=](const Tensor& g) -> Tensors { return {g * 100.0, Tensor()}; }};
    });
    const Tensor a = f64(2.0), b = f64(3.0);
    GradientTape tape;
    tape.watch({a, b});
    const auto [da, db] = tape.gradient(f(a, b), a, b);
    CHECK(da.item<double>() == 100);
    CHECK_FALSE(db);
  }

  TEST_CASE("the gradient of the only argument, without a list") {
    const auto f = custom_gradient([](const Tensor& x) -> CustomGradient {
      return {x * x, [](const Tensor& g) { return g * 7.0; }};
    });
    CHECK(grad(f)(f64(2.0)).item<double>() == 7);
    CHECK(grad(grad([&](const Tensor& x) { return f(x) * x; }))(f64(2.0)).item<double>() == 7 + 7);
    const auto traced = trace(grad(f), {spec(float64, {})});
    CHECK(traced(f64(2.0)).item<double>() == 7);
    const auto two = custom_gradient([](const Tensor& a, const Tensor& b) -> CustomGradient {
      return {a * b, [](const Tensor& g) { return g; }};
    });
    CHECK(message_of<InvalidArgumentError>([&] { grad(two)(f64(1.0), f64(2.0)); }) ==
          "Num gradients 1 generated for op CustomGradient do not match num inputs 2");
    static const Op& own =
        register_op({.name = "GradientOfOne",
                     .infer = same_shape,
                     .cpu =
                         [](const Call& call) {
                           std::copy_n(call.input(0).data<double>(), call.input(0).size(), call.output_data<double>());
                         },
                     .gradient = [](const Call&, const Tensor& g) { return g * 5.0; }});
    CHECK(grad([](const Tensor& x) { return apply(own, {x}); })(f64(2.0)).item<double>() == 5);
  }

  TEST_CASE("several results, of which the gradient gets all at once") {
    // The sum and the product of two vectors, and the larger one's number; the gradient is clipped as a whole.
    const auto f = custom_gradient([](const Tensor& a, const Tensor& b) -> CustomGradients {
      return {{a + b, reduce_sum(a * b), argmax(stack({a, b}), 0)}, [=](const std::vector<Tensor>& g) -> Tensors {
                CHECK_FALSE(g[2]);
                const Tensor all = concat({g[0], reshape(g[1], {1})});
                const Tensor factor = 1.0 / maximum(sqrt(reduce_sum(square(all))), 1.0);
                return {factor * (g[0] + g[1] * b), factor * (g[0] + g[1] * a)};
              }};
    });
    const auto both = [&](const Tensor& a, const Tensor& b) {
      GradientTape tape;
      tape.watch({a, b});
      const std::vector<Tensor> y = f(a, b);
      const Tensor loss = reduce_sum(y[0] * f64({2.0, 0.0})) + 1.5 * y[1];
      const auto [da, db] = tape.gradient(loss, a, b);
      return std::vector<Tensor>{y[0], y[1], y[2], da, db};
    };
    const Tensor a = f64({1.0, 2.0}), b = f64({3.0, -1.0});
    const std::vector<Tensor> found = both(a, b);
    check_values(found[0], {4, 1});
    check_values(found[1], {1});
    check_values(found[2].cast(float64), {1, 0});
    check_same(found[3], f64({(2 + 4.5) / 2.5, -1.5 / 2.5}), 1e-15);
    check_same(found[4], f64({(2 + 1.5) / 2.5, 3 / 2.5}), 1e-15);
    for (const std::int64_t size : {2, -1}) {
      const auto traced = trace(both, {spec(float64, {size}), spec(float64, {size})});
      const std::vector<Tensor> same = traced(a, b);
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(same[i], found[i]));
    }
    // Only one result is used, the gradient of the other one is 0; and the gradient is differentiated again.
    const auto product = [&](const Tensor& x) { return f(x, x)[1]; };
    CHECK(grad(product)(f64({0.25, 0.0})).to_vector<double>() == std::vector<double>{0.5, 0});
    check_same(hessian(product)(f64({0.25, 0.5})), f64({{2.0, 0.0}, {0.0, 2.0}}), 1e-14);
    check_same(vmap(product)(f64({{1.0, 2.0}, {3.0, 4.0}})), f64({5.0, 25.0}));
    CHECK(message_of<InvalidArgumentError>([&] {
            custom_gradient([](const Tensor&) -> CustomGradients {
              return {{}, [](const std::vector<Tensor>&) { return Tensors(); }};
            })(a);
          }) == "custom_gradient: there are no values");
  }

  TEST_CASE("an argument that is returned as it is") {
    const auto scaled = custom_gradient([](const Tensor& x) -> CustomGradient {
      return {x, [](const Tensor& g) -> Tensors { return {g * 7.0}; }};
    });
    const Tensor x = f64(2.0);
    GradientTape tape;
    tape.watch(x);
    CHECK(tape.gradient(scaled(x), x).item<double>() == 7);
  }

  TEST_CASE("of a Variable") {
    const Variable w(1.5);
    GradientTape tape;
    const Tensor y = log1pexp(w);
    CHECK(agree(tape.gradient(y, w).item<double>(), 1 / (1 + std::exp(-1.5)), 1e-7));
  }

  TEST_CASE("a wrong number of gradients is named") {
    const auto f = custom_gradient([](const Tensor& x) -> CustomGradient {
      return {x * x, [](const Tensor& g) -> Tensors { return {g, g}; }};
    });
    const Tensor x = f64(2.0);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    const auto error = caught<InvalidArgumentError>([&] { tape.gradient(y, x); });
    CHECK(error.message() == "Num gradients 2 generated for op CustomGradient do not match num inputs 1");
    CHECK(to_string(error.where()).starts_with("functional_test.cpp:"));
  }
}

TEST_SUITE("recompute") {
  Tensor layers(const Tensor& x, int count) {
    Tensor y = x;
    for (int i = 0; i < count; ++i) y = tanh(y * 1.1) + x;
    return y;
  }

  TEST_CASE("the same value and gradient, of arguments and of Variables, from less memory") {
    const Tensor x = linspace(-1.0, 1.0, 1000, {.dtype = float64});
    const Variable w(1.5, {.dtype = float64}), frozen(0.5, {.trainable = false, .dtype = float64});
    const auto f = [&](const Tensor& v) { return layers(v * w, 10) * w * frozen; };

    GradientTape plain;
    plain.watch(x);
    const Tensor y = f(x);
    const std::size_t plain_bytes = plain.bytes();
    const auto [dx, dw] = plain.gradient(y, x, w);

    GradientTape tape;
    tape.watch(x);
    const Tensor again = recompute(f)(x);
    CHECK(tape.size() == 1);
    CHECK(tape.bytes() < plain_bytes / 5);
    const auto [rx, rw] = tape.gradient(again, x, w);
    check_same(again, y);
    check_same(rx, dx);
    check_same(rw, dw);
  }

  TEST_CASE("second derivatives, and nested") {
    const auto f = [](const Tensor& x) { return layers(x, 3); };
    const auto once = recompute(f);
    const auto twice = recompute([&](const Tensor& x) { return once(once(x)); });
    const Tensor x = f64(0.3);
    check_same(grad(grad(once))(x), grad(grad(f))(x), 1e-14);
    check_same(grad(grad(twice))(x), grad(grad([&](const Tensor& v) { return f(f(v)); }))(x), 1e-14);
  }

  TEST_CASE("several arguments, some of which are not asked for") {
    const Tensor a = f64(2.0), b = f64(3.0), whole = tensor(4);
    const auto f = recompute([](const Tensor& p, const Tensor& q, const Tensor& n) { return p * p * q * n; });
    GradientTape tape({.persistent = true});
    tape.watch(b);
    const Tensor y = f(a, b, whole);
    CHECK(y.item<double>() == 48);
    CHECK(tape.gradient(y, b).item<double>() == 16);
    CHECK_FALSE(tape.gradient(y, a));
  }

  TEST_CASE("a Variable that has been assigned since: the gradient is that of the value that was read") {
    Variable w(2.0, {.dtype = float64});
    const Tensor x = f64(3.0);
    const auto f = recompute([&](const Tensor& v) { return v * w * w; });
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    w.assign(100.0);
    const auto [dx, dw] = tape.gradient(y, x, w);
    CHECK(dx.item<double>() == 4);
    CHECK(dw.item<double>() == 12);
  }

  TEST_CASE("several results, and structs of them") {
    const Tensor x = f64({3, 1, 2}), y = f64({0.5, -1, 2});
    const Variable w(1.5, {.dtype = float64});
    const auto pair = [&](const Tensor& a, const Tensor& b) { return std::pair(tanh(a) * b * w, exp(b) * w); };
    const auto best = [](const Tensor& a) { return top_k(sin(a) * a, 2); };
    const auto all = [&](const auto& f, const auto& g) {
      return [&w, f, g](const Tensor& a, const Tensor& b) {
        GradientTape tape;
        tape.watch({a, b});
        const auto [first, second] = f(a, b);
        const TopK chosen = g(a);
        const Tensor loss = reduce_sum(first * second) + reduce_sum(chosen.values);
        const auto [da, db, dw] = tape.gradient(loss, a, b, w);
        return std::array<Tensor, 6>{first, second, chosen.indices.cast(float64), da, db, dw};
      };
    };
    const auto again = all(recompute(pair), recompute(best));
    const auto expected = all(pair, best)(x, y), found = again(x, y);
    const auto traced = trace(again, {spec(float64, {3}), spec(float64, {3})})(x, y);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      check_same(found[i], expected[i], 1e-14);
      check_same(traced[i], expected[i], 1e-14);
    }
  }

  TEST_CASE("one tensor in several places has one gradient") {
    const Variable w(3.0, {.dtype = float64});
    const auto f = recompute([&](const Tensor& a, const Tensor& b) { return a * b * w; });
    const Tensor x = f64(2.0);
    GradientTape tape({.persistent = true});
    tape.watch(x);
    CHECK(tape.gradient(f(x, x), x).item<double>() == 12);
    CHECK(tape.gradient(f(w, w), w).item<double>() == 27);
  }

  TEST_CASE("random numbers are the same the second time, and those after it do not change") {
    const Tensor x = ones({100});
    const auto f = recompute([](const Tensor& v) { return v * random::uniform({100}); });
    random::seed(1);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = f(x);
    const random::State after = random::state();
    check_same(tape.gradient(y, x), y);
    CHECK(random::state() == after);
  }
}

}  // namespace

}  // namespace functional_test
