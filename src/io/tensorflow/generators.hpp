#pragma once

#include <string_view>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Binomial numbers of a key, a counter and an algorithm: inputs as those of TensorFlow's op by a seed.
inline constexpr std::string_view binomial_of_generator = "TensorFlow::RandomBinomial";

/// Replaces gamma and Poisson numbers of a graph's own stream by those of a seed that is drawn from it. Also replaces
/// what draws from the state of a tf.random.Generator, which is a Variable, by reads and assignments of the
/// Variable and by ops without a state.
void split_generators(GraphDef& file);

}  // namespace tapestry::io
