#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/deadline.hpp"
#include "graph/flow/flow_runner.hpp"
#include "graph/plan_graph.hpp"
#include "graph/rendezvous.hpp"
#include "graph/run_times.hpp"
#include "tapestry/execution_plan.hpp"

namespace tapestry::detail {

/// The distance in bytes from the first element of one tensor to that of another one on the same memory.
inline std::ptrdiff_t distance(const Tensor& from, const Tensor& to) {
  return static_cast<const std::byte*>(to.impl().data) - static_cast<const std::byte*>(from.impl().data);
}

/// A plan that can run. Before the first run every intermediate tensor has its offset in an arena and every call its
/// tensors, so that a run is a loop over kernels and allocates no intermediate tensors.
///
/// Every tensor but a constant belongs to a root, which is its memory. A view has the root of its base, any other
/// tensor one of its own. The roots of intermediate tensors are in one arena for each device. Those of tensors that are
/// fed, received, read from a Variable or fetched are bound to memory that changes from run to run.
///
/// On a device that can record its work, the steps that do the same in every run are recorded in segments and replayed
/// (executable_replay.cpp). What such steps are fed, receive and give to the caller then has a fixed buffer in the
/// arena, and is copied to or from it. Variables stay in their own memory, whose addresses are checked before each
/// replay.
class Executable {
 public:
  /// A partition of a plan for several devices exchanges tensors with the others through the rendezvous.
  explicit Executable(const PlanGraph& plan, const SessionOptions& options = {}, Rendezvous* rendezvous = nullptr);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Computes the fetches. Concurrent calls run one after the other. Measures the steps if `times` is given. Throws
  /// DeadlineExceededError when the deadline, if there is one, passes before the last step.
  Tensors run(const Tensors& feeds, RunTimes* times = nullptr, const Deadline* deadline = nullptr);

  /// Runs the plan many times for a loop.
  class Repeated;

  /// The steps, the memory of their tensors, and which steps were replayed in the last run.
  ExecutionPlan description() const;
  /// Whether the Variables are still on the devices that the plan was made for.
  bool is_placed() const;

 private:
  class Builder;
  struct Segment;
  enum class Memory : std::uint8_t { arena, bound };
  struct Root {
    Tensor source;  ///< the tensor of the graph whose memory it is
    Memory memory = Memory::arena;
    bool fetched = false;
    bool fed = false;
    bool is_open = false;  ///< some sizes are known only when it is bound
    bool fixed = false;    ///< bound or fetched, but with a buffer in the arena, for recorded steps
    bool absent = false;   ///< without a value in this run: the result of a branch that was not taken
    Device device;
    std::size_t bytes = 0, offset = 0;  ///< `offset`: in the arena
    std::size_t first_step = 0, last_step = 0;
    Tensor result{};  ///< a copy for the caller, if the root is fixed and fetched
    SmallVector<std::pair<Tensor, std::size_t>, 1> tensors;  ///< the tensors in this memory, and their offsets in bytes

    bool is_in_arena() const { return fixed || (memory == Memory::arena && !fetched); }
  };
  /// The memory of the intermediate tensors on one device. It is taken from the pool for each run.
  struct Arena {
    Device device;
    std::int64_t bytes = 0;
    Tensor storage;      ///< holds no memory; its storage is that of all tensors in the arena
    Tensor block{};      ///< the memory during a run
    std::byte* address;  ///< of the memory during the last run, to which the tensors are bound
  };
  struct Step {
    enum class Kind : std::uint8_t {
      kernel,  ///< the op's `forward`
      host,    ///< the op's `cpu`, where the op is from outside the library
      read,    ///< the op's `view`, which finds its result, such as a Variable's value
      send,
      receive,
      evaluate,  ///< the op's `evaluate`, which allocates its results
      flow,      ///< runs functions of the graph
    };
    Step(Kind how, Call what, Device where);

    Kind kind;
    Device device;
    Backend* backend;
    Call call;
    std::int32_t root = -1;                      ///< of the tensor that is read or received
    SmallVector<std::int32_t, 1> results{};      ///< the roots of the outputs, of a step that allocates them
    std::unique_ptr<FlowRunner> flow{};          ///< of a step that runs functions
    SmallVector<std::int32_t, 4> roots{};        ///< all that the step reads and writes
    SmallVector<std::int32_t, 2> bound_until{};  ///< the bound roots that no later step uses
    std::size_t together = 1;                    ///< for the first of steps that may run side by side: their number
    const char* obstacle = nullptr;              ///< why the step cannot be recorded; nullptr when it may be
    bool checks_later = false;                   ///< a replay goes on without waiting for the check of its integers
    bool replayed = false;                       ///< in the last run
    std::shared_ptr<Segment> segment{};          ///< the one that begins here, once a run has reached it
  };

