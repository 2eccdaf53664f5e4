#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "distributed/rpc/node_edges.hpp"
#include "distributed/rpc/served_session.hpp"

namespace tapestry::detail {

/// The part of a graph that a task runs, with `_Recv` and `_Send` nodes where it meets the parts of other tasks.
///
/// Its nodes fall into islands: the nodes that wait for the same received tensors. An island is a graph of its own, for
/// which what it receives, or other islands compute, is fed. It runs as soon as that is there, so no tensor that a part
/// sends waits for one that it need not wait for.
class GraphPart {
 public:
  /// Throws InvalidArgumentError for a part that contradicts itself.
  GraphPart(io::GraphDef part, const std::shared_ptr<io::VariableTable>& variables, const ServerOptions& options);

  using Arrival = std::function<void(Tensor, std::exception_ptr)>;
  /// How a run exchanges tensors with other parts.
  struct Exchange {
    /// Begins to receive a tensor, without waiting; calls the function, on any thread, when it is there or has failed.
    std::function<void(const Transfer&, Arrival)> receive;
    std::function<void(const Transfer&, const Tensor&)> send;
  };
  /// Runs the part. `trace`: whether steps are measured, which are returned.
  io::rpc::StepStats run(const Exchange& exchange, bool trace, const std::stop_token& stop) const;

 private:
  class Builder;
  struct Run;

  /// A tensor has the number of its place among the values of a run.
  struct Island {
    std::unique_ptr<ServedSession> session{};
    std::vector<std::pair<std::string, std::size_t>> feeds{}, fetches{};  ///< tensors of its graph, and their places
    std::vector<std::string> targets{};
    std::vector<std::size_t> after_tensors{}, after_islands{};  ///< what else it waits for
  };
  struct Receive {
    Transfer transfer;
    std::size_t place;
  };
  struct Send {
    Transfer transfer;
    std::size_t place;
    std::vector<std::size_t> after_tensors{}, after_islands{};
  };

  void run_island(Run& run, std::size_t number, bool trace, const std::stop_token& stop) const;

  std::vector<Island> islands_;
  std::vector<Receive> receives_;
  std::vector<Send> sends_;
  std::size_t places_ = 0;
};

}  // namespace tapestry::detail
