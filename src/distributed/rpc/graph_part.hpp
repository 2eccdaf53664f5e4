#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "distributed/rpc/served_session.hpp"
#include "io/rpc/islands.hpp"

namespace tapestry::detail {

using io::rpc::Transfer;

/// The part of a graph that a task runs, with `_Recv` and `_Send` nodes where it meets the parts of other tasks. It
/// runs island by island, so that no tensor that it sends waits for one that it does not need.
class GraphPart {
 public:
  /// Throws InvalidArgumentError for a part that contradicts itself.
  GraphPart(io::GraphDef part, const std::shared_ptr<io::VariableTable>& variables, const ServerOptions& options);

  using Arrival = std::function<void(Tensor, std::exception_ptr)>;
  using Outputs = std::function<void(Tensors, std::exception_ptr)>;
  /// How a run exchanges tensors with other parts.
  struct Exchange {
    /// Begins to receive a tensor, without waiting; calls the function, on any thread, when it is there or has failed.
    std::function<void(const Transfer&, Arrival)> receive;
    std::function<void(const Transfer&, const Tensor&)> send;
    /// Begins to use a queue or an accumulator, in the same way; the outputs are called once.
    std::function<void(const io::rpc::Islands::ResourceUse&, Tensors inputs, Outputs)> use;
  };
  /// Runs the part. `trace`: whether steps are measured, which are returned.
  io::rpc::StepStats run(const Exchange& exchange, bool trace, const std::stop_token& stop) const;

 private:
  struct Run;

  void run_island(Run& run, std::size_t number, bool trace, const std::stop_token& stop) const;
  void begin_use(const std::shared_ptr<Run>& run, std::size_t number, const Exchange& exchange) const;

  io::rpc::Islands plan_;
  std::vector<std::unique_ptr<ServedSession>> sessions_;  ///< by island; none for one without a graph
};

}  // namespace tapestry::detail
