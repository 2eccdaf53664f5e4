/// Protobuf's text format, by a table of the messages. The text is converted to the wire format and back, so that only
/// graph_def.cpp knows what a GraphDef means.

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <protozero/pbf_writer.hpp>

#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"

namespace tapestry::io {
namespace {

using protozero::data_view;
using protozero::pbf_wire_type;
using protozero::pbf_writer;

/// How deep messages may lie in each other: as deep as protobuf allows.
constexpr int deepest_message = 100;

// ---- The messages ---------------------------------------------------------------------------------------------------

enum class Kind : std::uint8_t { text, bytes, whole, natural, truth, type, real32, real64, message };

struct Message;
struct Field {
  std::string_view name;
  std::uint32_t number;
  Kind kind;
  const Message* message = nullptr;
};
struct Message {
  std::span<const Field> fields;
  std::string_view name = {};  ///< of one that is a file, for errors
};

constexpr Field versions_fields[] = {
    {"producer", 1, Kind::whole}, {"min_consumer", 2, Kind::whole}, {"bad_consumers", 3, Kind::whole}};
constexpr Message versions_message{versions_fields};

constexpr Field dim_fields[] = {{"size", 1, Kind::whole}, {"name", 2, Kind::text}};
constexpr Message dim_message{dim_fields};
constexpr Field shape_fields[] = {{"dim", 2, Kind::message, &dim_message}, {"unknown_rank", 3, Kind::truth}};
constexpr Message shape_message{shape_fields};

constexpr Field tensor_fields[] = {
    {"dtype", 1, Kind::type},           {"tensor_shape", 2, Kind::message, &shape_message},
    {"version_number", 3, Kind::whole}, {"tensor_content", 4, Kind::bytes},
    {"float_val", 5, Kind::real32},     {"double_val", 6, Kind::real64},
    {"int_val", 7, Kind::whole},        {"string_val", 8, Kind::bytes},
    {"scomplex_val", 9, Kind::real32},  {"int64_val", 10, Kind::whole},
    {"bool_val", 11, Kind::truth},      {"dcomplex_val", 12, Kind::real64},
    {"half_val", 13, Kind::whole},      {"uint32_val", 16, Kind::whole},
    {"uint64_val", 17, Kind::natural}};
constexpr Message tensor_message{tensor_fields};

extern const Message function_name_message;  // has attributes, which may name functions
constexpr Field list_fields[] = {{"s", 2, Kind::bytes},
                                 {"i", 3, Kind::whole},
                                 {"f", 4, Kind::real32},
                                 {"b", 5, Kind::truth},
                                 {"type", 6, Kind::type},
                                 {"shape", 7, Kind::message, &shape_message},
                                 {"tensor", 8, Kind::message, &tensor_message},
                                 {"func", 9, Kind::message, &function_name_message}};
constexpr Message list_message{list_fields};

constexpr Field value_fields[] = {{"list", 1, Kind::message, &list_message},
                                  {"s", 2, Kind::bytes},
                                  {"i", 3, Kind::whole},
                                  {"f", 4, Kind::real32},
                                  {"b", 5, Kind::truth},
                                  {"type", 6, Kind::type},
                                  {"shape", 7, Kind::message, &shape_message},
                                  {"tensor", 8, Kind::message, &tensor_message},
                                  {"placeholder", 9, Kind::text},
                                  {"func", 10, Kind::message, &function_name_message}};
constexpr Message value_message{value_fields};
constexpr Field attr_fields[] = {{"key", 1, Kind::text}, {"value", 2, Kind::message, &value_message}};
constexpr Message attr_message{attr_fields};
constexpr Field function_name_fields[] = {{"name", 1, Kind::text}, {"attr", 2, Kind::message, &attr_message}};
constexpr Message function_name_message{function_name_fields};

constexpr Field node_fields[] = {{"name", 1, Kind::text},
                                 {"op", 2, Kind::text},
                                 {"input", 3, Kind::text},
                                 {"device", 4, Kind::text},
                                 {"attr", 5, Kind::message, &attr_message}};
constexpr Message node_message{node_fields};

constexpr Field handle_fields[] = {{"dtype", 1, Kind::type}, {"shape", 2, Kind::message, &shape_message}};
constexpr Message handle_message{handle_fields};
constexpr Field arg_fields[] = {{"name", 1, Kind::text},
                                {"description", 2, Kind::text},
                                {"type", 3, Kind::type},
                                {"type_attr", 4, Kind::text},
                                {"number_attr", 5, Kind::text},
                                {"type_list_attr", 6, Kind::text},
                                {"handle_data", 7, Kind::message, &handle_message},
                                {"is_ref", 16, Kind::truth}};
constexpr Message arg_message{arg_fields};
constexpr Field attr_def_fields[] = {{"name", 1, Kind::text},
                                     {"type", 2, Kind::text},
                                     {"description", 4, Kind::text},
                                     {"default_value", 3, Kind::message, &value_message},
                                     {"has_minimum", 5, Kind::truth},
                                     {"minimum", 6, Kind::whole},
                                     {"allowed_values", 7, Kind::message, &value_message}};
constexpr Message attr_def_message{attr_def_fields};
constexpr Field signature_fields[] = {{"name", 1, Kind::text},
                                      {"input_arg", 2, Kind::message, &arg_message},
                                      {"output_arg", 3, Kind::message, &arg_message},
                                      {"attr", 4, Kind::message, &attr_def_message},
                                      {"summary", 5, Kind::text},
                                      {"description", 6, Kind::text},
                                      {"is_aggregate", 16, Kind::truth},
                                      {"is_stateful", 17, Kind::truth},
                                      {"is_commutative", 18, Kind::truth},
                                      {"allows_uninitialized_input", 19, Kind::truth},
                                      {"control_output", 20, Kind::text},
                                      {"is_distributed_communication", 21, Kind::truth}};
constexpr Message signature_message{signature_fields};
constexpr Field return_fields[] = {{"key", 1, Kind::text}, {"value", 2, Kind::text}};
constexpr Message return_message{return_fields};
constexpr Field arg_attrs_fields[] = {{"attr", 1, Kind::message, &attr_message}};
constexpr Message arg_attrs_message{arg_attrs_fields};
constexpr Field arg_attr_fields[] = {{"key", 1, Kind::whole}, {"value", 2, Kind::message, &arg_attrs_message}};
constexpr Message arg_attr_message{arg_attr_fields};
constexpr Field arg_id_fields[] = {{"key", 1, Kind::whole}, {"value", 2, Kind::whole}};
constexpr Message arg_id_message{arg_id_fields};
constexpr Field function_fields[] = {{"signature", 1, Kind::message, &signature_message},
                                     {"node_def", 3, Kind::message, &node_message},
                                     {"ret", 4, Kind::message, &return_message},
                                     {"attr", 5, Kind::message, &attr_message},
                                     {"control_ret", 6, Kind::message, &return_message},
                                     {"arg_attr", 7, Kind::message, &arg_attr_message},
                                     {"resource_arg_unique_id", 8, Kind::message, &arg_id_message}};
constexpr Message function_message{function_fields};
constexpr Field gradient_fields[] = {{"function_name", 1, Kind::text}, {"gradient_func", 2, Kind::text}};
constexpr Message gradient_message{gradient_fields};
constexpr Field registered_fields[] = {{"gradient_func", 1, Kind::text}, {"registered_op_type", 2, Kind::text}};
constexpr Message registered_message{registered_fields};
constexpr Field library_fields[] = {{"function", 1, Kind::message, &function_message},
                                    {"gradient", 2, Kind::message, &gradient_message},
                                    {"registered_gradients", 3, Kind::message, &registered_message}};
constexpr Message library_message{library_fields};

constexpr Field graph_fields[] = {{"node", 1, Kind::message, &node_message},
                                  {"library", 2, Kind::message, &library_message},
                                  {"versions", 4, Kind::message, &versions_message}};
constexpr Message graph_message{graph_fields, "GraphDef"};

constexpr Field checkpoint_fields[] = {{"model_checkpoint_path", 1, Kind::text},
                                       {"all_model_checkpoint_paths", 2, Kind::text},
                                       {"all_model_checkpoint_timestamps", 3, Kind::real64},
                                       {"last_preserved_timestamp", 4, Kind::real64}};
constexpr Message checkpoint_message{checkpoint_fields, "CheckpointState"};

// Of a SavedModel, what the reader asks for. TensorFlow 2, which has objects in it, writes none as text.

constexpr Field text_list_fields[] = {{"value", 1, Kind::bytes}};
constexpr Message text_list_message{text_list_fields};
constexpr Field number_list_fields[] = {{"value", 1, Kind::whole}};
constexpr Message number_list_message{number_list_fields};
constexpr Field real_list_fields[] = {{"value", 1, Kind::real32}};
constexpr Message real_list_message{real_list_fields};
constexpr Field any_fields[] = {{"type_url", 1, Kind::text}, {"value", 2, Kind::bytes}};
constexpr Message any_message{any_fields};
constexpr Field any_list_fields[] = {{"value", 1, Kind::message, &any_message}};
constexpr Message any_list_message{any_list_fields};
constexpr Field collection_fields[] = {{"node_list", 1, Kind::message, &text_list_message},
                                       {"bytes_list", 2, Kind::message, &text_list_message},
                                       {"int64_list", 3, Kind::message, &number_list_message},
                                       {"float_list", 4, Kind::message, &real_list_message},
                                       {"any_list", 5, Kind::message, &any_list_message}};
constexpr Message collection_message{collection_fields};
constexpr Field named_collection_fields[] = {{"key", 1, Kind::text}, {"value", 2, Kind::message, &collection_message}};
constexpr Message named_collection_message{named_collection_fields};

constexpr Field sparse_info_fields[] = {{"values_tensor_name", 1, Kind::text},
                                        {"indices_tensor_name", 2, Kind::text},
                                        {"dense_shape_tensor_name", 3, Kind::text}};
constexpr Message sparse_info_message{sparse_info_fields};
constexpr Field tensor_info_fields[] = {{"name", 1, Kind::text},
                                        {"dtype", 2, Kind::type},
                                        {"tensor_shape", 3, Kind::message, &shape_message},
                                        {"coo_sparse", 4, Kind::message, &sparse_info_message}};
constexpr Message tensor_info_message{tensor_info_fields};
constexpr Field named_info_fields[] = {{"key", 1, Kind::text}, {"value", 2, Kind::message, &tensor_info_message}};
constexpr Message named_info_message{named_info_fields};
constexpr Field call_fields[] = {{"inputs", 1, Kind::message, &named_info_message},
                                 {"outputs", 2, Kind::message, &named_info_message},
                                 {"method_name", 3, Kind::text}};
constexpr Message call_message{call_fields};
constexpr Field named_call_fields[] = {{"key", 1, Kind::text}, {"value", 2, Kind::message, &call_message}};
constexpr Message named_call_message{named_call_fields};

constexpr Field saver_fields[] = {{"filename_tensor_name", 1, Kind::text},
                                  {"save_tensor_name", 2, Kind::text},
                                  {"restore_op_name", 3, Kind::text},
                                  {"max_to_keep", 4, Kind::whole},
                                  {"sharded", 5, Kind::truth},
                                  {"keep_checkpoint_every_n_hours", 6, Kind::real32}};
constexpr Message saver_message{saver_fields};
constexpr Field asset_fields[] = {{"tensor_info", 1, Kind::message, &tensor_info_message}, {"filename", 2, Kind::text}};
constexpr Message asset_message{asset_fields};
constexpr Field meta_info_fields[] = {{"meta_graph_version", 1, Kind::text},
                                      {"tags", 4, Kind::text},
                                      {"tensorflow_version", 5, Kind::text},
                                      {"tensorflow_git_version", 6, Kind::text},
                                      {"stripped_default_attrs", 7, Kind::truth}};
constexpr Message meta_info_message{meta_info_fields};
constexpr Field meta_graph_fields[] = {{"meta_info_def", 1, Kind::message, &meta_info_message},
                                       {"graph_def", 2, Kind::message, &graph_message},
                                       {"saver_def", 3, Kind::message, &saver_message},
                                       {"collection_def", 4, Kind::message, &named_collection_message},
                                       {"signature_def", 5, Kind::message, &named_call_message},
                                       {"asset_file_def", 6, Kind::message, &asset_message}};
constexpr Message meta_graph_message{meta_graph_fields};
constexpr Field saved_model_fields[] = {{"saved_model_schema_version", 1, Kind::whole},
                                        {"meta_graphs", 2, Kind::message, &meta_graph_message}};
constexpr Message saved_model_message{saved_model_fields, "SavedModel"};

const Message& message_of(TextMessage message) {
  return message == TextMessage::graph         ? graph_message
         : message == TextMessage::saved_model ? saved_model_message
                                               : checkpoint_message;
}

// By the numbers of the types.
constexpr std::array<std::string_view, 34> type_names{"DT_INVALID",
                                                      "DT_FLOAT",
                                                      "DT_DOUBLE",
                                                      "DT_INT32",
                                                      "DT_UINT8",
                                                      "DT_INT16",
                                                      "DT_INT8",
                                                      "DT_STRING",
                                                      "DT_COMPLEX64",
                                                      "DT_INT64",
                                                      "DT_BOOL",
                                                      "DT_QINT8",
                                                      "DT_QUINT8",
                                                      "DT_QINT32",
                                                      "DT_BFLOAT16",
                                                      "DT_QINT16",
                                                      "DT_QUINT16",
                                                      "DT_UINT16",
                                                      "DT_COMPLEX128",
                                                      "DT_HALF",
                                                      "DT_RESOURCE",
                                                      "DT_VARIANT",
                                                      "DT_UINT32",
                                                      "DT_UINT64",
                                                      "DT_FLOAT8_E5M2",
                                                      "DT_FLOAT8_E4M3FN",
                                                      "DT_FLOAT8_E4M3FNUZ",
                                                      "DT_FLOAT8_E4M3B11FNUZ",
                                                      "DT_FLOAT8_E5M2FNUZ",
                                                      "DT_INT4",
                                                      "DT_UINT4",
                                                      "DT_INT2",
                                                      "DT_UINT2",
                                                      "DT_FLOAT4_E2M1FN"};

std::optional<std::int32_t> type_code(std::string_view name) {
  const bool reference = name.ends_with("_REF");
  if (reference) name.remove_suffix(4);
  const auto found = std::find(type_names.begin(), type_names.end(), name);
  if (found == type_names.end()) return {};
  return static_cast<std::int32_t>(found - type_names.begin()) + (reference ? 100 : 0);
}

// ---- To text --------------------------------------------------------------------------------------------------------

std::string quoted(data_view bytes) {
  std::string text = "\"";
  for (const char c : std::string_view(bytes.data(), bytes.size())) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      text += "\\n";
    } else if (c == '"' || c == '\\') {
      text += {'\\', c};
    } else if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      for (const int shift : {6, 3, 0}) text += std::string(shift == 6 ? "\\" : "") + char('0' + (byte >> shift & 7));
    }
  }
  return text + "\"";
}

