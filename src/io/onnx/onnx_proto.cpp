// onnx.proto, read. The numbers of the fields are ONNX's.

#include "io/onnx/onnx_proto.hpp"

#include <algorithm>
#include <array>

#include "io/wire.hpp"

namespace tapestry::io {

std::string onnx_op_name(std::string_view domain, std::string_view type) {
  return detail::join(domain.empty() ? "ai.onnx" : domain, "::", type);
}

TypeCode type_of_onnx(std::int64_t code) {
  // By ONNX's number: float32, uint8, int8, uint16, int16, int32, int64, string, bool, float16, float64, uint32,
  // uint64, complex64, complex128, bfloat16.
  constexpr std::array types{0, 1, 4, 6, 17, 5, 3, 9, 7, 10, 19, 2, 22, 23, 8, 18, 14};
  const bool known = code > 0 && code < static_cast<std::int64_t>(types.size());
  return {known ? types[code] : 0};
}

namespace {

/// No real model nests graphs as deep.
constexpr int deepest = 64;

class ModelReader {
 public:
  ModelReader(std::filesystem::path folder, const GraphLimits& limits, Where where)
      : folder_(std::move(folder)), limits_(limits), where_(where) {}

  OnnxModelDef model(WireReader reader) {
    OnnxModelDef model;
    bool has_graph = false;
    while (reader.next()) switch (reader.tag()) {
        case 7:
          model.graph = graph(reader.get_message(), 0);
          has_graph = true;
          break;
        case 8:
          model.opsets.insert(opset(reader.get_message()));
          break;
        case 14:
          with_strings(reader.get_message(), model.metadata);
          break;
        case 25: {
          auto [op, function] = this->function(reader.get_message());
          model.functions.insert_or_assign(std::move(op), std::move(function));
          break;
        }
        default:
          reader.skip();
      }
    if (!has_graph) throw DataLossError("The ONNX model has no graph");
    return model;
  }

 private:
  static std::pair<std::string, std::int64_t> opset(WireReader reader) {
    std::pair<std::string, std::int64_t> entry;
    while (reader.next()) {
      if (reader.tag() == 1) {
        entry.first = reader.get_text();
      } else if (reader.tag() == 2) {
        entry.second = reader.get_int64();
      } else {
        reader.skip();
      }
    }
    if (entry.first == "ai.onnx") entry.first.clear();
    return entry;
  }

  static void with_strings(WireReader reader, std::map<std::string, std::string>& map) {
    std::string key, value;
    while (reader.next()) {
      if (reader.tag() == 1) {
        key = reader.get_text();
      } else if (reader.tag() == 2) {
        value = reader.get_text();
      } else {
        reader.skip();
      }
    }
    map.insert_or_assign(key, value);
  }

  std::pair<std::string, OnnxFunctionDef> function(WireReader reader) {
    OnnxFunctionDef function;
    std::string name, domain;
    while (reader.next()) switch (reader.tag()) {
        case 1:
          name = reader.get_text();
          break;
        case 4:
          function.inputs.emplace_back(reader.get_text());
          break;
        case 5:
          function.outputs.emplace_back(reader.get_text());
          break;
        case 7:
          function.nodes.push_back(node(reader.get_message(), 0));
          break;
        case 9:
          function.opsets.insert(opset(reader.get_message()));
          break;
        case 10:
          domain = reader.get_text();
          break;
        case 11: {
          OnnxNodeDef holder;
          attribute(reader.get_message(), holder, 0);
          for (auto& [key, value] : holder.attrs) function.defaults.insert_or_assign(key, std::move(value));
          break;
        }
        default:
          reader.skip();
      }
    return {onnx_op_name(domain, name), std::move(function)};
  }

  OnnxGraphDef graph(WireReader reader, int depth) {
    if (depth > deepest) throw DataLossError(detail::join("The ONNX model nests graphs ", depth, " deep"));
    OnnxGraphDef graph;
    while (reader.next()) switch (reader.tag()) {
        case 1:
          graph.nodes.push_back(node(reader.get_message(), depth));
          break;
        case 2:
          graph.name = reader.get_text();
          break;
        case 5: {
          auto [name, tensor] = decode_onnx_tensor(reader.get_text(), folder_, where_);
          if (!graph.initializers.emplace(name, std::move(tensor)).second)
            throw InvalidArgumentError(detail::join("The ONNX model has two initializers '", name, "'"));
          break;
        }
        case 11:
          graph.inputs.push_back(value_info(reader.get_message()));
          break;
        case 12:
          graph.outputs.push_back(value_info(reader.get_message()));
          break;
        case 15:
          throw UnimplementedError("Tapestry lacks ONNX's sparse initializers");
        default:
          reader.skip();
      }
    return graph;
  }

