#pragma once

#include <unordered_set>
#include <vector>

#include "graph/graph_state.hpp"

namespace tapestry::io {

/// The reads of Variables whose values may be needed after a change that waits for them: by what waits for a change, or
/// by what another change needs. In TensorFlow, the value of a reference Variable is the Variable's memory, which the
/// change overwrites. `kept`: by node, whether it is written.
std::unordered_set<const detail::Node*> overwritten_reads(const detail::GraphState& graph,
                                                          const std::vector<char>& kept);

}  // namespace tapestry::io
