// Recurrent cells that are one op of TensorFlow 1's, with their gradients.

#include <array>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// More steps than any sequence that is unrolled.
constexpr std::int64_t most_steps = 1 << 12;

// ---- LSTM -----------------------------------------------------------------------------------------------------------

struct LstmWeights {
  Tensor w, input, forget, output, bias;  ///< the middle three, "peepholes", for the old state
};
struct LstmStep {
  Tensor i, cs, f, o, ci, co, h;
};

struct LstmOptions {
  double forget_bias;
  double clip;  ///< of the state; not positive: none
  bool peephole;
  bool input_forget_cell_output;  ///< the order of the gates; otherwise the cell is second

  static LstmOptions of(const ForeignNode& n) {
    const std::string& op = n.node.def().op;
    const bool second = op.starts_with("BlockLSTM") && op.ends_with("V2"), block = op.starts_with("BlockLSTM");
    // The second version leaves the bias to the weights.
    return {second ? 0 : n.node.attr_or<float>("forget_bias", 1),
            n.node.attr_or<float>("cell_clip", block && !second ? 3
                                               : block          ? 0
                                                                : 3),
            n.node.attr_or<bool>("use_peephole", false), second};
  }
};

LstmStep lstm_step(const Tensor& x, const Tensor& cs, const Tensor& h, const LstmWeights& weights,
                   const LstmOptions& options) {
  const std::vector<Tensor> gates = split(matmul(concat({x, h}, 1), weights.w) + weights.bias, 4, 1);
  const Tensor &cell = gates[options.input_forget_cell_output ? 2 : 1],
               &forget = gates[options.input_forget_cell_output ? 1 : 2];
  const auto with = [&](const Tensor& gate, const Tensor& state, const Tensor& peephole) {
    return options.peephole ? gate + state * peephole : gate;
  };
  LstmStep step;
  step.i = sigmoid(with(gates[0], cs, weights.input));
  step.f = sigmoid(with(options.forget_bias == 0 ? forget : forget + options.forget_bias, cs, weights.forget));
  step.ci = tanh(cell);
  step.cs = step.ci * step.i + cs * step.f;
  if (options.clip > 0) step.cs = clip(step.cs, -options.clip, options.clip);
  step.o = sigmoid(with(gates[3], step.cs, weights.output));
  step.co = tanh(step.cs);
  step.h = step.co * step.o;
  return step;
}

void require_cell(const ForeignNode& n, std::size_t x, std::size_t w, std::size_t gates) {
  const Shape &inputs = n.in(x).shape(), &weights = n.in(w).shape();
  if (weights.rank() != 2 || inputs.rank() < 2 || weights.sizes()[1] % static_cast<std::int64_t>(gates) != 0)
    n.node.refuse(detail::join("its input has the shape ", inputs, ", its weights ", weights));
}

Tensors read_lstm_cell(const ForeignNode& n) {
  require_cell(n, 0, 3, 4);
  const LstmOptions options = LstmOptions::of(n);
  return n.composed([&] {
    const LstmStep step = lstm_step(n.in(0), n.in(1), n.in(2), {n.in(3), n.in(4), n.in(5), n.in(6), n.in(7)}, options);
    return Tensors{step.i, step.cs, step.f, step.o, step.ci, step.co, step.h};
  });
}

/// The outputs of all steps, [steps, batch, units] each, by the initial state and the sequence. After the sequence's
/// length they are 0.
LstmStep lstm_sequence(const ForeignNode& n, const Tensor& x, const Tensor& cs, const Tensor& h,
                       const LstmWeights& weights) {
  const LstmOptions options = LstmOptions::of(n);
  const std::int64_t length = n.number(0), steps = x.shape().sizes()[0];
  if (length < 0 || length > steps || steps > most_steps)
    n.node.refuse(detail::join("it makes ", length, " steps with ", steps, " inputs"));
  std::array<std::vector<Tensor>, 7> all_steps;
  Tensor state = cs, output = h;
  const std::vector<Tensor> inputs = unstack(x, 0);
  for (std::int64_t t = 0; t < steps; ++t) {
    LstmStep step{zeros_like(cs), zeros_like(cs), zeros_like(cs), zeros_like(cs),
                  zeros_like(cs), zeros_like(cs), zeros_like(cs)};
    if (t < length) {
      step = lstm_step(inputs[t], state, output, weights, options);
      state = step.cs;
      output = step.h;
    }
    const Tensor* parts[] = {&step.i, &step.cs, &step.f, &step.o, &step.ci, &step.co, &step.h};
    for (std::size_t i = 0; i < all_steps.size(); ++i) all_steps[i].push_back(*parts[i]);
  }
  const auto joined = [&](std::size_t i) { return stack(all_steps[i]); };
  return {joined(0), joined(1), joined(2), joined(3), joined(4), joined(5), joined(6)};
}