  OnnxNodeDef node(WireReader reader, int depth) {
    if (++nodes_ > limits_.nodes)
      throw ResourceExhaustedError(
          detail::join("The ONNX model has more than ", limits_.nodes, " nodes (GraphLimits::nodes)"));
    OnnxNodeDef node;
    while (reader.next()) switch (reader.tag()) {
        case 1:
          node.inputs.emplace_back(reader.get_text());
          break;
        case 2:
          node.outputs.emplace_back(reader.get_text());
          break;
        case 3:
          node.name = reader.get_text();
          break;
        case 4:
          node.type = reader.get_text();
          break;
        case 5:
          attribute(reader.get_message(), node, depth);
          break;
        case 7:
          node.domain = reader.get_text();
          break;
        default:
          reader.skip();
      }
    if (node.domain == "ai.onnx") node.domain.clear();
    return node;
  }

  /// The value of an attribute lies in the field of its type.
  void attribute(WireReader reader, OnnxNodeDef& node, int depth) {
    std::string name, reference;
    std::int64_t type = 0;
    std::map<std::uint32_t, AttrDef> values;  // by the number of the field
    std::shared_ptr<const OnnxGraphDef> inner;
    ListDef lists;
    while (reader.next()) switch (const std::uint32_t tag = reader.tag()) {
        case 1:
          name = reader.get_text();
          break;
        case 2:
          values[tag] = reader.get_float();
          break;
        case 3:
          values[tag] = reader.get_int64();
          break;
        case 4:
          values[tag] = std::string(reader.get_text());
          break;
        case 5:
          values[tag] = decode_onnx_tensor(reader.get_text(), folder_, where_).second;
          break;
        case 6:
          inner = std::make_shared<const OnnxGraphDef>(graph(reader.get_message(), depth + 1));
          break;
        case 7:
          read_numbers(reader, lists.floats, &WireReader::get_float, &WireReader::get_packed_float);
          break;
        case 8:
          read_numbers(reader, lists.ints, &WireReader::get_int64, &WireReader::get_packed_int64);
          break;
        case 9:
          lists.strings.emplace_back(reader.get_text());
          break;
        case 20:
          type = reader.get_int64();
          break;
        case 21:
          reference = reader.get_text();
          break;
        default:
          reader.skip();
      }
    if (!reference.empty()) {
      node.references.insert_or_assign(name, reference);
    } else if (inner) {
      node.graphs.insert_or_assign(name, inner);
    } else {
      node.attrs.insert_or_assign(name, value_of(type, values, std::move(lists)));
    }
  }

  /// The types are FLOAT = 1, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS. Files of the first versions lack them.
  static AttrDef value_of(std::int64_t type, std::map<std::uint32_t, AttrDef>& values, ListDef lists) {
    const bool is_list = !lists.ints.empty() || !lists.floats.empty() || !lists.strings.empty();
    if ((type >= 6 && type <= 8) || (type == 0 && is_list)) return lists;
    const auto given = [&](std::uint32_t tag, AttrDef otherwise) {
      const auto found = values.find(tag);
      return found == values.end() ? std::move(otherwise) : std::move(found->second);
    };
    switch (type) {
      case 0:
        return values.empty() ? AttrDef(std::move(lists)) : std::move(values.begin()->second);
      case 1:
        return given(2, 0.0F);
      case 2:
        return given(3, std::int64_t{0});
      case 3:
        return given(4, std::string());
      case 4:
        return given(5, TensorDef{});
      default:
        return {};
    }
  }

  OnnxValueDef value_info(WireReader reader) {
    OnnxValueDef value;
    while (reader.next()) {
      if (reader.tag() == 1) {
        value.name = reader.get_text();
      } else if (reader.tag() == 2) {
        for_fields(reader.get_message(), 1, [&](WireReader& type) {
          value.is_tensor = true;
          tensor_type(type.get_message(), value);
        });
      } else {
        reader.skip();
      }
    }
    return value;
  }

  static void tensor_type(WireReader reader, OnnxValueDef& value) {
    while (reader.next()) {
      if (reader.tag() == 1) {
        value.type = type_of_onnx(reader.get_int64());
      } else if (reader.tag() == 2) {
        std::vector<std::int64_t> sizes;
        for_fields(reader.get_message(), 1, [&](WireReader& dimension) {
          std::int64_t size = -1;
          for_fields(dimension.get_message(), 1, [&](WireReader& each) { size = each.get_int64(); });
          sizes.push_back(std::max<std::int64_t>(size, -1));  // a name, or nothing: any size
        });
        if (sizes.size() > Shape::max_rank)
          throw UnimplementedError(
              detail::join("The value '", value.name, "' of the ONNX model has ", sizes.size(), " axes"));
        value.shape = Shape(sizes);
      } else {
        reader.skip();
      }
    }
  }

  std::filesystem::path folder_;
  const GraphLimits& limits_;
  Where where_;
  std::int64_t nodes_ = 0;
};

}  // namespace

OnnxModelDef decode_onnx(std::string_view bytes, const std::filesystem::path& folder, const GraphLimits& limits,
                         Where where) {
  return decoding("The data are no ONNX model, or damaged",
                  [&] { return ModelReader(folder, limits, where).model(WireReader(bytes.data(), bytes.size())); });
}

}  // namespace tapestry::io
