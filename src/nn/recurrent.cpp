#include "tapestry/nn/recurrent.hpp"

#include <algorithm>
#include <cmath>

#include "nn/bias.hpp"
#include "nn/gru_sequence.hpp"
#include "nn/initial.hpp"
#include "nn/layer_call.hpp"
#include "nn/lstm_sequence.hpp"
#include "nn/names.hpp"
#include "nn/positions.hpp"
#include "nn/recurrent_steps.hpp"
#include "ops/lengths.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {

using detail::join;

namespace {

Recurrent::Weights initial_weights(std::int64_t in, std::int64_t hidden, std::int64_t gates, bool bias, Where where) {
  const CallSiteScope site(where);
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const std::int64_t rows = gates * hidden;
  Recurrent::Weights weights{
      .weight_ih = Parameter(uniform_within(bound, Shape({rows, in}, where), where), "weight_ih"),
      .weight_hh = Parameter(uniform_within(bound, Shape({rows, hidden}, where), where), "weight_hh"),
      .bias_ih = {},
      .bias_hh = {}};
  if (bias) {
    weights.bias_ih.emplace(uniform_within(bound, {rows}, where), "bias_ih");
    weights.bias_hh.emplace(uniform_within(bound, {rows}, where), "bias_hh");
  }
  return weights;
}

Tensor affine(const Tensor& x, const Parameter& weight, const std::optional<Parameter>& bias) {
  return with_bias(matmul(x, weight, {.transpose_b = true}), bias);
}

/// The tensors at one index of each list.
Tensors column(const std::vector<Tensors>& rows, std::size_t place) {
  Tensors found;
  for (const Tensors& row : rows) found.push_back(row[place]);
  return found;
}

}  // namespace

Recurrent::Recurrent(std::int64_t in, std::int64_t hidden, std::int64_t gates, const RecurrentOptions& options,
                     Where where)
    : in_(in), hidden_(hidden), options_(options) {
  require_positive(in, "Recurrent", "in", where);
  require_positive(hidden, "Recurrent", "hidden", where);
  require_positive(options.layers, "Recurrent", "layers", where);
  require_rate(options.dropout, "Recurrent", "dropout", where);
  const auto both = static_cast<std::int64_t>(directions());
  for (std::int64_t i = 0; i < options.layers; ++i)
    for (std::int64_t direction = 0; direction < both; ++direction)
      layers.push_back(initial_weights(i == 0 ? in : both * hidden, hidden, gates, options.bias, where));
}

Fields Recurrent::fields() {
  Fields fields;
  if (layers.empty()) fields.note_empty_list();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string suffix = join("_l", i / directions(), i % directions() == 1 ? "_reverse" : "");
    fields.add("weight_ih" + suffix, layers[i].weight_ih);
    fields.add("weight_hh" + suffix, layers[i].weight_hh);
    fields.add("bias_ih" + suffix, layers[i].bias_ih);
    fields.add("bias_hh" + suffix, layers[i].bias_hh);
  }
  return fields;
}

std::string Recurrent::size_text() const { return join(in_, ", ", hidden_); }

void Recurrent::check(const Tensor& x, const Tensors& initial, const Tensor& lengths) const {
  const std::string order = options_.batch_first ? "[batch, time, " : "[time, batch, ";
  if (x.rank() != 3 || (x.shape()[2].is_known() && x.shape()[2] != in_))
    throw InvalidArgumentError(join("x must be ", order, in_, "], but its shape is ", x.shape()));
  const Dimension batch = x.shape()[options_.batch_first ? 0 : 1], steps = x.shape()[options_.batch_first ? 1 : 0];
  if (steps.is_known() && steps < 1)
    throw InvalidArgumentError(join("There must be at least one time step: ", x.shape()));
  const Shape expected{static_cast<std::int64_t>(layers.size()), batch, hidden_};
  for (const Tensor& state : initial)
    if (bool(state) && !agree(state.shape(), expected))
      throw InvalidArgumentError(
          join("The state must be [layers, batch, hidden] = ", expected, ", but its shape is ", state.shape()));
  if (!lengths) return;
  if ((lengths.dtype() != int32 && lengths.dtype() != int64) || !agree(lengths.shape(), Shape{batch}))
    throw InvalidArgumentError(join("lengths must be int32 or int64 [batch], but are ", to_string(lengths.dtype()),
                                    lengths.shape(), " for x ", x.shape()));
  require_lengths(lengths, x.shape().sizes()[options_.batch_first ? 1 : 0]);
}

