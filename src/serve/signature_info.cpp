#include "serve/signature_info.hpp"

#include <array>

#include "io/file.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"
#include "tapestry/error.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::serve {
namespace {

using io::WireReader;

struct Type {
  std::string_view enum_name, name;
  DType dtype = DType::unknown;
};

/// By number.
constexpr std::array<Type, 24> types{{
    {"DT_INVALID", "INVALID"},
    {"DT_FLOAT", "float", DType::float32},
    {"DT_DOUBLE", "double", DType::float64},
    {"DT_INT32", "int32", DType::int32},
    {"DT_UINT8", "uint8", DType::uint8},
    {"DT_INT16", "int16"},
    {"DT_INT8", "int8"},
    {"DT_STRING", "string"},
    {"DT_COMPLEX64", "complex64"},
    {"DT_INT64", "int64", DType::int64},
    {"DT_BOOL", "bool", DType::boolean},
    {"DT_QINT8", "qint8"},
    {"DT_QUINT8", "quint8"},
    {"DT_QINT32", "qint32"},
    {"DT_BFLOAT16", "bfloat16", DType::bfloat16},
    {"DT_QINT16", "qint16"},
    {"DT_QUINT16", "quint16"},
    {"DT_UINT16", "uint16"},
    {"DT_COMPLEX128", "complex128"},
    {"DT_HALF", "half", DType::float16},
    {"DT_RESOURCE", "resource"},
    {"DT_VARIANT", "variant"},
    {"DT_UINT32", "uint32"},
    {"DT_UINT64", "uint64"},
}};

/// nullptr for a number that no type has.
const Type* type_of(TypeNumber number) {
  return number >= 0 && number < static_cast<int>(types.size()) ? &types[number] : nullptr;
}

std::optional<std::vector<std::int64_t>> read_sizes(WireReader shape) {
  std::vector<std::int64_t> sizes;
  bool known = true;
  while (shape.next()) {
    if (shape.tag() == 2) {
      sizes.push_back(0);
      for_fields(shape.get_message(), 1, [&](WireReader& size) { sizes.back() = size.get_int64(); });
    } else if (shape.tag() == 3) {
      known = !shape.get_bool();
    } else {
      shape.skip();
    }
  }
  if (!known) return std::nullopt;
  return sizes;
}

TensorInfo read_tensor(WireReader reader) {
  TensorInfo info{.sizes = std::vector<std::int64_t>()};
  while (reader.next()) {
    if (reader.tag() == 1) {
      info.name = reader.get_text();
    } else if (reader.tag() == 2) {
      info.type = reader.get_enum();
    } else if (reader.tag() == 3) {
      info.sizes = read_sizes(reader.get_message());
    } else {
      reader.skip();
    }
  }
  return info;
}

SignatureInfo read_signature(WireReader reader) {
  SignatureInfo signature;
  while (reader.next()) {
    if (reader.tag() == 1 || reader.tag() == 2) {
      auto& tensors = reader.tag() == 1 ? signature.inputs : signature.outputs;
      with_entry(reader.get_message(),
                 [&](std::string key, WireReader info) { tensors[std::move(key)] = read_tensor(info); });
    } else if (reader.tag() == 3) {
      signature.method = reader.get_text();
    } else {
      reader.skip();
    }
  }
  return signature;
}

}  // namespace

std::string enum_name(TypeNumber type) {
  const Type* known = type_of(type);
  return known ? std::string(known->enum_name) : std::to_string(type);
}

std::string type_name(TypeNumber type) {
  const Type* known = type_of(type);
  return known ? std::string(known->name) : std::to_string(type);
}

DType dtype_of(TypeNumber type) {
  const Type* known = type_of(type);
  return known ? known->dtype : DType::unknown;
}

std::filesystem::path model_file(const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path text = folder / "saved_model.pbtxt";
  const bool is_text =
      !std::filesystem::exists(folder / "saved_model.pb", error) && std::filesystem::exists(text, error);
  return is_text ? text : folder / "saved_model.pb";
}

std::string read_model(const std::filesystem::path& folder) {
  const std::filesystem::path path = model_file(folder);
  std::string bytes = io::bytes_of_file(path, GraphLimits().bytes, Where::here());
  if (path.extension() != ".pbtxt") return bytes;
  try {
    return io::from_text(bytes, io::TextMessage::saved_model);
  } catch (const DataLossError& error) {
    throw DataLossError(path.string() + ": " + error.message());
  }
}

bool is_for_serving(std::string_view meta_graph) {
  std::vector<std::string> tags;
  for_fields(WireReader(meta_graph.data(), meta_graph.size()), 1, [&](WireReader& info) {
    for_fields(info.get_message(), 4, [&](WireReader& tag) { tags.emplace_back(tag.get_text()); });
  });
  return tags == std::vector<std::string>{"serve"};
}

std::map<std::string, SignatureInfo> read_signatures(const std::filesystem::path& folder) {
  const std::filesystem::path path = model_file(folder);
  const std::string bytes = read_model(folder);
  std::optional<std::map<std::string, SignatureInfo>> signatures;
  try {
    for_fields(WireReader(bytes), 2, [&](WireReader& field) {
      const std::string_view meta = field.get_text();
      const WireReader graph(meta.data(), meta.size());
      if (signatures || !is_for_serving(meta)) return;
      signatures.emplace();
      for_fields(graph, 5, [&](WireReader& entry) {
        with_entry(entry.get_message(), [&](std::string key, WireReader signature) {
          SignatureInfo& info = signatures->insert_or_assign(std::move(key), read_signature(signature)).first->second;
          info.proto.assign(signature.data().data(), signature.length());
        });
      });
    });
  } catch (const protozero::exception&) {
    throw DataLossError(path.string() + " is no SavedModel, or damaged");
  }
  if (!signatures) throw NotFoundError(path.string() + " has no graph with the tag \"serve\"");
  return *signatures;
}

}  // namespace tapestry::serve
