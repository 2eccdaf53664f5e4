#include "serve/json_tensor.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <variant>

#include "tapestry/error.hpp"
#include "tapestry/op.hpp"

namespace tapestry::serve {
namespace {

/// Of a value in JSON, which may have more axes than a tensor.
using Sizes = SmallVector<std::int64_t, 8>;

/// "[2,1]".
std::string listed(const Sizes& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

/// What stands for bool.
struct Bit {
  std::uint8_t value;
};

/// Whether the value is of the type; then it is stored.
/// @{
bool read(const Json& json, float& value) {
  if (!json.IsNumber()) return false;
  value = static_cast<float>(json.GetDouble());
  return true;
}
bool read(const Json& json, double& value) {
  if (!json.IsNumber()) return false;
  value = json.GetDouble();
  return true;
}
bool read(const Json& json, std::int32_t& value) {
  if (!json.IsInt()) return false;
  value = json.GetInt();
  return true;
}
bool read(const Json& json, std::int64_t& value) {
  if (!json.IsInt64()) return false;
  value = json.GetInt64();
  return true;
}
bool read(const Json& json, std::uint8_t& value) {
  if (!json.IsInt() || json.GetInt() < 0 || json.GetInt() > std::numeric_limits<std::uint8_t>::max()) return false;
  value = static_cast<std::uint8_t>(json.GetInt());
  return true;
}
bool read(const Json& json, Bit& value) {
  if (!json.IsBool()) return false;
  value.value = json.GetBool();
  return true;
}
bool read(const Json& json, std::string& value) {
  if (!json.IsString() && !json.IsObject()) return false;
  value = bytes_of(json);
  return true;
}
/// @}

/// The elements of an input, as they are read one after the other.
class Elements {
 public:
  explicit Elements(TypeNumber type) : type_(type) {
    if (type == string_type) values_ = std::vector<std::string>();
    switch (dtype_of(type)) {
      case DType::boolean:
        values_ = std::vector<Bit>();
        break;
      case DType::uint8:
        values_ = std::vector<std::uint8_t>();
        break;
      case DType::int32:
        values_ = std::vector<std::int32_t>();
        break;
      case DType::int64:
        values_ = std::vector<std::int64_t>();
        break;
      case DType::float32:
        values_ = std::vector<float>();
        break;
      case DType::float64:
        values_ = std::vector<double>();
        break;
      default:
        break;
    }
  }

  /// Appends the elements of a value, and returns its shape.
  Sizes add(const Json& value) {
    Sizes sizes;
    for (const Json* each = &value; each->IsArray(); each = &(*each)[0]) {
      sizes.push_back(each->Size());
      if (each->Empty()) break;
    }
    std::visit(
        [&](auto& values) {
          if constexpr (std::is_same_v<std::decay_t<decltype(values)>, std::monostate>) {
            refuse_type(value);
          } else {
            append(value, 0, sizes, values);
          }
        },
        values_);
    return sizes;
  }

  std::variant<Tensor, Texts> value(const Sizes& sizes) const {
    const Shape shape(std::span<const std::int64_t>(sizes.begin(), sizes.size()));
    return std::visit(
        [&](const auto& values) -> std::variant<Tensor, Texts> {
          using List = std::decay_t<decltype(values)>;
          if constexpr (std::is_same_v<List, std::monostate>) {
            throw InternalError("elements of a type that cannot be read");
          } else if constexpr (std::is_same_v<List, std::vector<std::string>>) {
            return Texts{.sizes = {sizes.begin(), sizes.end()}, .elements = values};
          } else if constexpr (std::is_same_v<List, std::vector<Bit>>) {
            std::vector<std::uint8_t> bytes;
            bytes.reserve(values.size());
            for (const Bit bit : values) bytes.push_back(bit.value);
            return tapestry::tensor(bytes, shape).cast(boolean);
          } else {
            return sizes.size() == 1 ? tapestry::tensor(values) : tapestry::tensor(values, shape);
          }
        },
        values_);
  }

 private:
  [[noreturn]] void refuse_type(const Json& value) const {
    throw UnimplementedError("Conversion of JSON Value: " + quoted(value) + " to type: " + type_name(type_));
  }

  /// `level`: the number of lists around the value.
  template <class T>
  void append(const Json& value, std::size_t level, const Sizes& sizes, std::vector<T>& values) const {
    if (!value.IsArray()) {
      if (level != sizes.size())
        throw InvalidArgumentError(detail::join("JSON Value: ", quoted(value), " found at incorrect level: ", level + 1,
                                                " in the JSON DOM. Expected at level: ", sizes.size()));
      T element;
      if (!read(value, element))
        throw InvalidArgumentError(detail::join("JSON Value: ", quoted(value), " Type: ", kind_of(value),
                                                " is not of expected type: ", type_name(type_)));
      values.push_back(element);
      return;
    }
    if (level >= sizes.size())
      throw InvalidArgumentError(
          detail::join("Encountered list at unexpected level: ", level, " expected < ", sizes.size()));
    if (value.Size() != static_cast<std::uint64_t>(sizes[level]))
      throw InvalidArgumentError(detail::join("Encountered list at unexpected size: ", value.Size(),
                                              " at level: ", level, " expected size: ", sizes[level]));
    for (const Json& each : value.GetArray()) append(each, level + 1, sizes, values);
  }

  TypeNumber type_;
  std::variant<std::monostate, std::vector<Bit>, std::vector<std::uint8_t>, std::vector<std::int32_t>,
               std::vector<std::int64_t>, std::vector<float>, std::vector<double>, std::vector<std::string>>
      values_;
};

/// A value with names, and not bytes in base64.
bool is_named(const Json& value) { return value.IsObject() && !is_bytes(value); }

/// The values of one input in the row format, which all have one shape.
struct Column {
  Column(std::string_view input, TypeNumber type) : name(input), elements(type) {}

  void add(const Json& value) {
    const Sizes added = elements.add(value);
    ++rows;
    if (!sizes) sizes = added;
    if (std::equal(added.begin(), added.end(), sizes->begin(), sizes->end())) return;
    const auto count = [](const Sizes& list) {
      std::int64_t product = 1;
      for (const std::int64_t size : list) product *= size;
      return product;
    };
    if (count(added) != count(*sizes))
      throw InvalidArgumentError(detail::join("Expecting tensor size: ", count(*sizes), " but got: ", count(added)));
    throw InvalidArgumentError("Expecting shape " + listed(*sizes) + " but got: " + listed(added));
  }

  std::string_view name;
  Elements elements;
  std::optional<Sizes> sizes{};
  std::int64_t rows = 0;
};

class RowReader {
 public:
  explicit RowReader(const SignatureInfo& signature) : signature_(signature) {
    columns_.reserve(signature.inputs.size());
    for (const auto& [name, info] : signature.inputs) columns_.emplace_back(name, info.type);
  }

  NamedValues read(const Json& instances) {
    const bool named = is_named(instances[0]);
    if (!named && columns_.size() > 1)
      throw InvalidArgumentError(
          "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
          "tensorinfo_map");
    std::int64_t count = 0;
    for (const Json& each : instances.GetArray()) {
      if (named != is_named(each))
        throw InvalidArgumentError(detail::join(
            named ? "Expecting object but got list at item " : "Expecting value/list but got object at item ", count,
            " of input list"));
      if (named) {
        add_object(each, count);
      } else {
        add(&columns_.front(), each, count);
      }
      ++count;
    }
    NamedValues values;
    values.reserve(columns_.size());
    for (const Column& column : columns_) {
      Sizes sizes{count};
      for (const std::int64_t size : *column.sizes) sizes.push_back(size);
      values.emplace(std::string(column.name), column.elements.value(sizes));
    }
    return values;
  }

 private:
  /// Adds an element, or one of its members, and says in front of errors which it was.
  static void add(Column* column, const Json& value, std::int64_t count, std::string_view key = {}) {
    try {
      if (!column) throw InvalidArgumentError(detail::join("JSON object: does not have named input: ", key));
      column->add(value);
    } catch (const InvalidArgumentError& error) {
      throw InvalidArgumentError(detail::join("Failed to process element: ", count, key.empty() ? "" : " key: ", key,
                                              " of 'instances' list. Error: INVALID_ARGUMENT: ", error.message()));
    }
  }

  void add_object(const Json& object, std::int64_t count) {
    auto next = columns_.begin();
    for (const auto& each : object.GetObject()) {
      const std::string_view key = text_of(each.name);
      // Most clients name the inputs in their order.
      if (next == columns_.end() || next->name != key)
        next = std::lower_bound(columns_.begin(), columns_.end(), key,
                                [](const Column& column, std::string_view name) { return column.name < name; });
      Column* const column = next == columns_.end() || next->name != key ? nullptr : &*next++;
      add(column, each.value, count, key);
      if (column->rows > count + 1)
        throw InvalidArgumentError(detail::join("Failed to process element: ", count,
                                                " of 'instances' list. JSON object: ", quoted(object),
                                                " has a key twice"));
    }
    if (object.MemberCount() == columns_.size()) return;
    std::string names;
    for (const auto& [name, info] : signature_.inputs) names += (names.empty() ? "" : ",") + name;
    throw InvalidArgumentError(detail::join("Failed to process element: ", count, " of 'instances' list. JSON object: ",
                                            quoted(object), " keys must be equal to: ", names));
  }

  const SignatureInfo& signature_;
  std::vector<Column> columns_;  ///< sorted by name, as the inputs are
};

NamedValues read_columnar(const Json& inputs, const SignatureInfo& signature) {
  if (!is_named(inputs) && signature.inputs.size() > 1)
    throw InvalidArgumentError(
        "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
        "tensorinfo_map");
  NamedValues values;
  values.reserve(signature.inputs.size());
  for (const auto& [name, info] : signature.inputs) {
    const Json* value = is_named(inputs) ? member(inputs, name) : &inputs;
    if (!value) throw InvalidArgumentError("Missing named input: " + name + " in 'inputs' object.");
    Elements elements(info.type);
    const Sizes sizes = elements.add(*value);
    values.emplace(name, elements.value(sizes));
  }
  return values;
}

// ---- Answers

template <class T>
void append_real(std::string& json, T value, int all_digits) {
  if (std::isnan(value)) {
    json += "NaN";
    return;
  }
  if (std::isinf(value)) {
    json += value < 0 ? "-Infinity" : "Infinity";
    return;
  }
  std::array<char, 32> text;
  char* end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, 6).ptr;
  T back = 0;
  std::from_chars(text.begin(), end, back);
  if (back != value) end = std::to_chars(text.begin(), text.end(), value, std::chars_format::general, all_digits).ptr;
  const std::string_view number(text.begin(), static_cast<std::size_t>(end - text.begin()));
  json += number;
  if (number.find_first_of(".e") == std::string_view::npos) json += ".0";
}

template <class T>
void append_element(std::string& json, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    json += value ? "true" : "false";
  } else if constexpr (std::is_floating_point_v<T>) {
    append_number(json, value);
  } else {
    std::array<char, 24> text;
    json.append(text.begin(), std::to_chars(text.begin(), text.end(), value).ptr);
  }
}

/// Writes parts of an output, from the first axis on or from the second one on.
class OutputWriter {
 public:
  OutputWriter(const std::string& name, const std::variant<Tensor, Texts>& value)
      : value_(value), in_base64_(name.ends_with("_bytes")) {
    if (const Texts* texts = std::get_if<Texts>(&value)) {
      sizes_.assign(texts->sizes.begin(), texts->sizes.end());
    } else {
      const Shape shape = std::get<Tensor>(value).shape();
      sizes_.assign(shape.sizes().begin(), shape.sizes().end());
    }
  }

