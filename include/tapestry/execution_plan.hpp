#pragma once

#include <cstdint>
#include <iosfwd>
#include <stop_token>
#include <string>
#include <vector>

#include "tapestry/graph.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// The plan by which a session computes some fetches: the steps in their order, and the memory of their tensors.
struct ExecutionPlan {
  /// One operation, or several operations that are fused into one.
  struct Step {
    /// The name of the operation.
    std::string name;
    /// The name of the op, such as "MatMul".
    std::string type;
    /// The device on which the step runs.
    Device device;
    /// The number of steps, starting with this one, that run side by side.
    std::size_t together = 1;
    /// Whether the device replayed the step from a recording in the last run.
    bool replayed = false;
    /// Why the step was not replayed, such as "draws random numbers". Empty for a step that was replayed, and on
    /// devices that cannot record.
    std::string why_executed = {};
    /// The task of a cluster that ran the step, such as "/job:ps/replica:0/task:0". Empty for this process.
    std::string task = {};
  };

  /// Who owns the memory of a tensor.
  enum class Memory : std::uint8_t {
    arena,    ///< the plan: the tensor is in the arena of its device
    fetched,  ///< the tensor itself: it is returned to the caller
    bound,    ///< the caller, who feeds the tensor, or the Variable whose value it is
  };

  /// The memory of a tensor and of all views of it.
  struct Buffer {
    /// The name of the tensor, such as "hidden/MatMul:0".
    std::string tensor;
    /// The dtype and shape of the tensor.
    Spec spec;
    /// The device on which the buffer is.
    Device device;
    /// The owner of the memory.
    Memory memory = Memory::arena;
    /// The size of the tensor in bytes.
    std::int64_t bytes = 0;
    /// The offset in the arena, in bytes.
    std::int64_t offset = 0;
    /// The first step during which the buffer is in use.
    std::size_t first_step = 0;
    /// The last step during which the buffer is in use.
    std::size_t last_step = 0;
  };

  /// The memory on one device that the plan's tensors share.
  struct Arena {
    /// The device on which the arena is.
    Device device;
    /// The size of the arena.
    std::int64_t bytes = 0;
    /// The size that the arena would have if no two tensors shared memory.
    std::int64_t bytes_without_reuse = 0;
  };

  std::vector<Step> steps;      ///< in the order in which they run
  std::vector<Buffer> buffers;  ///< in the order of their first use
  std::vector<Arena> arenas;    ///< one for each device that needs one
};
/// Prints a table of the steps and a table of the buffers.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const ExecutionPlan& plan);

/// How a session gets from a graph to the plan for some fetches. `operator<<` prints the graph after each stage, and
/// the plan.
struct TAPESTRY_API Explanation {
  /// The graph after one of the stages.
  struct Stage {
    std::string name;  ///< the name of the stage
    Graph graph;       ///< the graph after the stage
  };

  /// The stages, in this order:
  ///  - "requested": the operations that the fetches need;
  ///  - "specialized": the same with the dtypes and shapes of the fed values;
  ///  - "place": the same with a device for each operation;
  ///  - one stage for each optimisation pass that is not disabled, under the name of the pass;
  ///  - "partition-0", "partition-1", ... when the graph uses several devices: the operations of each of them.
  std::vector<Stage> stages;
  /// The resulting plan.
  ExecutionPlan plan;

  /// Draws each stage, and the use of the arenas over time, as "0-requested.svg", ..., "N-memory.svg" in a folder,
  /// which is created if necessary. Throws FailedPreconditionError when the files cannot be written.
  void write_svg(const std::string& folder, const DrawOptions& options = {}, Where where = Where::here()) const;
};
/// Prints the operations of each stage, then the plan.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

/// Whether a run measures its steps.
enum class TraceLevel : std::uint8_t {
  none,  ///< no times; the run is not slowed down
  full,  ///< every step is measured, and no two steps of a device run at the same time
};

/// How a single run is done.
struct RunOptions {
  /// Whether steps are measured.
  TraceLevel trace_level = TraceLevel::none;
  /// The run throws DeadlineExceededError after this many milliseconds; 0 means never. A step that has begun is not
  /// interrupted, and changes of Variables that have been made by then stay.
  std::int64_t timeout_in_ms = 0;
  /// The run throws CancelledError when a stop is requested of the token's std::stop_source; otherwise as for a
  /// timeout.
  std::stop_token stop = {};
};

/// What a run has done.
struct TAPESTRY_API RunMetadata {
  /// When a step ran.
  struct Time {
    std::int64_t start = 0;     ///< in nanoseconds since the start of the run
    std::int64_t duration = 0;  ///< in nanoseconds
    int thread = 0;             ///< 0 is the caller's thread
  };
  /// A function that a step ran: a branch, or the body or the condition of a loop.
  struct Function {
    std::string name;         ///< after the operation, such as "halve/body", or "halve/body/inner/body" inside of it
    std::int64_t runs = 0;    ///< how often it ran
    ExecutionPlan plan;       ///< its plan, or for several shapes one of them
    std::vector<Time> times;  ///< for each of its steps, the start of the first run and the duration of all runs
  };

  /// The graph after the optimisation.
  Graph graph;
  /// The plan that was run.
  ExecutionPlan plan;
  /// The times of the plan's steps; empty unless `RunOptions::trace_level` asked for them.
  std::vector<Time> times;
  /// The functions that these steps ran, in the order in which they first ended, under the same condition.
  std::vector<Function> functions;
  /// The start of the run, in microseconds since 1970.
  std::int64_t start = 0;

  /// Writes the times, and the memory in use, for chrome://tracing and https://ui.perfetto.dev. Throws
  /// FailedPreconditionError when there are no times, and the errors of `Graph::save`.
  void write_chrome_trace(const std::string& path, Where where = Where::here()) const;
};

/// @}

}  // namespace tapestry
