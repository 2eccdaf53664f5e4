#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "io/wire.hpp"
#include "serve/named_tensors.hpp"

/// Tensors in protobuf's messages.

namespace tapestry::serve {

/// The value of a TensorProto, whose elements are raw bytes, numbers or texts. Throws InvalidArgumentError for bytes
/// that are none, UnimplementedError for a type that neither tensors nor texts have. `name`: the input's, for errors.
std::variant<Tensor, Texts> read_value(const std::string& name, std::string_view bytes);

/// The texts of a TensorProto of texts. Throws InvalidArgumentError for anything else.
Texts read_texts(std::string_view bytes);

/// Writes a TensorProto as TensorFlow Serving does by default: its elements as numbers or texts.
/// @{
void write_value(protozero::pbf_writer& writer, const Tensor& tensor);
void write_value(protozero::pbf_writer& writer, const Texts& texts);
/// @}

}  // namespace tapestry::serve