  /// Appends the elements from `axis` on, beginning with element number `first`.
  void append(std::string& json, std::size_t axis, std::int64_t first) const {
    if (const Texts* texts = std::get_if<Texts>(&value_)) return append_part(json, axis, first, texts->elements.data());
    const Tensor& tensor = std::get<Tensor>(value_);
    switch (tensor.dtype()) {
      case DType::float32:
        return append_part(json, axis, first, tensor.data<float>());
      case DType::float64:
        return append_part(json, axis, first, tensor.data<double>());
      case DType::int32:
        return append_part(json, axis, first, tensor.data<std::int32_t>());
      case DType::int64:
        return append_part(json, axis, first, tensor.data<std::int64_t>());
      case DType::uint8:
        return append_part(json, axis, first, tensor.data<std::uint8_t>());
      case DType::boolean:
        return append_part(json, axis, first, tensor.data<bool>());
      default:
        throw InvalidArgumentError(
            detail::join("Failed to write JSON value for tensor type: ", tensorflow_name(tensor.dtype())));
    }
  }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// The number of elements from `axis` on.
  std::int64_t count(std::size_t axis) const {
    std::int64_t product = 1;
    for (; axis < sizes_.size(); ++axis) product *= sizes_[axis];
    return product;
  }

 private:
  template <class T>
  void append_part(std::string& json, std::size_t axis, std::int64_t first, const T* elements) const {
    if (axis == sizes_.size()) {
      if constexpr (std::is_same_v<T, std::string>) {
        return append_text(json, elements[first]);
      } else {
        return append_element(json, elements[first]);
      }
    }
    const std::int64_t step = count(axis + 1);
    json += '[';
    for (std::int64_t i = 0; i < sizes_[axis]; ++i) {
      if (i != 0) json += ", ";
      append_part(json, axis + 1, first + i * step, elements);
    }
    json += ']';
  }

