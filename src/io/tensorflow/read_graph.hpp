#pragma once

#include "io/tensorflow/inline_functions.hpp"

namespace tapestry::io {

/// Throws InvalidArgumentError for a name with control characters, which no message may quote.
TAPESTRY_API void require_printable(const GraphDef& file);

/// The graph of a .pb file, without calls of functions. Throws what `refuse_all_but`, `decode` and
/// `inline_functions` throw, and InvalidArgumentError for a name with control characters. `uneven`: see
/// `split_variants`.
GraphDef read_graph(std::string_view bytes, const GraphLimits& limits, const UnevenLists& uneven = {});

/// The same for a graph that was decoded, with the gradients that the file has for functions of its own.
TAPESTRY_API GraphDef read_graph(GraphDef file, const GraphLimits& limits, const UnevenLists& uneven = {},
                                 const FileGradients& gradients = {});

}  // namespace tapestry::io
