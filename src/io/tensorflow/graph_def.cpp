/// The wire format of graph.proto, node_def.proto, attr_value.proto, tensor.proto and tensor_shape.proto. The numbers
/// of the fields are TensorFlow's.

#include "io/tensorflow/graph_def.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <protozero/pbf_writer.hpp>

#include "backend/views.hpp"
#include "core/lack_refusal.hpp"
#include "core/make_tensor.hpp"
#include "io/wire.hpp"

namespace tapestry::io {

static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");

using protozero::data_view;
using protozero::pbf_writer;

std::size_t data_inputs(const NodeDef& node) {
  std::size_t count = 0;
  while (count < node.inputs.size() && !node.inputs[count].starts_with('^')) ++count;
  return count;
}

std::string without_zero(const std::string& tensor) {
  return tensor.ends_with(":0") ? tensor.substr(0, tensor.size() - 2) : tensor;
}

void write_sizes(pbf_writer& writer, std::span<const std::int64_t> sizes) {
  for (const std::int64_t size : sizes)
    add_message(writer, 2, [&](pbf_writer& dim) {
      // A size of 0 is protobuf's default and is left out, as protobuf does.
      if (size != 0) dim.add_int64(1, size);
    });
}

void write_shape(pbf_writer& writer, const Shape& shape) {
  write_sizes(writer, shape.sizes());
  if (!shape.has_rank()) writer.add_bool(3, true);
}

namespace {

struct Pair {
  DType dtype;
  TypeCode code;
};
constexpr std::array<Pair, 9> type_codes{{{boolean, {10}},
                                          {uint8, {4}},
                                          {int32, {3}},
                                          {int64, {9}},
                                          {float16, {19}},
                                          {bfloat16, {14}},
                                          {float32, {1}},
                                          {float64, {2}},
                                          {DType::resource, resource_type}}};

/// How many elements a file may leave out because they repeat the one before. More are an attack or an error.
constexpr std::int64_t most_repeated_elements = std::int64_t{1} << 24;

// ---- Writing --------------------------------------------------------------------------------------------------------

bool repeats_one_element(const Tensor& tensor) {
  for (int i = 0; i < tensor.rank(); ++i)
    if (tensor.shape().sizes()[i] != 1 && tensor.strides()[i] != 0) return false;
  return tensor.size() > 1;
}

/// Writes one number for all elements, in the field of its type.
void write_repeated(pbf_writer& writer, const Tensor& tensor) {
  const Tensor element = view_as(tensor, {});
  detail::visit_dtype(tensor.dtype(), [&]<class T>() {
    const T value = element.item<T>();
    if constexpr (is_float16<T>) {
      writer.add_int32(13, value.bits());
    } else if constexpr (std::is_same_v<T, float>) {
      writer.add_float(5, value);
    } else if constexpr (std::is_same_v<T, double>) {
      writer.add_double(6, value);
    } else if constexpr (std::is_same_v<T, bool>) {
      writer.add_bool(11, value);
    } else {
      writer.add_int64(std::is_same_v<T, std::int64_t> ? 10 : 7, value);
    }
  });
}

void write_tensor(pbf_writer& writer, const TensorDef& tensor) {
  writer.add_enum(1, tensor.type.value);
  add_message(writer, 2, [&](pbf_writer& shape) { write_shape(shape, tensor.value.shape()); });
  // A tensor that repeats one element may be larger than any memory; the file has the element once.
  if (repeats_one_element(tensor.value)) return write_repeated(writer, tensor.value);
  const Tensor host = detail::on_host(tensor.value);
  const std::size_t bytes = detail::nbytes(host);
  if (bytes > 0) writer.add_bytes(4, static_cast<const char*>(host.impl().data), bytes);
}

void write_list(pbf_writer& writer, const ListDef& list) {
  for (const std::string& each : list.strings) writer.add_bytes(2, each);
  writer.add_packed_int64(3, list.ints.begin(), list.ints.end());
  writer.add_packed_float(4, list.floats.begin(), list.floats.end());
  writer.add_packed_bool(5, list.bools.begin(), list.bools.end());
  std::vector<std::int32_t> types;
  for (const TypeCode each : list.types) types.push_back(each.value);
  writer.add_packed_enum(6, types.begin(), types.end());
  for (const Shape& each : list.shapes) add_message(writer, 7, [&](pbf_writer& shape) { write_shape(shape, each); });
}

void write_attr(pbf_writer& writer, const AttrDef& attr) {
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (std::is_same_v<T, std::string>) writer.add_bytes(2, value);
        if constexpr (std::is_same_v<T, std::int64_t>) writer.add_int64(3, value);
        if constexpr (std::is_same_v<T, float>) writer.add_float(4, value);
        if constexpr (std::is_same_v<T, bool>) writer.add_bool(5, value);
        if constexpr (std::is_same_v<T, TypeCode>) writer.add_enum(6, value.value);
        if constexpr (std::is_same_v<T, Shape>)
          add_message(writer, 7, [&](pbf_writer& shape) { write_shape(shape, value); });
        if constexpr (std::is_same_v<T, TensorDef>)
          add_message(writer, 8, [&](pbf_writer& tensor) { write_tensor(tensor, value); });
        if constexpr (std::is_same_v<T, ListDef>)
          add_message(writer, 1, [&](pbf_writer& list) { write_list(list, value); });
      },
      attr);
}

