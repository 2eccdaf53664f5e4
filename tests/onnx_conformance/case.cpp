// ONNX's messages, as far as the conformance cases use them; the numbers of their fields are those of onnx.proto.

#include "onnx_conformance/case.hpp"

#include <cstring>
#include <fstream>
#include <functional>

#include <protozero/pbf_reader.hpp>

#include "tapestry/error.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::onnx_case {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

namespace {

/// A file that is not there is empty.
std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string bytes_of(pbf_reader& reader) {
  const protozero::data_view view = reader.get_view();
  return {view.data(), view.size()};
}

/// Each element of a repeated number, packed or not.
template <class T>
void append(pbf_reader& reader, std::vector<T>& list) {
  const bool packed = reader.wire_type() == pbf_wire_type::length_delimited;
  const auto add = [&](const auto& range) { list.insert(list.end(), range.begin(), range.end()); };
  if constexpr (std::is_same_v<T, float>) {
    packed ? add(reader.get_packed_float()) : list.push_back(reader.get_float());
  } else if constexpr (std::is_same_v<T, double>) {
    packed ? add(reader.get_packed_double()) : list.push_back(reader.get_double());
  } else {
    packed ? add(reader.get_packed_int64()) : list.push_back(reader.get_int64());
  }
}

/// What a TensorProto holds, in the list of its type, or as bytes.
struct Elements {
  std::vector<std::int64_t> dims, whole;
  std::vector<float> single;
  std::vector<double> real;
  std::string raw;
  std::int64_t type = 0;
};

Tensor tensor_of(const Elements& elements) {
  const DType dtype = type_of_code(elements.type);
  Shape shape;
  for (const std::int64_t size : elements.dims) shape.push_back(size);
  std::vector<std::uint16_t> halves;
  for (const std::int64_t each : elements.whole) halves.push_back(static_cast<std::uint16_t>(each));
  if (is_half(dtype)) {
    const void* bits = elements.raw.empty() ? static_cast<const void*>(halves.data()) : elements.raw.data();
    const auto from_bits = [&]<class T>(T) {
      std::vector<T> list(static_cast<std::size_t>(shape.size()));
      std::memcpy(static_cast<void*>(list.data()), bits, list.size() * sizeof(T));
      return tensor(list, shape);
    };
    return dtype == float16 ? from_bits(float16_t()) : from_bits(bfloat16_t());
  }
  if (elements.raw.empty()) {
    if (dtype == float32) return tensor(elements.single, shape);
    if (dtype == float64) return tensor(elements.real, shape);
    return tensor(elements.whole, shape).cast(dtype);
  }
  const auto from_bytes = [&]<class T>(T) {
    std::vector<T> list(elements.raw.size() / sizeof(T));
    std::memcpy(list.data(), elements.raw.data(), list.size() * sizeof(T));
    return tensor(list, shape);
  };
  if (dtype == float32) return from_bytes(float{});
  if (dtype == float64) return from_bytes(double{});
  if (dtype == int32) return from_bytes(std::int32_t{});
  if (dtype == int64) return from_bytes(std::int64_t{});
  return from_bytes(std::uint8_t{}).cast(dtype);
}

/// A TensorProto and its name.
std::pair<std::string, Tensor> read_tensor(std::string_view message) {
  Elements elements;
  std::string name;
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) switch (reader.tag()) {
      case 1:
        append(reader, elements.dims);
        break;
      case 2:
        elements.type = reader.get_int64();
        break;
      case 4:
        append(reader, elements.single);
        break;
      case 5:
      case 7:
        append(reader, elements.whole);
        break;
      case 8:
        name = bytes_of(reader);
        break;
      case 9:
        elements.raw = bytes_of(reader);
        break;
      case 10:
        append(reader, elements.real);
        break;
      default:
        reader.skip();
    }
  return {name, tensor_of(elements)};
}

/// The name of a ValueInfoProto, which must be a tensor.
std::string read_value_info(pbf_reader info) {
  std::string name;
  while (info.next()) {
    if (info.tag() == 1) {
      name = bytes_of(info);
    } else if (info.tag() == 2) {
      pbf_reader type = info.get_message();
      if (type.next() && type.tag() != 1) throw Inexpressible{"sequences and optional values"};
    } else {
      info.skip();
    }
  }
  return name;
}

/// The value of the first field with that number in an AttributeProto.
template <class Get>
auto field(const std::string& message, protozero::pbf_tag_type tag, Get get) {
  pbf_reader reader(message);
  if (!reader.next(tag)) throw NotFoundError("an attribute is of another type");
  return get(reader);
}

}  // namespace

