#pragma once

// ZIP archives (PKWARE's APPNOTE.TXT 6.3), as far as NumPy uses them for npz files: members that are stored or
// deflated, of any size (ZIP64). Encryption, split archives and other compression methods are not supported.

#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/file.hpp"

namespace tapestry::io {

class ZipReader {
 public:
  struct Member {
    std::string name;
    std::int64_t header = 0;          ///< the offset of its local header
    std::int64_t begin = 0, end = 0;  ///< the range of its packed bytes
    std::int64_t size = 0;            ///< of its unpacked bytes
    std::uint32_t checksum = 0;
    bool deflated = false;
  };

  /// Reads the directory. Throws NotFoundError when there is no such file, UnimplementedError for an encrypted member
  /// or another compression method, and DataLossError when the file is not an archive or contradicts itself: a member
  /// is outside of it, overlaps another one, has the same name, or claims a size that its packed bytes cannot give.
  ZipReader(const std::filesystem::path& path, Where where);

  const std::vector<Member>& members() const { return members_; }
  /// The unpacked bytes of a member. The read that reaches their end throws DataLossError if their checksum is wrong.
  /// The reader must outlive the stream.
  std::unique_ptr<ByteStream> open(const Member& member) const;

 private:
  struct Directory;
  Directory find_directory() const;
  Member read_member(std::span<const std::byte> entry, std::int64_t directory) const;
  void place_members(std::int64_t directory);
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const;

  SourceFile file_;
  std::vector<Member> members_;
};

class ZipWriter {
 public:
  /// Adds a member that consists of the chunks, one after the other. They must live until `write` unless they are
  /// deflated. Names are at most 65535 bytes long.
  void add(const std::string& name, std::span<const Chunk> chunks, bool deflate);
  /// Writes the archive by `write_file`, and throws its errors.
  void write(const std::filesystem::path& path, Where where);

 private:
  void append(std::vector<std::byte> bytes);
  void append(Chunk chunk);

  std::vector<Chunk> chunks_;
  std::deque<std::vector<std::byte>> own_;  ///< the bytes of those chunks that the writer itself has made
  std::vector<std::byte> directory_;
  std::uint64_t size_ = 0, members_ = 0;
};

}  // namespace tapestry::io
