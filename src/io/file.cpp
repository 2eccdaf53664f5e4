#include "io/file.hpp"

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

/// A new file beside `path` that disappears again unless it is given the name `path`.
class TemporaryFile {
 public:
  TemporaryFile(const fs::path& path, Where where) : path_(path), where_(where) {
    static std::atomic<int> counter{0};
    name_ = path;
    name_ += detail::join(".tmp-", ::getpid(), '-', counter.fetch_add(1));
    // Not through std::ofstream, which keeps the reason of a failure to itself.
    descriptor_ = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) refuse(path_, errno, where_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
    if (!named_) ::unlink(name_.c_str());
  }

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ::ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno != EINTR) refuse(path_, errno, where_);
      if (count > 0) bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

  void take_name() {
    // Some file systems report a full disk only here.
    if (::close(std::exchange(descriptor_, -1)) != 0) refuse(path_, errno, where_);
    if (::rename(name_.c_str(), path_.c_str()) != 0) refuse(path_, errno, where_);
    named_ = true;
  }

 private:
  fs::path path_, name_;
  Where where_;
  int descriptor_ = -1;
  bool named_ = false;
};

}  // namespace

void write_file(const fs::path& path, std::span<const std::byte> bytes, Where where) {
  TemporaryFile file(path, where);
  file.write(bytes);
  file.take_name();
}

}  // namespace tapestry::io
