#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "io/stream.hpp"

namespace tapestry::io {

/// The bytes of a stream, some at a time.
class ByteReader {
 public:
  explicit ByteReader(ByteStream& from) : from_(from) {}

  const ByteStream& stream() const { return from_; }
  /// How many bytes were taken.
  std::int64_t position() const { return taken_; }
  /// The next byte. Throws DataLossError at the end of the stream, as the following do.
  std::uint8_t byte();
  /// The next bytes as a text.
  std::string text(std::uint64_t size);
  /// The next bytes up to the end of the line, which is taken, too.
  std::string line();
  /// The next bytes as an integer, the lowest first, without a sign.
  std::uint64_t number(int size);

 private:
  ByteStream& from_;
  std::array<std::byte, 1 << 12> buffer_{};
  std::size_t next_ = 0, end_ = 0;
  std::int64_t taken_ = 0;
};

/// What a pickle has made. Others are known by their numbers in the pickle.
struct PickleValue {
  enum class Kind : std::uint8_t {
    other,       ///< None, a float, bytes, or an integer beyond 64 bits
    integer,     ///< or a bool
    text,        ///< a string
    global,      ///< something that Python would import: `text` is its name, "module.name"
    sequence,    ///< a tuple, list or set of `items`
    mapping,     ///< a dict: `items` are a key, its value, the next key, ...
    object,      ///< what Python would call: `items` are what is called, with which arguments, and its state, if any;
                 ///< `contents` what was put into the result as into a list or a dict
    persistent,  ///< something outside the pickle, which `items[0]` tells
  };
  Kind kind = Kind::other;
  std::int64_t integer = 0;
  std::string text{};
  std::vector<std::uint32_t> items{}, contents{};
};

/// A pickle of Python's, protocols 2 to 5, as data: what it tells Python to import and to call is kept as values and
/// never done. The format is that of Python's pickletools.
class Pickle {
 public:
  using Kind = PickleValue::Kind;

  /// Reads one pickle, up to its end. Throws DataLossError when it is damaged or truncated, UnimplementedError for
  /// an instruction that only older protocols have, and ResourceExhaustedError for more than `most_values`.
  explicit Pickle(ByteReader& from);

  static constexpr std::size_t most_values = 1 << 22;

  std::uint32_t result() const { return result_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(values_.size()); }
  const PickleValue& operator[](std::uint32_t value) const { return values_[value]; }

 private:
  class Machine;
  std::vector<PickleValue> values_;
  std::uint32_t result_ = 0;
};

}  // namespace tapestry::io
