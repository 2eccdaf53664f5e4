#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry::serve {

/// A message in protobuf's text form, as the configuration files of TensorFlow Serving are written: fields in order.
class TextProto {
 public:
  struct Field;

  /// Throws InvalidArgumentError, with the line, for a text that is none. `name` is the file's, for errors.
  static TextProto parse(std::string_view text, const std::string& name);

  const std::vector<Field>& fields() const& { return fields_; }
  const std::vector<Field>& fields() && = delete;  // they would be gone

 private:
  friend class TextProtoParser;
  std::vector<Field> fields_;
};

/// `name: value`, or `name { ... }`.
struct TextProto::Field {
  std::string name{};
  std::string value{};  ///< a string without its quotes, a number or a word; "" for a message
  bool is_message = false;
  TextProto message{};
  std::string place{};  ///< "models.config:3", for errors

  /// Throw InvalidArgumentError, with the place, for another kind of value.
  /// @{
  const TextProto& as_message() const;
  const std::string& as_text() const;
  std::int64_t as_number() const;
  double as_fraction() const;  ///< from 0 to 1
  bool as_bool() const;
  /// @}
  /// Throws InvalidArgumentError: the message has no such field.
  [[noreturn]] void refuse() const;
};

}  // namespace tapestry::serve