template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  }
  std::array<char, 32> digits;
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() ? std::string(digits.data(), end) : "0";
}

class Printer {
 public:
  explicit Printer(const Message& message) : message_(message) {}

  std::string run(std::string_view bytes) {
    print(message_, WireReader(bytes.data(), bytes.size()), 0);
    return std::move(text_);
  }

 private:
  void print(const Message& message, WireReader reader, int depth) {
    if (depth > deepest_message)
      throw DataLossError(detail::join("The data are no ", message_.name, ": messages are nested too deeply"));
    while (reader.next()) {
      const auto field = std::find_if(message.fields.begin(), message.fields.end(),
                                      [&](const Field& each) { return each.number == reader.tag(); });
      if (field == message.fields.end()) {
        reader.skip();
        continue;
      }
      if (field->kind == Kind::message) {
        line(depth, field->name, " {\n");
        print(*field->message, reader.get_message(), depth + 1);
        text_ += std::string(static_cast<std::size_t>(2 * depth), ' ') + "}\n";
      } else if (field->kind == Kind::text || field->kind == Kind::bytes) {
        scalar(depth, *field, quoted(reader.get_view()));
      } else {
        numbers(depth, *field, reader);
      }
    }
  }

  void numbers(int depth, const Field& field, WireReader& reader) {
    const bool packed = reader.wire_type() == pbf_wire_type::length_delimited;
    const auto each = [&](auto one, auto all, auto text) {
      if (!packed) return scalar(depth, field, text((reader.*one)()));
      for (const auto value : (reader.*all)()) scalar(depth, field, text(value));
    };
    switch (field.kind) {
      case Kind::truth:
        return each(&WireReader::get_bool, &WireReader::get_packed_bool,
                    [](bool value) { return std::string(value ? "true" : "false"); });
      case Kind::type:
        return each(&WireReader::get_enum, &WireReader::get_packed_enum,
                    [](std::int32_t code) { return type_name(TypeCode{code}); });
      case Kind::real32:
        return each(&WireReader::get_float, &WireReader::get_packed_float, number_text<float>);
      case Kind::real64:
        return each(&WireReader::get_double, &WireReader::get_packed_double, number_text<double>);
      case Kind::natural:
        return each(&WireReader::get_int64, &WireReader::get_packed_int64,
                    [](std::int64_t value) { return number_text(static_cast<std::uint64_t>(value)); });
      default:
        return each(&WireReader::get_int64, &WireReader::get_packed_int64, number_text<std::int64_t>);
    }
  }

