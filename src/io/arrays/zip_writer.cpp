#include <algorithm>

#include <zlib.h>

#include "io/arrays/zip.hpp"
#include "io/deflate.hpp"

namespace tapestry::io {
namespace {

constexpr std::uint64_t all_ones = 0xFFFFFFFF;

/// A record of little-endian numbers.
class Record {
 public:
  Record& number(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> 8 * i));
    return *this;
  }
  Record& text(std::string_view text) {
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

std::vector<std::byte> deflated(std::span<const Chunk> chunks) {
  std::vector<std::byte> packed;
  Deflater deflater(Wrapping::bare, [&](Chunk bytes) { packed.insert(packed.end(), bytes.begin(), bytes.end()); });
  for (const Chunk chunk : chunks) deflater.add(chunk);
  deflater.end();
  return packed;
}

}  // namespace

void ZipWriter::append(Chunk chunk) {
  chunks_.push_back(chunk);
  size_ += chunk.size();
}

void ZipWriter::append(std::vector<std::byte> bytes) { append(Chunk(own_.emplace_back(std::move(bytes)))); }

void ZipWriter::add(const std::string& name, std::span<const Chunk> chunks, bool deflate) {
  std::uint64_t size = 0;
  uLong checksum = 0;
  for (const Chunk chunk : chunks) {
    size += chunk.size();
    checksum = crc32_z(checksum, reinterpret_cast<const Bytef*>(chunk.data()), chunk.size());
  }
  std::vector<std::byte> packed;
  if (deflate) packed = deflated(chunks);
  const std::uint64_t packed_size = deflate ? packed.size() : size, header = size_;

  // The fields that a local header and an entry of the directory share, from the needed version (4.5 for ZIP64) to the
  // length of the name. Bit 11 of the flags says that names are UTF-8. The time is always 1980-01-01, so that equal
  // contents give equal files.
  const bool is_long = size >= all_ones || packed_size >= all_ones || header >= all_ones;
  const auto describe = [&](Record& record) {
    record.number(is_long ? 45 : 20, 2).number(1 << 11, 2).number(deflate ? 8 : 0, 2).number(0, 2).number(0x21, 2);
    record.number(checksum, 4).number(is_long ? all_ones : packed_size, 4).number(is_long ? all_ones : size, 4);
    record.number(name.size(), 2);
  };
  Record local;
  local.number(0x04034b50, 4);
  describe(local);
  local.number(is_long ? 20 : 0, 2).text(name);
  if (is_long) local.number(1, 2).number(16, 2).number(size, 8).number(packed_size, 8);
  append(local.take());
  if (deflate) {
    append(std::move(packed));
  } else {
    for (const Chunk chunk : chunks) append(chunk);
  }

  Record entry;
  entry.number(0x02014b50, 4).number(is_long ? 45 : 20, 2);
  describe(entry);
  // No comment, first disk, no attributes.
  entry.number(is_long ? 28 : 0, 2).number(0, 2).number(0, 2).number(0, 2).number(0, 4);
  entry.number(is_long ? all_ones : header, 4).text(name);
  if (is_long) entry.number(1, 2).number(24, 2).number(size, 8).number(packed_size, 8).number(header, 8);
  const std::vector<std::byte> bytes = entry.take();
  directory_.insert(directory_.end(), bytes.begin(), bytes.end());
  ++members_;
}

void ZipWriter::write(const std::filesystem::path& path, Where where) {
  const std::uint64_t begin = size_, size = directory_.size();
  append(directory_);
  Record end;
  const bool is_long = begin >= all_ones || size >= all_ones || members_ >= 0xFFFF;
  if (is_long) {
    end.number(0x06064b50, 4).number(44, 8).number(45, 2).number(45, 2).number(0, 4).number(0, 4);
    end.number(members_, 8).number(members_, 8).number(size, 8).number(begin, 8);
    end.number(0x07064b50, 4).number(0, 4).number(begin + size, 8).number(1, 4);
  }
  end.number(0x06054b50, 4).number(0, 2).number(0, 2);
  end.number(is_long ? 0xFFFF : members_, 2).number(is_long ? 0xFFFF : members_, 2);
  end.number(is_long ? all_ones : size, 4).number(is_long ? all_ones : begin, 4).number(0, 2);
  append(end.take());
  write_file(path, chunks_, where);
}

}  // namespace tapestry::io
