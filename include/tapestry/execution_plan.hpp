#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tapestry/graph.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// What a session does for some fetches: its steps in their order, and where their tensors lie.
struct ExecutionPlan {
  /// One operation, or several that have been fused into one.
  struct Step {
    std::string name;          ///< of the operation
    std::string type;          ///< the op's name
    Device device;             ///< where it runs
    std::size_t together = 1;  ///< how many steps, from this one on, run side by side
    bool replayed = false;     ///< of a run: whether the device did it from a recording
    /// Why not: "draws random numbers"; "" where it was, and on devices that cannot record.
    std::string why_executed = {};
  };
  /// Whose memory a tensor lies in.
  enum class Memory : std::uint8_t {
    arena,    ///< at an offset in the arena of its device
    fetched,  ///< its own: it is handed to the caller
    bound,    ///< somebody else's: what is fed, or a Variable's value
  };
  /// The memory that a tensor has, and when.
  struct Place {
    std::string tensor;             ///< "hidden/MatMul:0"; views of it lie there, too
    Spec spec;                      ///< dtype and shape
    Device device;                  ///< on which it lies
    Memory memory = Memory::arena;  ///< in which memory
    std::int64_t bytes = 0;         ///< its size
    std::int64_t offset = 0;        ///< in the arena
    std::size_t first_step = 0;     ///< from which on it has this place
    std::size_t last_step = 0;      ///< up to which it has it
  };
  /// The memory of all tensors of a device that live during a run only.
  struct Arena {
    Device device;                         ///< whose memory it is
    std::int64_t bytes = 0;                ///< its size
    std::int64_t bytes_without_reuse = 0;  ///< what its tensors would need side by side
  };

  std::vector<Step> steps;    ///< in the order in which they run
  std::vector<Place> places;  ///< in the order in which they are first used
  std::vector<Arena> arenas;  ///< one for each device that has steps with results
};
/// A table of the steps and one of the places.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const ExecutionPlan& plan);

/// How a session comes from a graph to the plan for some fetches. Printed, it is the graph after each stage, and the
/// plan.
struct TAPESTRY_API Explanation {
  /// The graph after one of the stages.
  struct Stage {
    std::string name;  ///< of the stage
    Graph graph;       ///< as it is then
  };
  /// "requested": what the fetches need; "specialized": with the dtypes and shapes that are fed; "place": on devices;
  /// then one for each pass of the optimisation that is not disabled, by its name; of a graph on several devices, each
  /// one's: "part-0", ...
  std::vector<Stage> stages;
  ExecutionPlan plan;  ///< what comes out

  /// Draws each stage, and the arenas over time, into a folder that is made if need be: "0-requested.svg",
  /// ..., and "N-memory.svg" as the last. Throws FailedPreconditionError when they cannot be written.
  void write_svg(const std::string& folder, const DrawOptions& options = {}, Where where = Where::here()) const;
};
/// The operations of each stage, then the plan.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

/// What a run tells about itself.
enum class TraceLevel : std::uint8_t {
  none,  ///< no times: the run is as fast as any
  full,  ///< every step is measured, and none runs beside another of its device
};
/// How a single run is done.
struct RunOptions {
  TraceLevel trace_level = TraceLevel::none;  ///< whether steps are measured
  /// After so many milliseconds the run throws DeadlineExceededError; 0: never. A step that has begun is not
  /// interrupted, and what has changed Variables until then stays.
  std::int64_t timeout_in_ms = 0;
};

/// What a run has done.
struct TAPESTRY_API RunMetadata {
  /// When a step ran.
  struct Time {
    std::int64_t start = 0;     ///< in nanoseconds since the start of the run
    std::int64_t duration = 0;  ///< in nanoseconds
    int thread = 0;             ///< 0 is the caller's
  };

  Graph graph;              ///< after the optimisation
  ExecutionPlan plan;       ///< by which it ran
  std::vector<Time> times;  ///< of the plan's steps; empty unless they were asked for
  std::int64_t start = 0;   ///< of the run, in microseconds since 1970

  /// Writes the times, and the memory in use, for chrome://tracing and https://ui.perfetto.dev. Throws
  /// FailedPreconditionError when there are no times, and the errors of `Graph::save`.
  void write_chrome_trace(const std::string& path, Where where = Where::here()) const;
};

/// @}

}  // namespace tapestry
