#pragma once

#include <string_view>

#include <protozero/pbf_writer.hpp>

#include "tapestry/tensor.hpp"

/// Tensors in protobuf's messages.

namespace tapestry::serve {

/// The value of a TensorProto, whose elements are raw bytes or numbers. Throws InvalidArgumentError for bytes that are
/// none, UnimplementedError for a type that tensors do not have. `name`: the input's, for errors.
Tensor read_tensor(const std::string& name, std::string_view bytes);

/// Writes a TensorProto as TensorFlow Serving does by default: its elements as numbers.
void write_tensor(protozero::pbf_writer& writer, const Tensor& tensor);

}  // namespace tapestry::serve
