#pragma once

#include <functional>
#include <string>
#include <vector>

#include "io/rpc/messages.hpp"

/// Splitting a graph by tasks, node by node: the nodes need be known to the tasks that run them only.

namespace tapestry::io::rpc {

/// What a run feeds, fetches and runs, by names as clients give them: "x:0", "x", "step".
struct RunNames {
  std::vector<std::string> feeds{}, fetches{}, targets{};
};

/// The nodes that a run needs, each with its task.
struct PlacedGraph {
  std::vector<NodeDef> nodes{};
  std::vector<std::string> tasks{};  ///< by node
  std::string library{};
  std::int32_t producer = 0;

  bool is_all_at(const std::string& task) const;
  /// Whether a node uses a queue or an accumulator.
  bool uses_resources() const;
};

/// Chooses the tasks. A node is where its device says, and otherwise at the task `own`; what reads or changes a
/// Variable is where the Variable is, and what is colocated with another node where that is. Throws NotFoundError for
/// names that the graph lacks, and InvalidArgumentError for a device of none of the `tasks`, or for a node with
/// Variables of several.
PlacedGraph place_on_tasks(const GraphDef& graph, const RunNames& run, const std::string& own,
                           const std::vector<std::string>& tasks);

/// Throws InvalidArgumentError for a node that asks for a device which is not among those of its task, where all are at
/// one.
void require_devices(const PlacedGraph& graph, const std::vector<DeviceDef>& devices);

/// A part of a graph for a task. Its devices are full names.
struct TaskPart {
  std::string task;
  GraphDef graph;
};
/// How `cut` learns what NodeDefs do not tell.
struct CutOptions {
  std::string own{};  ///< the task that gets what is fed, and gives what is fetched
  std::function<std::vector<DeviceDef>(const std::string& task)> devices_of{};
  std::function<Spec(const std::string& tensor)> spec_of{};
  bool allow_soft_placement = false;
};
/// Cuts the edges between tasks: a tensor, or the end of some nodes, is sent once to each task that needs it, and a
/// constant is copied. Throws InvalidArgumentError for a device that its task lacks, and UnimplementedError for a
/// tensor whose type is not known before the run.
std::vector<TaskPart> cut(const PlacedGraph& graph, const RunNames& run, const CutOptions& options);

}  // namespace tapestry::io::rpc
