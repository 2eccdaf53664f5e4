#pragma once

#include "io/tensorflow/node_writer.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {

/// Writes the writer's node as TensorFlow's op of the same meaning, which the rule tells.
void write_by_rule(NodeWriter& writer, const OpRule& rule);

}  // namespace tapestry::io
