#pragma once

#include <functional>

#include "tapestry/nn/module.hpp"
#include "tapestry/nn/packed.hpp"
#include "tapestry/op.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// Recurrent networks over sequences [batch, time, in], or [time, batch, in] with `{.batch_first = false}`, which is
/// PyTorch's default. In a trace the steps are unrolled where their number is known, and a loop of the graph where it
/// is not; an LSTM is one operation in both. Names, shapes, the order of the gates and the initial values (uniform in
/// [-1/sqrt(hidden), 1/sqrt(hidden))) are those of PyTorch.
///
/// Sequences of unequal lengths are padded at their end to one tensor, and a call gets their lengths [batch], int32 or
/// int64. What the padding holds does not matter. The outputs beyond a length are 0, the state is the one after the
/// last step of each sequence, and the backward direction begins at its end: the results are those of each sequence
/// alone. A length of 0 leaves the first state as it is. A call with a PackedSequence computes the same and returns its
/// output packed; states are in the order before packing.
/// @{

/// How RNN, LSTM and GRU are built.
struct RecurrentOptions {
  /// The number of layers. Each layer reads the outputs of the one below.
  std::int64_t layers = 1;
  /// Whether both products have a bias.
  bool bias = true;
  /// Whether sequences are [batch, time, in] instead of [time, batch, in].
  bool batch_first = true;
  /// Whether each layer reads its sequence a second time from the end, with other weights, and returns both outputs
  /// side by side, [..., 2 * hidden].
  bool bidirectional = false;
  /// The dropout rate in training mode of the outputs of each layer but the last.
  double dropout = 0;
};

/// The base of RNN, LSTM and GRU: their weights, and the loop over time.
class TAPESTRY_API Recurrent : public Module {
 public:
  /// The weights of one layer, or of one direction of a layer. The cell determines the number of gates.
  struct Weights {
    Parameter weight_ih;               ///< [gates * hidden, in], or, above the first layer, the size of the layer below
    Parameter weight_hh;               ///< [gates * hidden, hidden]
    std::optional<Parameter> bias_ih;  ///< [gates * hidden]
    std::optional<Parameter> bias_hh;  ///< [gates * hidden]
  };
  /// The weights of all layers, from the first to the last. With two directions, each layer has its forward weights,
  /// then its backward weights.
  std::vector<Weights> layers;
  /// "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse", ..., "weight_ih_l1", ...
  Fields fields() override;
  /// The sizes in and hidden, such as "8, 16".
  std::string size_text() const override;

 protected:
  /// The outputs and states of one or more layers.
  struct Sequence {
    Tensor output;     ///< h at each time step
    Tensors state;     ///< the last state; that of several layers and directions is [layers, batch, hidden] each
    Tensors states{};  ///< the state after each time step, of one layer and direction: [batch, time, hidden] each
  };
  /// One layer in one direction: computes h after each step, [batch, time, hidden], and the last state, [batch, hidden]
  /// each, from x weight_ih^T, [batch, time, gates * hidden], and from the first state, whose first tensor is h. Only
  /// where lengths are given, it also gives the state after each step.
  using Scan = std::function<Sequence(const Tensor& from_input, const Weights& weights, const Tensors& state)>;
  /// One step: computes the next state from the step's part of x weight_ih^T + bias_ih and from h weight_hh^T +
  /// bias_hh, each [batch, gates * hidden], and from the state.
  using Cell = std::function<Tensors(const Tensor& from_input, const Tensor& from_hidden, const Tensors& state)>;
  /// The layer that computes one step after the other.
  static Scan step_by_step(Cell cell);

  /// Throws InvalidArgumentError for a size or a number of layers below 1, and for a dropout rate outside [0, 1).
  Recurrent(std::int64_t in, std::int64_t hidden, std::int64_t gates, const RecurrentOptions& options, Where where);
  /// The sequences of a pack as a call takes them.
  PaddedSequences padded(const PackedSequence& packed, Where where) const;
  /// Packs outputs of a call in the order of a pack.
  PackedSequence packed(const Tensor& output, const Tensor& lengths, Where where) const;
  /// Runs all layers. `initial` has as many tensors as a state; empty ones stand for zeros.
  Sequence run(In x, const Tensors& initial, const Tensor& lengths, const Scan& scan) const;

 private:
  static Sequence as_loop(const Cell& cell, const Tensor& inputs, const Weights& weights, const Tensors& initial);
  Sequence run_direction(std::size_t place, const Tensor& x, const Tensors& initial, const Tensor& lengths,
                         const Scan& scan) const;
  void check(const Tensor& x, const Tensors& initial, const Tensor& lengths) const;
  std::size_t directions() const { return options_.bidirectional ? 2 : 1; }

  std::int64_t in_, hidden_;
  RecurrentOptions options_;
  NamedParts named_parts_{this};
};

// With two directions, `hidden` is doubled in the outputs below, and there are twice as many states. The two states of
// a layer are next to each other; the backward one is the state after time 0.

/// The result of RNN and GRU.
struct RNNResult {
  Tensor output;  ///< [batch, time, hidden], or [time, batch, hidden]
  Tensor state;   ///< h after the last step, [layers, batch, hidden]
};

/// The result of RNN and GRU for a pack.
struct PackedRNNResult {
  PackedSequence output;  ///< h of each step
  Tensor state;           ///< h after the last step of each sequence, [layers, batch, hidden]
};

/// The function that an RNN applies to the sum of the two products.
enum class Nonlinearity {
  tanh,  ///< `tp::tanh`
  relu,  ///< `tp::relu`
};

