#pragma once

#include <filesystem>
#include <memory>

#include "io/stream.hpp"

namespace tapestry::io {

/// A file that is read from its start, and decompressed if it is a gzip file.
class InputFile final : public ByteStream {
 public:
  /// Throws NotFoundError when there is no regular file of that name, FailedPreconditionError when it may not be read.
  InputFile(const std::filesystem::path& path, Where where);

  std::string name() const override { return path_.string(); }
  Where where() const override { return where_; }
  std::int64_t most_bytes() const override { return most_bytes_; }
  std::size_t read(std::span<std::byte> bytes) override;

 private:
  struct Close {
    void operator()(void* file) const;
  };

  std::filesystem::path path_;
  Where where_;
  std::unique_ptr<void, Close> file_;  ///< zlib's gzFile
  std::int64_t most_bytes_ = 0;
};

}  // namespace tapestry::io
