/// Snappy's format: the length of the result as a varint, and then elements, each of which appends bytes to the result:
/// literal ones, or a copy of earlier ones. The two lowest bits of an element's first byte are its kind.

#include "io/tensorflow/snappy.hpp"

#include <protozero/buffer_string.hpp>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

namespace tapestry::io {
namespace {

/// An element of 3 bytes makes at most 64 bytes, and no element makes more for its size.
constexpr std::size_t most_expansion = 22;

class SnappyReader {
 public:
  explicit SnappyReader(std::string_view packed) : rest_(packed) {}

  /// Whether the data are sound; then `result()` is what they contain.
  bool run() {
    const char* place = rest_.data();
    const std::uint64_t length = protozero::decode_varint(&place, place + rest_.size());
    rest_.remove_prefix(static_cast<std::size_t>(place - rest_.data()));
    if (length > most_expansion * rest_.size()) return false;
    length_ = static_cast<std::size_t>(length);
    result_.reserve(length_);
    while (!rest_.empty())
      if (!read_element()) return false;
    return result_.size() == length_;
  }
  std::string result() { return std::move(result_); }

 private:
  bool read_element() {
    const auto tag = static_cast<std::size_t>(number(1)), high = tag >> 2;
    const std::size_t kind = tag & 3, more = kind == 0 ? (high < 60 ? 0 : high - 59) : kind == 3 ? 4 : kind;
    if (rest_.size() < more) return false;
    const std::size_t operand = number(more);
    if (kind == 0) return add_literal(more == 0 ? high + 1 : operand + 1);
    return kind == 1 ? add_copy(4 + (high & 7), high >> 3 << 8 | operand) : add_copy(high + 1, operand);
  }

  /// The next `size` bytes as a number, the lowest first.
  std::size_t number(std::size_t size) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < size; ++i) value |= std::size_t{static_cast<unsigned char>(rest_[i])} << 8 * i;
    rest_.remove_prefix(size);
    return value;
  }

  bool add_literal(std::size_t size) {
    if (size > rest_.size() || size > length_ - result_.size()) return false;
    result_ += rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  /// The copy may overlap what it appends: then bytes repeat.
  bool add_copy(std::size_t size, std::size_t distance) {
    if (distance == 0 || distance > result_.size() || size > length_ - result_.size()) return false;
    for (std::size_t i = 0; i < size; ++i) result_ += result_[result_.size() - distance];
    return true;
  }

  std::string_view rest_;
  std::string result_;
  std::size_t length_ = 0;
};

}  // namespace

std::optional<std::string> snappy_decompressed(std::string_view packed) {
  try {
    SnappyReader reader(packed);
    if (!reader.run()) return {};
    return reader.result();
  } catch (const protozero::exception&) {
    return {};  // the length is no number
  }
}

}  // namespace tapestry::io
