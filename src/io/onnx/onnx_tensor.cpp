// TensorProto: elements in a list of their type, as bytes, or in a file beside the model.

#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/make_tensor.hpp"
#include "io/file.hpp"
#include "io/onnx/onnx_proto.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

namespace fs = std::filesystem;

/// What a TensorProto has.
struct TensorFields {
  std::string name{};
  std::vector<std::int64_t> dims{}, whole{};
  std::vector<float> single{};
  std::vector<double> real{};
  std::string_view raw{};
  bool has_raw = false, is_external = false;
  std::int64_t type = 0;
  std::map<std::string, std::string> external{};
};

TensorFields read_tensor_fields(WireReader reader) {
  TensorFields fields;
  while (reader.next()) switch (reader.tag()) {
      case 1:
        read_numbers(reader, fields.dims, &WireReader::get_int64, &WireReader::get_packed_int64);
        break;
      case 2:
        fields.type = reader.get_int64();
        break;
      case 4:
        read_numbers(reader, fields.single, &WireReader::get_float, &WireReader::get_packed_float);
        break;
      case 5:
      case 7:
      case 11:
        read_numbers(reader, fields.whole, &WireReader::get_int64, &WireReader::get_packed_int64);
        break;
      case 8:
        fields.name = reader.get_text();
        break;
      case 9:
        fields.raw = reader.get_text();
        fields.has_raw = true;
        break;
      case 10:
        read_numbers(reader, fields.real, &WireReader::get_double, &WireReader::get_packed_double);
        break;
      case 13:
        fields.external.insert(read_entry(reader.get_message()));
        break;
      case 14:
        fields.is_external = reader.get_int64() == 1;
        break;
      default:
        reader.skip();
    }
  return fields;
}

[[noreturn]] void refuse_tensor(const TensorFields& fields, const std::string& problem) {
  throw DataLossError(detail::join("The tensor '", fields.name, "' of the model ", problem));
}

Shape shape_of_fields(const TensorFields& fields) {
  if (fields.dims.size() > Shape::max_rank) refuse_tensor(fields, detail::join("has ", fields.dims.size(), " axes"));
  for (const std::int64_t size : fields.dims)
    if (size < 0) refuse_tensor(fields, detail::join("has an axis of ", size, " elements"));
  return Shape(fields.dims);
}

std::int64_t number_of_entry(const TensorFields& fields, const std::string& key, std::int64_t otherwise) {
  const auto found = fields.external.find(key);
  if (found == fields.external.end()) return otherwise;
  std::int64_t value = -1;
  const char* end = found->second.data() + found->second.size();
  const auto [parsed, error] = std::from_chars(found->second.data(), end, value);
  if (error != std::errc() || parsed != end || value < 0)
    refuse_tensor(fields, detail::join("has the ", key, " '", found->second, "' in its file"));
  return value;
}

/// Fills a tensor from a file, which must lie in the model's folder, also where links lead elsewhere.
void read_external(const TensorFields& fields, const fs::path& folder, std::span<std::byte> bytes, Where where) {
  const auto found = fields.external.find("location");
  if (found == fields.external.end() || found->second.empty()) refuse_tensor(fields, "does not tell its file");
  const fs::path location = found->second;
  std::error_code error;
  const fs::path root = fs::weakly_canonical(folder.empty() ? fs::path(".") : folder, error);
  const fs::path file = fs::weakly_canonical(root / location, error);
  const auto leaves = std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first != root.end();
  if (location.is_absolute() || error || leaves)
    throw InvalidArgumentError(detail::join("The tensor '", fields.name, "' of the model is in the file '",
                                            location.string(), "', which is not in the model's folder"));
  const SourceFile source(file, where);
  const std::int64_t offset = number_of_entry(fields, "offset", 0);
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (number_of_entry(fields, "length", size) != size || offset > source.size() || source.size() - offset < size)
    refuse_tensor(fields, detail::join("has ", size, " bytes, which are not at ", offset, " in ", file.string(),
                                       ", of ", source.size()));
  source.read(offset, bytes);
}

/// The numbers of a list as the elements of a tensor. Halves are lists of their bits.
template <class T, class From>
void copy_elements(const TensorFields& fields, const std::vector<From>& from, const Tensor& to) {
  if (static_cast<std::int64_t>(from.size()) != to.size())
    refuse_tensor(fields, detail::join("has ", from.size(), " elements, not ", to.size()));
  T* elements = detail::mutable_data<T>(to);
  for (std::size_t i = 0; i < from.size(); ++i) {
    if constexpr (std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>) {
      const auto bits = static_cast<std::uint16_t>(from[i]);
      std::memcpy(static_cast<void*>(elements + i), &bits, sizeof bits);
    } else {
      elements[i] = static_cast<T>(from[i]);
    }
  }
}

}  // namespace

std::pair<std::string, TensorDef> decode_onnx_tensor(std::string_view bytes, const fs::path& folder, Where where) {
  const TensorFields fields = read_tensor_fields(WireReader(bytes.data(), bytes.size()));
  const TypeCode type = type_of_onnx(fields.type);
  const DType dtype = dtype_of(type);
  if (size_of(dtype) == 0) return {fields.name, {type, {}}};
  const Shape shape = shape_of_fields(fields);
  const std::int64_t size = shape.size();  // throws for a number that overflows
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  if (fields.has_raw && (fields.raw.size() % width != 0 || fields.raw.size() / width != static_cast<std::size_t>(size)))
    refuse_tensor(fields, detail::join("has ", fields.raw.size(), " bytes, not ", size, " elements"));
  const std::size_t listed = std::max({fields.whole.size(), fields.single.size(), fields.real.size()});
  if (!fields.has_raw && !fields.is_external && static_cast<std::size_t>(size) != listed)
    refuse_tensor(fields, detail::join("has ", listed, " elements, not ", size));
  if (fields.is_external && size > (std::int64_t{1} << 40) / width)
    refuse_tensor(fields, detail::join("has ", size, " elements"));
  const Tensor value = detail::make_tensor(dtype, shape, cpu());
  const std::span<std::byte> memory(static_cast<std::byte*>(value.impl().data), static_cast<std::size_t>(size * width));
  if (fields.is_external) {
    read_external(fields, folder, memory, where);
  } else if (fields.has_raw) {
    if (!memory.empty()) std::memcpy(memory.data(), fields.raw.data(), memory.size());
  } else if (dtype == float32) {
    copy_elements<float>(fields, fields.single, value);
  } else if (dtype == float64) {
    copy_elements<double>(fields, fields.real, value);
  } else {
    detail::visit_dtype(dtype, [&]<class T>() { copy_elements<T>(fields, fields.whole, value); });
  }
  if (dtype == boolean) {  // any other byte would be no bool
    for (std::byte& each : memory) each = std::byte(each != std::byte(0));
  }
  return {fields.name, {type, value}};
}

}  // namespace tapestry::io
