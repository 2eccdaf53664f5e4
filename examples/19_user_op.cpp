// An op of one's own, defined outside the library: its shape, its kernel and its gradient. It is then like any other
// op: tapes record it, its derivative has a derivative, and its errors name the line of the call.
#include <iostream>

#include <tapestry/tapestry.hpp>

const tp::Op& cube_op = tp::register_op({
    .name = "Cube",
    .infer = [](const tp::Call& call) -> tp::Specs {
      if (call.input(0).dtype() != tp::float64)
        throw tp::InvalidArgumentError("Cube takes float64, not " + tp::to_string(call.input(0).dtype()));
      return tp::same_shape(call);
    },
    .cpu =
        [](const tp::Call& call) {
          const auto* x = call.input(0).data<double>();
          auto* y = call.output_data<double>();
          for (std::int64_t i = 0; i < call.input(0).size(); ++i) y[i] = x[i] * x[i] * x[i];
        },
    .gradient = [](const tp::Call& call, const tp::Tensor& g) -> tp::Tensors {
      return {g * 3.0 * tp::square(call.input(0))};
    },
});

tp::Tensor cube(tp::In x) { return tp::apply(cube_op, {x}); }

int main() {
  auto x = tp::tensor<double>({1, 2, 3});
  tp::GradientTape outer;
  outer.watch(x);
  tp::GradientTape inner;
  inner.watch(x);
  auto y = cube(x);
  auto first = inner.gradient(y, x);
  auto second = outer.gradient(first, x);
  std::cout << "x^3    " << y << '\n' << "3 x^2  " << first << '\n' << "6 x    " << second << '\n';

  try {
    cube(tp::tensor({1, 2}));
  } catch (const tp::Error& error) {
    std::cout << error.what() << '\n';
  }
}

// Output:
// x^3    [ 1.  8. 27.]
// 3 x^2  [ 3. 12. 27.]
// 6 x    [ 6. 12. 18.]
// Cube takes float64, not int32 [Op:Cube] at 19_user_op.cpp:39
