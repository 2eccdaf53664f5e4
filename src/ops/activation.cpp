#include <numbers>

#include "ops/unary_op.hpp"
#include "tapestry/ops/math.hpp"

TAPESTRY_OP_FAMILY(activation)

namespace tapestry {

namespace {

/// dy * y * (1 - y)
TAPESTRY_OP(sigmoid_grad_op){{
    .name = "SigmoidGrad",
    .infer = broadcast_of<float_types>,
    .forward = elementwise([](const Call&) -> Elementwise {
      return {.function = Binary::sigmoid_grad, .inputs = {1, 0}};
    }),
    .composition = [](const Call& call) -> Tensors {
      const Tensor &y = call.input(0), &dy = call.input(1);
      return {dy * y * (1.0 - y)};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor &y = call.input(0), &dy = call.input(1);
      return wanted(
          call, [&] { return g * dy * (1.0 - 2.0 * y); },
          [&] {
            return apply(call.op(), {y, g});
          });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
}};

/// dy * (1 - y * y)
TAPESTRY_OP(tanh_grad_op){{
    .name = "TanhGrad",
    .infer = broadcast_of<float_types>,
    .forward = elementwise([](const Call&) -> Elementwise {
      return {.function = Binary::tanh_grad, .inputs = {1, 0}};
    }),
    .composition = [](const Call& call) -> Tensors {
      const Tensor &y = call.input(0), &dy = call.input(1);
      return {dy * (1.0 - square(y))};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor &y = call.input(0), &dy = call.input(1);
      return wanted(
          call, [&] { return -2.0 * g * dy * y; },
          [&] {
            return apply(call.op(), {y, g});
          });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
}};

/// g where y (or x) is positive
TAPESTRY_OP(relu_grad_op){{
    .name = "ReluGrad",
    .infer = broadcast_of<number_types>,
    .forward = binary<Binary::relu_grad>,
    .composition = [](const Call& call) -> Tensors { return {where(greater(call.input(1), 0), call.input(0), 0)}; },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(call.op(), {g, call.input(1)}), Tensor()};
    },
    .promotion = common_type,
    .needs = {2, 0},
    .broadcasts = true,
}};

/// g * sigmoid(x)
TAPESTRY_OP(softplus_grad_op){{
    .name = "SoftplusGrad",
    .infer = broadcast_of<float_types>,
    .forward = binary<Binary::softplus_grad>,
    .composition = [](const Call& call) -> Tensors { return {call.input(0) * sigmoid(call.input(1))}; },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor &dy = call.input(0), &x = call.input(1);
      return wanted(
          call,
          [&] {
            return apply(call.op(), {g, x});
          },
          [&] {
            return apply(sigmoid_grad_op, {sigmoid(x), g * dy});
          });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
}};

/// g where y is positive, g * (y + 1) elsewhere
TAPESTRY_OP(elu_grad_op){{
    .name = "EluGrad",
    .infer = broadcast_of<float_types>,
    .forward = binary<Binary::elu_grad>,
    .composition = [](const Call& call) -> Tensors {
      const Tensor &dy = call.input(0), &y = call.input(1);
      return {where(greater(y, 0.0), dy, dy * (y + 1.0))};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor &dy = call.input(0), &y = call.input(1);
      return wanted(
          call,
          [&] {
            return apply(call.op(), {g, y});
          },
          [&] { return where(less(y, 0.0), g * dy, 0.0); });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
}};

/// g where x is positive, alpha * g elsewhere
TAPESTRY_OP(leaky_relu_grad_op){{
    .name = "LeakyReluGrad",
    .attrs = {{"alpha", AttrKind::real}},
    .infer = broadcast_of<float_types>,
    .forward = elementwise([](const Call& call) -> Elementwise {
      return {.function = Binary::leaky_relu_grad, .number = call.attr<double>("alpha")};
    }),
    .composition = [](const Call& call) -> Tensors {
      const Tensor& dy = call.input(0);
      return {where(greater(call.input(1), 0.0), dy, call.attr<double>("alpha") * dy)};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(call.op(), {g, call.input(1)}, call.attrs()), Tensor()};
    },
    .promotion = common_type,
    .needs = {2, 0},
    .broadcasts = true,
}};

}  // namespace

// clang-format off
TAPESTRY_FLOAT_UNARY(sigmoid,  "Sigmoid",  needs_outputs, apply(sigmoid_grad_op, {y, std::move(g)}))
TAPESTRY_FLOAT_UNARY(tanh,     "Tanh",     needs_outputs, apply(tanh_grad_op, {y, std::move(g)}))
TAPESTRY_NUMBER_UNARY(relu,    "Relu",     needs_outputs, apply(relu_grad_op, {std::move(g), y}))
TAPESTRY_FULL_UNARY(softplus, "Softplus", needs_inputs,  apply(softplus_grad_op, {std::move(g), x}))
TAPESTRY_FLOAT_UNARY(elu,      "Elu",      needs_outputs, apply(elu_grad_op, {std::move(g), y}))
// clang-format on

namespace {

TAPESTRY_OP(leaky_relu_op){{
    .name = "LeakyRelu",
    .attrs = {{"alpha", AttrKind::real}},
    .infer = same_shape_of<float_types>,
    .forward = elementwise([](const Call& call) -> Elementwise {
      return {.function = Unary::leaky_relu, .number = call.attr<double>("alpha")};
    }),
    .composition = [](const Call& call) -> Tensors {
      const Tensor& x = call.input(0);
      return {where(greater(x, 0.0), x, call.attr<double>("alpha") * x)};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(leaky_relu_grad_op, {g, call.input(0)}, call.attrs())};
    },
    .promotion = floating_type,
    .needs = needs_inputs,
}};

/// Phi(x) = (1 + erf(x / sqrt(2))) / 2, the distribution function of the normal distribution; gelu(x) = x * Phi(x).
Tensor normal_distribution(const Tensor& x) { return 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2))); }

