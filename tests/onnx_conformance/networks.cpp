#include "onnx_conformance/ops.hpp"
#include "tapestry/nn.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::onnx_case {
namespace {

Outputs gemm(const Node& node, const Inputs& in) {
  const bool transpose_a = node.whole("transA", 0) != 0, transpose_b = node.whole("transB", 0) != 0;
  const Tensor product = node.real("alpha", 1) * matmul(in.at(0), in.at(1), {transpose_a, transpose_b});
  const double beta = node.real("beta", 1);
  return {optional_input(in, 2) ? product + beta * in[2] : product};
}

Function along_axis(Tensor (*f)(In, std::int64_t, std::string_view)) {
  return [f](const Node& node, const Inputs& in) -> Outputs { return {f(in.at(0), node.whole("axis", -1), {})}; };
}

/// Ones at the first of the largest elements along an axis.
Outputs hardmax(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const int axis = normalize_axis(node.whole("axis", -1), x.rank());
  const Tensor largest = expand_dims(argmax(x, axis), axis);
  const Tensor places = cumsum(ones_like(x).cast(int64), axis, {.exclusive = true});
  return {equal(places, largest).cast(x.dtype())};
}

// ---- Normalization

/// Channels, which are ONNX's second axis, as the last one, and back.
Ints moved(int rank, int from, int to) {
  Ints perm;
  for (int i = 0; i < rank; ++i)
    if (i != from) perm.push_back(i);
  perm.insert(perm.begin() + to, from);
  return perm;
}

Outputs batch_normalization(const Node& node, const Inputs& in) {
  const int last = in.at(0).rank() - 1;
  const Tensor x = transpose(in[0], moved(last + 1, 1, last)), scale = in.at(1), offset = in.at(2);
  const double epsilon = node.real("epsilon", 1e-5), momentum = node.real("momentum", 0.9);
  const auto back = [&](const Tensor& y) { return transpose(y, moved(last + 1, last, 1)); };
  if (node.whole("training_mode", 0) == 0) return {back(batch_norm(x, in.at(3), in.at(4), offset, scale, epsilon))};
  Ints axes;
  for (int i = 0; i < last; ++i) axes.push_back(i);
  const auto [mean, variance] = moments(x, axes);
  const auto running = [&](const Tensor& before, const Tensor& now) {
    return momentum * before + (1 - momentum) * now;
  };
  return {back(batch_norm(x, mean, variance, offset, scale, epsilon)), running(in.at(3), mean),
          running(in.at(4), variance)};
}

/// Over all axes from one on, as one row.
Outputs layer_normalization(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const int axis = normalize_axis(node.whole("axis", -1), x.rank());
  const double epsilon = node.real("epsilon", 1e-5);
  Shape kept = x.shape(), rows;
  for (int i = 0; i < axis; ++i) rows.push_back(x.shape()[i]);
  rows.push_back(-1);
  for (int i = axis; i < x.rank(); ++i) kept.set(i, 1);
  const Tensor flat = reshape(x, rows), offset = optional_input(in, 2);
  const Tensor y = layer_norm(flat, reshape(in.at(1), {-1}), offset ? reshape(offset, {-1}) : Tensor(), {epsilon});
  const auto [mean, variance] = moments(flat, -1);
  return {reshape(y, x.shape()), reshape(mean, kept), reshape(rsqrt(variance + epsilon), kept)};
}

Outputs instance_normalization(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  Ints plane;
  for (int i = 2; i < x.rank(); ++i) plane.push_back(i);
  const auto [mean, variance] = moments(x, plane, {.keep_dims = true});
  Ints behind;
  for (int i = 1; i + 1 < x.rank(); ++i) behind.push_back(i);
  return {batch_norm(x, mean, variance, expand_dims(in.at(2), behind), expand_dims(in.at(1), behind),
                     node.real("epsilon", 1e-5))};
}

Outputs mean_variance_normalization(const Node& node, const Inputs& in) {
  const auto [mean, variance] = moments(in.at(0), node.ints("axes", {0, 2, 3}), {.keep_dims = true});
  return {(in[0] - mean) / (sqrt(variance) + 1e-9)};
}

// ---- Losses

losses::Reduction reduction_of(const Node& node) {
  const std::string name = node.text("reduction", "mean");
  return name == "none" ? losses::Reduction::none : name == "sum" ? losses::Reduction::sum : losses::Reduction::mean;
}

std::optional<std::int64_t> ignored_by(const Node& node) {
  return node.has("ignore_index") ? std::optional(node.whole("ignore_index", 0)) : std::nullopt;
}

/// The classes are ONNX's second axis.
Tensor classes_last(const Tensor& scores) { return transpose(scores, moved(scores.rank(), 1, scores.rank() - 1)); }

Outputs cross_entropy_loss(const Node& node, const Inputs& in) {
  const Tensor logits = classes_last(in.at(0));
  Outputs results{losses::cross_entropy(
      in.at(1), logits,
      {.class_weights = optional_input(in, 2), .ignore_index = ignored_by(node), .reduction = reduction_of(node)})};
  results.push_back(transpose(log_softmax(logits), moved(logits.rank(), logits.rank() - 1, 1)));
  return results;
}

Outputs likelihood_loss(const Node& node, const Inputs& in) {
  return {losses::nll(
      in.at(1), classes_last(in.at(0)),
      {.class_weights = optional_input(in, 2), .ignore_index = ignored_by(node), .reduction = reduction_of(node)})};
}

// ---- Recurrent networks

/// The inputs of ONNX's recurrent ops for one direction, and what they ask of ours.
struct Recurrence {
  std::int64_t hidden, in;
  bool batch_first;
  Tensor x, weight_ih, weight_hh, bias_ih, bias_hh, h;

