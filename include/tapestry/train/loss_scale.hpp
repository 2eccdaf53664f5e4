#pragma once

#include "tapestry/train/accumulation.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// The options of LossScale.
struct LossScaleOptions {
  double initial_scale = 32768;  ///< the first scale, >= 1; a power of 2 changes no digit
  int growth_steps = 2000;       ///< the number of good steps in a row after which the scale doubles
};

/// Keeps small gradients from vanishing in float16: the loss is multiplied by a scale, and the gradients are divided by
/// it before an optimizer sees them. The scale adapts itself, as in TensorFlow's LossScaleOptimizer and PyTorch's
/// GradScaler: a step with an infinite gradient or a NaN is not made, and halves the scale (but not below 1); 2000 good
/// steps in a row double it. bfloat16 has a float's range and does not need this.
///
///     tp::train::LossScale loss_scale;
///     auto step = tp::trace([&](tp::Tensor x, tp::Tensor y) {
///       return loss_scale.minimize(optimizer, [&] {
///         const tp::Autocast scope(tp::float16);
///         return tp::reduce_mean(tp::sparse_softmax_cross_entropy(y, net(x)));
///       });
///     }, {tp::spec(tp::float32, {-1, 784}), tp::spec(tp::int32, {-1})});
///
/// It is made of ops, so that it works in the same way in eager steps, in traces and in graphs. (P. Micikevicius, S.
/// Narang, J. Alben et al., "Mixed precision training", 2018.)
class TAPESTRY_API LossScale {
 public:
  /// Throws InvalidArgumentError for options out of their range.
  explicit LossScale(const LossScaleOptions& options = {}, Where where = Where::here());

  /// The loss times the scale, from which the gradients are computed. A loss of a half type becomes float32.
  Tensor scale(In loss) const;
  /// The gradients of the scaled loss, divided by the scale. They keep their types, and empty ones stay empty. Clipping
  /// comes after this.
  std::vector<Tensor> unscale(const InList& gradients) const;

  /// Makes a step with gradients from `unscale` if all are finite, and adapts the scale. A step that is not made
  /// changes neither Variables nor slots, nor the optimizer's number of steps, nor the global step. Otherwise this is
  /// `Optimizer::apply_gradients`, and throws what that throws.
  Operation apply_gradients(const AnyOptimizer& optimizer, const TensorList& gradients,
                            const std::vector<Variable>& variables, const ApplyOptions& options = {},
                            Where where = Where::here());

  /// Does all of this for one step, in eager code or in a trace, and returns the loss before the step. Without
  /// Variables, it uses all trainable ones that the loss reads, or those of ParameterGroups.
  Tensor minimize(const AnyOptimizer& optimizer, const Optimizer::Loss& loss,
                  const std::vector<Variable>& variables = {}, const ApplyOptions& options = {},
                  Where where = Where::here());
  /// The same for a step that is made from several batches: the gradients are divided by the scale before they are
  /// summed up, and the scale adapts itself with the last batch. An infinite or NaN gradient of any of the batches
  /// skips the whole step.
  Tensor minimize(GradientAccumulation& accumulation, const AnyOptimizer& optimizer, const Optimizer::Loss& loss,
                  const std::vector<Variable>& variables = {}, const ApplyOptions& options = {},
                  Where where = Where::here());

  /// The scale of the next step.
  double value() const;

  /// The state for checkpoints (`.more = {{"loss_scale", &loss_scale}}`): "scale", float32, and "good_steps", int64,
  /// both scalars.
  StateDict state_dict() const;
  /// Restores such a state. Throws InvalidArgumentError for a state of another form, and for a scale that is below 1 or
  /// infinite; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  friend class DataParallel;
  std::pair<std::vector<Tensor>, std::vector<Variable>> gradients_of(const AnyOptimizer& optimizer,
                                                                     const Optimizer::Loss& loss,
                                                                     const std::vector<Variable>& variables,
                                                                     Tensor& value, Where where) const;
  Operation step(const AnyOptimizer& optimizer, const TensorList& gradients, const std::vector<Variable>& variables,
                 const ApplyOptions& options, const Tensor& is_last, Where where);
  Operation adapt(const Tensor& finite, const Tensor& is_last, const Operation& after, Where where);

  std::int64_t growth_steps_;
  Variable scale_, good_steps_;
};

/// @}

}  // namespace tapestry::train
