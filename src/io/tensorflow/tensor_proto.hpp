#pragma once

#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"

/// TensorProto and TensorShapeProto, which nodes' attributes have.

namespace tapestry::io {

void write_tensor(protozero::pbf_writer& writer, const TensorDef& tensor);

/// TensorFlow's optimizer gives unknown sizes of an attribute that it knows to be equal one number below -1.
Shape read_shape(WireReader reader, bool of_attribute);
/// `repeats`: how many elements tensors may still leave out; what this one leaves out is taken off.
TensorDef read_tensor(WireReader reader, std::int64_t& repeats);

}  // namespace tapestry::io