/// h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or with relu instead of tanh. PyTorch's RNN. (J. Elman, "Finding structure
/// in time", 1990.)
class TAPESTRY_API RNN : public Recurrent {
 public:
  /// Throws InvalidArgumentError for a size below 1, and for a dropout rate outside [0, 1).
  RNN(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh, Where where = Where::here());

  /// Starts from a state [layers, batch, hidden], or from zeros. Throws InvalidArgumentError when sizes or lengths do
  /// not fit.
  RNNResult operator()(In x, In state = {}, In lengths = {}) const;
  /// The same for a pack.
  PackedRNNResult operator()(const PackedSequence& x, In state = {}, Where where = Where::here()) const;

 private:
  Nonlinearity nonlinearity_;
};

/// r = sigmoid(...), z = sigmoid(...), n = tanh(W_in x + b_in + r (W_hn h + b_hn)), h' = (1 - z) n + z h. The rows of
/// the weights are in the order r, z, n. PyTorch's GRU. (K. Cho et al., "Learning phrase representations using RNN
/// encoder-decoder", 2014.)
class TAPESTRY_API GRU : public Recurrent {
 public:
  /// Throws InvalidArgumentError for a size below 1, and for a dropout rate outside [0, 1).
  GRU(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {}, Where where = Where::here());

  /// Starts from a state [layers, batch, hidden], or from zeros. Throws InvalidArgumentError when sizes or lengths do
  /// not fit.
  RNNResult operator()(In x, In state = {}, In lengths = {}) const;
  /// The same for a pack.
  PackedRNNResult operator()(const PackedSequence& x, In state = {}, Where where = Where::here()) const;
};

/// The state of an LSTM, [layers, batch, hidden] each.
struct LSTMState {
  Tensor h;  ///< the output of the last step
  Tensor c;  ///< the memory of the cell
};
/// The result of an LSTM.
struct LSTMResult {
  Tensor output;    ///< [batch, time, hidden], or [time, batch, hidden]
  LSTMState state;  ///< the state after the last step
};

/// The result of an LSTM for a pack.
struct PackedLSTMResult {
  PackedSequence output;  ///< h of each step
  LSTMState state;        ///< the state after the last step of each sequence
};

/// i, f, o = sigmoid(...), g = tanh(...), c' = f c + i g, h' = o tanh(c'). The rows of the weights are in the order i,
/// f, g, o. PyTorch's LSTM. (S. Hochreiter, J. Schmidhuber, "Long short-term memory", 1997.)
class TAPESTRY_API LSTM : public Recurrent {
 public:
  /// Throws InvalidArgumentError for a size below 1, and for a dropout rate outside [0, 1).
  LSTM(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {}, Where where = Where::here());

  /// Starts from a state, or from zeros. Throws InvalidArgumentError when sizes or lengths do not fit.
  LSTMResult operator()(In x, const LSTMState& state = {}, In lengths = {}) const;
  /// The same for a pack.
  PackedLSTMResult operator()(const PackedSequence& x, const LSTMState& state = {}, Where where = Where::here()) const;
};

/// Whether a cell has biases.
struct CellOptions {
  bool bias = true;  ///< whether numbers are added to both products
};
/// The base of RNNCell, GRUCell and LSTMCell: the weights of one step. They have the names, shapes and initial values
/// of PyTorch's cells, and the order of the gates of the networks above.
class TAPESTRY_API RecurrentCell : public Module {
 public:
  Parameter weight_ih;               ///< [gates * hidden, in]
  Parameter weight_hh;               ///< [gates * hidden, hidden]
  std::optional<Parameter> bias_ih;  ///< [gates * hidden]
  std::optional<Parameter> bias_hh;  ///< [gates * hidden]
  TAPESTRY_FIELDS(weight_ih, weight_hh, bias_ih, bias_hh)
  /// The sizes, such as "3, 4".
  std::string size_text() const override;

 protected:
  /// For the cells.
  /// @{
  RecurrentCell(std::string_view layer, std::int64_t in, std::int64_t hidden, std::int64_t gates,
                const CellOptions& options, Where where);
  Tensor from_input(const Tensor& x) const;
  Tensor from_hidden(const Tensor& h) const;
  Tensor state_or_zeros(const Tensor& state, const Tensor& x) const;
  /// @}
};
/// One step of an RNN: x [batch, in] and h [batch, hidden], by default zeros, give the next h. For networks whose next
/// input depends on the last output, and for `tp::scan`.
class TAPESTRY_API RNNCell : public RecurrentCell {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  RNNCell(std::int64_t in, std::int64_t hidden, const CellOptions& options = {},
          Nonlinearity nonlinearity = Nonlinearity::tanh, Where where = Where::here());
  /// The next state.
  Tensor operator()(In x, In h = {}) const;

 private:
  Nonlinearity nonlinearity_;
};
/// One step of a GRU: x [batch, in] and h [batch, hidden], by default zeros, give the next h.
class TAPESTRY_API GRUCell : public RecurrentCell {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  GRUCell(std::int64_t in, std::int64_t hidden, const CellOptions& options = {}, Where where = Where::here());
  /// The next state.
  Tensor operator()(In x, In h = {}) const;
};
/// One step of an LSTM: x [batch, in] and a state [batch, hidden], by default zeros, give the next state.
class TAPESTRY_API LSTMCell : public RecurrentCell {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  LSTMCell(std::int64_t in, std::int64_t hidden, const CellOptions& options = {}, Where where = Where::here());
  /// The next state.
  LSTMState operator()(In x, const LSTMState& state = {}) const;
};

/// @}

}  // namespace tapestry::nn
