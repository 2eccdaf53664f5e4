#pragma once

#include "tapestry/graph.hpp"
#include "tapestry/signature.hpp"

namespace tapestry::io {

/// The graph of the tensors. Throws InvalidArgumentError unless there is an output and all are of one graph.
Graph graph_of(const Signature& signature);
/// What to throw for a placeholder that would never be fed.
InvalidArgumentError never_fed(const std::string& placeholder);

}  // namespace tapestry::io
