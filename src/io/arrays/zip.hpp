#pragma once

// ZIP archives (PKWARE's APPNOTE.TXT 6.3), as far as NumPy uses them for npz files: members that are stored or
// deflated, of any size (ZIP64). Encryption, archives in several parts and other packings are refused.

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
    std::int64_t header = 0;  ///< where its local header stands; then `begin` and `end`, where its packed bytes do
    std::int64_t begin = 0, end = 0;
    std::int64_t size = 0;  ///< of what comes out
    std::uint32_t checksum = 0;
    bool deflated = false;
  };

  /// Reads the directory. Throws NotFoundError when there is no such file, DataLossError when it is not an archive, or
  /// contradicts itself: members outside of it, over each other, twice of one name, or that nothing could hold.
  ZipReader(const std::filesystem::path& path, Where where);

  const std::vector<Member>& members() const { return members_; }
  /// The bytes of a member. Its last ones come only if all have the right checksum. The reader must outlive the stream.
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
  /// Adds a member: the chunks, one behind the other, which must live until `write` unless they are deflated. Names are
  /// at most 65535 bytes long.
  void add(const std::string& name, std::span<const Chunk> chunks, bool deflate);
  /// Writes the archive by `write_file`, whose errors it throws.
  void write(const std::filesystem::path& path, Where where);

 private:
  void append(std::vector<std::byte> bytes);
  void append(Chunk chunk);

  std::vector<Chunk> chunks_;
  std::deque<std::vector<std::byte>> own_;  ///< what some of the chunks are made of
  std::vector<std::byte> directory_;
  std::uint64_t size_ = 0, members_ = 0;
};

}  // namespace tapestry::io
