#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/file.hpp"

namespace tapestry::io {

/// Reads the records of a TFRecord file: each has the length of its data (u64), the masked CRC of these eight bytes,
/// the data, and their masked CRC. The numbers are little-endian.
class RecordReader {
 public:
  /// Reads the records between two offsets. The file must outlive the reader.
  RecordReader(const SourceFile& file, std::int64_t begin, std::int64_t end) : file_(file), place_(begin), end_(end) {}

  /// The data of the next record, which stay until the next call; nothing at the end, and where the file is damaged.
  std::optional<std::string_view> next();
  /// The offset behind the last record.
  std::int64_t place() const { return place_; }
  /// A sentence that says why there is no record at this place; "" if there is one, or the end.
  const std::string& damage() const { return damage_; }
  /// Whether nothing is wrong but that the last record may lack its end.
  bool is_sound() const { return is_sound_; }

 private:
  std::string_view bytes_at(std::int64_t offset, std::int64_t count);
  std::nullopt_t stop(bool is_sound, std::string_view reason);

  const SourceFile& file_;
  std::int64_t place_, end_;
  std::string buffer_;             ///< a part of the file
  std::int64_t buffer_begin_ = 0;  ///< its offset
  std::string damage_;
  bool is_sound_ = true;
};

}  // namespace tapestry::io
