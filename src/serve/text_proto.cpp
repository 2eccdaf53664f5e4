#include "serve/text_proto.hpp"

#include <charconv>

#include "tapestry/error.hpp"

namespace tapestry::serve {

class TextProtoParser {
 public:
  TextProtoParser(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  /// The fields up to the end of the text, or, of a message inside another, to its '}' or '>'.
  TextProto read(char end, int levels) {
    if (levels > 20) refuse("messages are nested deeper than 20");
    TextProto message;
    while (true) {
      skip_space();
      if (rest_.empty() || (end != 0 && rest_[0] == end)) break;
      read_field(message, levels);
    }
    if (end == 0) return message;
    if (rest_.empty()) refuse(std::string("'") + end + "' is missing at the end");
    rest_.remove_prefix(1);
    return message;
  }

 private:
  void read_field(TextProto& message, int levels) {
    TextProto::Field field{.name = std::string(take_word()), .place = place()};
    if (field.name.empty()) refuse("a field's name is missing");
    skip_space();
    const bool colon = take(':');
    skip_space();
    if (take('[')) {  // a list of values
      for (skip_space(); !take(']'); skip_space()) {
        if (rest_.empty()) refuse("']' is missing at the end");
        read_value(field, true, levels);
        message.fields_.push_back(field);
        skip_space();
        take(',');
      }
    } else {
      read_value(field, colon, levels);
      message.fields_.push_back(std::move(field));
    }
    skip_space();
    if (!take(',')) take(';');
  }

  void read_value(TextProto::Field& field, bool colon, int levels) {
    field.is_message = false;
    field.value.clear();
    if (take('{')) {
      field.is_message = true;
      field.message = read('}', levels + 1);
    } else if (take('<')) {
      field.is_message = true;
      field.message = read('>', levels + 1);
    } else if (!colon) {
      refuse("':' is missing behind " + field.name);
    } else if (!rest_.empty() && (rest_[0] == '"' || rest_[0] == '\'')) {
      // Strings behind each other are one.
      for (; !rest_.empty() && (rest_[0] == '"' || rest_[0] == '\''); skip_space()) read_string(field.value);
    } else {
      field.value = take_word();
      if (field.value.empty()) refuse("the value of " + field.name + " is missing");
    }
  }

  void read_string(std::string& value) {
    const char quote = rest_[0];
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_[0] != quote && rest_[0] != '\n') {
      if (take('\\')) {
        value += read_escape();
      } else {
        value += rest_[0];
        rest_.remove_prefix(1);
      }
    }
    if (!take(quote)) refuse("a string does not end");
  }

  /// What stands for itself behind a backslash, or for another character: "n" for a line's end, "x0a", "012".
  char read_escape() {
    constexpr std::string_view names = R"(abfnrtv\'"?)", values = "\a\b\f\n\r\t\v\\'\"?";
    if (rest_.empty()) refuse("a string does not end");
    if (const std::size_t found = names.find(rest_[0]); found != std::string_view::npos) {
      rest_.remove_prefix(1);
      return values[found];
    }
    const bool hexadecimal = take('x') || take('X');
    const std::string_view digits = rest_.substr(0, hexadecimal ? 2 : 3);
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, hexadecimal ? 16 : 8);
    if (error != std::errc() || value > 255) refuse("a string has a '\\' that stands for nothing");
    rest_.remove_prefix(static_cast<std::size_t>(end - digits.data()));
    return static_cast<char>(value);
  }

  std::string_view take_word() {
    const auto is_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
             c == '+' || c == '.';
    };
    std::size_t size = 0;
    while (size < rest_.size() && is_part(rest_[size])) ++size;
    const std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }

  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void skip_space() {
    while (!rest_.empty()) {
      if (rest_[0] == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r' || rest_[0] == '\n') {
        if (rest_[0] == '\n') ++line_;
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }

  std::string place() const { return name_ + ":" + std::to_string(line_); }
  [[noreturn]] void refuse(const std::string& what) const { throw InvalidArgumentError(place() + ": " + what); }

  std::string_view rest_;
  const std::string& name_;
  int line_ = 1;
};

TextProto TextProto::parse(std::string_view text, const std::string& name) {
  return TextProtoParser(text, name).read(0, 0);
}

const TextProto& TextProto::Field::as_message() const {
  if (!is_message) throw InvalidArgumentError(place + ": " + name + " takes { ... }");
  return message;
}

const std::string& TextProto::Field::as_text() const {
  if (is_message) throw InvalidArgumentError(place + ": " + name + " takes a value, not { ... }");
  return value;
}

std::int64_t TextProto::Field::as_number() const {
  const std::string& text = as_text();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw InvalidArgumentError(place + ": " + name + " takes a whole number, not " + text);
  return number;
}

double TextProto::Field::as_fraction() const {
  std::string text = as_text();
  double number = 0;
  if (text.ends_with('f') || text.ends_with('F')) text.pop_back();  // as C writes floats, so protobuf may
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number >= 0 && number <= 1))
    throw InvalidArgumentError(place + ": " + name + " takes a number from 0 to 1, not " + value);
  return number;
}

bool TextProto::Field::as_bool() const {
  const std::string& text = as_text();
  if (text != "true" && text != "false")
    throw InvalidArgumentError(place + ": " + name + " takes true or false, not " + text);
  return text == "true";
}

void TextProto::Field::refuse() const { throw InvalidArgumentError(place + ": there is no field " + name + " here"); }

}  // namespace tapestry::serve
