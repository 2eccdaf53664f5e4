#include "serve/json.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include <rapidjson/error/en.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include "tapestry/error.hpp"

namespace tapestry::serve {
namespace {

/// No tensor has more than 8 axes; what walks over the values calls itself for each level.
constexpr int most_levels = 1000;

/// Passes on what is parsed, until it is nested too deeply.
struct LimitedDepth {
  rapidjson::Document& document;
  int levels = 0;

  // NOLINTBEGIN(readability-identifier-naming): these are the names that rapidjson calls
  bool Null() { return document.Null(); }
  bool Bool(bool value) { return document.Bool(value); }
  bool Int(int value) { return document.Int(value); }
  bool Uint(unsigned value) { return document.Uint(value); }
  bool Int64(std::int64_t value) { return document.Int64(value); }
  bool Uint64(std::uint64_t value) { return document.Uint64(value); }
  bool Double(double value) { return document.Double(value); }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool copy) { return document.RawNumber(text, size, copy); }
  bool String(const char* text, rapidjson::SizeType size, bool copy) { return document.String(text, size, copy); }
  bool Key(const char* text, rapidjson::SizeType size, bool copy) { return document.Key(text, size, copy); }
  bool StartObject() { return ++levels <= most_levels && document.StartObject(); }
  bool EndObject(rapidjson::SizeType members) { return --levels >= 0 && document.EndObject(members); }
  bool StartArray() { return ++levels <= most_levels && document.StartArray(); }
  bool EndArray(rapidjson::SizeType elements) { return --levels >= 0 && document.EndArray(elements); }
  // NOLINTEND(readability-identifier-naming)
};

struct Parsing {
  rapidjson::MemoryStream stream;
  rapidjson::ParseResult result{};

  bool operator()(rapidjson::Document& document) {
    // Without recursion; NaN and Infinity are numbers; after the value anything may follow.
    constexpr unsigned flags =
        rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag | rapidjson::kParseStopWhenDoneFlag;
    rapidjson::Reader reader;
    LimitedDepth handler{document};
    rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> encoded(stream);
    result = reader.Parse<flags>(encoded, handler);
    return !result.IsError();
  }
};

constexpr std::size_t most_quoted = 256;

/// A value that has no values inside it.
std::string leaf_text(const Json& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator,
                    rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

/// Appends a value as RapidJSON's PrettyWriter prints it with its lists on one line, until there is enough to quote.
/// (That of version 1.1 knows neither NaN nor Infinity.)
void append_pretty(std::string& text, const Json& value, std::size_t levels) {
  const auto line = [&](std::size_t indent) { text += '\n' + std::string(4 * indent, ' '); };
  auto separate = [&, first = true]() mutable {
    if (!first) text += ',';
    if (value.IsObject()) {
      line(levels + 1);
    } else if (!first) {
      text += ' ';
    }
    first = false;
    return text.size() < most_quoted;
  };
  if (value.IsObject() && value.MemberCount() > 0) {
    text += '{';
    for (const auto& each : value.GetObject()) {
      if (!separate()) return;
      text += leaf_text(each.name) + ": ";
      append_pretty(text, each.value, levels + 1);
    }
    line(levels);
    text += '}';
  } else if (value.IsArray() && !value.Empty()) {
    text += '[';
    for (const Json& each : value.GetArray()) {
      if (!separate()) return;
      append_pretty(text, each, levels + 1);
    }
    text += ']';
  } else {
    text += leaf_text(value);
  }
}

/// The number of bytes of the UTF-8 character at the start of the text; 0 if there is none.
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Refuse a longer form than necessary, half of a UTF-16 pair, and a character beyond U+10FFFF.
  const unsigned second = byte(1);
  const bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                   (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return bad ? 0 : size;
}

int digit_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/// Throws InvalidArgumentError unless the text is groups of four digits, the last of which may lack one or two. White
/// space, such as the lines of MIME, is passed over.
std::string decode_base64(std::string_view text) {
  const auto refuse = [] { throw InvalidArgumentError("Unable to base64 decode"); };
  constexpr std::string_view white = " \t\n\v\f\r";
  std::string dense;
  if (text.find_first_of(white) != std::string_view::npos) {
    std::copy_if(text.begin(), text.end(), std::back_inserter(dense),
                 [&](char c) { return white.find(c) == std::string_view::npos; });
    text = dense;
  }
  if (text.size() % 4 == 0)
    for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) refuse();
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit < 0) refuse();
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  if ((bits & ((1U << count) - 1)) != 0) refuse();
  return bytes;
}

}  // namespace

// A value takes 16 bytes. RapidJSON's usual 64 KiB for any request cost more than parsing a short one.
ParsedObject::ParsedObject(std::string_view body)
    : memory_(room_.data(), room_.size(), std::clamp<std::size_t>(8 * body.size(), 1024, 65536)), document_(&memory_) {
  if (body.empty()) throw InvalidArgumentError("JSON Parse error: The document is empty");
  Parsing parsing{.stream = rapidjson::MemoryStream(body.data(), body.size())};
  document_.Populate(parsing);
  if (parsing.result.IsError()) {
    const std::string text = parsing.result.Code() == rapidjson::kParseErrorTermination
                                 ? detail::join("Lists and objects are nested deeper than ", most_levels, ".")
                                 : rapidjson::GetParseError_En(parsing.result.Code());
    throw InvalidArgumentError(detail::join("JSON Parse error: ", text, " at offset: ", parsing.result.Offset()));
  }
  if (!document_.IsObject()) throw InvalidArgumentError("JSON Value: " + quoted(document_) + " Is not object");
}

const Json* member(const Json& object, std::string_view name) {
  const auto found =
      object.FindMember(Json(rapidjson::StringRef(name.data(), static_cast<rapidjson::SizeType>(name.size()))));
  return found == object.MemberEnd() ? nullptr : &found->value;
}

std::string_view text_of(const Json& string) { return {string.GetString(), string.GetStringLength()}; }

std::string quoted(const Json& value) {
  std::string text;
  append_pretty(text, value, 0);
  return text.substr(0, most_quoted);
}

std::string_view kind_of(const Json& value) {
  constexpr std::array<std::string_view, 7> names{"Null", "False", "True", "Object", "Array", "String", "Number"};
  return names[value.GetType()];
}

bool is_bytes(const Json& value) {
  const Json* base64 = value.IsObject() && value.MemberCount() == 1 ? member(value, "b64") : nullptr;
  return base64 && base64->IsString();
}

std::string bytes_of(const Json& value) {
  if (value.IsString()) return std::string(text_of(value));
  if (!is_bytes(value))
    throw InvalidArgumentError("JSON Value: " + quoted(value) + " not formatted correctly for base64 data");
  return decode_base64(text_of(*member(value, "b64")));
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : digits[three >> (18U - 6U * static_cast<std::uint32_t>(k)) & 63U];
  }
  return text;
}

void append_string(std::string& json, std::string_view text, BadBytes bad) {
  constexpr std::string_view digits = "0123456789abcdef";
  json += '"';
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const char c = text[0];
    if (size == 0 && bad == BadBytes::kept) {
      json += c;
    } else if (size == 0) {
      json += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (c == '\n') {
      json += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += "\\u00";
      json += digits[static_cast<unsigned char>(c) >> 4];
      json += digits[static_cast<unsigned char>(c) & 15];
    } else {
      json += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  json += '"';
}

std::string error_body(std::string_view text) {
  std::string body = "{\n    \"error\": ";
  append_string(body, text);
  return body + "\n}";
}

}  // namespace tapestry::serve
