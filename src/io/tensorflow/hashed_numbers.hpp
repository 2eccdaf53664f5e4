#pragma once

#include <string_view>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The hash of the digits of whole numbers, which TensorFlow makes a text before. Its attribute "kind" is the name of
/// TensorFlow's op.
inline constexpr std::string_view hash_of_numbers = "TensorFlow::HashOfNumbers";

/// Replaces the hash of a text that comes from whole numbers. The text stays for what else needs it.
void hash_numbers(GraphDef& graph);

}  // namespace tapestry::io
