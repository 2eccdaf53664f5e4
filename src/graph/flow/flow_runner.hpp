#pragma once

#include <memory>

#include "graph/deadline.hpp"
#include "graph/flow/function.hpp"
#include "graph/run_times.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// How a step of a plan runs a flow op. It plans the op's functions when they first run, and again for inputs of other
/// shapes. It is not thread-safe.
class FlowRunner : public RunPart {
 public:
  /// Computes the outputs. One that the branch that was taken does not give is an empty handle. Measures the steps of
  /// the functions if `times` is given.
  Tensors run(const Tensors& inputs, const Deadline* deadline, RunTimes* times) {
    if (!deadline) return run_functions(inputs, nullptr, times);
    const Deadline inner(*deadline, *this);
    return run_functions(inputs, &inner, times);
  }

 private:
  virtual Tensors run_functions(const Tensors& inputs, const Deadline* deadline, RunTimes* times) = 0;
};

/// The runner of a node of a plan, which must outlive it.
std::unique_ptr<FlowRunner> make_flow_runner(const Node& node, const SessionOptions& options);

}  // namespace tapestry::detail
