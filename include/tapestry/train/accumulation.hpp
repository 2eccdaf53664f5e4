#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tapestry/train/groups.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// Makes one step of an optimizer from several batches. The gradients are summed up, divided by the number of batches,
/// and applied with the last batch. If each loss is a mean over a batch, and all batches have the same size, this
/// equals a step with one batch that is as large as all of them.
///
///     tp::train::GradientAccumulation accumulation(4);
///     for (auto [x, y] : loader) accumulation.minimize(optimizer, [&] { return loss(x, y); }, net.parameters());
///
/// It is made of ops, so that in a trace it becomes part of the graph. Of row-sparse gradients (see `indexed_slices`)
/// it keeps the rows, so that the step is that of a row-sparse gradient.
class TAPESTRY_API GradientAccumulation {
 public:
  /// Throws InvalidArgumentError for a number of batches below 1.
  explicit GradientAccumulation(std::int64_t batches, Where where = Where::here());

  /// A move copies, so that what was moved from can still be used.
  /// @{
  GradientAccumulation(const GradientAccumulation&) = default;
  GradientAccumulation& operator=(const GradientAccumulation&) = default;
  ~GradientAccumulation() = default;
  /// @}

  /// Adds the gradients of a loss, and makes a step if this is the last batch. Returns the loss. Without Variables, it
  /// uses all trainable ones that the loss reads, or those of ParameterGroups. Throws what `Optimizer::minimize`
  /// throws.
  Tensor minimize(const AnyOptimizer& optimizer, const Optimizer::Loss& loss,
                  const std::vector<Variable>& variables = {}, const ApplyOptions& options = {},
                  Where where = Where::here());
  /// The same with given gradients. Empty gradients count as zeros. Throws InvalidArgumentError when all are empty, and
  /// unless every call has the same Variables, in any order.
  void apply_gradients(const AnyOptimizer& optimizer, const TensorList& gradients,
                       const std::vector<Variable>& variables, const ApplyOptions& options = {},
                       Where where = Where::here());

  /// The number of batches that have been added since the last step.
  std::int64_t pending() const;

  /// The number of pending batches and the sums, for checkpoints: "pending", and "w" for the Variable "w" ("w#2" for
  /// the second one of that name).
  StateDict state_dict() const;
  /// Restores such a state. The sum of a Variable that has not been used yet is kept until its first use. Throws
  /// InvalidArgumentError when "pending" is missing or out of range, or a sum does not fit its Variable; then nothing
  /// has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  friend class DataParallel;
  friend class LossScale;
  /// Makes the step with the mean gradients, under the condition in its options. It is called for every batch; the
  /// scalar tells whether it is the last.
  using Step = std::function<void(const Tensor& is_last, const std::vector<Tensor>& means, const ApplyOptions&)>;
  void add(const TensorList& gradients, const std::vector<Variable>& variables, const ApplyOptions& options,
           const Step& step, Where where);

  struct Rows;
  /// What has been added up for a Variable: all of its gradient, or rows, if the first one was row-sparse.
  struct Sum {
    Variable variable;
    std::string key;
    std::optional<Variable> sum;
    std::shared_ptr<Rows> rows;
    Closure run;  ///< of the rows
  };
  Sum& sum_of(const Variable& variable, bool is_sparse, Where where);
  Tensor total_of(Sum& sum, const Tensor& gradient, const Tensor& is_last);
  void finish(Sum& sum, const Tensor& total, const Tensor& is_last);

  std::int64_t batches_;
  Variable pending_;
  std::vector<Sum> sums_;  ///< in the order of their first gradients
  StateDict waiting_;
};

/// @}

}  // namespace tapestry::train