/// The steps as a loop in a graph. `inputs`: [time, batch, ...], where the number of steps is not known yet.
Recurrent::Sequence Recurrent::as_loop(const Cell& cell, const Tensor& inputs, const Weights& weights,
                                       const Tensors& initial) {
  const auto [last, outputs] = tapestry::scan(
      [&](const std::vector<Tensor>& before, const Tensor& part) {
        const Tensors state = cell(part, affine(before[0], weights.weight_hh, weights.bias_hh), Tensors(before));
        return std::pair{std::vector<Tensor>(state.begin(), state.end()), state[0]};
      },
      std::vector<Tensor>(initial.begin(), initial.end()), inputs);
  const Tensor output = transpose(outputs, {1, 0, 2});
  return {output, Tensors(last), {output}};
}

Recurrent::Scan Recurrent::step_by_step(Cell cell) {
  return
      [cell = std::move(cell)](const Tensor& from_input, const Weights& weights, const Tensors& initial) -> Sequence {
        // The gradient of the bias is a sum in this order, in a loop, too.
        const Tensor inputs = with_bias(transpose(from_input, {1, 0, 2}), weights.bias_ih);
        if (!inputs.shape()[0].is_known()) return as_loop(cell, inputs, weights, initial);
        Tensors state = initial;
        std::vector<Tensor> outputs;
        for (const Tensor& part : unstack(inputs)) {
          state = cell(part, affine(state[0], weights.weight_hh, weights.bias_hh), state);
          outputs.push_back(state[0]);
          // The gradients of the next step are summed before they are added to that of the output, as in a loop.
          for (Tensor& each : state) each = identity(each);
        }
        const Tensor output = stack(outputs, 1);
        return {output, state, {output}};
      };
}

namespace {

/// The lengths of sequences of x [batch, time, ...]. A graph that does not know them yet checks them when it runs: a
/// length that there is not is an index that there is not.
Tensor checked(const Tensor& lengths, const Tensor& x) {
  if (!lengths.is_symbolic() && x.shape()[1].is_known()) return lengths;
  const TensorOptions options{.dtype = lengths.dtype()};
  return lengths * gather(concat({ones({x.shape()[1]}, options), ones({1}, options)}), lengths);
}

/// Which elements of x [batch, time, ...] belong to sequences of these lengths: bool [batch, time, 1].
Tensor in_use(const Tensor& x, const Tensor& lengths) {
  const Tensor steps = positions_along(x, 1);
  return expand_dims(less_equal(expand_dims(steps, 0), expand_dims(lengths.cast(int64), 1)), 2);
}

/// The state after the last step of each sequence: that of step `lengths` - 1 of `states` [batch, time, hidden], or
/// `first` [batch, hidden] where the length is 0.
Tensor state_at_end(const Tensor& states, const Tensor& first, const Tensor& lengths) {
  const Tensor length = expand_dims(lengths.cast(int64), {1, 2});
  const Tensor index = broadcast_to(maximum(length - 1, 0), {states.shape()[0], 1, states.shape()[2]});
  return where(expand_dims(greater(lengths, 0), 1), squeeze(take_along_axis(states, index, 1), 1), first);
}

}  // namespace

/// `layers[place]`, whose output is in the order in which the steps are computed.
Recurrent::Sequence Recurrent::run_direction(std::size_t place, const Tensor& x, const Tensors& initial,
                                             const Tensor& lengths, const Scan& scan) const {
  const Weights& weights = layers[place];
  // The products with the inputs do not depend on earlier steps, so all steps share one product.
  const Tensor from_input = matmul(x, weights.weight_ih, {.transpose_b = true});
  Tensors state;
  // The states have as many rows as x, which a graph whose sizes become known later checks by the reshape.
  const Tensor row = from_input(all, 0, range(0, hidden_));
  for (const Tensor& part : initial) state.push_back(part ? reshape_like(part(place), row) : zeros_like(row));
  Sequence result = scan(from_input, weights, state);
  if (!lengths) return result;
  // Steps beyond the end of a sequence are computed in vain.
  result.output = tapestry::where(in_use(result.output, lengths), result.output, 0.0);
  for (std::size_t i = 0; i < state.size(); ++i) result.state[i] = state_at_end(result.states[i], state[i], lengths);
  return result;
}

