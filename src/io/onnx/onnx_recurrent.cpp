// RNN, LSTM and GRU. ONNX stacks the weights of the directions; each direction is a loop over the steps.

#include <algorithm>

#include "io/onnx/onnx_ops.hpp"
#include "nn/gru_sequence.hpp"
#include "nn/lstm_sequence.hpp"
#include "tapestry/control_flow.hpp"

namespace tapestry::io {
namespace {

// ---- Activations

using Number = std::optional<double>;

struct OnnxActivation {
  Tensor (*f)(const Tensor& x, Number alpha, Number beta) = nullptr;
  bool takes_alpha = false, takes_beta = false;
};

OnnxActivation activation_named(const OnnxCall& c, std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char each) { return std::tolower(each); });
  if (name == "sigmoid") return {[](const Tensor& x, Number, Number) { return sigmoid(x); }};
  if (name == "tanh") return {[](const Tensor& x, Number, Number) { return tanh(x); }};
  if (name == "relu") return {[](const Tensor& x, Number, Number) { return relu(x); }};
  if (name == "softplus") return {[](const Tensor& x, Number, Number) { return softplus(x); }};
  if (name == "softsign") return {[](const Tensor& x, Number, Number) { return x / (1 + abs(x)); }};
  if (name == "leakyrelu")
    return {[](const Tensor& x, Number alpha, Number) { return leaky_relu(x, alpha.value_or(0.01)); }, true};
  if (name == "elu")
    return {[](const Tensor& x, Number alpha, Number) {
              return where(greater(x, 0), x, alpha.value_or(1) * elu(minimum(x, 0)));
            },
            true};
  if (name == "thresholdedrelu")
    return {
        [](const Tensor& x, Number alpha, Number) { return where(greater(x, alpha.value_or(1)), x, zeros_like(x)); },
        true};
  if (name == "affine")
    return {[](const Tensor& x, Number alpha, Number beta) { return alpha.value_or(1) * x + beta.value_or(0); }, true,
            true};
  if (name == "scaledtanh")
    return {[](const Tensor& x, Number alpha, Number beta) { return alpha.value_or(1) * tanh(beta.value_or(1) * x); },
            true, true};
  if (name == "hardsigmoid")
    return {[](const Tensor& x, Number alpha, Number beta) {
              return clip(alpha.value_or(0.2) * x + beta.value_or(0.5), 0, 1);
            },
            true, true};
  c.lack(detail::join("the activation '", name, "'"));
}

struct Activated {
  OnnxActivation activation{};
  Number alpha{}, beta{};
  Tensor operator()(const Tensor& x) const { return activation.f(x, alpha, beta); }
};

/// The activations of all directions, each of which has as many as `usual`. The lists of numbers have one for each
/// activation that takes one.
std::vector<Activated> activations_of(const OnnxCall& c, const std::vector<std::string>& usual,
                                      std::int64_t directions) {
  const auto* names = c.node().find<ListDef>("activations");
  const bool told = names && !names->strings.empty();
  const auto count = usual.size() * static_cast<std::size_t>(directions);
  if (told && names->strings.size() < count) c.refuse("it has too few activations");
  const auto* alphas = c.node().find<ListDef>("activation_alpha");
  const auto* betas = c.node().find<ListDef>("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  const auto take = [](const ListDef* list, std::size_t& next) -> Number {
    return list && next < list->floats.size() ? Number(list->floats[next++]) : std::nullopt;
  };
  std::vector<Activated> all;
  for (std::size_t i = 0; i < count; ++i) {
    Activated& each = all.emplace_back();
    each.activation = activation_named(c, told ? names->strings[i] : usual[i % usual.size()]);
    if (each.activation.takes_alpha) each.alpha = take(alphas, next_alpha);
    if (each.activation.takes_beta) each.beta = take(betas, next_beta);
  }
  return all;
}

// ---- One direction

/// What the three ops have in common, for one direction: the weights of one direction, and the steps in its order.
struct OnnxDirection {
  std::int64_t hidden = 0;
  std::vector<Activated> activations{};
  double limit = 0;             ///< of what the activations are given; 0: none
  Tensor x, weight, recurrent;  ///< [time, batch, in], [gates * hidden, in], [gates * hidden, hidden]
  Tensor bias, bias_of_hidden;  ///< [gates * hidden]; empty without biases
  Tensor h, cell, peepholes;    ///< [batch, hidden], [batch, hidden], [3 * hidden]; empty where there are none
  Tensor in_use{};              ///< [time, batch, 1]: whether a sequence is that long; empty: all are

