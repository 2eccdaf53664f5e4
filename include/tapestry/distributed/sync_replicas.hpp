#pragma once

#include <memory>
#include <vector>

#include "tapestry/distributed/monitored_session.hpp"
#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup distributed
/// @{

/// How many workers train together.
struct SyncReplicasOptions {
  /// The number of workers; by default `replicas_to_aggregate`. The workers beyond it are backups: a step takes the
  /// gradients that come first, and those that come too late for it are dropped.
  int total_num_replicas = 0;
};

/// Synchronous training on parameter servers: a step uses the mean of the gradients of `replicas_to_aggregate` workers,
/// all computed with the same values of the Variables. If each loss is a mean over a batch, and all batches have the
/// same size, this is a step with the joint batch but for the rounding of the sum.
///
///     tp::train::GradientDescentOptimizer descent(0.1);
///     tp::train::SyncReplicasOptimizer opt(descent, 2);
///     auto step = opt.minimize(loss, {.global_step = tp::train::global_step()});
///     tp::train::MonitoredSession training(server.target(), {.is_chief = is_chief,
///                                                            .hooks = {opt.make_session_run_hook(is_chief)}});
///     while (!training.should_stop()) training.run(step, next_batch());
///
/// It works as TensorFlow's optimizer of this name: each Variable has an accumulator beside it, to which the workers
/// add gradients, and which drops a gradient that was computed with the values of an earlier step. The chief takes the
/// means, applies them, and gives each worker a token, for which a worker waits after its gradients. So the parameter
/// servers and the masters may be TensorFlow's servers. The workers are the tasks 0, 1, ... of one job, or a task of a
/// job "chief" and those of "worker", on whose devices the operations of their graphs are. Row-sparse gradients (see
/// `indexed_slices`) stay so.
///
/// It needs sessions on servers: in one without a target, its operations throw UnimplementedError. The optimizer must
/// outlive this object.
class TAPESTRY_API SyncReplicasOptimizer {
 public:
  /// Throws InvalidArgumentError for less than one gradient a step, and for fewer workers than that.
  SyncReplicasOptimizer(Optimizer& optimizer, int replicas_to_aggregate, const SyncReplicasOptions& options = {},
                        Where where = Where::here());

  /// Adds the operations of a step to the default graph, and returns the one that each worker runs: it computes the
  /// gradients of this worker, and waits until the step has been made. Once for each object. Throws
  /// InvalidArgumentError without `ApplyOptions::global_step`, and UnavailableError without the plugin of sessions on
  /// servers; the rest is as for Optimizer.
  /// @{
  Operation minimize(const Tensor& loss, const std::vector<Variable>& variables, const ApplyOptions& options = {},
                     Where where = Where::here());
  Operation minimize(const Tensor& loss, const ApplyOptions& options = {}, Where where = Where::here()) {
    return minimize(loss, std::vector<Variable>(), options, where);
  }
  Operation apply_gradients(const GradientsAndVariables& gradients, const ApplyOptions& options = {},
                            Where where = Where::here());
  /// @}

  /// What the MonitoredSession of each worker needs: a hook that begins the worker's steps at the global step, and, at
  /// the chief, makes the steps on a thread of its own while the session lives. Throws FailedPreconditionError before
  /// `minimize`.
  SessionHook make_session_run_hook(bool is_chief, Where where = Where::here()) const;

  /// The operations of which the hook consists, for a loop by hand.
  struct Operations {
    Operation train{};       ///< of a worker: its gradients, and the wait for the step
    Operation sync{};        ///< of the chief, again and again: waits for the gradients and makes the step
    Operation chief_init{};  ///< of the chief, once all Variables have values: before the first `sync`
    Operation local_init{};  ///< of the other workers, then
    Operation tokens{};      ///< gives each worker a token more, so that it goes on after a failure
    Operation close{};       ///< ends all waiting for tokens with OutOfRangeError
    Tensor starts{};         ///< how often `chief_init` has run on the servers
  };
  /// The operations of the last `apply_gradients` or `minimize`.
  const Operations& operations() const { return operations_; }

 private:
  Optimizer& optimizer_;
  int replicas_to_aggregate_, total_num_replicas_;
  Operations operations_;
};

/// @}

}  // namespace tapestry::train