void write_node(pbf_writer& writer, const NodeDef& node) {
  writer.add_string(1, node.name);
  writer.add_string(2, node.op);
  for (const std::string& input : node.inputs) writer.add_string(3, input);
  if (!node.device.empty()) writer.add_string(4, node.device);
  for (const auto& [name, value] : node.attrs) {
    add_message(writer, 5, [&, key = name, &attr = value](pbf_writer& entry) {
      entry.add_string(1, key);
      if (const auto* raw = std::get_if<RawAttr>(&attr)) {
        entry.add_message(2, raw->bytes);
      } else {
        add_message(entry, 2, [&](pbf_writer& out) { write_attr(out, attr); });
      }
    });
  }
}

// ---- Reading --------------------------------------------------------------------------------------------------------

/// TensorFlow's optimizer gives unknown sizes of an attribute that it knows to be equal one number below -1.
Shape read_shape(WireReader reader, bool of_attribute = false) {
  Shape shape;
  bool unknown = false;
  while (reader.next()) {
    if (reader.tag() == 2) {
      WireReader dim = reader.get_message();
      std::int64_t size = 0;
      while (dim.next()) {
        if (dim.tag() == 1) {
          size = dim.get_int64();
        } else {
          dim.skip();
        }
      }
      if (of_attribute) size = std::max<std::int64_t>(size, -1);
      if (size < -1) throw DataLossError(detail::join("A shape has a dimension of size ", size));
      if (shape.rank() == Shape::max_rank)
        throw LackRefusal(detail::join("A shape has more than ", Shape::max_rank, " dimensions"));
      shape.push_back(size);
    } else if (reader.tag() == 3) {
      unknown = reader.get_bool();
    } else {
      reader.skip();
    }
  }
  return unknown ? Shape::unknown_rank() : Shape(shape.sizes());
}

/// Reads a TensorProto. Its elements are raw bytes, or numbers, the last of which stands for all that are missing.
class TensorReader {
 public:
  /// `repeats`: how many elements the rest of the file may still leave out.
  TensorReader(WireReader reader, std::int64_t& repeats) : repeats_(repeats) {
    while (reader.next()) read_field(reader);
  }

  /// The value of a type of whole numbers that Tapestry lacks, as a type with more bits.
  TensorDef widened() {
    switch (type_.value) {
      case 5:
      case 15:  // qint16
        return widened_from<std::int16_t>(int32);
      case 6:
      case 11:  // qint8
        return widened_from<std::int8_t>(int32);
      case 12:  // quint8
        return widened_from<std::uint8_t>(int32);
      case 13:  // qint32
        return widened_from<std::int32_t>(int32);
      case 16:  // quint16
      case 17:
        return widened_from<std::uint16_t>(int32);
      case 22:
        return widened_from<std::uint32_t>(int64);
      case 23:
        return widened_from<std::int64_t>(int64);
      default:
        return result();
    }
  }

  /// The value of other whole numbers, or the real and the imaginary parts of complex ones, which stand beside each
  /// other.
  std::pair<TensorDef, TensorDef> parts() {
    const DType dtype = type_.value == 8 ? float32 : float64;
    if (type_.value != 8 && type_.value != 18) return {widened(), {}};
    type_ = code_of(dtype);
    const data_view content = std::exchange(content_, {});
    const std::vector<float> floats = std::exchange(floats_, {});
    const std::vector<double> doubles = std::exchange(doubles_, {});
    std::array<TensorDef, 2> found;
    for (std::size_t part = 0; part < 2; ++part) {
      floats_.clear();
      doubles_.clear();
      for (std::size_t i = part; i < floats.size(); i += 2) floats_.push_back(floats[i]);
      for (std::size_t i = part; i < doubles.size(); i += 2) doubles_.push_back(doubles[i]);
      const std::size_t size = size_of(dtype);
      std::string bytes;
      for (std::size_t i = part * size; i + size <= content.size(); i += 2 * size)
        bytes.append(content.data() + i, size);
      content_ = data_view(bytes.data(), bytes.size());
      found[part] = result();
      content_ = {};
    }
    return {found[0], found[1]};
  }

