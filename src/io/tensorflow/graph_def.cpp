/// The wire format of graph.proto, node_def.proto and attr_value.proto. The numbers of the fields are TensorFlow's.

#include "io/tensorflow/graph_def.hpp"

#include <algorithm>
#include <array>

#include "core/lack_refusal.hpp"
#include "io/tensorflow/tensor_proto.hpp"

namespace tapestry::io {

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
        attr = read_tensor(reader.get_message(), repeats);
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
