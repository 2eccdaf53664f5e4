#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// When LBFGS ends a step, and what it remembers. The defaults are those of PyTorch with
/// `line_search_fn="strong_wolfe"`.
struct LBFGSOptions {
  /// The step length that a line search tries first, > 0.
  double learning_rate = 1;
  /// The largest number of directions in a step, >= 1.
  int max_iterations = 20;
  /// The approximate largest number of evaluations of the loss in a step, >= 1. A line search is not cut off.
  int max_evaluations = 25;
  /// A step ends when no element of the gradient is larger, >= 0.
  double tolerance_gradient = 1e-7;
  /// A step ends when neither the loss nor the Variables change by more, >= 0.
  double tolerance_change = 1e-9;
  /// The number of pairs of changes that are remembered, >= 1.
  int history = 100;
};

/// The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno. It takes directions from an estimate of the
/// inverse Hessian, which it builds from the last changes, and searches along them by the strong Wolfe conditions. It
/// is for smooth losses without noise, with all data at once: it finds minima to all digits in few evaluations.
///
///     tp::train::LBFGS opt(net.parameters());
///     for (int i = 0; i < 10; ++i) opt.minimize([&] { return loss(); });
///
/// It is eager only, because the number of evaluations of the loss depends on its values. The loss itself may be a
/// traced function. (J. Nocedal, S. Wright, "Numerical Optimization", 2nd edition, algorithms 3.5, 3.6 and 7.5.)
class TAPESTRY_API LBFGS {
 public:
  /// Throws InvalidArgumentError for an empty list, for Variables that are not all of one float type on one device, and
  /// for options out of their range.
  explicit LBFGS(std::vector<Variable> variables, const LBFGSOptions& options = {}, Where where = Where::here());

  /// A move copies, so that what was moved from can still be used.
  /// @{
  LBFGS(const LBFGS&) = default;
  LBFGS& operator=(const LBFGS&) = default;
  ~LBFGS() = default;
  /// @}

  /// Makes a step of up to `max_iterations` directions, and returns the loss before the step. A loss that is infinite
  /// or NaN along a direction shortens the step length. When the loss cannot be decreased along a direction, the step
  /// ends and the remembered changes are dropped. Throws InvalidArgumentError when the loss is not a scalar, is
  /// symbolic, or does not depend on the Variables, and FailedPreconditionError when it is infinite or NaN at the
  /// start. After these errors, and after an exception from the loss, the Variables are unchanged.
  Tensor minimize(const Optimizer::Loss& loss, Where where = Where::here());

  /// The number of evaluations of the loss since the beginning.
  std::int64_t evaluations() const { return evaluations_; }
  /// The number of directions taken since the beginning.
  std::int64_t iterations() const { return iterations_; }

  /// The state for checkpoints: "iterations", "evaluations", and the remembered changes of the Variables and of the
  /// gradients, "changes" and "gradient_changes", [pairs, elements of all Variables].
  StateDict state_dict() const;
  /// Restores such a state. Throws InvalidArgumentError unless these are the tensors of a `state_dict`; then nothing
  /// has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  struct Pair {
    Tensor change, gradient_change;  ///< [n]
    double product;                  ///< their dot product, > 0
  };
  struct Point {
    double length = 0, loss = 0, slope = 0;  ///< along the direction
    Tensor gradient;                         ///< [n]
  };
  class Search;
  void set(const Tensor& flat);
  Tensor flat_values() const;
  std::pair<Tensor, Tensor> evaluate(const Optimizer::Loss& loss, Where where);
  void remember(const Tensor& change, const Tensor& gradient_change);
  Tensor direction(const Tensor& gradient) const;
  void run(const Optimizer::Loss& loss, double value, Tensor gradient, Where where);

  std::vector<Variable> variables_;
  LBFGSOptions options_;
  std::deque<Pair> pairs_;  ///< the oldest first
  std::int64_t iterations_ = 0, evaluations_ = 0;
};

/// @}

}  // namespace tapestry::train
