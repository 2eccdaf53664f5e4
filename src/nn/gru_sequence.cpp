#include "nn/gru_sequence.hpp"

#include <array>

#include "backend/views.hpp"
#include "nn/sequence_op.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(gru_sequence)

namespace tapestry {
namespace {

// The gates of a step are those that reset (r) and update (z) the state. With u = h W^T + bias: r, z = sigmoid(x_r +
// u_r), sigmoid(x_z + u_z), the candidate is n = tanh(x_n + r u_n), and h becomes n + z (h - n). A step is a product of
// matrices and one program. The gradient needs r, z, n and u_n, which are the op's second output.

constexpr std::int64_t gru_gates = 3, gru_parts = 4;

// ---- Programs -----------------------------------------------------------------------------------------------------------

/// (three parts of h W^T, of from_input and of the bias, h before) -> (r, z, n, u_n, h)
Program gru_program(DType dtype) {
  ProgramWriter p(dtype, 10, 5, 0);
  const int before = p.input(9), r = p.output(0), z = p.output(1), n = p.output(2), u = p.output(3), h = p.output(4);
  const std::array<int, gru_gates> from_state{r, z, u};
  for (int gate = 0; gate < gru_gates; ++gate)
    p.add(from_state[static_cast<std::size_t>(gate)], Binary::add, p.input(gate), p.input(6 + gate));
  for (int gate = 0; gate < 2; ++gate) {
    p.add(p.output(gate), Binary::add, p.input(3 + gate), p.output(gate));
    p.add(p.output(gate), Unary::sigmoid, p.output(gate));
  }
  p.add(n, Binary::multiply, r, u);
  p.add(n, Binary::add, p.input(5), n);
  p.add(n, Unary::tanh, n);
  p.add(h, Binary::subtract, before, n);
  p.add(h, Binary::multiply, z, h);
  p.add(h, Binary::add, n, h);
  return p.program();
}

/// (r, z, n, u_n, h before, gradients: of h thrice, of r, z, n and u_n) -> (gradients of x_r and u_r, of x_z and u_z,
/// of x_n, of u_n, of h before where it is no factor of the product)
Program gru_gradient_program(DType dtype) {
  ProgramWriter p(dtype, 12, 5, 1);
  const int r = p.input(0), z = p.input(1), n = p.input(2), u = p.input(3), before = p.input(4);
  const int of_r = p.output(0), of_z = p.output(1), of_n = p.output(2), of_u = p.output(3), of_before = p.output(4);
  const int of_h = p.temporary(0);
  p.add(of_h, Binary::add, p.input(5), p.input(6));
  p.add(of_h, Binary::add, of_h, p.input(7));
  p.add(of_z, Binary::subtract, before, n);
  p.add(of_z, Binary::multiply, of_h, of_z);
  p.add(of_z, Binary::add, of_z, p.input(9));
  p.add(of_z, Binary::sigmoid_grad, of_z, z);
  p.add(of_before, Binary::multiply, of_h, z);
  p.add(of_n, Binary::subtract, of_h, of_before);
  p.add(of_n, Binary::add, of_n, p.input(10));
  p.add(of_n, Binary::tanh_grad, of_n, n);
  p.add(of_r, Binary::multiply, of_n, u);
  p.add(of_r, Binary::add, of_r, p.input(8));
  p.add(of_r, Binary::sigmoid_grad, of_r, r);
  p.add(of_u, Binary::multiply, of_n, r);
  p.add(of_u, Binary::add, of_u, p.input(11));
  return p.program();
}

// ---- Sizes --------------------------------------------------------------------------------------------------------------

struct GRUSizes {
  std::int64_t batch, time, hidden, columns;
};

GRUSizes gru_sizes(const Call& call) {
  const Tensor &from_input = call.input(0), &weight = call.input(1), &bias = call.input(2), &first = call.input(3);
  require_type(from_input, float_types);
  constexpr std::array<int, 4> ranks{3, 2, 1, 2};
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (call.input(i).rank() != ranks[i])
      throw InvalidArgumentError(
          detail::join("Input ", i, " must have ", ranks[i], " dimensions: ", call.input(i).shape()));
  const auto known = [](std::int64_t size, std::int64_t same) { return size < 0 ? same : size; };
  GRUSizes s{known(from_input.shape().sizes()[0], first.shape().sizes()[0]), from_input.shape().sizes()[1],
             weight.shape().sizes()[1], -1};
  // A gradient's other inputs may know more.
  if (call.inputs().size() > 4 && call.input(5).rank() == 4) s.batch = known(s.batch, call.input(5).shape().sizes()[2]);
  if (s.time == 0) throw InvalidArgumentError("There must be at least one time step");
  if (s.hidden >= 0) s.columns = multiply_sizes(gru_gates, s.hidden);
  require_same_shape(from_input.shape(), {s.batch, s.time, s.columns});
  require_same_shape(weight.shape(), {s.columns, s.hidden});
  require_same_shape(bias.shape(), {s.columns});
  require_same_shape(first.shape(), {s.batch, s.hidden});
  return s;
}

// ---- Composition --------------------------------------------------------------------------------------------------------

/// What one step computes.
struct GRUStep {
  Tensor h;
  std::array<Tensor, gru_parts> parts;  ///< r, z, n, u_n
};

GRUStep composed_gru_step(const Tensor& from_input, const Tensor& weight, const Tensor& bias, const Tensor& before) {
  const Tensor from_state = matmul(before, weight, {.transpose_b = true}) + bias;
  // The weight's columns tell a number of rows that is not known.
  const std::int64_t hidden = weight.shape().sizes()[1];
  const std::vector<Tensor> x = split(from_input, gru_gates, -1),
                            u = hidden < 0 ? split(from_state, gru_gates, -1)
                                           : split(from_state, {hidden, hidden, hidden}, -1);
  const Tensor r = sigmoid(x[0] + u[0]), z = sigmoid(x[1] + u[1]), n = tanh(x[2] + r * u[2]);
  return {n + z * (before - n), {r, z, n, u[2]}};
}

Tensors compose_gru(const Call& call) {
  const auto step = [&](const Tensors& x) -> Tensors {
    const GRUStep now = composed_gru_step(x[1], call.input(1), call.input(2), x[0]);
    return {now.h, now.h, stack(now.parts)};
  };
  const Tensors results = go_through(step, {call.input(3)}, {by_time(call.input(0))}, false);
  return {by_time(results[1]), results[2]};
}

/// Computes the steps again instead of reading them from the call, so that its own gradient is complete.
Tensors compose_gru_gradient(const Call& call) {
  const Tensor &weight = call.input(1), &bias = call.input(2), &of_h = call.input(6), &of_parts = call.input(7);
  const auto forward = [&](const Tensors& x) -> Tensors {
    const GRUStep now = composed_gru_step(x[1], weight, bias, x[0]);
    return {now.h, x[0], stack(now.parts)};
  };
  const Tensors before = go_through(forward, {call.input(3)}, {by_time(call.input(0))}, false);
  const auto backward = [&](const Tensors& x) -> Tensors {
    const Tensor &h_before = x[3], &of_part = x[6];
    const std::vector<Tensor> part = unstack(x[4]);
    const Tensor &r = part[0], &z = part[1], &n = part[2], &u = part[3];
    const Tensor h = x[0] + x[5];
    const Tensor of_n = (h * (1 - z) + of_part(2)) * (1 - square(n));
    const Tensor of_r = (of_n * u + of_part(0)) * steepness(r);
    const Tensor of_z = (h * (h_before - n) + of_part(1)) * steepness(z);
    const Tensor of_state = concat({of_r, of_z, of_n * r + of_part(3)}, -1);
    return {h * z + matmul(of_state, weight), x[1] + matmul(of_state, h_before, {.transpose_a = true}),
            x[2] + reduce_sum(of_state, 0), concat({of_r, of_z, of_n}, -1)};
  };
  // What is not known of one input another one may tell.
  const Tensor state = zeros_like(call.input(3).shape().sizes()[0] < 0 ? of_parts(0, 0) : call.input(3));
  const Tensor of_weight = zeros_of_weight(weight, gru_gates);
  const Tensors results = go_through(backward, {state, of_weight, zeros_like(of_weight(all, 0))},
                                     {before[1], before[2], by_time(of_h), of_parts}, true);
  return {by_time(results[3]), results[1], results[2], results[0]};
}

// ---- The ops ------------------------------------------------------------------------------------------------------------

void run_gru(Backend& backend, const Call& call) {
  const Tensor &from_input = call.input(0), &bias = call.input(2), &h = call.output(0), &parts = call.output(1);
  const GRUSizes s = gru_sizes(call);
  const auto make = [&](const Shape& shape) { return detail::make_tensor(h.dtype(), shape, h.device()); };
  const Tensor product = make({s.batch, s.columns}), turned = turned_weight(backend, call.input(1));
  const Program program = gru_program(h.dtype());
  for (std::int64_t t = 0; t < s.time; ++t) {
    const Tensor before = t == 0 ? call.input(3) : view_at(h, 1, t - 1);
    backend.gemm(before, turned, false, false, product);
    const Tensor input = view_at(from_input, 1, t), part = view_at(parts, 0, t);
    std::array<Tensor, 10> inputs;
    std::array<Tensor, 5> outputs;
    for (std::int64_t gate = 0; gate < gru_gates; ++gate) {
      inputs[gate] = of_gate(product, gate, gru_gates);
      inputs[3 + gate] = of_gate(input, gate, gru_gates);
      inputs[6 + gate] = view_part(bias, 0, gate * s.hidden, s.hidden);
    }
    inputs[9] = before;
    for (std::int64_t i = 0; i < gru_parts; ++i) outputs[i] = view_at(part, 0, i);
    outputs[4] = view_at(h, 1, t);
    backend.program(program, inputs, outputs);
  }
}

/// Inputs: those of the op, its outputs, and the gradients of its outputs.
void run_gru_gradient(Backend& backend, const Call& call) {
  const Tensor &weight = call.input(1), &h = call.input(4), &parts = call.input(5);
  const Tensor &of_input = call.output(0), &of_weight = call.output(1), &of_bias = call.output(2),
               &of_first = call.output(3);
  const GRUSizes s = gru_sizes(call);
  const auto make = [&](const Shape& shape) { return detail::make_tensor(h.dtype(), shape, h.device()); };
  const Shape state{s.batch, s.hidden};
  const Tensor of_state = make({s.batch, s.time, s.columns}), by_product = make(state);
  Tensor direct = make(state), direct_before = make(state);
  backend.fill(0, by_product);
  backend.fill(0, direct);
  const Program program = gru_gradient_program(h.dtype());
  for (std::int64_t t = s.time - 1; t >= 0; --t) {
    const Tensor part = view_at(parts, 0, t), of_part = view_at(call.input(7), 0, t),
                 of_input_now = view_at(of_input, 1, t), of_state_now = view_at(of_state, 1, t);
    std::array<Tensor, 12> inputs;
    std::array<Tensor, 5> outputs;
    for (std::int64_t i = 0; i < gru_parts; ++i) {
      inputs[i] = view_at(part, 0, i);
      inputs[8 + i] = view_at(of_part, 0, i);
    }
    inputs[4] = t == 0 ? call.input(3) : view_at(h, 1, t - 1);
    inputs[5] = view_at(call.input(6), 1, t);
    inputs[6] = direct;
    inputs[7] = by_product;
    // The gradients of r and z are those of both sums.
    for (std::int64_t gate = 0; gate < 2; ++gate) outputs[gate] = of_gate(of_state_now, gate, gru_gates);
    outputs[2] = of_gate(of_input_now, 2, gru_gates);
    outputs[3] = of_gate(of_state_now, 2, gru_gates);
    outputs[4] = direct_before;
    backend.program(program, inputs, outputs);
    std::swap(direct, direct_before);
    backend.copy(view_part(of_state_now, 1, 0, 2 * s.hidden), view_part(of_input_now, 1, 0, 2 * s.hidden));
    backend.gemm(of_state_now, weight, false, false, by_product);
  }
  backend.binary(Binary::add, direct, by_product, 0, of_first);

  // All steps share one product, and one sum.
  const Tensor rows = view_as(of_state, {s.batch * s.time, s.columns});
  const Tensor before = states_before(backend, call.input(3), h);
  backend.gemm(rows, view_as(before, {s.batch * s.time, s.hidden}), true, false, of_weight);
  backend.reduce(ReduceFunction::sum, rows, 1, of_bias);
}

Specs infer_gru(const Call& call) {
  const GRUSizes s = gru_sizes(call);
  const DType dtype = call.input(0).dtype();
  return {{dtype, {s.batch, s.time, s.hidden}}, {dtype, {s.time, gru_parts, s.batch, s.hidden}}};
}

TAPESTRY_OP(gru_sequence_grad_op){{
    .name = "GRUSequenceGrad",
    .infer = [](const Call& call) -> Specs {
      const Specs outputs = infer_gru(call);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        for (const std::size_t first : {4, 6}) require_same_shape(call.input(first + i).shape(), outputs[i].shape);
      const GRUSizes s = gru_sizes(call);
      const DType dtype = call.input(0).dtype();
      return {{dtype, {s.batch, s.time, s.columns}},
              {dtype, {s.columns, s.hidden}},
              {dtype, {s.columns}},
              {dtype, {s.batch, s.hidden}}};
    },
    .forward = run_gru_gradient,
    .composition = compose_gru_gradient,
    .promotion = common_type,
    .outputs = 4,
}};

TAPESTRY_OP(gru_sequence_op){{
    .name = "GRUSequence",
    .infer = infer_gru,
    .forward = run_gru,
    .composition = compose_gru,
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      Tensors inputs = call.inputs();
      for (const Tensor& output : call.outputs()) inputs.push_back(output);
      for (std::size_t i = 0; i < g.size(); ++i) inputs.push_back(g[i] ? g[i] : nothing_like(call.output(i)));
      return apply_all(gru_sequence_grad_op, inputs, {}, {}, call.where());
    },
    .promotion = floating_type,
    .precision = Precision::low,
    .outputs = 2,
}};

}  // namespace

Tensor gru_sequence(const Tensor& from_input, const Tensor& weight, const Tensor& bias, const Tensor& h) {
  return apply_all(gru_sequence_op, {from_input, weight, bias, h}, {}, {}, {})[0];
}

}  // namespace tapestry
