#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// When LBFGS ends a step, and what it remembers; the defaults are PyTorch's, but for the line search, which is theirs
/// by `line_search_fn="strong_wolfe"`.
struct LBFGSOptions {
  double learning_rate = 1;          ///< the first length that the line search tries, > 0
  int max_iterations = 20;           ///< directions in a step, >= 1
  int max_evaluations = 25;          ///< of the loss in a step, about: a line search is not cut off; >= 1
  double tolerance_gradient = 1e-7;  ///< a step ends when no element of the gradient is larger, >= 0
  double tolerance_change = 1e-9;    ///< or when neither loss nor Variables change by more, >= 0
  int history = 100;                 ///< pairs of changes that are remembered, >= 1
};

/// The limited-memory method of Broyden, Fletcher, Goldfarb and Shanno: directions from an estimate of the inverse
/// Hessian, which is built of the last changes, and along them a line search by the strong Wolfe conditions. For smooth
/// losses without noise, all data at once: it finds minima to all digits in few evaluations.
///
///     tp::train::LBFGS opt(net.parameters());
///     for (int i = 0; i < 10; ++i) opt.minimize([&] { return loss(); });
///
/// Eager only: how often the loss is computed depends on its values. The loss itself may be a traced function. (J.
/// Nocedal, S. Wright, "Numerical Optimization", 2nd edition, algorithms 3.5, 3.6 and 7.5.)
class TAPESTRY_API LBFGS {
 public:
  /// Throws InvalidArgumentError for no Variables, for such that are not all of one float type on one device, and for
  /// options out of their range.
  explicit LBFGS(std::vector<Variable> variables, const LBFGSOptions& options = {}, Where where = Where::here());

  /// Up to `max_iterations` directions; returns the loss, as it was before. A loss that is infinite or NaN along a
  /// direction shortens the way; where no way goes down the step ends and what is remembered is forgotten. Throws
  /// InvalidArgumentError when the loss is no scalar, is symbolic, or does not depend on the Variables, and
  /// FailedPreconditionError when it is infinite or NaN to begin with; then the Variables are as they were, also after
  /// what the loss throws.
  Tensor minimize(const Optimizer::Loss& loss, Where where = Where::here());

  /// Evaluations of the loss since the beginning.
  std::int64_t evaluations() const { return evaluations_; }
  /// Directions taken since the beginning.
  std::int64_t iterations() const { return iterations_; }

  /// For checkpoints: "iterations", "evaluations", and the remembered changes of the Variables and the gradients,
  /// "changes" and "gradient_changes", [pairs, elements of all Variables].
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when these are not the tensors that `state_dict` gives; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  struct Pair {
    Tensor change, gradient_change;  ///< [n]
    double product;                  ///< of the two, > 0
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
