#pragma once

#include <functional>
#include <optional>

#include "graph/graph_state.hpp"

namespace tapestry {

enum class Update : std::uint8_t;

/// The op that gives the updates of an optimizer the numbers of their formula. A program that refers to it has the
/// update ops registered, too.
TAPESTRY_API extern const Op& learning_rate_op;

/// The op that stands in a graph for gradients while dtypes, ranks or values on which they depend are unknown.
const Op& symbolic_gradient_op();

namespace detail {

/// The update of some rows by the same formula, if this is an update whose gradient is row-sparse; otherwise nothing.
std::optional<Call> update_of_rows(const Call& update);

/// One step of an optimizer, to become part of a graph.
struct TrainingStep {
  struct Job {
    Tensor gradient;
    std::vector<Variable> variables;  ///< the one to update, and its slots
  };
  std::string name;               ///< the optimizer's
  std::optional<Update> formula;  ///< nothing: `composed` adds the updates
  /// Maps the number of steps made before, an int64 scalar, to the formula's numbers, a float64 vector that begins with
  /// the learning rate. A float64 scalar behind it takes the place of the rate.
  Closure numbers;
  /// Maps it, as a float64 scalar, to the learning rate, by ops; nullptr for a number, and for a schedule without
  /// a formula.
  Closure rate;
  Variable iterations;
  /// Adds the update of a job as ops that use the formula's numbers and the condition, which may be empty.
  std::function<Operation(const Job& job, const Tensor& numbers, const Tensor& only_if)> composed;
  std::vector<Job> jobs;
  std::optional<Variable> global_step;
  Tensor only_if;  ///< a bool scalar of the graph: whether the step is made; empty: always
  Where where;
};

/// Adds the operations of a step, with TensorFlow's names: "GradientDescent/learning_rate",
/// "GradientDescent/update_w/ResourceApplyGradientDescent", and "GradientDescent", which runs after all of them and
/// increments the global step, if there is one.
Operation add_training_step(GraphState& graph, const TrainingStep& step);

/// Whether ops become nodes in the order of the program: those of a trace, or of a function of a graph.
bool is_traced();

}  // namespace detail
}  // namespace tapestry
