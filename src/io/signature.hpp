#pragma once

#include "tapestry/graph.hpp"
#include "tapestry/signature.hpp"

namespace tapestry::io {

/// The graph of the signature's tensors. Throws InvalidArgumentError when there is no output, or when the tensors are
/// not all of one graph.
TAPESTRY_API Graph graph_of(const Signature& signature);
/// The error for a placeholder that would never be fed.
TAPESTRY_API InvalidArgumentError never_fed(const std::string& placeholder);

}  // namespace tapestry::io
