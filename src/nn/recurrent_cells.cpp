#include <cmath>

#include "nn/bias.hpp"
#include "nn/features.hpp"
#include "nn/initial.hpp"
#include "nn/layer_call.hpp"
#include "nn/names.hpp"
#include "nn/recurrent_steps.hpp"
#include "ops/support.hpp"
#include "tapestry/nn/recurrent.hpp"

namespace tapestry::nn {
namespace {

Tensor initial_cell_weight(std::string_view layer, std::int64_t in, std::int64_t hidden, std::int64_t gates,
                           Where where) {
  require_positive(in, layer, "in", where);
  require_positive(hidden, layer, "hidden", where);
  return uniform_within(1 / std::sqrt(static_cast<double>(hidden)), Shape({gates * hidden, in}, where), where);
}

}  // namespace

RecurrentCell::RecurrentCell(std::string_view layer, std::int64_t in, std::int64_t hidden, std::int64_t gates,
                             const CellOptions& options, Where where)
    : weight_ih(initial_cell_weight(layer, in, hidden, gates, where), "weight_ih"),
      weight_hh(initial_cell_weight(layer, hidden, hidden, gates, where), "weight_hh") {
  if (!options.bias) return;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  bias_ih.emplace(uniform_within(bound, {gates * hidden}, where), "bias_ih");
  bias_hh.emplace(uniform_within(bound, {gates * hidden}, where), "bias_hh");
}

std::string RecurrentCell::size_text() const { return detail::join(weight_ih.shape()[1], ", ", weight_hh.shape()[1]); }

Tensor RecurrentCell::from_input(const Tensor& x) const {
  return with_bias(matmul(with_features(x, weight_ih.shape()[1], "batch"), weight_ih, {.transpose_b = true}), bias_ih);
}

Tensor RecurrentCell::from_hidden(const Tensor& h) const {
  return with_bias(matmul(h, weight_hh, {.transpose_b = true}), bias_hh);
}

Tensor RecurrentCell::state_or_zeros(const Tensor& state, const Tensor& x) const {
  const std::int64_t hidden = weight_hh.shape()[1];
  if (!state) return zeros({x.shape()[0], hidden}, {.dtype = weight_hh.dtype(), .device = x.device()});
  if (state.shape().has_rank() && x.shape().has_rank() &&
      (state.rank() != 2 || !agree(state.shape(), Shape{x.shape().sizes()[0], hidden})))
    throw InvalidArgumentError(detail::join("the state must be [batch, ", hidden, "], but its shape is ", state.shape(),
                                            ", and that of x ", x.shape()),
                               CallSiteScope::current());
  return with_features(state, hidden, "batch");
}

RNNCell::RNNCell(std::int64_t in, std::int64_t hidden, const CellOptions& options, Nonlinearity nonlinearity,
                 Where where)
    : RecurrentCell("RNNCell", in, hidden, 1, options, where), nonlinearity_(nonlinearity) {}

Tensor RNNCell::operator()(In x, In h) const {
  const LayerCall call(*this, x.where());
  return naming(*this, {x.tensor(), h.tensor()}, [&] {
    const Tensor i = from_input(x);
    return call.gives(rnn_step(nonlinearity_, i, from_hidden(state_or_zeros(h, x))));
  });
}

GRUCell::GRUCell(std::int64_t in, std::int64_t hidden, const CellOptions& options, Where where)
    : RecurrentCell("GRUCell", in, hidden, 3, options, where) {}

Tensor GRUCell::operator()(In x, In h) const {
  const LayerCall call(*this, x.where());
  return naming(*this, {x.tensor(), h.tensor()}, [&] {
    const Tensor before = state_or_zeros(h, x);
    const std::vector<Tensor> i = split(from_input(x), 3, -1), u = split(from_hidden(before), 3, -1);
    const Tensor reset = sigmoid(i[0] + u[0]), update = sigmoid(i[1] + u[1]);
    const Tensor candidate = tanh(i[2] + reset * u[2]);
    return call.gives(candidate + update * (before - candidate));
  });
}

LSTMCell::LSTMCell(std::int64_t in, std::int64_t hidden, const CellOptions& options, Where where)
    : RecurrentCell("LSTMCell", in, hidden, 4, options, where) {}

LSTMState LSTMCell::operator()(In x, const LSTMState& state) const {
  const LayerCall call(*this, x.where());
  return naming(*this, {x.tensor(), state.h, state.c}, [&]() -> LSTMState {
    const Tensor h = state_or_zeros(state.h, x), c = state_or_zeros(state.c, x);
    const std::vector<Tensor> gates = split(from_input(x) + from_hidden(h), 4, -1);
    const Tensor next = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
    return {call.gives(sigmoid(gates[3]) * tanh(next)), next};
  });
}

}  // namespace tapestry::nn
