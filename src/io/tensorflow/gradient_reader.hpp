#pragma once

#include "io/tensorflow/flow_reader.hpp"

namespace tapestry::io {

/// Adds an IdentityN for which the file has a gradient to the open graph, and returns its outputs. `inputs`: the
/// values, and what the gradient captures. Where the file's gradient cannot be used, asking for it throws
/// UnimplementedError.
Tensors read_with_gradient(const NodeReader& reader, const std::vector<Argument>& inputs, const ReadBody& read_body,
                           Where where);

}  // namespace tapestry::io
