#pragma once

#include <functional>

#include "tapestry/nn/module.hpp"
#include "tapestry/op.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// Recurrent networks over sequences [batch, time, in], or [time, batch, in] with `{.batch_first = false}`, which is
/// PyTorch's default. The number of time steps must be known when a trace is made; the batch need not be. Names,
/// shapes, order of the gates and initial values (uniform in [-1/sqrt(hidden), 1/sqrt(hidden))) are PyTorch's.
/// @{

/// How RNN, LSTM and GRU are built.
struct RecurrentOptions {
  std::int64_t layers = 1;  ///< one above the other: each reads the outputs of the one below
  bool bias = true;         ///< of both products
  bool batch_first = true;  ///< sequences are [batch, time, in], otherwise [time, batch, in]
  /// Each layer reads its sequence a second time from the end, with weights of its own, and gives both outputs side by
  /// side: [..., 2 * hidden].
  bool bidirectional = false;
  double dropout = 0;  ///< in training mode, of the outputs of each layer but the last
};

/// What RNN, LSTM and GRU have in common: their weights, and the loop over time.
class TAPESTRY_API Recurrent : public Module {
 public:
  /// The weights of one layer, or of one direction of it, for as many gates as its cell has.
  struct Weights {
    Parameter weight_ih;               ///< [gates * hidden, in], or what the layer below gives
    Parameter weight_hh;               ///< [gates * hidden, hidden]
    std::optional<Parameter> bias_ih;  ///< [gates * hidden]
    std::optional<Parameter> bias_hh;  ///< [gates * hidden]
  };
  std::vector<Weights> layers;  ///< from the one that reads x upwards; in both directions forward and back by turns
  /// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse", ..., "weight_ih_l1", ...
  Fields fields() override;
  std::string size_text() const override;  ///< "8, 16": in and hidden

 protected:
  /// One step: from x weight_ih^T + bias_ih, from h weight_hh^T + bias_hh, each [batch, gates * hidden], and from the
  /// state, whose first tensor is h, to the next state.
  using Cell = std::function<Tensors(const Tensor& from_input, const Tensor& from_hidden, const Tensors& state)>;
  /// What `run` gives.
  struct Sequence {
    Tensor output;  ///< h of the last layer at each time
    Tensors state;  ///< the last of each layer and direction, [layers, batch, hidden]
  };

  /// Throws InvalidArgumentError for a size, or a number of layers, below 1.
  Recurrent(std::int64_t in, std::int64_t hidden, std::int64_t gates, const RecurrentOptions& options, Where where);
  /// `initial` are as many tensors as a state has; empty ones stand for zeros.
  Sequence run(In x, const Tensors& initial, const Cell& cell) const;

 private:
  std::vector<Tensors> run_direction(std::size_t place, const Tensor& x, const Tensors& initial,
                                     const Cell& cell) const;
  void check(const Tensor& x, const Tensors& initial) const;
  std::size_t directions() const { return options_.bidirectional ? 2 : 1; }

  std::int64_t in_, hidden_;
  RecurrentOptions options_;
  NamedParts named_parts_{this};
};

// In both directions `hidden` is twice as much in what follows, and there are twice as many states, those of one layer
// next to each other; the one that reads from the end has its last state at time 0.

/// What RNN and GRU give.
struct RNNResult {
  Tensor output;  ///< [batch, time, hidden], or [time, batch, hidden]
  Tensor state;   ///< [layers, batch, hidden], h after the last step
};

/// What an RNN does to the sum of the two products.
enum class Nonlinearity {
  tanh,  ///< `tp::tanh`
  relu,  ///< `tp::relu`
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu: PyTorch's RNN. (J. Elman, "Finding structure in time",
/// 1990.)
class TAPESTRY_API RNN : public Recurrent {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  RNN(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh, Where where = Where::here());

  /// Starts from a state [layers, batch, hidden], or from zeros. Throws InvalidArgumentError when sizes do not fit.
  RNNResult operator()(In x, In state = {}) const;

 private:
  Nonlinearity nonlinearity_;
};

/// r = sigmoid(...), z = sigmoid(...), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h; the rows of
/// the weights are those of r, z and n. PyTorch's GRU. (K. Cho et al., "Learning phrase representations using RNN
/// encoder-decoder", 2014.)
class TAPESTRY_API GRU : public Recurrent {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  GRU(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {}, Where where = Where::here());

  /// Starts from a state [layers, batch, hidden], or from zeros. Throws InvalidArgumentError when sizes do not fit.
  RNNResult operator()(In x, In state = {}) const;
};

/// What an LSTM remembers, [layers, batch, hidden] each.
struct LSTMState {
  Tensor h;  ///< the output of the last step
  Tensor c;  ///< the cell's memory
};
/// What an LSTM gives.
struct LSTMResult {
  Tensor output;    ///< [batch, time, hidden], or [time, batch, hidden]
  LSTMState state;  ///< after the last step
};

/// i, f, o = sigmoid(...), g = tanh(...), c' = f c + i g, h' = o tanh(c'); the rows of the weights are those of i, f, g
/// and o. PyTorch's LSTM. (S. Hochreiter, J. Schmidhuber, "Long short-term memory", 1997.)
class TAPESTRY_API LSTM : public Recurrent {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  LSTM(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {}, Where where = Where::here());

  /// Starts from a state, or from zeros. Throws InvalidArgumentError when sizes do not fit.
  LSTMResult operator()(In x, const LSTMState& state = {}) const;
};

/// @}

}  // namespace tapestry::nn
