#include "io/gzip.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include <zlib.h>

#include "io/deflate.hpp"
#include "io/file.hpp"

namespace tapestry::io {
namespace {

gzFile handle(void* file) { return static_cast<gzFile>(file); }

}  // namespace

void InputFile::Close::operator()(void* file) const { gzclose(handle(file)); }

InputFile::InputFile(const std::filesystem::path& path, Where where) : path_(path), where_(where) {
  require_file(path, where);
  file_.reset(gzopen(path.c_str(), "rb"));
  if (!file_)
    throw FailedPreconditionError(
        detail::join("Cannot read ", path.string(), ": ", std::generic_category().message(errno)), where);
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  // A file that is not packed is read as it is.
  most_bytes_ = static_cast<std::int64_t>(size) * (gzdirect(handle(file_.get())) ? 1 : most_unpacked);
}

std::size_t InputFile::read(std::span<std::byte> bytes) {
  std::size_t total = 0;
  while (total < bytes.size()) {
    const auto room = static_cast<unsigned>(std::min<std::size_t>(bytes.size() - total, 1U << 30));
    const int count = gzread(handle(file_.get()), bytes.data() + total, room);
    // zlib reports data that stop early only after it has returned all of them.
    int code = Z_OK;
    gzerror(handle(file_.get()), &code);
    if (count < 0 || code == Z_BUF_ERROR)
      throw DataLossError(
          code == Z_ERRNO ? detail::join("Cannot read ", path_.string(), ": ", std::generic_category().message(errno))
                          : detail::join(path_.string(), " is damaged: its packed data ",
                                         code == Z_BUF_ERROR ? "stop early" : "make no sense"),
          where_);
    if (count == 0) break;
    total += count;
  }
  return total;
}

}  // namespace tapestry::io