  TensorDef result() {
    if (size_of(dtype_of(type_)) == 0) return {type_};
    return {type_, value()};
  }

 private:
  template <class From>
  TensorDef widened_from(DType dtype) {
    if (content_.size() % sizeof(From) != 0)
      throw DataLossError(
          detail::join("A tensor of type ", type_name(type_), " has ", content_.size(), " bytes of data"));
    for (std::size_t i = 0; i < content_.size(); i += sizeof(From)) {
      From number;
      std::memcpy(&number, content_.data() + i, sizeof(From));
      ints_.push_back(static_cast<std::int64_t>(number));
    }
    if (!content_.empty() && ints_.size() != static_cast<std::size_t>(std::max<std::int64_t>(shape_.num_elements(), 0)))
      throw DataLossError(detail::join("A tensor of shape ", shape_, " has ", ints_.size(), " elements"));
    content_ = {};
    type_ = code_of(dtype);
    return result();
  }

  Tensor value() {
    const DType dtype = dtype_of(type_);
    if (!shape_.is_known()) throw InvalidArgumentError(detail::join("A tensor has the shape ", shape_));
    const std::int64_t count = shape_.num_elements();
    if (!content_.empty()) {
      std::int64_t bytes = 0;
      if (__builtin_mul_overflow(count, static_cast<std::int64_t>(size_of(dtype)), &bytes) ||
          static_cast<std::size_t>(bytes) != content_.size())
        throw DataLossError(detail::join("A tensor of type ", tensorflow_name(dtype), " and shape ", shape_, " has ",
                                         content_.size(), " bytes of data"));
      return from_bytes(dtype);
    }
    const std::size_t given = dtype == float32 ? floats_.size() : dtype == float64 ? doubles_.size() : ints_.size();
    if (given > static_cast<std::size_t>(count))
      throw DataLossError(detail::join("A tensor of shape ", shape_, " has ", given, " elements"));
    // A tensor that repeats one element takes the memory of one: its strides are 0.
    if (given <= 1 && count > 1) return view_broadcast(from_numbers(dtype, {}), shape_);
    repeats_ -= count - static_cast<std::int64_t>(given);
    if (repeats_ < 0)
      throw InvalidArgumentError(detail::join("A tensor of shape ", shape_, " is written as ", given, " elements"));
    return from_numbers(dtype, shape_);
  }

  void read_field(WireReader& reader) {
    switch (reader.tag()) {
      case 1:
        type_.value = reader.get_enum();
        return;
      case 2:
        shape_ = read_shape(reader.get_message());
        return;
      case 4:
        content_ = reader.get_view();
        return;
      case 5:
      case 9:  // scomplex_val
        return read_numbers(reader, floats_, &WireReader::get_float, &WireReader::get_packed_float);
      case 6:
      case 12:  // dcomplex_val
        return read_numbers(reader, doubles_, &WireReader::get_double, &WireReader::get_packed_double);
      case 7:   // int_val: int32 and what is smaller
      case 10:  // int64_val
      case 13:  // half_val: the bits of float16 and bfloat16
      case 16:  // uint32_val
      case 17:  // uint64_val
        return read_numbers(reader, ints_, &WireReader::get_int64, &WireReader::get_packed_int64);
      case 11:
        return read_numbers(reader, ints_, &WireReader::get_bool, &WireReader::get_packed_bool);
      default:
        reader.skip();
    }
  }

  Tensor from_numbers(DType dtype, const Shape& shape) const {
    Tensor tensor = detail::make_tensor(dtype, shape, cpu());
    detail::visit_dtype(dtype, [&]<class T>() {
      T* out = detail::mutable_data<T>(tensor);
      if (dtype == float32) repeat_last(floats_, out, shape.size());
      if (dtype == float64) repeat_last(doubles_, out, shape.size());
      if (dtype == uint8) require_bytes();
      if (!is_floating(dtype)) repeat_last(ints_, out, shape.size());
      if constexpr (is_float16<T>) repeat_last(halves<T>(), out, shape.size());
    });
    return tensor;
  }