DType type_of_code(std::int64_t code) {
  switch (code) {
    case 1:
      return float32;
    case 2:
      return uint8;
    case 6:
      return int32;
    case 7:
      return int64;
    case 9:
      return boolean;
    case 10:
      return float16;
    case 16:
      return bfloat16;
    case 11:
      return float64;
    default:
      throw Inexpressible{"an element type other than float32, float64, int32, int64, uint8 and bool"};
  }
}

Node read_node(std::string_view message) {
  Node node;
  pbf_reader reader(message.data(), message.size());
  while (reader.next()) switch (reader.tag()) {
      case 1:
        node.inputs.push_back(bytes_of(reader));
        break;
      case 2:
        node.outputs.push_back(bytes_of(reader));
        break;
      case 4:
        node.type = bytes_of(reader);
        break;
      case 5: {
        const std::string attribute = bytes_of(reader);
        node.attributes_.emplace(field(attribute, 1, bytes_of), attribute);
        break;
      }
      default:
        reader.skip();
    }
  return node;
}

std::optional<std::string> Node::attribute(const std::string& name) const {
  read_.insert(name);
  const auto found = attributes_.find(name);
  return found == attributes_.end() ? std::nullopt : std::optional(found->second);
}

double Node::real(const std::string& name, double otherwise) const {
  const auto found = attribute(name);
  return found ? field(*found, 2, [](pbf_reader& reader) { return reader.get_float(); }) : otherwise;
}

std::int64_t Node::whole(const std::string& name, std::int64_t otherwise) const {
  const auto found = attribute(name);
  return found ? field(*found, 3, [](pbf_reader& reader) { return reader.get_int64(); }) : otherwise;
}

std::string Node::text(const std::string& name, const std::string& otherwise) const {
  const auto found = attribute(name);
  return found ? field(*found, 4, bytes_of) : otherwise;
}

Ints Node::ints(const std::string& name, const Ints& otherwise) const {
  const auto found = attribute(name);
  if (!found) return otherwise;
  std::vector<std::int64_t> list;
  pbf_reader reader(*found);
  while (reader.next()) reader.tag() == 8 ? append(reader, list) : reader.skip();
  return Ints(list.begin(), list.end());
}

Tensor Node::tensor(const std::string& name) const {
  const auto found = attribute(name);
  return found ? read_tensor(field(*found, 5, bytes_of)).second : Tensor();
}

std::string Node::unread() const {
  std::string list;
  for (const auto& [name, message] : attributes_)
    if (!read_.contains(name)) list += (list.empty() ? "" : " ") + name;
  return list;
}

void require_tensors(const std::filesystem::path& folder) {
  const std::string model = contents(folder / "model.onnx");
  pbf_reader graph = field(model, 7, [](pbf_reader& reader) { return reader.get_message(); });
  while (graph.next())
    graph.tag() == 11 || graph.tag() == 12 ? void(read_value_info(graph.get_message())) : graph.skip();
}

std::vector<Tensor> read_tensors(const std::filesystem::path& folder, const std::string& kind) {
  std::vector<Tensor> tensors;
  for (;;) {
    const auto path = folder / (kind + '_' + std::to_string(tensors.size()) + ".pb");
    if (!std::filesystem::exists(path)) return tensors;
    try {
      tensors.push_back(read_tensor(contents(path)).second);
    } catch (const protozero::exception&) {
      throw Inexpressible{"sequences and optional values"};
    }
  }
}

Case read_case(const std::filesystem::path& folder) {
  Case made{.name = folder.filename().string(), .nodes = {}, .inputs = {}, .outputs = {}, .values = {}, .expected = {}};
  const std::string model = contents(folder / "model.onnx");
  pbf_reader graph = field(model, 7, [](pbf_reader& reader) { return reader.get_message(); });
  while (graph.next()) switch (graph.tag()) {
      case 1:
        made.nodes.push_back(read_node(bytes_of(graph)));
        break;
      case 5:
        made.values.insert(read_tensor(bytes_of(graph)));
        break;
      case 11:
        made.inputs.push_back(read_value_info(graph.get_message()));
        break;
      case 12:
        made.outputs.push_back(read_value_info(graph.get_message()));
        break;
      default:
        graph.skip();
    }
  const auto value = [&](const char* kind, std::size_t i) {
    return read_tensor(contents(folder / "test_data_set_0" / (kind + std::to_string(i) + ".pb"))).second;
  };
  for (std::size_t i = 0; i < made.inputs.size(); ++i) made.values.emplace(made.inputs[i], value("input_", i));
  for (std::size_t i = 0; i < made.outputs.size(); ++i) made.expected.push_back(value("output_", i));
  return made;
}

}  // namespace tapestry::test::onnx_case
