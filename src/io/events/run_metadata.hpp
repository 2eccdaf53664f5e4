#pragma once

#include <string>

#include "tapestry/execution_plan.hpp"

namespace tapestry::io {

/// A RunMetadata message of TensorFlow's (config.proto, step_stats.proto), which TensorBoard shows beside the graph.
TAPESTRY_API std::string encode(const RunMetadata& metadata);

}  // namespace tapestry::io
