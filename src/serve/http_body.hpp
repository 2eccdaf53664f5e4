#pragma once

#include <cstdint>
#include <optional>

#include "io/deflate.hpp"
#include "serve/http_connection.hpp"
#include "serve/named_tensors.hpp"

namespace tapestry::serve {

/// The body of a request, as it lies in the connection, without the marks of its chunks.
class HttpBody final : public io::ByteStream {
 public:
  /// `size`: the number of bytes; nothing if the body comes in chunks.
  HttpBody(HttpConnection& connection, std::optional<std::uint64_t> size, Deadline deadline)
      : connection_(connection), deadline_(deadline), left_(size.value_or(0)), in_chunks_(!size) {}

  std::string name() const override { return "The body"; }
  Where where() const override { return {}; }
  std::int64_t most_bytes() const override { return std::numeric_limits<std::int64_t>::max(); }
  /// Fills what has arrived, at least one byte, but at the end. Also throws DeadlineExceededError.
  std::size_t read(std::span<std::byte> bytes) override;

 private:
  void begin_chunk();
  std::string line();

  HttpConnection& connection_;
  const Deadline deadline_;
  std::uint64_t left_;  ///< of the body, or of the chunk
  bool in_chunks_;      ///< and there may be more of them
  bool is_first_ = true;
};

/// A body that is packed. A gzip body may consist of several streams.
class UnpackedBody final : public io::ByteStream {
 public:
  UnpackedBody(HttpBody& packed, io::Wrapping wrapping)
      : packed_(packed), inflater_(packed, wrapping), wrapping_(wrapping) {}

  std::string name() const override { return packed_.name(); }
  Where where() const override { return packed_.where(); }
  std::int64_t most_bytes() const override { return packed_.most_bytes(); }
  std::size_t read(std::span<std::byte> bytes) override;

 private:
  HttpBody& packed_;
  io::Inflater inflater_;
  io::Wrapping wrapping_;
};

}  // namespace tapestry::serve
