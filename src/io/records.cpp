#include "io/records.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "io/crc32c.hpp"
#include "io/known_format.hpp"

namespace tapestry::io {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

template <class T>
T number_in(std::string_view bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof number);
  return number;
}

void append_number(std::string& out, auto number) {
  std::array<char, sizeof number> bytes;
  std::memcpy(bytes.data(), &number, sizeof number);
  out.append(bytes.data(), bytes.size());
}

/// What lies around the data of a record.
constexpr std::size_t length_size = 8, crc_size = 4, header_size = length_size + crc_size;

bool has_crc(std::string_view data, std::string_view crc) {
  return masked(crc32c(data)) == number_in<std::uint32_t>(crc);
}

}  // namespace

void append_record(std::string& out, std::string_view data) {
  const std::size_t begin = out.size();
  append_number(out, std::uint64_t{data.size()});
  append_number(out, masked(crc32c(std::string_view(out).substr(begin))));
  out += data;
  append_number(out, masked(crc32c(data)));
}

std::string_view RecordReader::peek(std::size_t count) {
  constexpr std::size_t block = 1 << 18;
  if (filled_ - at_ < count && at_ > 0) {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
    filled_ -= at_;
    at_ = 0;
  }
  // The buffer grows with what has been read, so that a length that lies takes no memory.
  while (filled_ - at_ < count) {
    buffer_.resize(std::max(buffer_.size(), filled_ + std::max(block, filled_)));
    const std::size_t read = stream_.read(std::as_writable_bytes(std::span(buffer_).subspan(filled_)));
    if (read == 0) break;
    filled_ += read;
  }
  return {buffer_.data() + at_, std::min(count, filled_ - at_)};
}

void RecordReader::advance(std::size_t count) {
  at_ += count;
  place_ += static_cast<std::int64_t>(count);
}

std::nullopt_t RecordReader::stop(Fault fault, std::string_view reason) {
  // At the start of a file, what it is instead tells more, if there is more than a length that is being written.
  const std::string_view start(buffer_.data() + at_, filled_ - at_);
  const Format found = place_ == 0 && start.size() >= length_size
                           ? format_of(start, std::cmp_equal(start.size(), stream_.most_bytes()))
                           : Format::unknown;
  if (found != Format::unknown && found != Format::records) {
    fault_ = Fault::other;
    damage_ = detail::join(stream_.name(), " is no TFRecord or event file; it is ", name_of(found));
    return std::nullopt;
  }
  fault_ = fault;
  damage_ = detail::join(stream_.name(), reason, " of the record at byte ", place_);
  return std::nullopt;
}

std::optional<std::string_view> RecordReader::next() {
  constexpr std::string_view is_cut = " is still being written, or cut off: it lacks the end";
  if (fault_ != Fault::none) return {};
  const std::string_view header = peek(header_size);
  if (header.empty()) return {};
  if (header.size() < header_size) return stop(Fault::cut, is_cut);
  if (!has_crc(header.substr(0, length_size), header.substr(length_size)))
    return stop(Fault::length, " is damaged: a checksum contradicts the length");
  const auto length = number_in<std::uint64_t>(header);
  const std::int64_t left = stream_.most_bytes() - (place_ - begin_);
  constexpr std::size_t around = header_size + crc_size;
  if (left < static_cast<std::int64_t>(around) || length > static_cast<std::uint64_t>(left) - around)
    return stop(Fault::cut, is_cut);
  const std::string_view record = peek(around + length);
  if (record.size() < around + length) return stop(Fault::cut, is_cut);
  const std::string_view data = record.substr(header_size, length);
  if (!has_crc(data, record.substr(header_size + length))) {
    damaged_bytes_ = record.size();
    return stop(Fault::data, " is damaged: a checksum contradicts the data");
  }
  advance(record.size());
  return data;
}

void RecordReader::pass_damaged() {
  advance(damaged_bytes_);
  damage_.clear();
  fault_ = Fault::none;
}

}  // namespace tapestry::io
