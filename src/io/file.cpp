#include "io/file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace tapestry::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, int error, Where where) {
  const std::string message =
      detail::join("Cannot write ", path.string(), ": ", std::generic_category().message(error));
  if (error == ENOENT || error == ENOTDIR) throw NotFoundError(message, where);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) throw ResourceExhaustedError(message, where);
  throw FailedPreconditionError(message, where);
}

/// Throws InvalidArgumentError for a path that the system would read up to a character 0 only.
void require_name(const fs::path& path, Where where) {
  if (path.native().find('\0') != std::string::npos)
    throw InvalidArgumentError(detail::join("No path holds the character 0, which follows ", path.c_str()), where);
}

/// Makes the name of a new file survive a power failure. Errors are ignored: not every file system can sync a folder.
void sync_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

NewFile::NewFile(const fs::path& path, Where where) : path_(path), target_(path), where_(where) {
  require_name(path, where);
  static std::atomic<int> counter{0};
  std::error_code error;
  if (const fs::path file = fs::canonical(path, error); !error) target_ = file;  // a link stays
  const fs::file_status old = fs::status(path_, error);
  // The name that a file has until it is complete would not show these.
  if (path_.empty()) refuse(path_, ENOENT, where_);
  if (fs::is_directory(old)) refuse(path_, EISDIR, where_);
  if (fs::exists(old) && !fs::is_regular_file(old)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) refuse(path_, errno, where_);
    return;
  }
  temporary_ = target_;
  temporary_ += detail::join(temporary_ending, ::getpid(), '-', counter.fetch_add(1));
  // std::ofstream would not tell why it failed.
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) refuse(path_, errno, where_);
  if (fs::is_regular_file(old)) fs::permissions(temporary_, old.permissions(), error);
}

NewFile::~NewFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!named_ && !is_direct()) ::unlink(temporary_.c_str());
}

void NewFile::write(Chunk bytes) {
  while (!bytes.empty()) {
    const ::ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) refuse(path_, errno, where_);
    if (count > 0) bytes = bytes.subspan(count);
  }
}

void NewFile::sync() {
  if (!is_direct() && ::fsync(descriptor_) != 0) refuse(path_, errno, where_);
}

void NewFile::take_name() {
  // Some file systems report a full disk only here.
  if (::close(std::exchange(descriptor_, -1)) != 0) refuse(path_, errno, where_);
  if (!is_direct() && ::rename(temporary_.c_str(), target_.c_str()) != 0) refuse(path_, errno, where_);
  named_ = true;
}

void write_file(const fs::path& path, std::span<const Chunk> chunks, Where where, Durable durable) {
  NewFile file(path, where);
  for (const Chunk chunk : chunks) file.write(chunk);
  if (durable == Durable::yes) file.sync();
  file.take_name();
  if (durable == Durable::yes) sync_folder(path);
}

void write_file(const fs::path& path, Chunk bytes, Where where) { write_file(path, {&bytes, 1}, where); }

void require_file(const fs::path& path, Where where) {
  std::error_code error;
  require_name(path, where);
  const fs::file_status found = fs::status(path, error);
  if (!fs::status_known(found) || !fs::exists(found))
    throw NotFoundError(detail::join("There is no file ", path.string()), where);
  if (!fs::is_regular_file(found))
    throw NotFoundError(detail::join("There is no file ", path.string(), ": it is ",
                                     fs::is_directory(found) ? "a folder" : "a device or a pipe"),
                        where);
}

SourceFile::SourceFile(const fs::path& path, Where where) : path_(path), where_(where) {
  require_file(path, where);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ::off_t size = descriptor_ < 0 ? -1 : ::lseek(descriptor_, 0, SEEK_END);
  if (size < 0) {
    const int reason = errno;
    if (descriptor_ >= 0) ::close(descriptor_);
    throw FailedPreconditionError(
        detail::join("Cannot read ", path.string(), ": ", std::generic_category().message(reason)), where);
  }
  size_ = size;
}

SourceFile::~SourceFile() { ::close(descriptor_); }

void SourceFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw DataLossError(detail::join("Cannot read ", name(), ": ", std::generic_category().message(errno)), where_);
    if (count == 0) throw DataLossError(detail::join(name(), " stops early, at byte ", offset), where_);
    bytes = bytes.subspan(count);
    offset += count;
  }
}

std::string bytes_of_file(const fs::path& path, std::int64_t most_bytes, Where where) {
  const SourceFile file(path, where);
  if (file.size() > most_bytes)
    throw ResourceExhaustedError(
        detail::join(file.name(), " has ", file.size(), " bytes; at most ", most_bytes, " are read"), where);
  std::string bytes(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::size_t FileRange::read(std::span<std::byte> bytes) {
  const std::size_t count = std::min(bytes.size(), static_cast<std::size_t>(end_ - place_));
  file_.read(place_, bytes.first(count));
  place_ += count;
  return count;
}

}  // namespace tapestry::io