Recurrent::Sequence Recurrent::run(In x, const Tensors& initial, const Tensor& given_lengths, const Scan& scan) const {
  require_parts(*this, {}, x.where());
  const LayerCall call(*this, x.where());
  const auto blamed = [&](auto f) {
    return naming(*this, {x.tensor()}, [&] { return blaming(type_name(*this), x.where(), f); });
  };
  return blamed([&] {
    check(x, initial, given_lengths);
    Tensor output = options_.batch_first ? x.tensor() : transpose(x, {1, 0, 2});
    const Tensor lengths = given_lengths ? reshape_like(checked(given_lengths, output), output(all, 0, 0)) : Tensor();
    // What the padding holds must not reach the weights: the gradient of an output that is left out is 0, but 0 times
    // infinity is none.
    if (lengths) output = tapestry::where(in_use(output, lengths), output, 0.0);
    const auto reversed = [&](const Tensor& sequence) {
      return lengths ? reverse_sequence(sequence, lengths) : flip(sequence, 1);
    };
    std::vector<Tensors> last;
    for (std::size_t i = 0; i < layers.size(); i += directions()) {
      if (i > 0 && training() && options_.dropout > 0) output = dropout(output, options_.dropout);
      const Sequence forward = run_direction(i, output, initial, lengths, scan);
      last.push_back(forward.state);
      if (!options_.bidirectional) {
        output = forward.output;
        continue;
      }
      const Sequence backward = run_direction(i + 1, reversed(output), initial, lengths, scan);
      last.push_back(backward.state);
      output = concat({forward.output, reversed(backward.output)}, -1);
    }
    if (!options_.batch_first) output = transpose(output, {1, 0, 2});
    Sequence result{call.gives(output), {}};
    for (std::size_t part = 0; part < initial.size(); ++part) result.state.push_back(stack(column(last, part)));
    return result;
  });
}

PaddedSequences Recurrent::padded(const PackedSequence& packed, Where where) const {
  if (packed.data.rank() != 2)
    throw InvalidArgumentError(
        join("The data of the pack must be [sum of lengths, ", in_, "], but its shape is ", packed.data.shape()),
        where);
  return pad_packed_sequence(packed, options_.batch_first, 0, where);
}

PackedSequence Recurrent::packed(const Tensor& output, const Tensor& lengths, Where where) const {
  return pack_padded_sequence(In(output, where), In(lengths, where), options_.batch_first);
}

RNN::RNN(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Nonlinearity nonlinearity, Where where)
    : Recurrent(in, hidden, 1, options, where), nonlinearity_(nonlinearity) {}

RNNResult RNN::operator()(In x, In state, In lengths) const {
  const auto cell = [this](const Tensor& from_input, const Tensor& from_hidden, const Tensors&) -> Tensors {
    return {rnn_step(nonlinearity_, from_input, from_hidden)};
  };
  const Sequence result = run(x, {state}, lengths, step_by_step(cell));
  return {result.output, result.state[0]};
}

PackedRNNResult RNN::operator()(const PackedSequence& x, In state, Where where) const {
  const PaddedSequences all = padded(x, where);
  const RNNResult result = (*this)(In(all.output, where), state, all.lengths);
  return {packed(result.output, all.lengths, where), result.state};
}

GRU::GRU(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Where where)
    : Recurrent(in, hidden, 3, options, where) {}

RNNResult GRU::operator()(In x, In state, In lengths) const {
  const auto scan = [](const Tensor& from_input, const Weights& weights, const Tensors& initial) -> Sequence {
    const Tensor& weight = weights.weight_hh;
    const Tensor bias = weights.bias_hh
                            ? Tensor(*weights.bias_hh)
                            : zeros({weight.shape()[0]}, {.dtype = weight.dtype(), .device = weight.device()});
    const Tensor h = gru_sequence(with_bias(from_input, weights.bias_ih), weight, bias, initial[0]);
    return {h, {h(all, -1)}, {h}};
  };
  const Sequence result = run(x, {state}, lengths, scan);
  return {result.output, result.state[0]};
}

PackedRNNResult GRU::operator()(const PackedSequence& x, In state, Where where) const {
  const PaddedSequences all = padded(x, where);
  const RNNResult result = (*this)(In(all.output, where), state, all.lengths);
  return {packed(result.output, all.lengths, where), result.state};
}

LSTM::LSTM(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Where where)
    : Recurrent(in, hidden, 4, options, where) {}

LSTMResult LSTM::operator()(In x, const LSTMState& state, In lengths) const {
  const auto scan = [by_length = bool(lengths.tensor())](const Tensor& from_input, const Weights& weights,
                                                         const Tensors& initial) -> Sequence {
    const Tensor bias = weights.bias_ih ? *weights.bias_ih + *weights.bias_hh : Tensor();
    const auto [h, c] = lstm_sequence(with_bias(from_input, bias), weights.weight_hh, initial[0], initial[1]);
    return {h, {h(all, -1), c(-1)}, by_length ? Tensors{h, transpose(c, {1, 0, 2})} : Tensors()};
  };
  const Sequence result = run(x, {state.h, state.c}, lengths, scan);
  return {result.output, {result.state[0], result.state[1]}};
}

PackedLSTMResult LSTM::operator()(const PackedSequence& x, const LSTMState& state, Where where) const {
  const PaddedSequences all = padded(x, where);
  const LSTMResult result = (*this)(In(all.output, where), state, all.lengths);
  return {packed(result.output, all.lengths, where), result.state};
}

}  // namespace tapestry::nn
