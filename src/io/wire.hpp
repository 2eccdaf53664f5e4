#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "tapestry/error.hpp"
#include "tapestry/shape.hpp"

namespace tapestry::io {

/// Adds a message inside another, even an empty one, such as the shape of a scalar. (protozero's own way leaves empty
/// ones out.)
template <class F>
void add_message(protozero::pbf_writer& writer, protozero::pbf_tag_type tag, F fill) {
  std::string bytes;
  protozero::pbf_writer inner(bytes);
  fill(inner);
  writer.add_message(tag, bytes);
}

/// TensorFlow's TensorShapeProto, of sizes that are all known, and of any shape.
void write_sizes(protozero::pbf_writer& writer, std::span<const std::int64_t> sizes);
TAPESTRY_API void write_shape(protozero::pbf_writer& writer, const Shape& shape);

/// protozero's reader for files that cannot be trusted: a field of an unexpected wire type throws protozero's
/// exception, where protozero itself only asserts.
class WireReader : public protozero::pbf_reader {
 public:
  using pbf_reader::pbf_reader;
  explicit WireReader(const pbf_reader& reader) : pbf_reader(reader) {}

  std::int64_t get_int64() { return due(varint).pbf_reader::get_int64(); }
  std::int32_t get_enum() { return due(varint).pbf_reader::get_enum(); }
  bool get_bool() { return due(varint).pbf_reader::get_bool(); }
  std::uint32_t get_fixed32() { return due(protozero::pbf_wire_type::fixed32).pbf_reader::get_fixed32(); }
  float get_float() { return due(protozero::pbf_wire_type::fixed32).pbf_reader::get_float(); }
  double get_double() { return due(protozero::pbf_wire_type::fixed64).pbf_reader::get_double(); }
  protozero::data_view get_view() { return due(delimited).pbf_reader::get_view(); }
  /// A string or bytes, where they lie.
  std::string_view get_text() {
    const protozero::data_view view = get_view();
    return {view.data(), view.size()};
  }
  WireReader get_message() { return WireReader(due(delimited).pbf_reader::get_message()); }

 private:
  static constexpr auto varint = protozero::pbf_wire_type::varint;
  static constexpr auto delimited = protozero::pbf_wire_type::length_delimited;

  WireReader& due(protozero::pbf_wire_type type) {
    if (wire_type() != type) throw protozero::unknown_pbf_wire_type_exception();
    return *this;
  }
};

/// Calls f, which reads a message. Throws DataLossError with the given text when the bytes are no such message.
template <class F>
decltype(auto) decoding(std::string_view damage, F f) {
  try {
    return f();
  } catch (const protozero::exception&) {
    throw DataLossError(std::string(damage));
  }
}

/// Calls f(reader) for each field of this number; skips the others.
template <class F>
void for_fields(WireReader reader, std::uint32_t tag, F f) {
  while (reader.next()) {
    if (reader.tag() == tag) {
      f(reader);
    } else {
      reader.skip();
    }
  }
}

/// Calls f(key, value) for the entry of a map from strings to messages.
template <class F>
void with_entry(WireReader entry, F f) {
  std::string key;
  WireReader value;
  while (entry.next()) {
    if (entry.tag() == 1) {
      key = entry.get_text();
    } else if (entry.tag() == 2) {
      value = entry.get_message();
    } else {
      entry.skip();
    }
  }
  f(std::move(key), value);
}

/// The entry of a map from strings to strings or bytes: its key, and its value where it lies.
inline std::pair<std::string, std::string_view> read_entry(WireReader entry) {
  std::pair<std::string, std::string_view> result;
  while (entry.next()) {
    if (entry.tag() == 1) {
      result.first = entry.get_text();
    } else if (entry.tag() == 2) {
      result.second = entry.get_text();
    } else {
      entry.skip();
    }
  }
  return result;
}

/// Reads a repeated field of numbers, packed or not.
template <class T, class One, class Packed>
void read_numbers(WireReader& reader, std::vector<T>& numbers, One one, Packed packed) {
  if (reader.wire_type() != protozero::pbf_wire_type::length_delimited) {
    numbers.push_back(static_cast<T>((reader.*one)()));
    return;
  }
  for (const auto each : (reader.*packed)()) numbers.push_back(static_cast<T>(each));
}

}  // namespace tapestry::io
