// GradientTape: jacobians.

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace jacobian_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor f64(const Init& value) { return tensor<double>(value); }

TEST_SUITE("jacobian") {
  const Tensor matrix = f64({{1, 2, -1}, {0.5, -1, 2}});

  Tensor curve(const Tensor& x) { return sin(matmul(matrix, x)) * reduce_sum(x * x); }

  /// d f(x)_i / d x_j by central differences, row-major.
  std::vector<double> differences(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
    const double h = 1e-6;
    const auto rows = static_cast<std::size_t>(f(x).size()), columns = static_cast<std::size_t>(x.size());
    std::vector<double> result(rows * columns);
    for (std::size_t j = 0; j < columns; ++j) {
      std::vector<double> up = values(x), down = up;
      up[j] += h;
      down[j] -= h;
      const std::vector<double> above = values(f(tensor(up, x.shape()))), below = values(f(tensor(down, x.shape())));
      for (std::size_t i = 0; i < rows; ++i) result[i * columns + j] = (above[i] - below[i]) / (2 * h);
    }
    return result;
  }

  TEST_CASE("against finite differences") {
    const Tensor x = f64({0.3, -0.2, 0.7});
    GradientTape tape;
    tape.watch(x);
    const Tensor jacobian = tape.jacobian(curve(x), x);
    CHECK(to_string(jacobian.shape()) == "[2,3]");
    check_values(jacobian, differences(curve, x), 1e-8);
  }

  TEST_CASE("shapes are the target's, then the source's") {
    const Tensor x = f64({{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}});
    const auto f = [](const Tensor& m) { return matmul(m, transpose(m)); };
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = f(x), scalar = reduce_sum(y);
    const Tensor jacobian = tape.jacobian(y, x);
    CHECK(to_string(jacobian.shape()) == "[2,2,2,3]");
    check_values(jacobian, differences(f, x), 1e-8);
    check_same(tape.jacobian(scalar, x), tape.gradient(scalar, x), 1e-15);
    CHECK(to_string(tape.jacobian(y * zeros({0, 1, 1}), x).shape()) == "[0,2,2,2,3]");
  }

  TEST_CASE("with respect to a Variable, and of nothing") {
    const Variable w({1.0, 2.0});
    const Tensor other = tensor({1.0, 2.0});
    GradientTape tape({.persistent = true});
    const Tensor y = w * w;
    check_values(tape.jacobian(y, w), {2, 0, 0, 4});
    CHECK_FALSE(tape.jacobian(y, other));
  }

  TEST_CASE("of a jacobian: second derivatives") {
    const Tensor x = f64({1, 2});
    GradientTape outer;
    outer.watch(x);
    Tensor first;
    {
      GradientTape inner;
      inner.watch(x);
      first = inner.jacobian(x * x * x, x);  // diag(3 x^2)
    }
    check_values(outer.jacobian(first, x), {6, 0, 0, 0, 0, 0, 0, 12});
  }

  TEST_CASE("batch_jacobian has the blocks of the diagonal") {
    const Tensor x = f64({{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}, {0.7, 0.8, 0.9}, {1, 2, 3}});
    const auto rowwise = [](const Tensor& m) { return sin(matmul(m, transpose(matrix))); };
    GradientTape tape({.persistent = true});
    tape.watch(x);
    const Tensor y = rowwise(x);
    const Tensor blocks = tape.batch_jacobian(y, x);
    CHECK(to_string(blocks.shape()) == "[4,2,3]");
    for (int i = 0; i < 4; ++i)
      check_values(blocks(i), differences([&](const Tensor& row) { return sin(matmul(matrix, row)); }, x(i)), 1e-8);
    const auto error = caught<InvalidArgumentError>([&] { tape.batch_jacobian(reduce_sum(y), x); });
    CHECK(place(error) == line_before());
    CHECK_THROWS_AS(tape.batch_jacobian(y(range(0, 2)), x), InvalidArgumentError);
  }

  TEST_CASE("wrong arguments leave a tape usable") {
    const Tensor x = f64({{1, 2}});
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    CHECK_THROWS_AS(tape.batch_jacobian(reduce_sum(y), x), InvalidArgumentError);
    check_values(tape.batch_jacobian(y, x), {2, 0, 0, 4});
  }

  TEST_CASE("a trace that does not know sizes gives the same, to second order") {
    struct Program {
      const char* name;
      TensorFunction f;
    };
    const Tensor w = f64({{0.5, -1.0}, {2.0, 0.25}, {-0.75, 1.5}});
    const auto of_tape = [](const TensorFunction& f, const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      return tape.jacobian(f(x), x);
    };
    const auto of_batch = [](const TensorFunction& f, const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      return tape.batch_jacobian(f(x), x);
    };
    const TensorFunction dense = [&](const Tensor& x) { return tanh(matmul(x, w)); };
    const TensorFunction mixed = [](const Tensor& x) { return sin(x) * reduce_sum(x, 0) + x(0); };
    const TensorFunction looped = [](const Tensor& x) {
      return map([](const Tensor& row) { return row * reduce_sum(square(row)); }, x);
    };
    const TensorFunction rows_mixed = [](const Tensor& x) { return transpose(x) * reduce_sum(x, 1); };
    const TensorFunction energy = [&](const Tensor& x) {
      return reduce_sum(square(dense(x)) * sin(x(all, range(0, 2))));
    };
    const std::vector<Program> programs{
        {"of a tape", [&](const Tensor& x) { return of_tape(dense, x); }},
        {"of a tape, rows mixed", [&](const Tensor& x) { return of_tape(mixed, x); }},
        {"of a tape, a loop", [&](const Tensor& x) { return of_tape(looped, x); }},
        {"of a batch", [&](const Tensor& x) { return of_batch(dense, x); }},
        {"of a batch whose rows have unknown sizes",
         [&](const Tensor& x) {
           return of_batch([](const Tensor& z) { return square(z) * reduce_sum(z, 1, {.keep_dims = true}); },
                           transpose(x));
         }},
        {"jacobian", [&](const Tensor& x) { return jacobian(mixed)(x); }},
        {"jacrev", [&](const Tensor& x) { return jacrev(rows_mixed)(x); }},
        {"jacrev of jacfwd", [&](const Tensor& x) { return jacrev(jacfwd(dense))(x); }},
        {"jacfwd of jacrev", [&](const Tensor& x) { return jacfwd(jacrev(dense))(x); }},
        {"hessian", [&](const Tensor& x) { return hessian(energy)(x); }},
        {"gradient of a hessian",
         [&](const Tensor& x) {
           return grad([&](const Tensor& z) { return reduce_sum(square(hessian(energy)(z))); })(x);
         }},
    };
    for (const Program& program : programs) {
      CAPTURE(std::string(program.name));
      const auto traced = trace(program.f, {spec(float64, {-1, 3})});
      for (const std::int64_t rows : {1, 2, 4}) {
        CAPTURE(rows);
        random::seed(5);
        const Tensor x = random::normal({rows, 3}, {.dtype = float64});
        check_same(traced(x), program.f(x), 1e-12);
      }
    }
    const auto unconnected =
        trace([](const Tensor& x) { return jacrev([](const Tensor& z) { return zeros_like(z); })(x); },
              {spec(float64, {-1})});
    check_values(unconnected(f64({1, 2})), {0, 0, 0, 0});
    const auto none = trace([&](const Tensor& x) { return of_tape(dense, x); }, {spec(float64, {-1, 3})});
    CHECK(to_string(none(zeros({0, 3}, {.dtype = float64})).shape()) == "[0,2,0,3]");
  }

  // `jacobian` knows only from a call of f whether it has more elements than x.
  TEST_CASE("of a function with more elements than its argument: it is called as if once") {
    const Tensor x = f64({0.5, -1.5});
    const auto wide = [](const Tensor& v) { return dropout(concat({v * v, v, sin(v)}, 0), 0.5); };
    const auto traced = trace([&](const Tensor& v) { return jacobian(wide)(v); }, {spec(float64, {2})});
    random::seed(3);
    const Tensor expected = jacrev(wide)(x);
    const random::State after = random::state();
    for (const bool is_traced : {false, true}) {
      random::seed(3);
      check_same(is_traced ? traced(x) : jacobian(wide)(x), expected, 1e-12);
      CHECK(random::state() == after);
    }

    const Variable count(0.0, {.name = "count"});
    const auto counted = [&](const Tensor& v) {
      Variable(count).assign_add(1.0);
      return concat({v * v, v, sin(v)}, 0);
    };
    const auto traced_count = trace([&](const Tensor& v) { return jacobian(counted)(v); }, {spec(float64, {2})});
    const Tensor j = jacrev(counted)(x);
    check_same(jacobian(counted)(x), j, 1e-12);
    check_same(traced_count(x), j, 1e-12);
    check_values(count, {3});
  }

  // A forward jacobian maps over directions, which must share what the function draws.
  TEST_CASE("of a function that draws random numbers: those of one call of it") {
    using Function = std::function<Tensor(const Tensor&)>;
    const auto drop = [](const Tensor& x) { return dropout(x * x, 0.5); };
    const auto scanned = [](const Tensor& x) {
      const auto next = [](const Tensor& c, const Tensor& row) {
        const Tensor y = dropout(row * row, 0.5) + 0.0 * c;
        return std::pair{y, y};
      };
      return std::get<1>(tapestry::scan(next, zeros({2}, {.dtype = float64}), x));
    };
    const std::vector<std::pair<std::string, Function>> functions{
        {"dropout", drop},
        {"a product with random numbers", [](const Tensor& x) { return x * x * random::normal_like(x); }},
        {"recompute", [=](const Tensor& x) { return recompute(drop)(x); }},
        {"a scan", scanned},
        {"recompute of a scan", [=](const Tensor& x) { return recompute(scanned)(x); }},
        {"a branch",
         [=](const Tensor& x) {
           return cond(
               reduce_sum(x) < 99.0, [&] { return drop(x); }, [&] { return x; });
         }},
        {"numbers for each example of a vmap", [=](const Tensor& x) { return vmap(drop)(x); }},
    };
    const auto flat = [](const Function& f) -> Function {
      return [f](const Tensor& v) { return reshape(f(reshape(v, {4, 2})), {8}); };
    };
    const Tensor pattern = eye(8);
    const std::vector<std::pair<std::string, std::function<Tensor(const Function&, const Tensor&)>>> ways{
        {"jacfwd", [](const Function& f, const Tensor& x) { return jacfwd(f)(x); }},
        {"jacrev", [](const Function& f, const Tensor& x) { return jacrev(f)(x); }},
        {"jacobian", [](const Function& f, const Tensor& x) { return jacobian(f)(x); }},
        {"sparse_jacobian",
         [&](const Function& f, const Tensor& x) {
           return reshape(sparse_jacobian(flat(f), pattern)(reshape(x, {8})).dense(), {4, 2, 4, 2});
         }},
    };
    const Tensor x = numbers({4, 2}, 0.5, 1.5, 1);
    for (const auto& function : functions)
      for (const auto& way : ways) {
        CAPTURE(function.first);
        CAPTURE(way.first);
        const Function& f = function.second;
        random::seed(3);
        const Tensor y = f(x);
        // Of y = m x^2 with random m, the jacobian is diagonal, and is 2 y / x there.
        const auto check = [&](const Tensor& j) {
          check_same(reduce_sum(j, {2, 3}), 2.0 * y / x, 1e-12);
          check_same(reduce_sum(abs(j)), reduce_sum(abs(2.0 * y / x)), 1e-12);
        };
        const auto of = [&](const Tensor& at) { return way.second(f, at); };
        random::seed(3);
        check(of(x));
        for (const Shape& shape : {Shape{4, 2}, Shape{-1, 2}}) {
          if (way.first == "sparse_jacobian" && !shape.is_known()) continue;
          const auto traced = trace(of, {spec(float64, shape)});
          random::seed(3);
          check(traced(x));
        }
      }
  }
}

}  // namespace

}  // namespace jacobian_test