void require_sequence(const ForeignNode& n) {
  require_rank(n, 1, 3);
  require_cell(n, 1, 4, 4);
  if (n.in(1).shape().sizes()[0] < 1) n.node.refuse("its sequence is empty");
}

Tensors read_lstm(const ForeignNode& n) {
  require_sequence(n);
  return n.composed([&] {
    const LstmStep all_steps =
        lstm_sequence(n, n.in(1), n.in(2), n.in(3), {n.in(4), n.in(5), n.in(6), n.in(7), n.in(8)});
    return Tensors{all_steps.i, all_steps.cs, all_steps.f, all_steps.o, all_steps.ci, all_steps.co, all_steps.h};
  });
}

/// The gradients of a step by the old state and by what the gates get before their functions.
struct LstmGradients {
  Tensor cs, i, ci, f, o;

  Tensor gates(bool input_forget_cell_output) const {
    return input_forget_cell_output ? concat({i, f, ci, o}, 1) : concat({i, ci, f, o}, 1);
  }
};

LstmGradients lstm_step_gradients(const LstmStep& step, const Tensor& cs_before, const LstmWeights& weights,
                                  bool peephole, const Tensor& by_cs, const Tensor& by_h) {
  LstmGradients d;
  d.o = by_h * step.co * step.o * (1.0 - step.o);
  Tensor d_cs = by_h * step.o * (1.0 - square(step.co)) + by_cs;
  if (peephole) d_cs = d_cs + d.o * weights.output;
  d.ci = d_cs * step.i * (1.0 - square(step.ci));
  d.f = d_cs * cs_before * step.f * (1.0 - step.f);
  d.i = d_cs * step.ci * step.i * (1.0 - step.i);
  d.cs = d_cs * step.f;
  if (peephole) d.cs = d.cs + d.i * weights.input + d.f * weights.forget;
  return d;
}

/// The gradients for the peepholes of the input, forget and output gates; 0 without peepholes.
std::array<Tensor, 3> peephole_gradients(const LstmGradients& d, const Tensor& cs_before, const Tensor& cs,
                                         const LstmWeights& weights, bool peephole) {
  if (!peephole) return {zeros_like(weights.input), zeros_like(weights.forget), zeros_like(weights.output)};
  return {reduce_sum(d.i * cs_before, 0), reduce_sum(d.f * cs_before, 0), reduce_sum(d.o * cs, 0)};
}

Tensors read_lstm_cell_gradient(const ForeignNode& n) {
  require_cell(n, 0, 3, 4);
  const LstmWeights weights{n.in(3), n.in(4), n.in(5), n.in(6), n.in(7)};
  const LstmStep step{n.in(8), n.in(9), n.in(10), n.in(11), n.in(12), n.in(13), {}};
  const bool peephole = n.node.attr_or<bool>("use_peephole", false);
  return n.composed([&] {
    const LstmGradients d = lstm_step_gradients(step, n.in(1), weights, peephole, n.in(14), n.in(15));
    const auto by_peepholes = peephole_gradients(d, n.in(1), step.cs, weights, peephole);
    return Tensors{d.cs, d.gates(false), by_peepholes[0], by_peepholes[1], by_peepholes[2]};
  });
}

/// The gradients for the sequence, the initial state and output, the weights, the peepholes and the bias. They are
/// computed from the last step back.
Tensors read_lstm_gradient(const ForeignNode& n) {
  require_sequence(n);
  const std::int64_t length = n.number(0), steps = n.in(1).shape().sizes()[0];
  if (length < 0 || length > steps || steps > most_steps)
    n.node.refuse(detail::join("it makes ", length, " steps with ", steps, " inputs"));
  const bool peephole = n.node.attr_or<bool>("use_peephole", false), second = n.node.def().op == "BlockLSTMGradV2";
  const LstmWeights weights{n.in(4), n.in(5), n.in(6), n.in(7), n.in(8)};
  return n.composed([&] {
    std::vector<std::vector<Tensor>> parts;  // x, then what LstmStep has, then the gradients of states and outputs
    for (const std::size_t each : {1, 9, 10, 11, 12, 13, 14, 15, 16, 17}) parts.push_back(unstack(n.in(each), 0));
    const Tensor back = transpose(weights.w);
    const std::int64_t inputs = n.in(1).shape().sizes()[2];
    Tensor by_cs = zeros_like(n.in(2)), by_h = zeros_like(n.in(3)), by_w = zeros_like(weights.w),
           by_b = zeros_like(weights.bias);
    std::array<Tensor, 3> by_peepholes{zeros_like(weights.input), zeros_like(weights.forget),
                                       zeros_like(weights.output)};
    std::vector<Tensor> by_x(static_cast<std::size_t>(steps), zeros_like(parts[0][0]));
    for (auto t = static_cast<std::size_t>(length); t-- > 0;) {
      const Tensor cs_before = t == 0 ? Tensor(n.in(2)) : parts[2][t - 1],
                   h_before = t == 0 ? Tensor(n.in(3)) : parts[7][t - 1];
      const LstmStep step{parts[1][t], parts[2][t], parts[3][t], parts[4][t], parts[5][t], parts[6][t], parts[7][t]};
      const LstmGradients d =
          lstm_step_gradients(step, cs_before, weights, peephole, by_cs + parts[8][t], by_h + parts[9][t]);
      const Tensor gates = d.gates(second), both = matmul(gates, back);
      by_x[t] = slice(both, {0, 0}, {-1, inputs});
      by_h = slice(both, {0, inputs}, {-1, -1});
      by_cs = d.cs;
      by_w = by_w + matmul(transpose(concat({parts[0][t], h_before}, 1)), gates);
      by_b = by_b + reduce_sum(gates, 0);
      const auto more = peephole_gradients(d, cs_before, step.cs, weights, peephole);
      for (std::size_t i = 0; i < more.size(); ++i) by_peepholes[i] = by_peepholes[i] + more[i];
    }
    return Tensors{stack(by_x), by_cs, by_h, by_w, by_peepholes[0], by_peepholes[1], by_peepholes[2], by_b};
  });
}

