#pragma once

#include <string>
#include <vector>

namespace tapestry::test {

/// GraphDefs that are sound: the corpus of the readers, the golden files, what the library writes for rows of the op
/// table, and networks with each optimizer, in each style.
const std::vector<std::string>& graph_seeds();

}  // namespace tapestry::test
