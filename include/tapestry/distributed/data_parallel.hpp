#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tapestry/distributed/communicator.hpp"
#include "tapestry/train/accumulation.hpp"
#include "tapestry/train/loss_scale.hpp"
#include "tapestry/train/optimizer.hpp"

namespace tapestry::detail {
struct SharedSettings;
}

namespace tapestry::train {

/// @addtogroup distributed
/// @{

/// How the ranks exchange gradients, which must be the same on all of them.
struct DataParallelOptions {
  /// Gradients are sent in buckets of about this many bytes: small ones are sent earlier, large ones at less cost.
  std::int64_t bucket_bytes = 4 << 20;
  /// The number of batches from which one step is made, as by a GradientAccumulation. The ranks exchange gradients with
  /// the last of them only.
  std::int64_t accumulate = 1;
  /// The largest norm of all gradients together, after their mean over the ranks has been computed: larger ones are
  /// scaled down as by `clip_by_global_norm`. 0: any norm.
  double clip_norm = 0;
  /// The scale of the loss, for float16; nullptr: none. A step that is not finite on some rank is skipped on all of
  /// them, and the scale adapts itself with each step, so that it stays the same on all ranks. Norms are clipped after
  /// the gradients have been divided by it. It must outlive the DataParallel.
  LossScale* loss_scale = nullptr;
};

/// Trains copies of a model, one on each rank, each on batches of its own: a step uses the mean of the ranks'
/// gradients, so that all copies stay equal, bit for bit. If each loss is a mean over a batch, and all batches have the
/// same size, this is a step with the joint batch but for the rounding of the sum.
///
///     auto world = tp::Communicator::world();
///     world.broadcast(model.parameters());
///     tp::train::DataParallel training(adam, world);
///     tp::data::Loader batches(set, {.batch = 64, .shuffle = true, .seed = 1, .shard = world.shard()});
///     for (auto [x, y] : batches) training.minimize([&] { return loss(model(x), y); });
///
/// A gradient is sent as soon as it is complete, while the backward walk still computes the others. Of a row-sparse one
/// (see `indexed_slices`) the rows are gathered from all ranks, so that the step is that of a row-sparse gradient. All
/// ranks must make the same steps, with the same optimizer, settings and losses that read the same Variables in the
/// same order; otherwise they throw InvalidArgumentError. It works on a trace as it does eagerly. In the place of the
/// optimizer, ParameterGroups can make the steps. What makes them must outlive it.
class TAPESTRY_API DataParallel {
 public:
  /// Throws InvalidArgumentError for less than 1 byte or batch, and for a norm that is negative or not finite.
  DataParallel(const AnyOptimizer& optimizer, const Communicator& world, const DataParallelOptions& options = {},
               Where where = Where::here());

  /// Computes the loss of this rank's batch and its gradients, makes a step with the means of all ranks' gradients, and
  /// returns the loss of this rank before the step. The rest is as for `Optimizer::minimize`, or, without Variables,
  /// for `ParameterGroups::minimize`.
  /// @{
  Tensor minimize(const Optimizer::Loss& loss, const ApplyOptions& options = {}, Where where = Where::here());
  Tensor minimize(const Optimizer::Loss& loss, const std::vector<Variable>& variables, const ApplyOptions& options = {},
                  Where where = Where::here());
  Tensor minimize(const Optimizer::Loss& loss, std::initializer_list<Variable> variables,
                  const ApplyOptions& options = {}, Where where = Where::here()) {
    return minimize(loss, std::vector<Variable>(variables), options, where);
  }
  /// @}
  /// The same for a loss in a graph: returns the operation that makes a step. Throws UnimplementedError with
  /// `accumulate`, which needs a trace.
  Operation minimize(const Tensor& loss, const std::vector<Variable>& variables = {}, const ApplyOptions& options = {},
                     Where where = Where::here());
  /// Makes a step with the means of all ranks' gradients, which are given; with a loss scale, those that its `unscale`
  /// has returned. The returned handle is that of `Optimizer::apply_gradients`; with `accumulate`, it is empty.
  Operation apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                            const ApplyOptions& options = {}, Where where = Where::here());

  /// With `accumulate`, the number of batches that have been added since the last step, and the sums, for checkpoints.
  /// @{
  std::int64_t pending() const { return accumulation_.pending(); }
  StateDict state_dict() const { return accumulation_.state_dict(); }
  void load_state_dict(const StateDict& state, Where where = Where::here()) {
    accumulation_.load_state_dict(state, where);
  }
  /// @}

 private:
  Tensor minimize_all(const Optimizer::Loss& loss, const std::vector<Variable>* variables, const ApplyOptions& options,
                      Where where);
  std::vector<Tensor> unscaled(const std::vector<Tensor>& gradients, Where where) const;
  Operation step(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                 const ApplyOptions& options, const Tensor& is_last, Where where);
  Operation apply(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                  const ApplyOptions& options, Where where);
  detail::SharedSettings settings() const;
  std::vector<Tensor> clipped(std::vector<Tensor> gradients, Where where) const;

  AnyOptimizer optimizer_;
  Communicator world_;
  DataParallelOptions options_;
  GradientAccumulation accumulation_;
};

/// @}

}  // namespace tapestry::train
