#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tapestry/sparse.hpp"
#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

struct Optimizer::Ready {
  std::int64_t step;  ///< its number
  Tensor numbers;     ///< of the formula
  std::vector<Job> jobs;
  std::vector<std::optional<IndexedSlices>> rows;   ///< of each job that changes some rows only
  std::vector<std::pair<Variable, Tensor>> values;  ///< without a formula: what is stored
  std::optional<Variable> global_step;
  Where where;
};

}  // namespace tapestry::train