  void scalar(int depth, const Field& field, const std::string& value) {
    line(depth, field.name, ": ");
    text_ += value + "\n";
  }
  void line(int depth, std::string_view name, std::string_view after) {
    text_ += std::string(static_cast<std::size_t>(2 * depth), ' ');
    text_ += name;
    text_ += after;
  }

  const Message& message_;
  std::string text_;
};

// ---- From text ------------------------------------------------------------------------------------------------------

class Parser {
 public:
  Parser(const Message& message, std::string_view text) : message_(message), text_(text) {}

  std::string run() {
    std::string bytes;
    parse(message_, bytes, 0, '\0');
    return bytes;
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(place_), '\n');
    throw DataLossError(detail::join("The text is no ", message_.name, ": ", problem, " in line ", line));
  }

  char peek() {
    while (place_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[place_]))) {
        ++place_;
      } else if (text_[place_] == '#') {
        place_ = std::min(text_.find('\n', place_), text_.size());
      } else {
        return text_[place_];
      }
    }
    return '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++place_;
    return true;
  }

  /// A name, a number or a keyword.
  std::string_view word() {
    peek();
    const std::size_t start = place_;
    const auto is_part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '+';
    };
    while (place_ < text_.size() && is_part(text_[place_])) ++place_;
    if (place_ == start) refuse(place_ < text_.size() ? detail::join("unexpected '", text_[place_], "'") : "it stops");
    return text_.substr(start, place_ - start);
  }

  /// Reads a string. Adjacent strings are one.
  std::string string() {
    std::string value;
    while (peek() == '"' || peek() == '\'') {
      const char quote = text_[place_++];
      while (true) {
        if (place_ >= text_.size() || text_[place_] == '\n') refuse("a string does not end");
        const char c = text_[place_++];
        if (c == quote) break;
        value += c == '\\' ? escaped() : c;
      }
    }
    return value;
  }

  char escaped() {
    if (place_ >= text_.size()) refuse("a string does not end");
    const char c = text_[place_++];
    const auto digits = [&](int base, std::size_t most) {
      int value = 0;
      const std::string_view rest = text_.substr(place_, most);
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
      if (error != std::errc() || value < 0 || value > 255) refuse("a string has a bad escape");
      place_ += static_cast<std::size_t>(end - rest.data());
      return static_cast<char>(value);
    };
    if (c >= '0' && c <= '7') {
      --place_;
      return digits(8, 3);
    }
    constexpr std::string_view names = "abfnrtv\\'\"?", values = "\a\b\f\n\r\t\v\\'\"?";
    if (c == 'x' || c == 'X') return digits(16, 2);
    if (const std::size_t at = names.find(c); at != std::string_view::npos) return values[at];
    refuse("a string has a bad escape");
  }

  /// Parses the fields up to the closing bracket, and appends them to `bytes` in the wire format.
  void parse(const Message& message, std::string& bytes, int depth, char close) {
    if (depth > deepest_message) refuse("messages are nested too deeply");
    pbf_writer writer(bytes);
    while (true) {
      if (close == '\0' && peek() == '\0' && place_ == text_.size()) return;
      if (close != '\0' && take(close)) return;
      const std::string_view name = word();
      const auto field = std::find_if(message.fields.begin(), message.fields.end(),
                                      [&](const Field& each) { return each.name == name; });
      const bool colon = take(':');
      if (field == message.fields.end()) {
        skip(depth + 1);
      } else if (take('[')) {
        while (!take(']')) {
          value(*field, writer, depth);
          take(',');
        }
      } else {
        if (!colon && field->kind != Kind::message) refuse(detail::join("a ':' is missing behind ", name));
        value(*field, writer, depth);
      }
      if (!take(',')) take(';');
    }
  }

  void value(const Field& field, pbf_writer& writer, int depth) {
    switch (field.kind) {
      case Kind::message: {
        const char close = take('{') ? '}' : take('<') ? '>' : '\0';
        if (close == '\0') refuse(detail::join("a '{' is missing behind ", field.name));
        std::string inner;
        parse(*field.message, inner, depth + 1, close);
        return writer.add_message(field.number, inner);
      }
      case Kind::text:
      case Kind::bytes:
        if (peek() != '"' && peek() != '\'') refuse(detail::join(field.name, " wants a string"));
        return writer.add_bytes(field.number, string());
      case Kind::truth: {
        const std::string_view given = word();
        const bool yes = given == "true" || given == "True" || given == "t" || given == "1";
        if (!yes && given != "false" && given != "False" && given != "f" && given != "0")
          refuse(detail::join(field.name, " wants true or false"));
        return writer.add_bool(field.number, yes);
      }
      case Kind::real32:
        return writer.add_float(field.number, real<float>());
      case Kind::real64:
        return writer.add_double(field.number, real<double>());
      case Kind::type: {
        const std::string_view name = word();
        if (const auto code = type_code(name)) return writer.add_enum(field.number, *code);
        return writer.add_enum(field.number, static_cast<std::int32_t>(whole<std::int64_t>(name)));
      }
      case Kind::whole:
        return writer.add_int64(field.number, whole<std::int64_t>(word()));
      case Kind::natural:
        return writer.add_uint64(field.number, whole<std::uint64_t>(word()));
    }
  }

  template <class T>
  T whole(std::string_view word) const {
    T number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size()) refuse(detail::join("'", word, "' is no number"));
    return number;
  }

  template <class T>
  T real() {
    std::string_view text = word();
    if (text == "nan" || text == "-nan") return std::numeric_limits<T>::quiet_NaN();
    if (text == "inf" || text == "infinity") return std::numeric_limits<T>::infinity();
    if (text == "-inf" || text == "-infinity") return -std::numeric_limits<T>::infinity();
    if (text.ends_with('f')) text.remove_suffix(1);
    T number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) refuse(detail::join("'", text, "' is no number"));
    return number;
  }

  /// Skips the value of an unknown field.
  void skip(int depth) {
    if (depth > deepest_message) refuse("messages are nested too deeply");
    if (peek() == '"' || peek() == '\'') {
      string();
      return;
    }
    const char close = take('{') ? '}' : take('<') ? '>' : take('[') ? ']' : '\0';
    if (close == '\0') {
      word();
      return;
    }
    while (!take(close)) {
      if (close == ']') {
        skip(depth + 1);
      } else {
        word();
        take(':');
        skip(depth + 1);
      }
      if (!take(',')) take(';');
    }
  }

  const Message& message_;
  std::string_view text_;
  std::size_t place_ = 0;
};

}  // namespace

std::string type_name(TypeCode type) {
  const auto code = static_cast<std::size_t>(type.value), referred = code - 100;
  if (code < type_names.size()) return std::string(type_names[code]);
  if (referred < type_names.size()) return std::string(type_names[referred]) + "_REF";
  return std::to_string(type.value);
}

std::string to_text(std::string_view bytes, TextMessage message) {
  const Message& read = message_of(message);
  return decoding(detail::join("The data are no ", read.name, ", or damaged"),
                  [&] { return Printer(read).run(bytes); });
}

std::string from_text(std::string_view text, TextMessage message) { return Parser(message_of(message), text).run(); }

}  // namespace tapestry::io
