#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <rapidjson/document.h>

/// JSON as TensorFlow Serving reads it, which tells what is wrong in RapidJSON's words, and takes NaN and Infinity.

namespace tapestry::serve {

using Json = rapidjson::Value;

/// The object at the start of a request's body. Throws InvalidArgumentError for anything else.
class ParsedObject {
 public:
  explicit ParsedObject(std::string_view body);
  ParsedObject(const ParsedObject&) = delete;
  ParsedObject& operator=(const ParsedObject&) = delete;

  const Json& json() const { return document_; }

 private:
  std::array<std::byte, 4096> room_;  ///< for the values of a short body; the heap is slower
  rapidjson::MemoryPoolAllocator<> memory_;
  rapidjson::Document document_;
};

/// The member of an object; nullptr if it has none of that name.
const Json* member(const Json& object, std::string_view name);
std::string_view text_of(const Json& string);

/// The value as errors quote it: pretty-printed, cut after 256 bytes.
std::string quoted(const Json& value);
/// "String", "Number", ...
std::string_view kind_of(const Json& value);

/// Whether it is {"b64": "..."}, which stands for bytes.
bool is_bytes(const Json& value);
/// The bytes of {"b64": "..."}, or of a string. Throws InvalidArgumentError when they are not in base64.
std::string bytes_of(const Json& value);

/// Bytes in base64.
std::string base64(std::string_view bytes);

/// What becomes of bytes that are no UTF-8: U+FFFD, so that the text stays JSON, or themselves, so that none is lost.
enum class BadBytes { replaced, kept };
/// Appends a string of JSON with its quotes.
void append_string(std::string& json, std::string_view text, BadBytes bad = BadBytes::replaced);
/// The body {"error": text}.
std::string error_body(std::string_view text);

}  // namespace tapestry::serve
