#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tapestry/error.hpp"

namespace tapestry::io {

/// Bytes that are read from the front: a file, as it is or unpacked on the way, or a part of one.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// What errors call it: a path, maybe with a part of that file.
  virtual std::string name() const = 0;
  /// The place in the user's program that errors blame.
  virtual Where where() const = 0;
  /// More bytes than this cannot come out of it. A reader allocates nothing beyond, whatever a header claims.
  virtual std::int64_t most_bytes() const = 0;
  /// Fills `bytes` as far as the stream goes and returns how many were read. Throws DataLossError when what is there is
  /// damaged or stops early.
  virtual std::size_t read(std::span<std::byte> bytes) = 0;
};

}  // namespace tapestry::io
