#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/tensorflow/graph_def.hpp"

/// The names that the outputs of TensorFlow's ops have in their definitions, by which nodes in functions refer to them.

namespace tapestry::io {

/// The number of the first output of a node that belongs to the output of that name in the definition of TensorFlow's
/// op: 1 for the "indices" of TopKV2. 0 for an op that has only one (list of) outputs. Throws InvalidArgumentError for
/// a name that an op of several outputs does not have, and for a node that does not tell how long its lists are.
TAPESTRY_API std::int64_t first_output(const NodeDef& node, std::string_view output);

/// How a node in a function names an output of another one: "indices:0" for output 1 of TopKV2, "output:2" for output 2
/// of Unpack. Throws InvalidArgumentError for an output that an op of several outputs does not have.
std::string output_in_function(const NodeDef& node, std::int64_t output);

}  // namespace tapestry::io