  void require_bytes() const {
    for (const std::int64_t each : ints_)
      if (!std::in_range<std::uint8_t>(each)) throw DataLossError(detail::join("An element of type uint8 is ", each));
  }

  /// The float16 or bfloat16 numbers with the given bits.
  template <class T>
  std::vector<T> halves() const {
    std::vector<T> numbers;
    for (const std::int64_t bits : ints_) {
      if (!std::in_range<std::uint16_t>(bits))
        throw DataLossError(detail::join("An element of type ", tensorflow_name(tapestry::dtype_of<T>()),
                                         " has more than 16 bits: ", bits));
      numbers.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
    }
    return numbers;
  }

  Tensor from_bytes(DType dtype) const {
    Tensor tensor = detail::make_tensor(dtype, shape_, cpu());
    std::memcpy(tensor.impl().data, content_.data(), content_.size());
    if (dtype == boolean)
      for (std::size_t i = 0; i < content_.size(); ++i)
        if (static_cast<unsigned char>(content_.data()[i]) > 1) throw DataLossError("A bool is neither 0 nor 1");
    return tensor;
  }

  template <class From, class To>
  static void repeat_last(const std::vector<From>& given, To* out, std::int64_t count) {
    const auto size = static_cast<std::int64_t>(given.size());
    for (std::int64_t i = 0; i < count; ++i) out[i] = size == 0 ? To{} : static_cast<To>(given[std::min(i, size - 1)]);
  }

  std::int64_t& repeats_;
  TypeCode type_;
  Shape shape_;
  data_view content_;
  std::vector<float> floats_;
  std::vector<double> doubles_;
  std::vector<std::int64_t> ints_;
};

/// monostate for a list of functions or of tensors.
AttrDef read_list(WireReader reader) {
  ListDef list;
  std::vector<std::int32_t> types;
  while (reader.next()) {
    switch (reader.tag()) {
      case 2:
        list.strings.emplace_back(reader.get_text());
        break;
      case 3:
        read_numbers(reader, list.ints, &WireReader::get_int64, &WireReader::get_packed_int64);
        break;
      case 4:
        read_numbers(reader, list.floats, &WireReader::get_float, &WireReader::get_packed_float);
        break;
      case 5:
        read_numbers(reader, list.bools, &WireReader::get_bool, &WireReader::get_packed_bool);
        break;
      case 6:
        read_numbers(reader, types, &WireReader::get_enum, &WireReader::get_packed_enum);
        break;
      case 7:
        list.shapes.push_back(read_shape(reader.get_message(), true));
        break;
      case 8:
      case 9:
        return {};
      default:
        reader.skip();
    }
  }
  for (const std::int32_t each : types) list.types.push_back({each});
  return list;
}

AttrDef read_known_attr(const data_view& bytes, std::int64_t& repeats) {
  AttrDef attr;
  WireReader reader(bytes);
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        attr = read_list(reader.get_message());
        break;
      case 2:
        attr = std::string(reader.get_text());
        break;
      case 3:
        attr = reader.get_int64();
        break;
      case 4:
        attr = reader.get_float();
        break;
      case 5:
        attr = reader.get_bool();
        break;
      case 6:
        attr = TypeCode{reader.get_enum()};
        break;
      case 7:
        attr = read_shape(reader.get_message(), true);
        break;
      case 8:
        attr = TensorReader(reader.get_message(), repeats).result();
        if (!std::get<TensorDef>(attr).value) attr = {};
        break;
      default:
        attr = {};
        reader.skip();
    }
  }
  if (std::holds_alternative<std::monostate>(attr) && !bytes.empty())
    return RawAttr{std::string(bytes.data(), bytes.size())};
  return attr;
}

AttrDef read_attr(const data_view& bytes, std::int64_t& repeats) {
  try {
    return read_known_attr(bytes, repeats);
  } catch (const LackRefusal&) {
    return RawAttr{std::string(bytes.data(), bytes.size()), true};
  }
}

NodeDef read_node(WireReader reader, std::int64_t& repeats) {
  NodeDef node;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        node.name = reader.get_text();
        break;
      case 2:
        node.op = reader.get_text();
        break;
      case 3:
        node.inputs.emplace_back(reader.get_text());
        break;
      case 4:
        node.device = reader.get_text();
        break;
      case 5: {
        WireReader entry = reader.get_message();
        std::string key;
        AttrDef value;
        while (entry.next()) {
          if (entry.tag() == 1) {
            key = entry.get_text();
          } else if (entry.tag() == 2) {
            value = read_attr(entry.get_view(), repeats);
          } else {
            entry.skip();
          }
        }
        node.attrs.insert_or_assign(std::move(key), std::move(value));
        break;
      }
      default:
        reader.skip();
    }
  }
  return node;
}

