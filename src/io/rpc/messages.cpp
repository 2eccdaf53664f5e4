#include "io/rpc/messages.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/make_tensor.hpp"
#include "io/wire.hpp"

namespace tapestry::io::rpc {
namespace {

using protozero::pbf_wire_type;

// ---- Writing --------------------------------------------------------------------------------------------------------

/// Numbers as protobuf writes the keys and the lengths of fields.
class Varints {
 public:
  Varints(std::initializer_list<std::uint64_t> numbers) {
    for (std::uint64_t value : numbers) {
      for (; value >= 0x80; value >>= 7U) bytes_[size_++] = static_cast<char>(value | 0x80U);
      bytes_[size_++] = static_cast<char>(value);
    }
  }
  operator std::string_view() const { return {bytes_.data(), size_}; }  // NOLINT(google-explicit-constructor)

 private:
  std::array<char, 20> bytes_;  ///< enough for two
  std::size_t size_ = 0;
};

std::uint64_t key(unsigned tag, pbf_wire_type type) { return tag << 3U | static_cast<unsigned>(type); }

void write_key(Pieces& to, unsigned tag, pbf_wire_type type) { to.add(Varints{key(tag, type)}); }

/// A field that has a length: what `write` adds.
template <class Write>
void write_delimited(Pieces& to, unsigned tag, Write write) {
  write_key(to, tag, pbf_wire_type::length_delimited);
  const Pieces::Mark begin = to.end();
  write();
  to.insert(begin, Varints{to.size() - begin.size});
}

template <class Message>
void write_fields(Pieces& to, const Message& message);
void write_field(Pieces& to, unsigned tag, std::int64_t value);

// protobuf leaves out fields with default values, but not the elements of lists.

void write_element(Pieces& to, unsigned tag, const std::string& value) {
  to.add(Varints{key(tag, pbf_wire_type::length_delimited), value.size()});
  to.add(value);
}

void write_shape(Pieces& to, unsigned tag, const Shape& shape) {
  std::string bytes;
  protozero::pbf_writer writer(bytes);
  add_message(writer, tag, [&](protozero::pbf_writer& message) { io::write_shape(message, shape); });
  to.add(bytes);
}

void write_element(Pieces& to, unsigned tag, const TensorDef& value) {
  write_delimited(to, tag, [&] {
    write_field(to, 1, std::int64_t{value.type.value});
    if (!value.value) return;
    const Tensor host = detail::on_host(value.value).contiguous();
    write_shape(to, 2, host.shape());
    const std::size_t bytes = detail::nbytes(host);
    if (bytes == 0) return;
    to.add(Varints{key(4, pbf_wire_type::length_delimited), bytes});
    to.add(host);
  });
}

template <class Message>
requires std::is_class_v<Message>
void write_element(Pieces& to, unsigned tag, const Message& value) {
  write_delimited(to, tag, [&] { write_fields(to, value); });
}

void write_field(Pieces& to, unsigned tag, std::int64_t value) {
  if (value != 0) to.add(Varints{key(tag, pbf_wire_type::varint), static_cast<std::uint64_t>(value)});
}

void write_field(Pieces& to, unsigned tag, bool value) { write_field(to, tag, std::int64_t{value}); }

void write_field(Pieces& to, unsigned tag, Fixed64 value) {
  if (value.value == 0) return;
  std::string bytes(Varints{key(tag, pbf_wire_type::fixed64)});
  for (unsigned i = 0; i < 64; i += 8) bytes += static_cast<char>(value.value >> i);
  to.add(bytes);
}

void write_field(Pieces& to, unsigned tag, const std::string& value) {
  if (!value.empty()) write_element(to, tag, value);
}

template <class T>
void write_field(Pieces& to, unsigned tag, const std::vector<T>& list) {
  for (const T& each : list) write_element(to, tag, each);
}

template <class Message>
requires std::is_class_v<Message>
void write_field(Pieces& to, unsigned tag, const Message& value) { write_element(to, tag, value); }

template <class Message>
void write_fields(Pieces& to, const Message& message) {
  Message::fields(message, [&](unsigned tag, const auto& value) { write_field(to, tag, value); });
}

// ---- Reading --------------------------------------------------------------------------------------------------------

/// How many elements a tensor may leave out because they repeat the one before. More are an attack or an error.
constexpr std::int64_t most_repeated_elements = std::int64_t{1} << 24;

template <class Message>
void read_fields(Message& message, WireReader reader);

void read_value(std::int64_t& value, WireReader& reader) { value = reader.get_int64(); }
void read_value(bool& value, WireReader& reader) { value = reader.get_bool(); }
void read_value(Fixed64& value, WireReader& reader) {
  if (reader.wire_type() != pbf_wire_type::fixed64) throw protozero::unknown_pbf_wire_type_exception();
  value.value = reader.get_fixed64();
}
void read_value(std::string& value, WireReader& reader) { value = reader.get_text(); }
void read_value(TensorDef& value, WireReader& reader) {
  value = decode_tensor(reader.get_text());
  const bool repeats = bool(value.value) && !value.value.is_contiguous();
  if (repeats && value.value.size() > most_repeated_elements)
    throw InvalidArgumentError(
        detail::join("A tensor of shape ", value.value.shape(), " repeats one element, too many times"));
}
template <class Message>
requires std::is_class_v<Message>
void read_value(Message& value, WireReader& reader) { read_fields(value, reader.get_message()); }
template <class T>
void read_value(std::vector<T>& list, WireReader& reader) {
  read_value(list.emplace_back(), reader);
}

template <class Message>
void read_fields(Message& message, WireReader reader) {
  while (reader.next()) {
    bool is_known = false;
    Message::fields(message, [&](unsigned tag, auto& value) {
      if (tag != reader.tag() || is_known) return;
      is_known = true;
      read_value(value, reader);
    });
    if (!is_known) reader.skip();
  }
}

}  // namespace

template <class Message>
Pieces encode(const Message& message) {
  Pieces pieces;
  write_fields(pieces, message);
  return pieces;
}

template <class Message>
Message decode(std::string_view bytes) {
  Message message;
  decoding("The message of the other side is damaged",
           [&] { read_fields(message, WireReader(bytes.data(), bytes.size())); });
  return message;
}

#define TAPESTRY_MESSAGE(Message)                 \
  template Pieces encode(const Message& message); \
  template Message decode(std::string_view bytes);
TAPESTRY_RPC_MESSAGES(TAPESTRY_MESSAGE)
#undef TAPESTRY_MESSAGE

}  // namespace tapestry::io::rpc
