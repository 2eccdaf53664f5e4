#pragma once

#include <utility>
#include <vector>

#include "tapestry/train/groups.hpp"

namespace tapestry::train {

/// The gradients of a loss, and the Variables that they belong to: those given, or else all trainable ones that the
/// loss reads, or those of the groups.
inline std::pair<std::vector<Tensor>, std::vector<Variable>> loss_gradients(const AnyOptimizer& optimizer,
                                                                            const Optimizer::Loss& loss,
                                                                            const std::vector<Variable>& variables,
                                                                            Where where) {
  std::pair<std::vector<Tensor>, std::vector<Variable>> lists;
  for (const auto& [gradient, variable] : optimizer.compute_gradients(loss, variables, where)) {
    lists.first.push_back(gradient);
    lists.second.push_back(variable);
  }
  return lists;
}

}  // namespace tapestry::train
