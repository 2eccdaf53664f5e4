// Functions of single elements: arithmetic, comparisons, activations.

#include <limits>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

using OnnxUnary = Tensor (*)(In, std::string_view);
using OnnxBinary = Tensor (*)(In, In, std::string_view);

void require_same_types(const OnnxCall& c, std::size_t first = 0) {
  for (std::size_t i = first + 1; i < c.places(); ++i)
    if (c.dtype(i) != c.dtype(first))
      c.refuse(detail::join("its inputs are ", to_string(c.dtype(first)), " and ", to_string(c.dtype(i))));
}

/// The second operand of a binary op. Before version 7 an attribute tells at which axis of the first it begins.
Tensor onnx_operand(const OnnxCall& c) {
  const Tensor& b = c[1];
  if (c.version() >= 7 || !c.has_attr("axis") || !b.shape().has_rank() || !c.shape().has_rank()) return b;
  const int axis = c.axis("axis", 0), behind = c.rank() - axis - c.rank(1);
  if (behind < 0) c.refuse(detail::join("an operand of shape ", b.shape(), " does not fit at axis ", axis));
  return behind == 0 ? b : expand_dims(b, onnx_range(c.rank(1), c.rank(1) + behind));
}

template <OnnxUnary f>
Tensors onnx_unary(const OnnxCall& c) {
  return {f(c[0], {})};
}
template <OnnxBinary f>
Tensors onnx_binary(const OnnxCall& c) {
  require_same_types(c);
  return {f(c[0], onnx_operand(c), {})};
}
/// Folds any number of inputs by a binary op.
template <OnnxBinary f>
Tensors onnx_folded(const OnnxCall& c) {
  require_same_types(c);
  Tensor result = c[0];
  for (std::size_t i = 1; i < c.places(); ++i) result = f(result, c[i], {});
  return {result};
}

/// Whole numbers are divided towards zero.
Tensor divided_towards_zero(const Tensor& a, const Tensor& b) {
  const Tensor floor = floor_divide(a, b);
  const Tensor is_below = logical_and(not_equal(floor * b, a), logical_xor(less(a, 0), less(b, 0)));
  return floor + is_below.cast(a.dtype());
}

Tensors read_div(const OnnxCall& c) {
  require_same_types(c);
  const Tensor &a = c[0], b = onnx_operand(c);
  if (a.dtype() == boolean) c.refuse("its inputs are bool");
  return {is_floating(a.dtype()) ? a / b : divided_towards_zero(a, b)};
}

/// The remainder has the divisor's sign, or with `fmod` the dividend's.
Tensors read_mod(const OnnxCall& c) {
  require_same_types(c);
  if (!c.flag("fmod")) return {mod(c[0], c[1])};
  return {sign(c[0]) * mod(abs(c[0]), abs(c[1]))};
}

/// The result has the type of the base.
Tensors read_pow(const OnnxCall& c) { return {power(c[0], onnx_operand(c)).cast(c.dtype())}; }

Tensors read_clip(const OnnxCall& c) {
  Tensor y = c[0], low = c.find(1), high = c.find(2);
  if (c.version() < 11) {
    if (c.has_attr("min")) low = detail::make_scalar(c.real("min", 0), y.dtype());
    if (c.has_attr("max")) high = detail::make_scalar(c.real("max", 0), y.dtype());
  }
  if (bool(low) && bool(high)) {
    // Where low > high, ONNX gives high, and TensorFlow low.
    const bool attributes = c.version() < 11, known = attributes || (c.is_known(1) && c.is_known(2));
    if (!known || (attributes ? low : c.value(1)).item<double>() > (attributes ? high : c.value(2)).item<double>())
      low = minimum(low, high);
    return {clip(y, low, high)};
  }
  if (low) y = maximum(y, low);
  if (high) y = minimum(y, high);
  return {y};
}

Tensors read_is_inf(const OnnxCall& c) {
  const Tensor &x = c[0], infinite = logical_not(logical_or(is_finite(x), is_nan(x)));
  if (!c.flag("detect_positive", true)) return {logical_and(infinite, less(x, 0))};
  return {c.flag("detect_negative", true) ? infinite : logical_and(infinite, greater(x, 0))};
}