  Tensor bounded(const Tensor& sum) const { return limit > 0 ? clip(sum, -limit, limit) : sum; }
  Tensor gate(const Tensor& gates, std::int64_t i) const {
    return gates(ellipsis, range(i * hidden, (i + 1) * hidden));
  }
  Tensor rows(const Tensor& of, std::int64_t i) const { return of(range(i * hidden, (i + 1) * hidden)); }
  Tensor product(const Tensor& state) const {
    const Tensor y = matmul(state, recurrent, {.transpose_b = true});
    return bool(bias_of_hidden) ? y + bias_of_hidden : y;
  }
};

/// The next states, of which the first is the output, from what the input gives the gates.
using OnnxCell = Tensors (*)(const OnnxDirection& d, const Tensor& from_input, const Tensors& states, bool flag);

struct OnnxSteps {
  Tensor output;   ///< [time, batch, hidden]
  Tensors states;  ///< after the last step of each sequence
};

OnnxSteps run_cell(const OnnxDirection& d, OnnxCell cell, bool flag) {
  Tensor from_input = matmul(d.x, d.weight, {.transpose_b = true});
  if (d.bias) from_input = from_input + d.bias;
  std::vector<Tensor> first{d.h}, sequences{from_input};
  if (d.cell) first.push_back(d.cell);
  if (d.in_use) sequences.push_back(d.in_use);
  const auto [last, output] = scan(
      [&](const std::vector<Tensor>& before, const std::vector<Tensor>& parts) {
        const Tensors next = cell(d, parts[0], Tensors(before), flag);
        std::vector<Tensor> states(next.begin(), next.end());
        Tensor shown = states[0];
        if (d.in_use) {
          shown = where(parts[1], shown, zeros_like(shown));
          for (std::size_t i = 0; i < states.size(); ++i) states[i] = where(parts[1], states[i], before[i]);
        }
        return std::pair{states, shown};
      },
      first, sequences);
  return {output, Tensors(last)};
}

// ---- The ops

/// Reads the inputs X, W, R, B, sequence_lens, initial_h, initial_c and P, and runs each direction.
class OnnxRecurrence {
 public:
  OnnxRecurrence(const OnnxCall& c, std::int64_t gates, const std::vector<std::string>& usual, bool has_cell)
      : c_(c),
        gates_(gates),
        per_direction_(static_cast<std::ptrdiff_t>(usual.size())),
        has_cell_(has_cell),
        batch_first_(c.flag("layout")) {
    const std::string direction = c.text("direction", "forward");
    if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
      c.refuse(detail::join("its direction is '", direction, "'"));
    count_ = direction == "bidirectional" ? 2 : 1;
    starts_reversed_ = direction == "reverse";
    activations_ = activations_of(c, usual, count_);
    if (c.rank() != 3 || c.rank(1) != 3 || c.rank(2) != 3)
      c.refuse(detail::join("its inputs have the shapes ", c.shape(), ", ", c.shape(1), " and ", c.shape(2)));
    hidden_ = c.size(2, 2);
    if (hidden_ < 1 || (c.has_attr("hidden_size") && c.whole("hidden_size") != hidden_) ||
        (c.size(1, 2) >= 0 && c.size(1, 2) != gates * hidden_) || (c.size(0, 1) >= 0 && c.size(0, 1) != count_))
      c.refuse(detail::join("its weights have the shapes ", c.shape(1), " and ", c.shape(2)));
  }

  template <class Run>
  Tensors results(Run run) const {
    std::vector<Tensor> outputs;
    std::vector<std::vector<Tensor>> states(has_cell_ ? 2 : 1);
    for (std::int64_t i = 0; i < count_; ++i) {
      const bool reversed = i == 1 || starts_reversed_;
      const OnnxSteps steps = run(direction(i, reversed));
      outputs.push_back(reversed ? turned(steps.output) : steps.output);
      for (std::size_t k = 0; k < states.size(); ++k) states[k].push_back(steps.states[k]);
    }
    // [time, directions, batch, hidden] and [directions, batch, hidden], or with the batch first.
    Tensor all = stack(InList(outputs), 1);
    if (batch_first_) all = transpose(all, {2, 0, 1, 3});
    Tensors list{all};
    for (const std::vector<Tensor>& each : states) list.push_back(stack(InList(each), batch_first_ ? 1 : 0));
    return list;
  }

