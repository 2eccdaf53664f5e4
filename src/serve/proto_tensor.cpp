#include "serve/proto_tensor.hpp"

#include "io/tensorflow/graph_def.hpp"
#include "serve/signature_info.hpp"
#include "tapestry/error.hpp"

namespace tapestry::serve {
namespace {

/// How many elements a tensor may leave out because they repeat the one before. More are an attack or an error.
constexpr std::int64_t most_repeated_elements = std::int64_t{1} << 24, most_repeated_texts = std::int64_t{1} << 20;

}  // namespace

Texts read_texts(std::string_view bytes) {
  Texts texts;
  TypeNumber type = 0;
  std::int64_t count = 1;
  try {
    io::WireReader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      if (reader.tag() == 1) {
        type = reader.get_enum();
      } else if (reader.tag() == 2) {
        for_fields(reader.get_message(), 2, [&](io::WireReader& axis) {
          texts.sizes.push_back(0);
          for_fields(axis.get_message(), 1, [&](io::WireReader& size) { texts.sizes.back() = size.get_int64(); });
        });
      } else if (reader.tag() == 8) {
        texts.elements.emplace_back(reader.get_text());
      } else {
        reader.skip();
      }
    }
  } catch (const protozero::exception&) {
    throw InvalidArgumentError("The bytes are no tensor of texts");
  }
  for (const std::int64_t size : texts.sizes)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      throw InvalidArgumentError("A tensor of texts has no such shape");
  // The last text stands for those that are missing.
  if (type != string_type || texts.sizes.size() > Shape::max_rank || std::cmp_greater(texts.elements.size(), count) ||
      count > std::max<std::int64_t>(most_repeated_texts, std::ssize(texts.elements)))
    throw InvalidArgumentError("A tensor of texts has too many or too few elements");
  texts.elements.resize(static_cast<std::size_t>(count), texts.elements.empty() ? "" : texts.elements.back());
  return texts;
}

std::variant<Tensor, Texts> read_value(const std::string& name, std::string_view bytes) {
  io::TensorDef read;
  try {
    read = io::decode_tensor(bytes);
    if (read.type.value == string_type) return read_texts(bytes);
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

void write_value(protozero::pbf_writer& writer, const Tensor& tensor) {
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

void write_value(protozero::pbf_writer& writer, const Texts& texts) {
  writer.add_enum(1, string_type);
  io::add_message(writer, 2, [&](protozero::pbf_writer& shape) { io::write_shape(shape, Shape(texts.sizes)); });
  for (const std::string& each : texts.elements) writer.add_bytes(8, each);
}

}  // namespace tapestry::serve