  static void bind(Root& root, const Tensor& value);
  static void unbind(Root& root);
  static void set(Root& root, const Tensor& value);
  void note_absence(Root& root, bool absent);
  static void require_planned(const Root& root, const Tensor& value);
  void set_results(const Step& step, const Tensors& values);
  bool is_in_arena(const Tensor& value) const;
  void take_arenas();
  void give_back_arenas() noexcept;
  Root& root(std::int32_t index) { return roots_[index]; }
  void bind_outputs();
  void copy_outputs();
  Tensor result_of(std::size_t fetch);
  void run_steps(const Deadline* deadline);
  void run_measured(RunTimes& times, const Deadline* deadline);
  void run_step(Step& step, const Deadline* deadline, RunTimes* times = nullptr);
  void require_time(const Deadline* deadline, std::size_t step) const;
  void require_values(const Step& step);
  void unbind_unused(const Step& step);
  void unbind_all() noexcept;

  // executable_replay.cpp
  using Addresses = std::vector<const void*>;
  void run_segments(const Deadline* deadline);
  std::size_t run_segment(std::size_t begin, const Deadline* deadline);
  std::size_t segment_end(std::size_t begin) const;
  Segment& segment_at(std::size_t begin);
  bool find_memory(const Segment& segment, Addresses& memory);
  std::size_t replay(std::size_t begin);
  std::size_t record(std::size_t begin, const Addresses& memory);
  Tensors held_by(const Segment& segment, const Addresses& memory);
  void bind_held(const Segment& segment, const Addresses& memory, const Tensors& held);
  bool has_kept_memory(std::size_t begin, const Addresses& memory);
  void split(std::size_t begin, std::size_t end);
  bool may_check_later(const Step& step) const;
  bool record_step(Step& step);
  void settle_checks();

  std::shared_ptr<GraphState> graph_;  ///< the graph of the tensors
  SessionOptions options_;
  Rendezvous* rendezvous_;
  std::vector<Root> roots_;
  std::vector<Step> steps_;
  bool may_lack_values_ = false;  ///< whether some root has been absent
  std::vector<std::int32_t> feed_roots_, output_roots_;
  Tensors fetched_;
  std::vector<std::int32_t> fetched_roots_;  ///< of the fetched tensors; -1 for constants
  std::vector<Arena> arenas_;
  std::vector<std::pair<Variable, Device>> variables_;
  bool records_ = false;      ///< whether there are steps that may be recorded
  bool keeps_feeds_ = false;  ///< whether what is fed stays bound for the next run
  /// Segments that were replayed in this run, and whose late checks are not settled.
  struct Unsettled {
    std::shared_ptr<Recording> recording;
    std::size_t begin, end;
  };
  std::vector<Unsettled> unsettled_;
  mutable std::timed_mutex mutex_;
};

/// Runs a plan again and again. What is fed stays bound, and the results stay in the same memory, so that a run is no
/// more than its steps. No other thread can run the plan meanwhile.
class Executable::Repeated {
 public:
  /// Throws DeadlineExceededError when the plan is in use until the deadline.
  Repeated(Executable& executable, const Deadline* deadline);
  ~Repeated();
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  /// Binds a feed to a value, whose memory may change between runs.
  void feed(std::size_t i, const Tensor& value) { set(executable_.root(executable_.feed_roots_[i]), value); }
  void run(const Deadline* deadline) { executable_.run_steps(deadline); }
  /// A fetch of the last run. The next run overwrites it.
  const Tensor& result(std::size_t fetch) const { return executable_.fetched_[fetch]; }
  /// What a run does: the kernels in their order. Nothing if it does anything else, too.
  std::optional<std::vector<const Call*>> kernels() const;

 private:
  Executable& executable_;
  std::unique_lock<std::timed_mutex> lock_;
  PauseRecording pause_;
  ExecuteNow now_;
};

}  // namespace tapestry::detail