 private:
  Tensor turned(const Tensor& steps) const { return c_.has(4) ? reverse_sequence(steps, c_[4], 0, 1) : flip(steps, 0); }

  Tensor initial(std::size_t place, std::int64_t i, const Tensor& x) const {
    if (c_.has(place)) return squeeze(onnx_cut(c_[place], {{batch_first_ ? 1 : 0, i, i + 1}}), batch_first_ ? 1 : 0);
    const Tensor row = onnx_cut(x, {{0, 0, 1}, {2, 0, 1}});  // [1, batch, 1]
    return zeros_like(tile(squeeze(row, 0), {1, hidden_}));
  }

  OnnxDirection direction(std::int64_t i, bool reversed) const {
    const Tensor x = batch_first_ ? transpose(c_[0], {1, 0, 2}) : c_[0];
    OnnxDirection d{.hidden = hidden_,
                    .limit = c_.real("clip", 0),
                    .x = reversed ? turned(x) : x,
                    .weight = c_[1](i),
                    .recurrent = c_[2](i),
                    .bias = {},
                    .bias_of_hidden = {},
                    .h = initial(5, i, x),
                    .cell = has_cell_ ? initial(6, i, x) : Tensor(),
                    .peepholes = has_cell_ && c_.has(7) ? c_[7](i) : Tensor()};
    if (c_.has(3)) {
      const Tensor both = c_[3](i);
      d.bias = both(range(0, gates_ * hidden_));
      d.bias_of_hidden = both(range(gates_ * hidden_, 2 * gates_ * hidden_));
    }
    if (c_.has(4)) {
      const Tensor one = onnx_cut(x, {{2, 0, 1}});
      const Tensor positions = cumsum(ones_like(one).cast(int64), 0, {.exclusive = true});
      d.in_use = less(positions, expand_dims(c_[4].cast(int64), 1));
    }
    const auto own = activations_.begin() + i * per_direction_;
    d.activations.assign(own, own + per_direction_);
    return d;
  }

  const OnnxCall& c_;
  std::int64_t gates_, hidden_ = 0, count_ = 1;
  std::ptrdiff_t per_direction_;
  std::vector<Activated> activations_{};
  bool has_cell_, batch_first_, starts_reversed_ = false;
};

Tensors rnn_cell(const OnnxDirection& d, const Tensor& from_input, const Tensors& states, bool) {
  return {d.activations[0](d.bounded(from_input + d.product(states[0])))};
}

Tensors read_rnn(const OnnxCall& c) {
  return OnnxRecurrence(c, 1, {"Tanh"}, false).results([](const OnnxDirection& d) {
    return run_cell(d, rnn_cell, false);
  });
}

/// The gates are update, reset and hidden. `flag`: the state is reset behind its product (linear_before_reset).
Tensors gru_cell(const OnnxDirection& d, const Tensor& from_input, const Tensors& states, bool flag) {
  const Tensor& before = states[0];
  const Tensor weight = d.recurrent(range(0, 2 * d.hidden)), last = d.recurrent(range(2 * d.hidden, 3 * d.hidden));
  Tensor gates = from_input(ellipsis, range(0, 2 * d.hidden)) + matmul(before, weight, {.transpose_b = true});
  if (d.bias_of_hidden) gates = gates + d.bias_of_hidden(range(0, 2 * d.hidden));
  gates = d.activations[0](d.bounded(gates));
  const Tensor update = d.gate(gates, 0), reset = d.gate(gates, 1);
  const auto with_own_bias = [&](const Tensor& y) {
    return bool(d.bias_of_hidden) ? y + d.rows(d.bias_of_hidden, 2) : y;
  };
  const Tensor from_state = flag ? reset * with_own_bias(matmul(before, last, {.transpose_b = true}))
                                 : with_own_bias(matmul(reset * before, last, {.transpose_b = true}));
  const Tensor fresh = d.activations[1](d.bounded(d.gate(from_input, 2) + from_state));
  return {(1 - update) * fresh + update * before};
}