// ---- GRU ------------------------------------------------------------------------------------------------------------

struct GruStep {
  Tensor r, u, c, h;
};

GruStep gru_step(const Tensor& x, const Tensor& h, const Tensor& w_ru, const Tensor& w_c, const Tensor& b_ru,
                 const Tensor& b_c) {
  const std::vector<Tensor> gates = split(sigmoid(matmul(concat({x, h}, 1), w_ru) + b_ru), 2, 1);
  const Tensor &r = gates[0], &u = gates[1];
  const Tensor c = tanh(matmul(concat({x, h * r}, 1), w_c) + b_c);
  return {r, u, c, u * h + (1.0 - u) * c};
}

Tensors read_gru_cell(const ForeignNode& n) {
  require_cell(n, 0, 2, 2);
  return n.composed([&] {
    const GruStep step = gru_step(n.in(0), n.in(1), n.in(2), n.in(3), n.in(4), n.in(5));
    return Tensors{step.r, step.u, step.c, step.h};
  });
}

/// The gradients for the input and the old state, and for the arguments of the cell's and the gates' functions.
Tensors read_gru_gradient(const ForeignNode& n) {
  require_cell(n, 0, 2, 2);
  const Tensor &h = n.in(1), &w_ru = n.in(2), &w_c = n.in(3), &r = n.in(6), &u = n.in(7), &c = n.in(8), &g = n.in(9);
  return n.composed([&] {
    const std::int64_t inputs = n.in(0).shape().sizes()[1];
    const auto parts = [&](const Tensor& both) {
      return std::pair(slice(both, {0, 0}, {-1, inputs}), slice(both, {0, inputs}, {-1, -1}));
    };
    const Tensor d_c = g * (1.0 - u) * (1.0 - square(c));
    const auto [x_by_c, hr] = parts(matmul(d_c, transpose(w_c)));
    const Tensor d_r = hr * h * r * (1.0 - r), d_u = g * (h - c) * u * (1.0 - u);
    const Tensor d_ru = concat({d_r, d_u}, 1);
    const auto [x_by_ru, h_by_ru] = parts(matmul(d_ru, transpose(w_ru)));
    return Tensors{x_by_c + x_by_ru, h_by_ru + hr * r + g * u, d_c, d_ru};
  });
}

std::vector<OutputType> like_first(std::size_t count, int input) { return std::vector(count, like(input)); }

}  // namespace

ForeignOps foreign_cells() {
  ForeignOps ops{
      {.name = "GRUBlockCell",
       .inputs = 6,
       .lacks_sizes = lacks_element_sizes,
       .outputs = like_first(4, 0),
       .read = read_gru_cell},
      {.name = "GRUBlockCellGrad",
       .inputs = 10,
       .lacks_sizes = lacks_any_size,
       .outputs = like_first(4, 0),
       .read = read_gru_gradient},
      {.name = "LSTMBlockCell",
       .inputs = 8,
       .lacks_sizes = lacks_any_size,
       .outputs = like_first(7, 0),
       .read = read_lstm_cell},
      {.name = "LSTMBlockCellGrad",
       .inputs = 16,
       .lacks_sizes = lacks_any_size,
       .outputs = like_first(5, 0),
       .read = read_lstm_cell_gradient},
  };
  for (const char* name : {"BlockLSTM", "BlockLSTMV2"})
    ops.push_back({.name = name,
                   .inputs = 9,
                   .values = {0},
                   .lacks_sizes = lacks_any_size,
                   .outputs = like_first(7, 1),
                   .read = read_lstm});
  for (const char* name : {"BlockLSTMGrad", "BlockLSTMGradV2"})
    ops.push_back({.name = name,
                   .inputs = 18,
                   .values = {0},
                   .lacks_sizes = lacks_any_size,
                   .outputs = like_first(8, 1),
                   .read = read_lstm_gradient});
  return ops;
}

}  // namespace tapestry::io
