#include "tapestry/distributed/sync_replicas.hpp"

#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>

#include "distributed/rpc_plugin.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::train {
namespace {

/// The chief's thread, which makes the steps.
class StepMaker {
 public:
  explicit StepMaker(const SyncReplicasOptimizer::Operations& operations) : operations_(operations) {}
  StepMaker(const StepMaker&) = delete;
  StepMaker& operator=(const StepMaker&) = delete;
  ~StepMaker() { end(); }

  void begin(const Session& session) {
    end();
    const bool again = session.run(operations_.starts, {}, Where()).item<std::int32_t>() > 0;
    session.run(operations_.chief_init, {}, Where());
    // Workers may wait for tokens of a step whose gradients a lost server, or an earlier chief, has taken along.
    if (again) session.run(operations_.tokens, {}, Where());
    error_ = nullptr;
    thread_ = std::jthread([this, &session](const std::stop_token& stop) { make_steps(session, stop); });
  }
  /// Throws the error with which it has ended by itself, if it was not that a server was lost.
  void check() {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }
  /// The session may end then.
  void end() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }

 private:
  void make_steps(const Session& session, const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      try {
        run(session, operations_.sync, stop);
      } catch (const Error& error) {
        if (stop.stop_requested()) return;
        // No step will be made: all workers must notice, at the next run or at once.
        const bool is_lost = error.code() == Code::unavailable || error.code() == Code::aborted;
        if (!is_lost) {
          const std::lock_guard lock(mutex_);
          error_ = std::current_exception();
        }
        try {
          run(session, is_lost ? operations_.tokens : operations_.close, stop);
        } catch (const Error&) {  // NOLINT(bugprone-empty-catch): then their own waiting fails
        }
        return;
      }
    }
  }
  static void run(const Session& session, const Operation& operation, const std::stop_token& stop) {
    session.run(Fetch(operation), {}, RunOptions{.stop = stop}, nullptr, Where());
  }

  const SyncReplicasOptimizer::Operations operations_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::jthread thread_;
};

}  // namespace

SyncReplicasOptimizer::SyncReplicasOptimizer(Optimizer& optimizer, int replicas_to_aggregate,
                                             const SyncReplicasOptions& options, Where where)
    : optimizer_(optimizer),
      replicas_to_aggregate_(replicas_to_aggregate),
      total_num_replicas_(options.total_num_replicas == 0 ? replicas_to_aggregate : options.total_num_replicas) {
  if (replicas_to_aggregate < 1 || total_num_replicas_ < replicas_to_aggregate)
    throw InvalidArgumentError(detail::join("A step of ", replicas_to_aggregate, " gradients from ",
                                            total_num_replicas_, " workers cannot be made"),
                               where);
}

Operation SyncReplicasOptimizer::minimize(const Tensor& loss, const std::vector<Variable>& variables,
                                          const ApplyOptions& options, Where where) {
  return apply_gradients(optimizer_.compute_gradients(loss, variables, where), options, where);
}

Operation SyncReplicasOptimizer::apply_gradients(const GradientsAndVariables& gradients, const ApplyOptions& options,
                                                 Where where) {
  return detail::locating("SyncReplicasOptimizer", where, [&] {
    if (!options.global_step) throw InvalidArgumentError("Global step is required to check staleness");
    if (options.only_if) throw UnimplementedError("A synchronous step is always made: give no only_if");
    if (operations_.train) throw FailedPreconditionError("This optimizer has its operations already");
    operations_ = detail::rpc_plugin().synchronize(
        optimizer_, gradients, options,
        {.gradients = replicas_to_aggregate_, .tokens = total_num_replicas_, .where = where});
    return operations_.train;
  });
}

SessionHook SyncReplicasOptimizer::make_session_run_hook(bool is_chief, Where where) const {
  if (!operations_.train) throw FailedPreconditionError("minimize has not been called yet", where);
  if (!is_chief)
    return {
        .after_create = [init = operations_.local_init](const Session& session) { session.run(init, {}, Where()); }};
  const auto maker = std::make_shared<StepMaker>(operations_);
  return {.after_create = [maker](const Session& session) { maker->begin(session); },
          .after_error = [maker] { maker->check(); },
          .before_close = [maker] { maker->end(); }};
}

}  // namespace tapestry::train