/// A layer whose state is reset behind its product, without anything unusual, is one op of ours, with the gates in
/// another order.
OnnxSteps run_usual_gru(const OnnxDirection& d) {
  const auto ordered = [&](const Tensor& rows) {
    return concat({d.rows(rows, 1), d.rows(rows, 0), d.rows(rows, 2)}, 0);
  };
  Tensor from_input = matmul(transpose(d.x, {1, 0, 2}), ordered(d.weight), {.transpose_b = true});
  if (d.bias) from_input = from_input + ordered(d.bias);
  const Tensor recurrent = ordered(d.recurrent);
  const Tensor bias = d.bias ? ordered(d.bias_of_hidden) : zeros_like(recurrent(all, 0));
  const Tensor h = gru_sequence(from_input, recurrent, bias, d.h);
  return {transpose(h, {1, 0, 2}), {h(all, -1)}};
}

Tensors read_gru(const OnnxCall& c) {
  const bool flag = c.flag("linear_before_reset");
  const bool usual =
      flag && !c.has_attr("activations") && !c.has_attr("clip") && !c.has(4) && c.size(c.flag("layout") ? 1 : 0) > 0;
  return OnnxRecurrence(c, 3, {"Sigmoid", "Tanh"}, false).results([&](const OnnxDirection& d) {
    return usual ? run_usual_gru(d) : run_cell(d, gru_cell, flag);
  });
}

/// The gates are input, output, forget and cell. `flag`: input and forget are one gate.
Tensors lstm_cell(const OnnxDirection& d, const Tensor& from_input, const Tensors& states, bool flag) {
  const Tensor gates = from_input + d.product(states[0]);
  const auto seen = [&](std::int64_t gate, std::int64_t row, const Tensor& cell) {
    const Tensor sum = d.gate(gates, gate);
    return d.activations[0](d.bounded(bool(d.peepholes) ? sum + d.rows(d.peepholes, row) * cell : sum));
  };
  const Tensor input = seen(0, 0, states[1]), forget = flag ? 1 - input : seen(2, 2, states[1]);
  const Tensor cell = forget * states[1] + input * d.activations[1](d.bounded(d.gate(gates, 3)));
  return {seen(1, 1, cell) * d.activations[2](cell), cell};
}

/// A layer without anything unusual is one op of ours, with the gates in another order.
OnnxSteps run_usual_lstm(const OnnxDirection& d) {
  const auto ordered = [&](const Tensor& rows) {
    return concat({d.rows(rows, 0), d.rows(rows, 2), d.rows(rows, 3), d.rows(rows, 1)}, 0);
  };
  Tensor from_input = matmul(transpose(d.x, {1, 0, 2}), ordered(d.weight), {.transpose_b = true});
  if (d.bias) from_input = from_input + ordered(d.bias + d.bias_of_hidden);
  const auto [h, cells] = lstm_sequence(from_input, ordered(d.recurrent), d.h, d.cell);
  return {transpose(h, {1, 0, 2}), {h(all, -1), cells(-1)}};
}

Tensors read_lstm(const OnnxCall& c) {
  const bool flag = c.flag("input_forget");
  const bool usual = !flag && !c.has_attr("activations") && !c.has_attr("clip") && !c.has(4) && !c.has(7) &&
                     c.size(c.flag("layout") ? 1 : 0) > 0;
  return OnnxRecurrence(c, 4, {"Sigmoid", "Tanh", "Tanh"}, true).results([&](const OnnxDirection& d) {
    return usual ? run_usual_lstm(d) : run_cell(d, lstm_cell, flag);
  });
}

int rank_of_sequence(const OnnxCall&) { return 4; }
bool recurrent_lacks(const OnnxCall& c) { return onnx_lacks_ranks(c) || c.size(2, 2) < 0; }
std::vector<DType> types_of_recurrent(const OnnxCall& c) { return std::vector<DType>(3, c.dtype()); }

}  // namespace

OnnxOps onnx_recurrent() {
  const auto op = [](std::string_view name, std::size_t most, Tensors (*read)(const OnnxCall&)) -> OnnxOp {
    return {name, 3, most, read, {}, recurrent_lacks, types_of_recurrent, rank_of_sequence};
  };
  return {op("GRU", 6, read_gru), op("LSTM", 8, read_lstm), op("RNN", 6, read_rnn)};
}

}  // namespace tapestry::io
