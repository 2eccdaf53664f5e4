#include "serve/proto_tensor.hpp"

#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"
#include "serve/signature_info.hpp"
#include "tapestry/error.hpp"

namespace tapestry::serve {
namespace {

/// How many elements a tensor may leave out because they repeat the one before. More are an attack or an error.
constexpr std::int64_t most_repeated_elements = std::int64_t{1} << 24;

}  // namespace

Tensor read_tensor(const std::string& name, std::string_view bytes) {
  io::TensorDef read;
  try {
    read = io::decode_tensor(bytes);
  } catch (const Error&) {
    throw InvalidArgumentError("tensor parsing error: " + name);
  }
  if (!read.value)
    throw UnimplementedError("The input " + name + " is of type " + type_name(read.type.value) +
                             ", which tensors do not have");
  if (!read.value.is_contiguous() && read.value.size() > most_repeated_elements)
    throw InvalidArgumentError(
        detail::join("The input ", name, " of shape ", read.value.shape(), " repeats one element, too many times"));
  return read.value.contiguous();
}

void write_tensor(protozero::pbf_writer& writer, const Tensor& tensor) {
  writer.add_enum(1, io::code_of(tensor.dtype()).value);
  io::add_message(writer, 2, [&](protozero::pbf_writer& shape) { io::write_shape(shape, tensor.shape()); });
  const auto elements = [&]<class T>(const T* first) { return std::pair(first, first + tensor.size()); };
  switch (tensor.dtype()) {
    case DType::float32: {
      const auto [begin, end] = elements(tensor.data<float>());
      return writer.add_packed_float(5, begin, end);
    }
    case DType::float64: {
      const auto [begin, end] = elements(tensor.data<double>());
      return writer.add_packed_double(6, begin, end);
    }
    case DType::int32: {
      const auto [begin, end] = elements(tensor.data<std::int32_t>());
      return writer.add_packed_int32(7, begin, end);
    }
    case DType::uint8: {
      const auto [begin, end] = elements(tensor.data<std::uint8_t>());
      return writer.add_packed_int32(7, begin, end);
    }
    case DType::int64: {
      const auto [begin, end] = elements(tensor.data<std::int64_t>());
      return writer.add_packed_int64(10, begin, end);
    }
    case DType::boolean: {
      const auto [begin, end] = elements(tensor.data<bool>());
      return writer.add_packed_bool(11, begin, end);
    }
    default:
      break;
  }
  std::vector<std::int32_t> bits;
  if (tensor.dtype() == DType::float16)
    for (std::int64_t i = 0; i < tensor.size(); ++i) bits.push_back(tensor.data<float16_t>()[i].bits());
  if (tensor.dtype() == DType::bfloat16)
    for (std::int64_t i = 0; i < tensor.size(); ++i) bits.push_back(tensor.data<bfloat16_t>()[i].bits());
  writer.add_packed_int32(13, bits.begin(), bits.end());
}

}  // namespace tapestry::serve