/// Before version 6, the type is told by its name.
DType type_to_cast(const OnnxCall& c) {
  if (c.version() >= 6) return c.type("to");
  const std::string name = c.text("to", "");
  for (const auto& [known, dtype] : std::initializer_list<std::pair<std::string_view, DType>>{{"BOOL", boolean},
                                                                                              {"UINT8", uint8},
                                                                                              {"INT32", int32},
                                                                                              {"INT64", int64},
                                                                                              {"FLOAT16", float16},
                                                                                              {"FLOAT", float32},
                                                                                              {"DOUBLE", float64}})
    if (name == known) return dtype;
  c.lack(detail::join("type '", name, "'"));
}
Tensors read_cast(const OnnxCall& c) { return {cast(c[0], type_to_cast(c))}; }
Tensors read_cast_like(const OnnxCall& c) { return {cast(c[0], c.dtype(1))}; }
std::vector<DType> type_of_cast(const OnnxCall& c) { return {type_to_cast(c)}; }
std::vector<DType> type_of_second(const OnnxCall& c) { return {c.dtype(1)}; }

Tensors read_mean(const OnnxCall& c) {
  const Tensor sum = onnx_folded<add>(c)[0];
  return {sum / static_cast<double>(c.places())};
}

Tensors read_where(const OnnxCall& c) {
  require_same_types(c, 1);
  return {where(c[0], c[1], c[2])};
}

Tensors read_identity(const OnnxCall& c) { return {c[0]}; }

// ---- Activations

/// In older versions, parameters of the channels lack the axes behind those.
Tensors read_prelu(const OnnxCall& c) {
  Tensor slope = c[1];
  if (c.version() < 7 && slope.shape().rank() == 1 && slope.shape().sizes()[0] != 1 && c.rank() > 2)
    slope = expand_dims(slope, onnx_range(1, c.rank() - 1));
  return {where(less(c[0], 0), c[0] * slope, c[0])};
}

Tensors read_leaky_relu(const OnnxCall& c) { return {leaky_relu(c[0], c.real("alpha", 0.01))}; }

Tensor onnx_elu(const Tensor& x, double alpha) {
  return alpha == 1 ? elu(x) : where(greater(x, 0), x, alpha * elu(minimum(x, 0)));
}
Tensors read_elu(const OnnxCall& c) { return {onnx_elu(c[0], c.real("alpha", 1))}; }
Tensors read_celu(const OnnxCall& c) {
  const double alpha = c.real("alpha", 1);
  if (alpha > 0) return {alpha * elu(c[0] / alpha)};
  return {where(greater(c[0], 0), c[0], alpha * expm1(minimum(c[0], 0) / alpha))};
}
Tensors read_selu(const OnnxCall& c) {
  return {c.real("gamma", 1.05070102214813232421875) * onnx_elu(c[0], c.real("alpha", 1.67326319217681884765625))};
}
Tensors read_hard_sigmoid(const OnnxCall& c) { return {clip(c.real("alpha", 0.2) * c[0] + c.real("beta", 0.5), 0, 1)}; }
Tensors read_hard_swish(const OnnxCall& c) { return {c[0] * clip(c[0] / 6 + 0.5, 0, 1)}; }
Tensors read_thresholded_relu(const OnnxCall& c) {
  return {where(greater(c[0], c.real("alpha", 1)), c[0], zeros_like(c[0]))};
}
Tensors read_shrink(const OnnxCall& c) {
  const double bias = c.real("bias", 0), limit = c.real("lambd", 0.5);
  const Tensor& x = c[0];
  return {where(greater(x, limit), x - bias, where(less(x, -limit), x + bias, zeros_like(x)))};
}
Tensors read_softsign(const OnnxCall& c) { return {c[0] / (1 + abs(c[0]))}; }
/// Odd around 0, where a logarithm would lose all digits; and farther out nothing is squared that may overflow.
Tensors read_asinh(const OnnxCall& c) {
  const Tensor& x = c[0];
  const Tensor is_near = less(abs(x), 1), near = where(is_near, x, 0.5), far = where(is_near, 1, abs(x));
  return {where(is_near, atanh(near * rsqrt(square(near) + 1)),
                sign(x) * (log(far) + log(1 + sqrt(1 + square(reciprocal(far))))))};
}
Tensors read_gelu(const OnnxCall& c) { return {gelu(c[0], c.text("approximate", "none") == "tanh")}; }
Tensors read_mish(const OnnxCall& c) { return {c[0] * tanh(softplus(c[0]))}; }
Tensors read_swish(const OnnxCall& c) { return {c[0] * sigmoid(c.real("alpha", 1) * c[0])}; }
Tensors read_affine(const OnnxCall& c) { return {c.real("alpha", 1) * c[0] + c.real("beta", 0)}; }
Tensors read_bias_gelu(const OnnxCall& c) { return {gelu(c[0] + c[1])}; }

}  // namespace

