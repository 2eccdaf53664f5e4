#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "tapestry/error.hpp"

namespace tapestry::io {

/// A file read from the front, unpacked on the way when it is a gzip file.
class InputFile {
 public:
  /// Throws NotFoundError when there is no regular file of that name, FailedPreconditionError when it may not be read.
  InputFile(const std::filesystem::path& path, Where where);

  const std::filesystem::path& path() const { return path_; }
  /// More bytes than this cannot come out of the file, however it was packed.
  std::int64_t most_bytes() const { return most_bytes_; }

  /// Fills `bytes` as far as the file goes and returns how many were read. Throws DataLossError when the packed data
  /// are damaged or stop early.
  std::size_t read(std::span<std::byte> bytes);

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
