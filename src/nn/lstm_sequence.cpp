#include "nn/lstm_sequence.hpp"

#include <array>

#include "backend/views.hpp"
#include "nn/sequence_op.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"

TAPESTRY_OP_FAMILY(lstm_sequence)

namespace tapestry {
namespace {

// The gates of a step are those of the input (i), of forgetting (f), of the cell (g) and of the output (o). With z =
// from_input + h W^T: i, f, o = sigmoid(z_i, z_f, z_o) and g = tanh(z_g); then c becomes f c + i g, and h becomes
// o tanh(c). A step is a product of matrices and one program.

constexpr std::int64_t gates = 4;

// ---- Programs -----------------------------------------------------------------------------------------------------------

/// (four parts of h W^T, four parts of from_input, c before) -> (i, f, g, o, c, h)
Program step_program(DType dtype) {
  ProgramWriter p(dtype, 9, 6, 1);
  const int c_before = p.input(8), i = p.output(0), f = p.output(1), g = p.output(2), o = p.output(3);
  const int c = p.output(4), h = p.output(5), product = p.temporary(0);
  for (int gate = 0; gate < gates; ++gate) {
    p.add(p.output(gate), Binary::add, p.input(4 + gate), p.input(gate));
    p.add(p.output(gate), gate == 2 ? Unary::tanh : Unary::sigmoid, p.output(gate));
  }
  p.add(product, Binary::multiply, i, g);
  p.add(c, Binary::multiply, f, c_before);
  p.add(c, Binary::add, c, product);
  p.add(product, Unary::tanh, c);
  p.add(h, Binary::multiply, o, product);
  return p.program();
}

/// (i, f, g, o, c before, c, gradients: of h twice, of c twice, of the four gates) -> (gradients of the four parts of
/// z, of c before)
Program step_gradient_program(DType dtype) {
  ProgramWriter p(dtype, 14, 5, 3);
  const int i = p.input(0), f = p.input(1), g = p.input(2), o = p.input(3), c_before = p.input(4), c = p.input(5);
  const int of_h = p.temporary(0), of_c = p.temporary(1), bent = p.temporary(2);
  p.add(of_h, Binary::add, p.input(6), p.input(7));
  p.add(of_c, Binary::add, p.input(8), p.input(9));
  p.add(bent, Unary::tanh, c);
  p.add(p.output(3), Binary::multiply, of_h, bent);
  p.add(of_h, Binary::multiply, of_h, o);
  p.add(of_h, Binary::tanh_grad, of_h, bent);
  p.add(of_c, Binary::add, of_c, of_h);
  p.add(p.output(0), Binary::multiply, of_c, g);
  p.add(p.output(1), Binary::multiply, of_c, c_before);
  p.add(p.output(2), Binary::multiply, of_c, i);
  for (int gate = 0; gate < gates; ++gate) {
    p.add(p.output(gate), Binary::add, p.output(gate), p.input(10 + gate));
    p.add(p.output(gate), gate == 2 ? Binary::tanh_grad : Binary::sigmoid_grad, p.output(gate), p.input(gate));
  }
  p.add(p.output(4), Binary::multiply, of_c, f);
  return p.program();
}

struct Sizes {
  std::int64_t batch, time, hidden;
};

Sizes sizes_of(const Call& call) {
  const Tensor &from_input = call.input(0), &weight = call.input(1);
  require_type(from_input, float_types);
  for (const std::size_t i : {0, 1, 2, 3})
    if (call.input(i).rank() != (i == 0 ? 3 : 2))
      throw InvalidArgumentError(
          detail::join("Input ", i, " must have ", i == 0 ? 3 : 2, " dimensions: ", call.input(i).shape()));
  const auto known = [](std::int64_t size, std::int64_t same) { return size < 0 ? same : size; };
  Sizes s{
      known(from_input.shape().sizes()[0], known(call.input(2).shape().sizes()[0], call.input(3).shape().sizes()[0])),
      from_input.shape().sizes()[1], weight.shape().sizes()[1]};
  // A gradient's other inputs may know more.
  if (call.inputs().size() > 4 && call.input(5).rank() == 3) s.batch = known(s.batch, call.input(5).shape().sizes()[1]);
  if (s.time == 0) throw InvalidArgumentError("There must be at least one time step");
  const std::int64_t columns = s.hidden < 0 ? -1 : multiply_sizes(gates, s.hidden);
  require_same_shape(from_input.shape(), {s.batch, s.time, columns});
  require_same_shape(weight.shape(), {columns, s.hidden});
  for (const std::size_t i : {2, 3}) require_same_shape(call.input(i).shape(), {s.batch, s.hidden});
  return s;
}

// ---- Composition --------------------------------------------------------------------------------------------------------

/// What one step computes.
struct Step {
  Tensor h, c;
  std::array<Tensor, gates> activated;  ///< i, f, g, o
};

Step composed_step(const Tensor& from_input, const Tensor& weight, const Tensor& h_before, const Tensor& c_before) {
  const std::vector<Tensor> z = split(from_input + matmul(h_before, weight, {.transpose_b = true}), gates, -1);
  const Tensor i = sigmoid(z[0]), f = sigmoid(z[1]), g = tanh(z[2]), o = sigmoid(z[3]);
  const Tensor c = f * c_before + i * g;
  return {o * tanh(c), c, {i, f, g, o}};
}

Tensors compose_sequence(const Call& call) {
  const auto step = [&](const Tensors& x) -> Tensors {
    const Step now = composed_step(x[2], call.input(1), x[0], x[1]);
    return {now.h, now.c, now.h, now.c, stack(now.activated)};
  };
  const Tensors results = go_through(step, {call.input(2), call.input(3)}, {by_time(call.input(0))}, false);
  return {by_time(results[2]), results[3], results[4]};
}

/// Computes h, c and the gates again instead of reading them from the call, so that its own gradient is complete.
Tensors compose_gradient(const Call& call) {
  const Tensor &weight = call.input(1), &of_h = call.input(7), &of_c = call.input(8), &of_gates = call.input(9);
  const auto forward = [&](const Tensors& x) -> Tensors {
    const Step now = composed_step(x[2], weight, x[0], x[1]);
    return {now.h, now.c, x[0], x[1], now.c, stack(now.activated)};
  };
  const Tensors before = go_through(forward, {call.input(2), call.input(3)}, {by_time(call.input(0))}, false);
  const auto backward = [&](const Tensors& x) -> Tensors {
    const Tensor &h_before = x[3], &c_before = x[4], &c_now = x[5], &of_activated = x[9];
    const std::vector<Tensor> gate = unstack(x[6]);
    const Tensor &i = gate[0], &f = gate[1], &g = gate[2], &o = gate[3];
    const Tensor bent = tanh(c_now), h = x[0] + x[7];
    const Tensor c = x[1] + x[8] + h * o * (1 - square(bent));
    const Tensor of_z =
        concat({(c * g + of_activated(0)) * steepness(i), (c * c_before + of_activated(1)) * steepness(f),
                (c * i + of_activated(2)) * (1 - square(g)), (h * bent + of_activated(3)) * steepness(o)},
               -1);
    return {matmul(of_z, weight), c * f, x[2] + matmul(of_z, h_before, {.transpose_a = true}), of_z};
  };
  // What is not known of one input another one may tell.
  const Tensor state = zeros_like(call.input(2).shape().sizes()[0] < 0 ? of_c(0) : call.input(2));
  const Tensors results = go_through(backward, {state, state, zeros_of_weight(weight, gates)},
                                     {before[2], before[3], before[4], before[5], by_time(of_h), of_c, of_gates}, true);
  return {by_time(results[3]), results[2], results[0], results[1]};
}

// ---- The ops ------------------------------------------------------------------------------------------------------------

void run_sequence(Backend& backend, const Call& call) {
  const Tensor &from_input = call.input(0), &weight = call.input(1), &h = call.output(0), &c = call.output(1),
               &all_gates = call.output(2);
  const Sizes s = sizes_of(call);
  const auto make = [&](const Shape& shape) { return detail::make_tensor(h.dtype(), shape, h.device()); };
  const Tensor z = make({s.batch, gates * s.hidden});
  const Program program = step_program(h.dtype());
  const Tensor turned = turned_weight(backend, weight);
  for (std::int64_t t = 0; t < s.time; ++t) {
    backend.gemm(t == 0 ? call.input(2) : view_at(h, 1, t - 1), turned, false, false, z);
    const Tensor input = view_at(from_input, 1, t), activated = view_at(all_gates, 0, t);
    std::array<Tensor, 9> inputs;
    std::array<Tensor, 6> outputs;
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      inputs[gate] = of_gate(z, gate, gates);
      inputs[4 + gate] = of_gate(input, gate, gates);
      outputs[gate] = view_at(activated, 0, gate);
    }
    inputs[8] = t == 0 ? call.input(3) : view_at(c, 0, t - 1);
    outputs[4] = view_at(c, 0, t);
    outputs[5] = view_at(h, 1, t);
    backend.program(program, inputs, outputs);
  }
}

/// Inputs: those of the op, its outputs, and the gradients of its outputs.
void run_gradient(Backend& backend, const Call& call) {
  const Tensor &weight = call.input(1), &h = call.input(4), &c = call.input(5), &all_gates = call.input(6);
  const Tensor &of_z = call.output(0), &of_weight = call.output(1), &of_h0 = call.output(2), &of_c0 = call.output(3);
  const Sizes s = sizes_of(call);
  const auto make = [&](const Shape& shape) { return detail::make_tensor(h.dtype(), shape, h.device()); };
  const Shape state{s.batch, s.hidden};
  Tensor of_c = make(state), of_c_before = of_c0;
  if (s.time % 2 == 0) std::swap(of_c, of_c_before);  // they change places at each step
  backend.fill(0, of_h0);
  backend.fill(0, of_c);
  const Program program = step_gradient_program(h.dtype());
  for (std::int64_t t = s.time - 1; t >= 0; --t) {
    std::array<Tensor, 14> inputs;
    std::array<Tensor, 5> outputs;
    const Tensor activated = view_at(all_gates, 0, t), of_activated = view_at(call.input(9), 0, t),
                 of_z_now = view_at(of_z, 1, t);
    for (std::int64_t gate = 0; gate < gates; ++gate) {
      inputs[gate] = view_at(activated, 0, gate);
      inputs[10 + gate] = view_at(of_activated, 0, gate);
      outputs[gate] = of_gate(of_z_now, gate, gates);
    }
    inputs[4] = t == 0 ? call.input(3) : view_at(c, 0, t - 1);
    inputs[5] = view_at(c, 0, t);
    inputs[6] = view_at(call.input(7), 1, t);
    inputs[7] = of_h0;
    inputs[8] = view_at(call.input(8), 0, t);
    inputs[9] = of_c;
    outputs[4] = of_c_before;
    backend.program(program, inputs, outputs);
    std::swap(of_c, of_c_before);
    backend.gemm(of_z_now, weight, false, false, of_h0);
  }

  // All steps share one product.
  const Tensor before = states_before(backend, call.input(2), h);
  backend.gemm(view_as(of_z, {s.batch * s.time, gates * s.hidden}), view_as(before, {s.batch * s.time, s.hidden}), true,
               false, of_weight);
}

Specs infer_sequence(const Call& call) {
  const Sizes s = sizes_of(call);
  const DType dtype = call.input(0).dtype();
  return {{dtype, {s.batch, s.time, s.hidden}},
          {dtype, {s.time, s.batch, s.hidden}},
          {dtype, {s.time, gates, s.batch, s.hidden}}};
}

TAPESTRY_OP(lstm_sequence_grad_op){{
    .name = "LSTMSequenceGrad",
    .infer = [](const Call& call) -> Specs {
      const Specs outputs = infer_sequence(call);
      for (std::size_t i = 0; i < outputs.size(); ++i)
        for (const std::size_t first : {4, 7}) require_same_shape(call.input(first + i).shape(), outputs[i].shape);
      const Sizes s = sizes_of(call);
      const DType dtype = call.input(0).dtype();
      const std::int64_t columns = s.hidden < 0 ? -1 : gates * s.hidden;
      const Spec state{dtype, {s.batch, s.hidden}};
      return {{dtype, {s.batch, s.time, columns}}, {dtype, {columns, s.hidden}}, state, state};
    },
    .forward = run_gradient,
    .composition = compose_gradient,
    .promotion = common_type,
    .outputs = 4,
}};

TAPESTRY_OP(lstm_sequence_op){{
    .name = "LSTMSequence",
    .infer = infer_sequence,
    .forward = run_sequence,
    .composition = compose_sequence,
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      Tensors inputs = call.inputs();
      for (const Tensor& output : call.outputs()) inputs.push_back(output);
      for (std::size_t i = 0; i < g.size(); ++i) inputs.push_back(g[i] ? g[i] : nothing_like(call.output(i)));
      return apply_all(lstm_sequence_grad_op, inputs, {}, {}, call.where());
    },
    .promotion = floating_type,
    .precision = Precision::low,
    .outputs = 3,
}};

}  // namespace

LSTMSequence lstm_sequence(const Tensor& from_input, const Tensor& weight, const Tensor& h, const Tensor& c) {
  const Tensors results = apply_all(lstm_sequence_op, {from_input, weight, h, c}, {}, {}, {});
  return {results[0], results[1]};
}

}  // namespace tapestry