/// The first number of a VersionDef.
std::int32_t read_producer(WireReader reader) {
  std::int32_t producer = 0;
  while (reader.next()) {
    if (reader.tag() == 1) {
      producer = reader.get_enum();
    } else {
      reader.skip();
    }
  }
  return producer;
}

}  // namespace

TypeCode code_of(DType dtype) {
  const auto* found =
      std::find_if(type_codes.begin(), type_codes.end(), [&](const Pair& each) { return each.dtype == dtype; });
  return found == type_codes.end() ? TypeCode{} : found->code;
}

DType dtype_of(TypeCode type) {
  if (type.value > 100) type.value -= 100;
  const auto* found =
      std::find_if(type_codes.begin(), type_codes.end(), [&](const Pair& each) { return each.code == type; });
  return found == type_codes.end() ? DType::unknown : found->dtype;
}

std::string encode(const GraphDef& graph) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const NodeDef& node : graph.nodes) add_message(writer, 1, [&](pbf_writer& out) { write_node(out, node); });
  if (!graph.library.empty()) writer.add_message(2, graph.library);
  pbf_writer versions(writer, 4);
  // TensorFlow 2.4's: old enough for every reader, new enough for every op that is written.
  versions.add_int32(1, 561);
  versions.add_int32(2, 12);
  return bytes;
}

std::string encode_node(const NodeDef& node) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_node(writer, node);
  return bytes;
}

std::string encode_attr(const AttrDef& attr) {
  std::string bytes;
  pbf_writer writer(bytes);
  write_attr(writer, attr);
  return bytes;
}

NodeDef decode_node(std::string_view bytes, std::int64_t& repeats) {
  return read_node(WireReader(bytes.data(), bytes.size()), repeats);
}

AttrDef decode_attr(std::string_view bytes, std::int64_t& repeats) {
  return read_attr({bytes.data(), bytes.size()}, repeats);
}

TensorDef decode_tensor(std::string_view bytes) {
  return decoding("The data are no TensorProto, or damaged", [&] {
    auto repeats = static_cast<std::int64_t>(bytes.size());
    return TensorReader(WireReader(bytes.data(), bytes.size()), repeats).result();
  });
}

std::pair<TensorDef, TensorDef> decode_parts(const RawAttr& value) {
  return decoding("The data are no TensorProto, or damaged", [&] {
    auto repeats = static_cast<std::int64_t>(value.bytes.size());
    for (WireReader reader(value.bytes.data(), value.bytes.size()); reader.next(); reader.skip())
      if (reader.tag() == 8) return TensorReader(reader.get_message(), repeats).parts();
    throw DataLossError("A constant has no value");
  });
}

namespace {
std::size_t count_nodes(std::string_view bytes) {
  std::size_t count = 0;
  for (WireReader reader(bytes.data(), bytes.size()); reader.next(); reader.skip()) count += reader.tag() == 1 ? 1 : 0;
  return count;
}
}  // namespace

GraphDef decode(std::string_view bytes, const GraphLimits& limits) {
  return decoding("The data are no GraphDef, or damaged", [&] {
    GraphDef graph;
    const std::size_t nodes = count_nodes(bytes);
    if (std::cmp_less_equal(nodes, limits.nodes)) graph.nodes.reserve(nodes);
    std::int64_t repeats = std::min(most_repeated_elements, limits.elements);
    WireReader reader(bytes.data(), bytes.size());
    while (reader.next()) {
      if (reader.tag() == 1) {
        graph.nodes.push_back(read_node(reader.get_message(), repeats));
        if (std::cmp_greater(graph.nodes.size(), limits.nodes))
          throw ResourceExhaustedError(detail::join("Node '", graph.nodes.back().name, "' is number ",
                                                    graph.nodes.size(), " of its file; a graph may have ", limits.nodes,
                                                    " (GraphLimits::nodes)"));
      } else if (reader.tag() == 2) {
        graph.library += reader.get_text();  // the parts of a message that is given in parts are one message
      } else if (reader.tag() == 4) {
        graph.producer = read_producer(reader.get_message());
      } else {
        reader.skip();
      }
    }
    return graph;
  });
}

}  // namespace tapestry::io
