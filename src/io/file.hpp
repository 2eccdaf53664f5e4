#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "io/stream.hpp"

namespace tapestry::io {

/// Bytes that are owned elsewhere.
using Chunk = std::span<const std::byte>;

/// Whether a written file must survive a power failure. The call then waits for the disk, which takes milliseconds.
enum class Durable : bool { no, yes };

/// Follows the file's name in the name of its temporary file. A killed writer leaves such a file behind.
inline constexpr std::string_view temporary_ending = ".tmp-";

/// A file in the making, under another name beside `path`. The destructor removes it unless `take_name` has given it
/// the name `path`, so that nobody ever sees half of the file. A link stays a link to the new file. What is no file,
/// such as a device or a pipe, is written at once.
class NewFile {
 public:
  /// Throws what `write_file` throws; so do the other functions.
  NewFile(const std::filesystem::path& path, Where where);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  void write(Chunk bytes);
  /// Waits until the disk has the bytes.
  void sync();
  /// Ends the file, which replaces an older one of its name and keeps its permissions.
  void take_name();

 private:
  bool is_direct() const { return temporary_.empty(); }

  std::filesystem::path path_, target_, temporary_;
  Where where_;
  int descriptor_ = -1;
  bool named_ = false;
};

/// Writes the chunks, one after the other, to a temporary file beside `path`, and renames it to `path`, so that nobody
/// ever sees half of the file.
/// Throws NotFoundError when the folder does not exist, ResourceExhaustedError when the disk is full, and
/// FailedPreconditionError when the file cannot be written for another reason; an old file is then unchanged.
void write_file(const std::filesystem::path& path, std::span<const Chunk> chunks, Where where,
                Durable durable = Durable::no);
TAPESTRY_API void write_file(const std::filesystem::path& path, Chunk bytes, Where where);

/// Throws NotFoundError unless there is a regular file of that name.
void require_file(const std::filesystem::path& path, Where where);

/// A regular file that can be read from any offset.
class TAPESTRY_API SourceFile {
 public:
  /// Throws NotFoundError when there is no regular file of that name, FailedPreconditionError when it may not be read.
  SourceFile(const std::filesystem::path& path, Where where);
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;
  ~SourceFile();

  std::string name() const { return path_.string(); }
  Where where() const { return where_; }
  std::int64_t size() const { return size_; }
  /// Fills `bytes` with the file's bytes from the offset on. Throws DataLossError when the file is too short, even if
  /// it was longer when it was opened, or when it cannot be read.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  Where where_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// All bytes of a file. Throws what SourceFile throws, and ResourceExhaustedError for more than `most_bytes`.
TAPESTRY_API std::string bytes_of_file(const std::filesystem::path& path, std::int64_t most_bytes, Where where);

/// A range of a file's bytes as a stream. The range must be within the file, and the file must outlive the stream.
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

/// Calls f, and adds the name of the file to errors of damage, unless they name a file of its folder.
template <class F>
auto naming(const std::string& path, F f) {
  try {
    return f();
  } catch (const DataLossError& error) {
    if (error.message().find(path.substr(0, path.rfind('/'))) != std::string::npos) throw;
    throw DataLossError(detail::join(path, ": ", error.message()));
  }
}

}  // namespace tapestry::io
