#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tapestry/error.hpp"

namespace tapestry::io {

/// Bytes that are read from their start: those of a file or of a range of it, as they are or decompressed.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// The name in errors: a path, maybe followed by the name of a member or a tensor of that file.
  virtual std::string name() const = 0;
  /// The call site that errors name.
  virtual Where where() const = 0;
  /// An upper bound of the stream's length. A reader refuses a header that claims more, before it allocates anything.
  virtual std::int64_t most_bytes() const = 0;
  /// Fills `bytes`, or less at the end of the stream, and returns how many bytes were read. Throws DataLossError when
  /// the data are damaged or stop early.
  virtual std::size_t read(std::span<std::byte> bytes) = 0;
};

/// Throws DataLossError with the stream's name followed by the parts of a message.
template <class... Parts>
[[noreturn]] void refuse(const ByteStream& stream, const Parts&... parts) {
  throw DataLossError(detail::join(stream.name(), parts...), stream.where());
}

}  // namespace tapestry::io
