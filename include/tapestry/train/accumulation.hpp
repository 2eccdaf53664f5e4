#pragma once

#include <string>
#include <vector>

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// Makes one step of an optimizer out of several batches: the gradients are summed up, divided by the number of
/// batches, and applied with the last of them. That is the step of one batch as large as all of them, when each loss is
/// a mean over batches of one size.
///
///     tp::train::GradientAccumulation accumulation(4);
///     for (auto [x, y] : loader) accumulation.minimize(optimizer, [&] { return loss(x, y); }, net.parameters());
///
/// All of it is made of ops: in a trace it becomes part of the graph.
class TAPESTRY_API GradientAccumulation {
 public:
  /// Throws InvalidArgumentError for less than one batch.
  explicit GradientAccumulation(std::int64_t batches, Where where = Where::here());

  /// Adds the gradients of a loss, and makes a step if they are those of the last batch; returns the loss. Without
  /// Variables, all trainable ones that the loss reads are meant. Throws what `Optimizer::minimize` throws.
  Tensor minimize(Optimizer& optimizer, const Optimizer::Loss& loss, const std::vector<Variable>& variables = {},
                  const ApplyOptions& options = {}, Where where = Where::here());
  /// The same with gradients that are there; empty ones count as zeros, but not when all are empty. Each call must name
  /// the same Variables, in any order (InvalidArgumentError).
  void apply_gradients(Optimizer& optimizer, const TensorList& gradients, const std::vector<Variable>& variables,
                       const ApplyOptions& options = {}, Where where = Where::here());

  /// How many batches have been added since the last step.
  std::int64_t pending() const;

  /// The sums and their number, for checkpoints: "pending", and "w" for the Variable "w" ("w#2" for the second one of
  /// that name).
  StateDict state_dict() const;
  /// Sums of Variables that have not come yet wait for them. Throws InvalidArgumentError when "pending" is missing or
  /// out of range, or a sum does not fit its Variable; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  struct Sum {
    Variable variable;
    std::string key;
    Variable sum;
  };
  Variable& sum_of(const Variable& variable, Where where);

  std::int64_t batches_;
  Variable pending_;
  std::vector<Sum> sums_;  ///< in the order of their first gradients
  StateDict waiting_;
};

/// @}

}  // namespace tapestry::train