  Recurrence(const Node& node, const Inputs& inputs, std::int64_t gates) : hidden(node.whole("hidden_size", 0)) {
    if (node.text("direction", "forward") != "forward") throw Inexpressible{"recurrent networks from the end"};
    batch_first = node.whole("layout", 0) != 0;
    x = inputs.at(0);
    in = x.shape()[2];
    weight_ih = inputs.at(1)(0);
    weight_hh = inputs.at(2)(0);
    const Tensor biases = optional_input(inputs, 3) ? inputs[3](0) : zeros({2 * gates * hidden});
    bias_ih = biases(range(0, gates * hidden));
    bias_hh = biases(range(gates * hidden, 2 * gates * hidden));
    if (const Tensor lengths = optional_input(inputs, 4))
      if (!reduce_all(equal(lengths, x.shape()[batch_first ? 1 : 0])).item<bool>())
        throw Inexpressible{"sequences of different lengths in a batch"};
    h = state(optional_input(inputs, 5));
  }

  /// ONNX's [directions, batch, hidden], or with the batch first, in ours.
  Tensor state(const Tensor& given) const { return bool(given) && batch_first ? transpose(given, {1, 0, 2}) : given; }
  Tensor given_back(const Tensor& state) const { return batch_first ? transpose(state, {1, 0, 2}) : state; }
  /// ONNX has an axis for the directions: [time, directions, batch, hidden] or [batch, time, directions, hidden].
  Tensor output(const Tensor& y) const { return expand_dims(y, batch_first ? 2 : 1); }

  /// The rows of the gates in another order.
  static Tensor gates(const Tensor& rows, std::initializer_list<std::size_t> order) {
    const std::vector<Tensor> parts = split(rows, order.size(), 0);
    std::vector<Tensor> ordered;
    for (const std::size_t i : order) ordered.push_back(parts[i]);
    return concat(ordered, 0);
  }

  void load(nn::Recurrent& network, std::initializer_list<std::size_t> order) const {
    nn::Recurrent::Weights& weights = network.layers[0];
    weights.weight_ih.assign(gates(weight_ih, order));
    weights.weight_hh.assign(gates(weight_hh, order));
    weights.bias_ih->assign(gates(bias_ih, order));
    weights.bias_hh->assign(gates(bias_hh, order));
  }
};

Outputs rnn(const Node& node, const Inputs& in) {
  const Recurrence r(node, in, 1);
  nn::RNN network(r.in, r.hidden, {.batch_first = r.batch_first});
  r.load(network, {0});
  const auto [output, state] = network(r.x, r.h);
  return {r.output(output), r.given_back(state)};
}

Outputs lstm(const Node& node, const Inputs& in) {
  if (optional_input(in, 7)) throw Inexpressible{"gates that see the cell (peepholes)"};
  const Recurrence r(node, in, 4);
  nn::LSTM network(r.in, r.hidden, {.batch_first = r.batch_first});
  r.load(network, {0, 2, 3, 1});
  const auto [output, state] = network(r.x, {r.h, r.state(optional_input(in, 6))});
  return {r.output(output), r.given_back(state.h), r.given_back(state.c)};
}

/// Ours, as PyTorch's, resets what the hidden state gives behind its product, ONNX's by default before. In one step
/// from zeros the two differ in the bias only.
Outputs gru(const Node& node, const Inputs& in) {
  Recurrence r(node, in, 3);
  nn::GRU network(r.in, r.hidden, {.batch_first = r.batch_first});
  if (node.whole("linear_before_reset", 0) == 0) {
    if (bool(r.h) || r.x.shape()[r.batch_first ? 1 : 0] != 1)
      throw Inexpressible{"gated units that reset the state before its product (linear_before_reset = 0)"};
    r.bias_ih = r.bias_ih + r.bias_hh;
    r.bias_hh = zeros_like(r.bias_hh);
  }
  r.load(network, {1, 0, 2});
  const auto [output, state] = network(r.x, r.h);
  return {r.output(output), r.given_back(state)};
}

Outputs dropped(const Node& node, const Inputs& in) {
  node.whole("seed", 0);
  node.real("ratio", 0.5);
  const double ratio = optional_input(in, 1) ? in[1].item<double>() : 0.5;
  const bool training = bool(optional_input(in, 2)) && in[2].item<bool>();
  if (training && ratio > 0) throw Inexpressible{"another library's random numbers"};
  return {dropout(in.at(0), 0), ones_like(in[0]).cast(boolean)};
}

}  // namespace

Functions network_functions() {
  Functions table;
  table["BatchNormalization"] = batch_normalization;
  table["Dropout"] = dropped;
  table["Einsum"] = [](const Node& n, const Inputs& in) -> Outputs { return {einsum(n.text("equation", ""), in)}; };
  table["GRU"] = gru;
  table["Gemm"] = gemm;
  table["Hardmax"] = hardmax;
  table["InstanceNormalization"] = instance_normalization;
  table["LSTM"] = lstm;
  table["LayerNormalization"] = layer_normalization;
  table["LogSoftmax"] = along_axis(log_softmax);
  table["MatMul"] = [](const Node&, const Inputs& in) -> Outputs { return {matmul(in.at(0), in.at(1))}; };
  table["MeanVarianceNormalization"] = mean_variance_normalization;
  table["NegativeLogLikelihoodLoss"] = likelihood_loss;
  table["RNN"] = rnn;
  table["Softmax"] = along_axis(softmax);
  table["SoftmaxCrossEntropyLoss"] = cross_entropy_loss;
  return table;
}

}  // namespace tapestry::test::onnx_case
