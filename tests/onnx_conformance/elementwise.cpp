#include <cmath>

#include "onnx_conformance/ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::onnx_case {
namespace {

Function unary(Tensor (*f)(In, std::string_view)) {
  return [f](const Node&, const Inputs& in) -> Outputs { return {f(in.at(0), {})}; };
}
Function unary(const std::function<Tensor(const Tensor&)>& f) {
  return [f](const Node&, const Inputs& in) -> Outputs { return {f(in.at(0))}; };
}
Function binary(Tensor (*f)(In, In, std::string_view)) {
  return [f](const Node&, const Inputs& in) -> Outputs { return {f(in.at(0), in.at(1), {})}; };
}
/// Of the node's attributes and one input.
Function with_attributes(const std::function<Tensor(const Node&, const Tensor&)>& f) {
  return [f](const Node& node, const Inputs& in) -> Outputs { return {f(node, in.at(0))}; };
}
/// Of any number of inputs, pair by pair.
Function folded(Tensor (*f)(In, In, std::string_view)) {
  return [f](const Node&, const Inputs& in) -> Outputs {
    Tensor result = in.at(0);
    for (std::size_t i = 1; i < in.size(); ++i) result = f(result, in[i], {});
    return {result};
  };
}

/// Whole numbers are divided towards zero.
Tensor divided(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype())) return a / b;
  return (a.cast(float64) / b.cast(float64)).cast(a.dtype());
}

/// The remainder has the divisor's sign, or with `fmod` the dividend's.
Outputs remainder(const Node& node, const Inputs& in) {
  if (node.whole("fmod", 0) == 0) return {mod(in.at(0), in.at(1))};
  return {sign(in.at(0)) * mod(abs(in.at(0)), abs(in.at(1)))};
}

Outputs clipped(const Node&, const Inputs& in) {
  const Tensor low = optional_input(in, 1), high = optional_input(in, 2);
  Tensor y = in.at(0);
  if (bool(low) && bool(high)) return {clip(y, low, high)};
  if (low) y = maximum(y, low);
  if (high) y = minimum(y, high);
  return {y};
}

Tensor infinite(const Node& node, const Tensor& x) {
  const Tensor is_infinite = logical_not(logical_or(is_finite(x), is_nan(x)));
  const Tensor positive = greater(x, 0), wanted = node.whole("detect_positive", 1) != 0
                                                      ? (node.whole("detect_negative", 1) != 0 ? is_infinite : positive)
                                                      : logical_not(positive);
  return logical_and(is_infinite, wanted);
}

Tensor shrunk(const Node& node, const Tensor& x) {
  const double bias = node.real("bias", 0), limit = node.real("lambd", 0.5);
  return where(greater(x, limit), x - bias, where(less(x, -limit), x + bias, zeros_like(x)));
}

void add_activations(Functions& table) {
  table["Relu"] = unary(relu);
  table["Sigmoid"] = unary(sigmoid);
  table["Softplus"] = unary(softplus);
  table["Softsign"] = unary([](const Tensor& x) { return x / (1 + abs(x)); });
  table["HardSwish"] = unary([](const Tensor& x) { return x * clip(x / 6 + 0.5, 0, 1); });
  table["Shrink"] = with_attributes(shrunk);
  table["LeakyRelu"] =
      with_attributes([](const Node& n, const Tensor& x) { return leaky_relu(x, n.real("alpha", 0.01)); });
  table["PRelu"] = [](const Node&, const Inputs& in) -> Outputs {
    return {where(less(in.at(0), 0), in.at(0) * in.at(1), in.at(0))};
  };
  table["ThresholdedRelu"] = with_attributes(
      [](const Node& node, const Tensor& x) { return where(greater(x, node.real("alpha", 1)), x, zeros_like(x)); });
  table["Elu"] = with_attributes([](const Node& node, const Tensor& x) {
    return where(greater(x, 0), x, node.real("alpha", 1) * elu(minimum(x, 0)));
  });
  table["Celu"] = with_attributes([](const Node& node, const Tensor& x) {
    const double alpha = node.real("alpha", 1);
    return alpha * elu(x / alpha);
  });
  table["Selu"] = with_attributes([](const Node& node, const Tensor& x) {
    const double alpha = node.real("alpha", 1.6732632), gamma = node.real("gamma", 1.0507010);
    return gamma * where(greater(x, 0), x, alpha * elu(minimum(x, 0)));
  });
  table["HardSigmoid"] = with_attributes([](const Node& node, const Tensor& x) {
    return clip(node.real("alpha", 0.2) * x + node.real("beta", 0.5), 0, 1);
  });
}

}  // namespace

Functions elementwise_functions() {
  Functions table;
  table["Abs"] = unary(abs);
  table["Acos"] = unary(acos);
  table["Acosh"] = unary(acosh);
  table["Asin"] = unary(asin);
  table["Asinh"] = unary([](const Tensor& x) { return sign(x) * log(abs(x) + sqrt(square(x) + 1)); });
  table["Atan"] = unary(atan);
  table["Atanh"] = unary(atanh);
  table["Ceil"] = unary(ceil);
  table["Cos"] = unary(cos);
  table["Cosh"] = unary(cosh);
  table["Erf"] = unary(erf);
  table["Exp"] = unary(exp);
  table["Floor"] = unary(floor);
  table["Identity"] = unary(identity);
  table["IsInf"] = with_attributes(infinite);
  table["IsNaN"] = unary(is_nan);
  table["Log"] = unary(log);
  table["Neg"] = unary(negative);
  table["Not"] = unary(logical_not);
  table["Reciprocal"] = unary(reciprocal);
  table["Round"] = unary(round);
  table["Sign"] = unary(sign);
  table["Sin"] = unary(sin);
  table["Sinh"] = unary(sinh);
  table["Sqrt"] = unary(sqrt);
  table["Tan"] = unary(tan);
  table["Tanh"] = unary(tanh);
  table["Cast"] =
      with_attributes([](const Node& n, const Tensor& x) { return x.cast(type_of_code(n.whole("to", 0))); });
  table["CastLike"] = [](const Node&, const Inputs& in) -> Outputs { return {in.at(0).cast(in.at(1).dtype())}; };

  table["Add"] = binary(add);
  table["And"] = binary(logical_and);
  table["Div"] = [](const Node&, const Inputs& in) -> Outputs { return {divided(in.at(0), in.at(1))}; };
  table["Equal"] = binary(equal);
  table["Greater"] = binary(greater);
  table["GreaterOrEqual"] = binary(greater_equal);
  table["Less"] = binary(less);
  table["LessOrEqual"] = binary(less_equal);
  table["Mod"] = remainder;
  table["Mul"] = binary(multiply);
  table["Or"] = binary(logical_or);
  // The result has the type of the base.
  table["Pow"] = [](const Node&, const Inputs& in) -> Outputs {
    return {power(in.at(0), in.at(1)).cast(in.at(0).dtype())};
  };
  table["Sub"] = binary(subtract);
  table["Xor"] = binary(not_equal);
  table["Max"] = folded(maximum);
  table["Min"] = folded(minimum);
  table["Sum"] = folded(add);
  table["Mean"] = [](const Node&, const Inputs& in) -> Outputs { return {reduce_mean(stack(in, 0), 0)}; };
  table["Where"] = [](const Node&, const Inputs& in) -> Outputs { return {where(in.at(0), in.at(1), in.at(2))}; };
  table["Clip"] = clipped;
  add_activations(table);
  return table;
}

}  // namespace tapestry::test::onnx_case
