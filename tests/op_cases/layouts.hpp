#pragma once

#include <string>
#include <vector>

#include "op_cases/op_cases.hpp"

namespace tapestry::test {

/// What a search for differences found.
struct LayoutSearch {
  long ran = 0, refused = 0, traced = 0;
  std::vector<std::string> differences;
};

/// Runs random rows of the op table with their gradients on operands of random types, sizes (1 and 0, too) and layouts,
/// on memory where 777 and NaN have been, and compares all results and errors with those of row-major copies. Some run
/// as a plan, too. Stops at the tenth difference.
LayoutSearch search_layouts(const Device& device, unsigned seed, long cases);

}  // namespace tapestry::test