  void append_text(std::string& json, const std::string& text) const {
    if (!in_base64_) return append_string(json, text, BadBytes::kept);
    json += "{\"b64\": ";
    append_string(json, base64(text));
    json += "}";
  }

  const std::variant<Tensor, Texts>& value_;
  const bool in_base64_;
  std::vector<std::int64_t> sizes_;
};

std::string write_columnar(const NamedValues& outputs) {
  std::string json = "{\n    \"outputs\": ";
  if (outputs.size() == 1) {
    const OutputWriter only(outputs.begin()->first, outputs.begin()->second);
    only.append(json, 0, 0);
    if (!only.sizes().empty() && only.count(0) > 0) json.insert(json.size() - 1, "\n    ");
    return json + "\n}";
  }
  json += "{";
  for (const auto& [name, value] : outputs) {
    json += json.ends_with("{") ? "\n        " : ",\n        ";
    append_string(json, name);
    json += ": ";
    OutputWriter(name, value).append(json, 0, 0);
  }
  return json + "\n    }\n}";
}

std::string write_rows(const NamedValues& outputs) {
  std::optional<std::int64_t> rows;
  std::map<std::string_view, OutputWriter> writers;
  for (const auto& [name, value] : outputs) {
    const OutputWriter& writer = writers.try_emplace(name, name, value).first->second;
    if (writer.sizes().empty()) throw InvalidArgumentError("Tensor name: " + name + " has no shape information ");
    const std::int64_t size = writer.sizes()[0];
    if (rows && *rows != size)
      throw InvalidArgumentError(
          detail::join("Tensor name: ", name, " has inconsistent batch size: ", size, " expecting: ", *rows));
    rows = size;
  }
  std::string json = "{\n    \"predictions\": [";
  for (std::int64_t row = 0; row < rows.value_or(0); ++row) {
    if (outputs.size() == 1) {
      if (row != 0) json += ", ";
      const OutputWriter& writer = writers.begin()->second;
      writer.append(json, 1, row * writer.count(1));
      continue;
    }
    json += row == 0 ? "\n        {" : ",\n        {";
    for (const auto& [name, writer] : writers) {
      json += json.ends_with("{") ? "\n            " : ",\n            ";
      append_string(json, name);
      json += ": ";
      writer.append(json, 1, row * writer.count(1));
    }
    json += "\n        }";
  }
  if (rows.value_or(0) > 0) json += "\n    ";
  return json + "]\n}";
}

}  // namespace

void append_number(std::string& json, float value) { append_real(json, value, 9); }
void append_number(std::string& json, double value) { append_real(json, value, 17); }

std::pair<Form, NamedValues> read_inputs(const Json& request, const std::string& name, const SignatureInfo& signature) {
  const Json *inputs = member(request, "inputs"), *instances = member(request, "instances");
  if (inputs && instances)
    throw InvalidArgumentError("JSON Value: " + quoted(request) +
                               " Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ");
  if (inputs) return {Form::columnar, read_columnar(*inputs, signature)};
  if (instances) {
    if (signature.inputs.empty()) throw InvalidArgumentError("Failed to get input map for signature: " + name);
    if (!instances->IsArray())
      throw InvalidArgumentError("JSON Value: " + quoted(request) + " Expecting 'instances' to be an list/array");
    if (instances->Empty())
      throw InvalidArgumentError("JSON Value: " + quoted(request) + " No values in 'instances' array");
    return {Form::row, RowReader(signature).read(*instances)};
  }
  throw InvalidArgumentError("Missing 'inputs' or 'instances' key");
}

std::string write_outputs(Form form, const NamedValues& outputs) {
  return form == Form::row ? write_rows(outputs) : write_columnar(outputs);
}

}  // namespace tapestry::serve
