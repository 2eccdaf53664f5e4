#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/stream.hpp"

namespace tapestry::io {

/// Bytes that somebody else keeps.
using Chunk = std::span<const std::byte>;

/// Whether a file survives even a power failure. That takes as long as the disk does to answer: milliseconds.
enum class Durable : bool { no, yes };

/// Stands behind the name of a file that is being written. A writer that is killed leaves one.
inline constexpr std::string_view temporary_ending = ".tmp-";

/// Writes a file so that nobody ever sees half of it: into a temporary file beside it, which then takes its name. The
/// chunks lie one behind the other in the file.
/// Throws NotFoundError when the folder does not exist, ResourceExhaustedError when the disk is full, and
/// FailedPreconditionError when the place cannot be written for another reason; then the old file is as it was.
void write_file(const std::filesystem::path& path, std::span<const Chunk> chunks, Where where,
                Durable durable = Durable::no);
void write_file(const std::filesystem::path& path, Chunk bytes, Where where);

/// A regular file of which any part can be read.
class SourceFile {
 public:
  /// Throws NotFoundError when there is no regular file of that name, FailedPreconditionError when it may not be read.
  SourceFile(const std::filesystem::path& path, Where where);
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;
  ~SourceFile();

  std::string name() const { return path_.string(); }
  Where where() const { return where_; }
  std::int64_t size() const { return size_; }
  /// Fills `bytes` with what stands at the offset. Throws DataLossError when the file is too short for it, or has
  /// become so.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  Where where_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// A part of a file as a stream. The part must lie within the file, and the file must outlive the stream.
class FileRange final : public ByteStream {
 public:
  FileRange(const SourceFile& file, std::string name, std::int64_t begin, std::int64_t end)
      : file_(file), name_(std::move(name)), place_(begin), end_(end), size_(end - begin) {}

  std::string name() const override { return name_; }
  Where where() const override { return file_.where(); }
  std::int64_t most_bytes() const override { return size_; }
  std::size_t read(std::span<std::byte> bytes) override;

 private:
  const SourceFile& file_;
  std::string name_;
  std::int64_t place_, end_, size_;
};

}  // namespace tapestry::io
