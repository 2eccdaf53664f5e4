#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/handle.hpp"
#include "tapestry/session.hpp"

namespace tapestry::train {

/// @addtogroup distributed
/// @{

/// The Variable "global_step" of the default graph, which counts the steps of all workers: an int64 scalar, not
/// trainable, 0 at first. It is made at the first call. Give it to an optimizer:
///
///     auto step = opt.minimize(loss, {.global_step = tp::train::global_step()});
///
/// Throws InvalidArgumentError if the graph has a Variable of this name that is no integer scalar.
TAPESTRY_API Variable global_step(Where where = Where::here());

/// A run that a MonitoredSession has made, as its hooks see it.
struct SessionRun {
  const Session& session;           ///< a hook may run more
  std::int64_t step = 0;            ///< the global step after the run
  std::vector<Tensor> values = {};  ///< of the hook's own fetches
  bool stop = false;                ///< a hook sets it to end the training: `should_stop` becomes true
};

/// What happens beside the runs of a MonitoredSession. Each function may be empty.
///
///     tp::train::SessionHook print{.fetches = {loss}, .after_run = [](tp::train::SessionRun& run) {
///       if (run.step % 100 == 0) std::cout << run.step << ": " << run.values[0] << '\n';
///     }};
struct SessionHook {
  std::vector<Fetch> fetches = {};                        ///< what each run computes for `after_run`, too
  std::function<void(const Session&)> after_create = {};  ///< after a session was made, and made anew, and is ready
  std::function<void(SessionRun&)> after_run = {};        ///< after each run
  std::function<void(const Session&, std::int64_t)> end = {};  ///< at the end, with the global step
  std::function<void()> after_error = {};   ///< after a run has thrown; may throw an error that tells more
  std::function<void()> before_close = {};  ///< before the session of `after_create` ends, or is made anew
};

/// How a MonitoredSession begins, saves and ends.
struct MonitoredSessionOptions {
  /// Whether this is the worker that gives the Variables their values and saves them. The others wait until all
  /// Variables have values, so that all must be at tasks which the chief reaches, such as parameter servers. One worker
  /// of a training is the chief.
  bool is_chief = true;
  /// The folder of the checkpoints, in which the chief saves, and from whose newest one it restores; "" for none.
  std::string checkpoint_dir = {};
  /// The chief saves after so many steps; 0: by time.
  std::int64_t save_checkpoint_steps = 0;
  /// The chief saves after so many seconds, if `save_checkpoint_steps` is 0; 0: only at the beginning and the end.
  double save_checkpoint_secs = 600;
  /// How many of the newest checkpoints stay; 0: all.
  int max_to_keep = 5;
  /// The training ends when the global step has this value; 0: never.
  std::int64_t stop_at_step = 0;
  /// In the order in which they are called.
  std::vector<SessionHook> hooks = {};
  /// For how many seconds the constructor, and a run after a failure, waits for the servers and for the chief.
  double max_wait_secs = 7200;
  /// Of the sessions.
  SessionOptions config = {};
};

/// A session for training: it initializes or restores the Variables, saves checkpoints, and goes on after failures.
///
///     tp::train::MonitoredSession training(server.target(), {.is_chief = true, .checkpoint_dir = "checkpoints",
///                                                            .stop_at_step = 1000});
///     while (!training.should_stop()) training.run(step, feeds());
///
/// The chief restores the newest checkpoint of its folder, or runs the initializers if there is none. A checkpoint has
/// all Variables of the graph under the names of their operations, in TensorFlow's format: "model.ckpt-1000.index"
/// and "model.ckpt-1000.data-00000-of-00001". In a session of this process it also has the state of `tp::random`, so
/// that a training that was resumed gives the bits of an unbroken one.
///
/// When a run throws UnavailableError or AbortedError because a server was lost, the session is made anew and the run
/// is repeated: the chief then restores the newest checkpoint, and the others wait for it. With the target "" the
/// session is in this process, and these errors are the caller's.
///
/// The number of steps is the Variable "global_step" (see `global_step`); without one, the runs of this object are
/// counted. One thread at a time uses an object.
class TAPESTRY_API MonitoredSession {
 public:
  /// A session for the default graph, or for a graph, which must have all of its operations. `target` as for Session.
  /// Throws DeadlineExceededError when the servers or the chief cannot be waited for any longer; NotFoundError for a
  /// checkpoint that lacks a Variable of the graph, and InvalidArgumentError for one in which it has another dtype or
  /// shape, or for options that make no sense; and what reading and writing checkpoints throws.
  /// @{
  explicit MonitoredSession(std::string_view target = "", const MonitoredSessionOptions& options = {},
                            Where where = Where::here());
  MonitoredSession(std::string_view target, const Graph& graph, const MonitoredSessionOptions& options = {},
                   Where where = Where::here());
  /// @}
  /// Closes. An error of the last checkpoint is lost: call `close` to get it.
  ~MonitoredSession();
  /// A session can be moved, but not copied.
  /// @{
  MonitoredSession(MonitoredSession&&) noexcept;
  MonitoredSession& operator=(MonitoredSession&&) noexcept;
  /// @}

  /// Whether the training has ended: at `stop_at_step`, by a hook, or by `request_stop`.
  bool should_stop() const;
  /// Ends the training after the current run.
  void request_stop();
  /// As Session::run, with the hooks and checkpoints that are due. The run with which the training ends also saves the
  /// last checkpoint and calls the hooks' `end`. Throws FailedPreconditionError after the end.
  /// @{
  template <class T>
  auto run(const T& fetches, const Feeds& feeds = {}, Where where = Where::here()) {
    return detail::run_structure(fetches, [&](const std::vector<Fetch>& flat) { return run_all(flat, feeds, where); });
  }
  std::vector<Tensor> run(std::initializer_list<Fetch> fetches, const Feeds& feeds = {}, Where where = Where::here()) {
    return run_all(std::vector<Fetch>(fetches), feeds, where);
  }
  /// @}
  /// Saves the last checkpoint, calls the hooks' `end`, and closes the session. Later calls do nothing.
  void close(Where where = Where::here());

  /// The global step after the last run whose step a hook, a checkpoint or `stop_at_step` has asked for.
  std::int64_t step() const;
  /// The session, for runs without hooks. It changes when a server was lost. Throws FailedPreconditionError after
  /// `close`.
  const Session& session(Where where = Where::here()) const;

  /// For the template: `run` of a flat list.
  std::vector<Tensor> run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where);

 private:
  struct State;
  detail::Owned<State> state_;
};

/// @}

}  // namespace tapestry::train
