#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "tapestry/graph.hpp"

namespace tapestry {

/// What a session does for some fetches: its steps in their order, and where their tensors lie.
struct ExecutionPlan {
  struct Step {
    std::string name;  ///< of the operation
    std::string type;
    Device device;
    std::size_t together = 1;  ///< how many steps, from this one on, run side by side
  };
  enum class Memory : std::uint8_t {
    arena,    ///< at an offset in the arena of its device
    fetched,  ///< its own: it is handed to the caller
    bound,    ///< somebody else's: what is fed, or a Variable's value
  };
  struct Place {
    std::string tensor;  ///< "hidden/MatMul:0"; views of it lie there, too
    Spec spec;
    Device device;
    Memory memory = Memory::arena;
    std::int64_t bytes = 0, offset = 0;
    std::size_t first_step = 0, last_step = 0;  ///< between which it has this place
  };
  struct Arena {
    Device device;
    std::int64_t bytes = 0;
    std::int64_t bytes_without_reuse = 0;  ///< what its tensors would need side by side
  };

  std::vector<Step> steps;
  std::vector<Place> places;  ///< in the order in which they are first used
  std::vector<Arena> arenas;  ///< one for each device that has steps with results
};
/// A table of the steps and one of the places.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const ExecutionPlan& plan);

/// How a session comes from a graph to the plan for some fetches. Printed, it is the graph after each stage, and the
/// plan.
struct TAPESTRY_API Explanation {
  struct Stage {
    std::string name;
    Graph graph;
  };
  /// "requested": what the fetches need; "specialized": with the dtypes and shapes that are fed; "place": on devices;
  /// then one for each pass of the optimisation that is not disabled, by its name; of a graph on several devices, each
  /// one's: "part-0", ...
  std::vector<Stage> stages;
  ExecutionPlan plan;

  /// Draws each stage, and the arenas over time, into a folder that is made if need be: "0-requested.svg",
  /// ..., and "N-memory.svg" as the last. Throws FailedPreconditionError when they cannot be written.
  void write_svg(const std::string& folder, const DrawOptions& options = {}, Where where = Where::here()) const;
};
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Explanation& explanation);

enum class TraceLevel : std::uint8_t {
  none,  ///< no times: the run is as fast as any
  full,  ///< every step is measured, and none runs beside another of its device
};
struct RunOptions {
  TraceLevel trace_level = TraceLevel::none;
  /// After so many milliseconds the run throws DeadlineExceededError; 0: never. A step that has begun is not
  /// interrupted, and what has changed Variables until then stays.
  std::int64_t timeout_in_ms = 0;
};

/// What a run has done.
struct TAPESTRY_API RunMetadata {
  struct Time {
    std::int64_t start = 0, duration = 0;  ///< in nanoseconds; the start since that of the run
    int thread = 0;                        ///< 0 is the caller's
  };

  Graph graph;  ///< after the optimisation
  ExecutionPlan plan;
  std::vector<Time> times;  ///< of the plan's steps; empty unless they were asked for
  std::int64_t start = 0;   ///< of the run, in microseconds since 1970

  /// Writes the times, and the memory in use, for chrome://tracing and https://ui.perfetto.dev. Throws
  /// FailedPreconditionError when there are no times, and the errors of `Graph::save`.
  void write_chrome_trace(const std::string& path, Where where = Where::here()) const;
};

}  // namespace tapestry
