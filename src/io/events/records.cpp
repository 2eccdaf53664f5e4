#include "io/events/records.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "io/crc32c.hpp"

namespace tapestry::io {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

template <class T>
T number_in(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

/// What lies around the data of a record.
constexpr std::int64_t header_bytes = 12, footer_bytes = 4;

bool has_crc(std::string_view data, std::string_view crc) {
  return masked(crc32c(data)) == number_in<std::uint32_t>(crc);
}

}  // namespace

/// The bytes must lie within the file. They are valid until the next call.
std::string_view RecordReader::bytes_at(std::int64_t offset, std::int64_t count) {
  constexpr std::int64_t block = 1 << 16;
  const auto buffered = static_cast<std::int64_t>(buffer_.size());
  if (offset < buffer_begin_ || offset + count > buffer_begin_ + buffered) {
    buffer_.resize(static_cast<std::size_t>(std::min(std::max(count, block), end_ - offset)));
    file_.read(offset, std::as_writable_bytes(std::span(buffer_)));
    buffer_begin_ = offset;
  }
  return std::string_view(buffer_).substr(static_cast<std::size_t>(offset - buffer_begin_),
                                          static_cast<std::size_t>(count));
}

std::nullopt_t RecordReader::stop(bool is_sound, std::string_view reason) {
  is_sound_ = is_sound;
  damage_ = detail::join(file_.name(), reason, " of the record at byte ", place_);
  return std::nullopt;
}

std::optional<std::string_view> RecordReader::next() {
  constexpr std::string_view is_cut = " is still being written, or cut off: it lacks the end";
  const std::int64_t left = end_ - place_;
  if (left == 0) return {};
  if (left < header_bytes) return stop(true, is_cut);
  const std::string_view header = bytes_at(place_, header_bytes), length_bytes = header.substr(0, 8);
  if (!has_crc(length_bytes, header.substr(8))) return stop(false, " is damaged: a checksum contradicts the length");
  const auto length = number_in<std::uint64_t>(length_bytes);
  if (left < header_bytes + footer_bytes || length > static_cast<std::uint64_t>(left - header_bytes - footer_bytes))
    return stop(true, is_cut);
  const auto size = static_cast<std::int64_t>(length);
  const std::string_view rest = bytes_at(place_ + header_bytes, size + footer_bytes), data = rest.substr(0, length);
  if (!has_crc(data, rest.substr(length))) return stop(false, " is damaged: a checksum contradicts the data");
  place_ += header_bytes + size + footer_bytes;
  return data;
}

}  // namespace tapestry::io
