#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/rpc/node_edges.hpp"

namespace tapestry::io::rpc {

/// The nodes of a part of a graph fall into islands: those that wait for the same received tensors. An island is a
/// graph of its own, for which what it receives, or other islands compute, is fed, so that it can run as soon as that
/// is there. A tensor that is received, or is handed from one island to another or to a `_Send`, has a place among the
/// values of a run. A node that uses a queue or an accumulator is an island by itself, and what depends on it waits for
/// it as for a received tensor.
struct Islands {
  /// What an island or a `_Send` waits for.
  struct Waits {
    std::vector<std::size_t> after_tensors{}, after_islands{};
  };
  /// A node that uses a queue or an accumulator, and the node that makes that.
  struct ResourceUse {
    NodeDef node, maker;
  };
  struct Island : Waits {
    std::vector<std::pair<std::string, std::size_t>> feeds{}, fetches{};  ///< tensors of its graph, and their places
    std::vector<std::string> targets{};
    std::optional<ResourceUse> use{};  ///< instead of a graph: its inputs are fed, its outputs fetched, in order
  };
  struct Receive {
    Transfer transfer;
    std::size_t place;
  };
  struct Send : Waits {
    Transfer transfer;
    std::size_t place = 0;
  };

  std::vector<Island> islands{};
  std::vector<Receive> receives{};
  std::vector<Send> sends{};
  std::size_t places = 0;
};

/// What `find_islands` needs to know.
struct IslandOptions {
  std::int64_t most_bytes = 0;  ///< for what it notes of each node
  /// Takes the graph of an island, in the order of the islands; an empty one for an island without a graph.
  std::function<void(std::size_t island, GraphDef)> make{};
  /// What is known of a tensor of an island that was made.
  std::function<Spec(std::size_t island, const std::string& tensor)> spec_of{};
};
/// Throws InvalidArgumentError for a part that contradicts itself, UnimplementedError for one whose islands hand on
/// what cannot be fed, and ResourceExhaustedError for one that is too large.
Islands find_islands(GraphDef part, const IslandOptions& options);

}  // namespace tapestry::io::rpc