OnnxOps onnx_elementwise() {
  return {
      {"Abs", 1, 1, onnx_unary<abs>},
      {"Acos", 1, 1, onnx_unary<acos>},
      {"Acosh", 1, 1, onnx_unary<acosh>},
      {"Asin", 1, 1, onnx_unary<asin>},
      {"Asinh", 1, 1, read_asinh},
      {"Atan", 1, 1, onnx_unary<atan>},
      {"Atanh", 1, 1, onnx_unary<atanh>},
      {"Ceil", 1, 1, onnx_unary<ceil>},
      {"Cos", 1, 1, onnx_unary<cos>},
      {"Cosh", 1, 1, onnx_unary<cosh>},
      {"Erf", 1, 1, onnx_unary<erf>},
      {"Exp", 1, 1, onnx_unary<exp>},
      {"Floor", 1, 1, onnx_unary<floor>},
      {"Identity", 1, 1, read_identity},
      {"IsInf", 1, 1, read_is_inf, {}, nullptr, onnx_type_bool},
      {"IsNaN", 1, 1, onnx_unary<is_nan>, {}, nullptr, onnx_type_bool},
      {"Log", 1, 1, onnx_unary<log>},
      {"Neg", 1, 1, onnx_unary<negative>},
      {"Not", 1, 1, onnx_unary<logical_not>},
      {"Reciprocal", 1, 1, onnx_unary<reciprocal>},
      {"Round", 1, 1, onnx_unary<round>},
      {"Sign", 1, 1, onnx_unary<sign>},
      {"Sin", 1, 1, onnx_unary<sin>},
      {"Sinh", 1, 1, onnx_unary<sinh>},
      {"Sqrt", 1, 1, onnx_unary<sqrt>},
      {"Tan", 1, 1, onnx_unary<tan>},
      {"Tanh", 1, 1, onnx_unary<tanh>},
      {"Cast", 1, 1, read_cast, {}, nullptr, type_of_cast},
      {"CastLike", 2, 2, read_cast_like, {}, nullptr, type_of_second},

      {"Add", 2, 2, onnx_binary<add>},
      {"And", 2, 2, onnx_binary<logical_and>},
      {"Div", 2, 2, read_div},
      {"Equal", 2, 2, onnx_binary<equal>, {}, nullptr, onnx_type_bool},
      {"Greater", 2, 2, onnx_binary<greater>, {}, nullptr, onnx_type_bool},
      {"GreaterOrEqual", 2, 2, onnx_binary<greater_equal>, {}, nullptr, onnx_type_bool},
      {"Less", 2, 2, onnx_binary<less>, {}, nullptr, onnx_type_bool},
      {"LessOrEqual", 2, 2, onnx_binary<less_equal>, {}, nullptr, onnx_type_bool},
      {"Mod", 2, 2, read_mod},
      {"Mul", 2, 2, onnx_binary<multiply>},
      {"Or", 2, 2, onnx_binary<logical_or>},
      {"Pow", 2, 2, read_pow},
      {"Sub", 2, 2, onnx_binary<subtract>},
      {"Xor", 2, 2, onnx_binary<logical_xor>},
      {"Max", 1, any_inputs, onnx_folded<maximum>},
      {"Min", 1, any_inputs, onnx_folded<minimum>},
      {"Sum", 1, any_inputs, onnx_folded<add>},
      {"Mean", 1, any_inputs, read_mean},
      {"Where", 3, 3, read_where, {}, nullptr, type_of_second},
      {"Clip", 1, 3, read_clip},

      {"Celu", 1, 1, read_celu},
      {"Elu", 1, 1, read_elu},
      {"Gelu", 1, 1, read_gelu},
      {"HardSigmoid", 1, 1, read_hard_sigmoid},
      {"HardSwish", 1, 1, read_hard_swish},
      {"LeakyRelu", 1, 1, read_leaky_relu},
      {"Mish", 1, 1, read_mish},
      {"PRelu", 2, 2, read_prelu},
      {"Relu", 1, 1, onnx_unary<relu>},
      {"Selu", 1, 1, read_selu},
      {"Shrink", 1, 1, read_shrink},
      {"Sigmoid", 1, 1, onnx_unary<sigmoid>},
      {"Softplus", 1, 1, onnx_unary<softplus>},
      {"Softsign", 1, 1, read_softsign},
      {"Swish", 1, 1, read_swish},
      {"ThresholdedRelu", 1, 1, read_thresholded_relu},
      {"Affine", 1, 1, read_affine},
      {"com.microsoft::Gelu", 1, 1, read_gelu},
      {"com.microsoft::BiasGelu", 2, 2, read_bias_gelu},
  };
}

}  // namespace tapestry::io
