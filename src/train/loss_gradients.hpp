#pragma once

#include <utility>
#include <vector>

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// The gradients of a loss, and the Variables that they belong to: those given, or else all trainable ones that the
/// loss reads.
inline std::pair<std::vector<Tensor>, std::vector<Variable>> loss_gradients(Optimizer& optimizer,
                                                                            const Optimizer::Loss& loss,
                                                                            const std::vector<Variable>& variables,
                                                                            Where where) {
  const GradientsAndVariables pairs = variables.empty() ? optimizer.compute_gradients(loss, where)
                                                        : optimizer.compute_gradients(loss, variables, where);
  std::pair<std::vector<Tensor>, std::vector<Variable>> lists;
  for (const auto& [gradient, variable] : pairs) {
    lists.first.push_back(gradient);
    lists.second.push_back(variable);
  }
  return lists;
}

}  // namespace tapestry::train
