#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// What one kind of run asks of a graph.
struct Request {
  Tensors fetches;                ///< tensors of the graph, none of them fed
  std::vector<Node*> operations;  ///< to be run for their effect
  Tensors feeds;                  ///< tensors of the graph that are fed
  Specs fed;                      ///< what they are fed with
};

/// The part of a graph that a request needs, with all dtypes and sizes known: a graph of its own, which plans may
/// change.
struct PlanGraph {
  std::shared_ptr<GraphState> graph;
  Tensors feeds;  ///< its placeholders, in the order of the request's feeds; empty handles for those not needed
  Tensors fetches;
  std::vector<Node*> operations;
};

/// Copies what is needed of a graph, with the shapes of the feeds. Throws what the ops' inference throws for them, and
/// InvalidArgumentError, "You must feed a value for placeholder tensor 'x' ...".
PlanGraph specialize(const GraphState& graph, const Request& request);

/// A plan: steps in an order in which they can run.
class Executable {
 public:
  explicit Executable(PlanGraph plan);

  /// Computes the fetches. One run at a time; others wait.
  Tensors run(const Tensors& feeds);

 private:
  struct Step {
    const Node* node;
    Call call;
    Specs specs;
    Device device;
    SmallVector<std::int32_t, 4> inputs;  ///< places in values_
    SmallVector<std::int32_t, 2> outputs;
    SmallVector<std::int32_t, 4> last_uses;  ///< values that no later step needs
  };
  void run_step(Step& step);

  PlanGraph plan_;
  std::vector<Step> steps_;
  std::vector<std::int32_t> feed_places_, fetch_places_;
  std::vector<Tensor> values_;
  std::mutex mutex_;
};

}  // namespace tapestry::detail