/// The derivative of x * Phi(x): Phi(x) + x * phi(x).
Tensor gelu_slope(const Tensor& x) {
  const Tensor density = (std::numbers::inv_sqrtpi / std::numbers::sqrt2) * exp(-0.5 * square(x));
  return normal_distribution(x) + x * density;
}

/// g * gelu'(x)
TAPESTRY_OP(gelu_grad_op){{
    .name = "GeluGrad",
    .infer = broadcast_of<float_types>,
    .forward = binary<Binary::gelu_grad>,
    .composition = [](const Call& call) -> Tensors { return {call.input(0) * gelu_slope(call.input(1))}; },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
}};

/// The tanh form is 0.5 x (1 + tanh u) with u = c (x + cubic * x^3), c = sqrt(2 / pi).
constexpr double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, cubic = 0.044715;
Tensor gelu_tanh(const Tensor& x) { return tanh(c * (x + cubic * x * square(x))); }

/// The derivative of the tanh form.
Tensor gelu_tanh_slope(const Tensor& input) {
  // Beyond, tanh is 1 or -1 in every type, and its derivative 0, which x^2 must not meet as infinity.
  const Tensor x = clip(input, -16, 16), t = gelu_tanh(x);
  const Tensor du = c * (1.0 + 3 * cubic * square(x));
  return 0.5 * (1.0 + t + x * (1.0 - square(t)) * du);
}

TAPESTRY_OP(gelu_op){{
    .name = "Gelu",
    .attrs = {{"approximate", AttrKind::flag}},
    .infer = same_shape_of<float_types>,
    .forward = elementwise([](const Call& call) -> Elementwise {
      return {.function = call.attr<bool>("approximate") ? Unary::gelu_tanh : Unary::gelu};
    }),
    .composition = [](const Call& call) -> Tensors {
      const Tensor& x = call.input(0);
      return {x * (call.attr<bool>("approximate") ? 0.5 * (1.0 + gelu_tanh(x)) : normal_distribution(x))};
    },
    .gradient = [](const Call& call, Tensor g) -> Tensors {
      const Tensor& x = call.input(0);
      return {call.attr<bool>("approximate") ? std::move(g) * gelu_tanh_slope(x)
                                             : apply(gelu_grad_op, {std::move(g), x})};
    },
    .promotion = floating_type,
    .needs = needs_inputs,
}};

/// The derivative of x * s, s = sigmoid(x): s + x * s * (1 - s).
Tensor silu_slope(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s * (1.0 + x * (1.0 - s));
}

}  // namespace

// clang-format off
TAPESTRY_FLOAT_UNARY(silu, "Silu", needs_inputs, std::move(g) * silu_slope(x), x * sigmoid(x))
// clang-format on

Tensor leaky_relu(In x, double alpha, std::string_view name) {
  return apply(leaky_relu_op, {std::move(x)}, {{"alpha", alpha}}, name);
}
Tensor gelu(In x, bool approximate, std::string_view name) {
  return apply(gelu_op, {std::move(x)}, {{"approximate", approximate}}, name);
}

}  // namespace tapestry
