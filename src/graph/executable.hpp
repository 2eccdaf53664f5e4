#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "graph/deadline.hpp"
#include "graph/plan_graph.hpp"
#include "graph/rendezvous.hpp"
#include "tapestry/execution_plan.hpp"

namespace tapestry::detail {

inline std::size_t bytes_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.size()) * size_of(tensor.dtype());
}

/// From the first element of one tensor to that of another one on the same memory, in bytes.
inline std::ptrdiff_t distance(const Tensor& from, const Tensor& to) {
  return static_cast<const std::byte*>(to.impl().data) - static_cast<const std::byte*>(from.impl().data);
}

/// Takes the time of steps.
struct RunTimes {
  explicit RunTimes(std::int64_t start = now(), int number = 0) : begin(start), thread(number) {}
  static std::int64_t now();  ///< in nanoseconds

  std::int64_t begin;
  int thread;
  std::vector<RunMetadata::Time> steps{};
};

/// A plan that can run: every tensor has its place in memory and every call its tensors before the first run, so that a
/// run is a loop over kernels, and allocates nothing.
///
/// The memory of a tensor begins at a root: its own, or, of a view, that of what it is a view of. Roots of results lie
/// in one arena for each device; what is fed, read from a Variable or fetched has memory that changes from run to run,
/// to which the tensors are bound.
///
/// On a device that can record its work, the steps that do the same in every run are recorded in segments and replayed
/// (executable_replay.cpp). What they are fed, receive and give to the caller then has a fixed place in the arena, to
/// and from which it is copied; Variables are used where they are, and looked for before each replay.
class Executable {
 public:
  /// A part of a plan on several devices meets the others at the rendezvous.
  explicit Executable(const PlanGraph& plan, bool replay = false, Rendezvous* rendezvous = nullptr);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// Computes the fetches. One run at a time; others wait. If asked to, measures the steps. Throws
  /// DeadlineExceededError when the deadline, if there is one, passes before the last step.
  Tensors run(const Tensors& feeds, RunTimes* times = nullptr, const Deadline* deadline = nullptr);

  /// The steps and the buffers of their tensors; which steps were replayed in the last run.
  ExecutionPlan description() const;
  /// Whether the Variables are still on the devices that the plan was made for.
  bool is_placed() const;

 private:
  class Builder;
  struct Segment;
  enum class Memory : std::uint8_t { arena, bound };
  struct Root {
    Tensor source;  ///< of the graph: the tensor whose memory it is
    Memory memory = Memory::arena;
    bool fetched = false;
    bool fixed = false;  ///< bound or fetched, with a place in the arena all the same, for what is recorded
    Device device;
    std::size_t bytes = 0, offset = 0;  ///< in the arena
    std::size_t first_step = 0, last_step = 0;
    Tensor result{};  ///< of what is fetched from a fixed place: a copy, for the caller
    SmallVector<std::pair<Tensor, std::size_t>, 1> tensors;  ///< those with memory here, and their distances in bytes

    bool lies_in_arena() const { return fixed || (memory == Memory::arena && !fetched); }
  };
  struct Step {
    enum class Kind : std::uint8_t {
      kernel,  ///< the op's `forward`
      host,    ///< the op's `cpu`, for one from outside the library
      read,    ///< the op's `view`, where it finds its result: a Variable's value
      send,
      receive,
    };
    Step(Kind how, Call what, Device where);

    Kind kind;
    Device device;
    Backend* backend;
    Call call;
    std::int32_t root = -1;                      ///< of what is read or received
    SmallVector<std::int32_t, 4> roots{};        ///< all that the step reads and writes
    SmallVector<std::int32_t, 2> bound_until{};  ///< the bound roots that no later step uses
    std::size_t together = 1;                    ///< of the first of steps that may run side by side: how many
    const char* obstacle = nullptr;              ///< why the step cannot be recorded; nullptr when it may be
    bool replayed = false;                       ///< in the last run
    std::shared_ptr<Segment> segment{};          ///< the one that begins here, once it has been met
  };

  static void bind(Root& root, const Tensor& value);
  static void unbind(Root& root);
  static void set(Root& root, const Tensor& value);
  Root& root(std::int32_t index) { return roots_[static_cast<std::size_t>(index)]; }
  void bind_outputs();
  void copy_outputs();
  Tensor result_of(std::size_t fetch);
  void run_steps(const Deadline* deadline);
  void run_measured(RunTimes& times, const Deadline* deadline);
  void run_step(Step& step, const Deadline* deadline);
  void require_time(const Deadline* deadline, std::size_t step) const;
  void let_go(const Step& step);
  void forget() noexcept;

  // executable_replay.cpp
  using Addresses = std::vector<const void*>;
  void run_segments(const Deadline* deadline);
  std::size_t run_segment(std::size_t begin, const Deadline* deadline);
  Segment& segment_at(std::size_t begin);
  bool find_memory(const Segment& segment, Addresses& memory);
  std::size_t replay(std::size_t begin);
  std::size_t record(std::size_t begin, const Addresses& memory);
  Tensors held_by(const Segment& segment, const Addresses& memory);
  void hold_again(const Segment& segment, const Addresses& memory, const Tensors& held);
  bool has_kept_memory(std::size_t begin, const Addresses& memory);
  void split(std::size_t begin, std::size_t end);

  std::shared_ptr<GraphState> graph_;  ///< to which the tensors belong
  Rendezvous* rendezvous_;
  std::vector<Root> roots_;
  std::vector<Step> steps_;
  std::vector<std::int32_t> feed_roots_, output_roots_;
  Tensors fetched_;
  std::vector<std::int32_t> fetched_roots_;  ///< of the fetched tensors; -1 of constants
  std::vector<Tensor> arenas_;
  std::vector<std::pair<Variable, Device>> variables_;
  bool records_ = false;  ///< whether there are steps that may be recorded
  mutable std::timed_mutex mutex_;
};

}  // namespace tapestry::detail
