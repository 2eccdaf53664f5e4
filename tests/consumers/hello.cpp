#include <iostream>

#include <tapestry/tapestry.hpp>

// Prints x, y = x * x and dy/dx, and y again from an ONNX model, which a plugin of the shared library writes and reads.
int main() {
  const tp::Tensor x = tp::tensor({1.0, 2.0, 3.0});
  tp::GradientTape tape;
  tape.watch(x);
  const tp::Tensor y = x * x;
  std::cout << x << '\n' << y << '\n' << tape.gradient(y, x) << '\n';

  const auto square = tp::trace([](tp::Tensor v) { return v * v; }, {tp::spec(tp::float64, {3})});
  tp::onnx::save("square.onnx", {.inputs = {{"v", square.input()}}, .outputs = {{"y", square.output()}}});
  std::cout << tp::onnx::load("square.onnx")({{"v", x}})[0] << '\n';
}
