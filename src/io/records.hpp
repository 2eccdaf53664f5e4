#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/stream.hpp"

namespace tapestry::io {

// The records of a TFRecord file, and of an event file: each has the length of its data (u64), the masked CRC of these
// eight bytes, the data, and their masked CRC. The numbers are little-endian.

/// Appends a record with these data.
void append_record(std::string& out, std::string_view data);

/// Reads the records of a stream.
class RecordReader {
 public:
  /// Why there is no further record.
  enum class Fault {
    none,    ///< it is the end
    other,   ///< it is a file of another format, as far as is known
    cut,     ///< the stream ends within a record, which may still be being written
    length,  ///< a length contradicts its checksum, so that it is unknown where the next record is
    data,    ///< the data of this record contradict their checksum; `pass_damaged` goes on behind them
  };

  /// `begin` is the offset of the stream's first byte in its file. The stream must outlive the reader. It may give less
  /// than is asked for anywhere; where it gives nothing is its end.
  explicit RecordReader(ByteStream& stream, std::int64_t begin = 0) : stream_(stream), place_(begin), begin_(begin) {}

  /// The data of the next record, which stay until the next call; nothing at the end, and where the file is damaged.
  /// Throws what reading the stream throws.
  std::optional<std::string_view> next();
  /// The offset behind the last record.
  std::int64_t place() const { return place_; }
  Fault fault() const { return fault_; }
  /// A sentence that says why there is no record at this offset; "" if there is one, or at the end.
  const std::string& damage() const { return damage_; }
  /// Goes on behind a record of Fault::data.
  void pass_damaged();

 private:
  /// The next `count` bytes, or as many as there are. They are valid until the next call.
  std::string_view peek(std::size_t count);
  void advance(std::size_t count);
  std::nullopt_t stop(Fault fault, std::string_view reason);

  ByteStream& stream_;
  std::int64_t place_, begin_;
  std::vector<char> buffer_;         ///< a part of the stream
  std::size_t at_ = 0, filled_ = 0;  ///< what of the buffer is still to be read
  std::size_t damaged_bytes_ = 0;    ///< of a record of Fault::data
  std::string damage_;
  Fault fault_ = Fault::none;
};

}  // namespace tapestry::io
