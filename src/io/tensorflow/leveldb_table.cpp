#include "io/tensorflow/leveldb_table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include <protozero/buffer_string.hpp>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include "io/crc32c.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/snappy.hpp"

namespace tapestry::io {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

constexpr std::size_t footer_size = 48, trailer_size = 5;
constexpr std::uint64_t table_magic = 0xdb4775248b80fb57U;

/// Keys share their beginnings with those before them, so that a small file could have many entries with long keys,
/// which take far more memory than the file. In the table of a checkpoint every 16th key stands whole, so that all keys
/// together are less than 16 times as long as the file; Snappy may shrink that file further.
constexpr std::uint64_t most_key_expansion = 64, always_allowed_key_bytes = 4 << 20;

/// Where a block lies in the file; its trailer is not counted.
struct BlockHandle {
  std::uint64_t offset = 0, size = 0;
};

template <class T>
T fixed_number(std::string_view bytes, std::size_t place) {
  T number = 0;
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

void append_fixed(std::string& bytes, auto number) {
  std::array<char, sizeof number> own;
  std::memcpy(own.data(), &number, sizeof number);
  bytes.append(own.data(), own.size());
}

std::uint64_t take_varint(std::string_view& bytes) {
  const char* place = bytes.data();
  const std::uint64_t number = protozero::decode_varint(&place, place + bytes.size());
  bytes.remove_prefix(static_cast<std::size_t>(place - bytes.data()));
  return number;
}

BlockHandle take_handle(std::string_view& bytes) {
  const std::uint64_t offset = take_varint(bytes);
  return {offset, take_varint(bytes)};
}

void append_handle(std::string& bytes, BlockHandle handle) {
  protozero::add_varint_to_buffer(&bytes, handle.offset);
  protozero::add_varint_to_buffer(&bytes, handle.size);
}

// ---- Reading --------------------------------------------------------------------------------------------------------

class TableReader {
 public:
  explicit TableReader(const SourceFile& file) : file_(file) {}

  void run(const TableEntry& entry) {
    Keys index_keys, keys;
    std::uint64_t place = 0;
    read_entries(read_block(index_handle()), index_keys, [&](std::string_view, std::string_view value) {
      const BlockHandle handle = take_handle(value);
      // Else a small file could send the reader through one block again and again.
      if (handle.offset < place) refuse(" has a block at byte ", handle.offset, " that lies in the one before");
      read_entries(read_block(handle), keys, entry);
      place = handle.offset + handle.size;
    });
  }

 private:
  /// The last key, and the bytes of all so far.
  struct Keys {
    std::string last;
    std::uint64_t count = 0, bytes = 0;
  };

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataLossError(detail::join(file_.name(), parts...), file_.where());
  }

  std::uint64_t file_size() const { return static_cast<std::uint64_t>(file_.size()); }

  std::string read_bytes(std::uint64_t offset, std::uint64_t size) const {
    std::string bytes(static_cast<std::size_t>(size), '\0');
    file_.read(static_cast<std::int64_t>(offset), std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  BlockHandle index_handle() const {
    if (file_size() < footer_size)
      refuse(" is no table of LevelDB, or it stops early: it has ", file_size(), " bytes",
             known_as(Format::checkpoint_index, file_.name()));
    const std::string footer = read_bytes(file_size() - footer_size, footer_size);
    if (fixed_number<std::uint64_t>(footer, footer_size - 8) != table_magic)
      refuse(" is no table of LevelDB, or it stops early: it does not end with the format's number",
             known_as(Format::checkpoint_index, file_.name()));
    std::string_view rest = footer;
    take_handle(rest);  // of the block of filters, which nobody needs who reads all
    return take_handle(rest);
  }

  std::string read_block(BlockHandle handle) const {
    const std::uint64_t end = file_size() - footer_size;
    if (end < trailer_size || handle.size > end - trailer_size || handle.offset > end - trailer_size - handle.size)
      refuse(" claims a block of ", handle.size, " bytes at byte ", handle.offset, ", behind its end");
    std::string bytes = read_bytes(handle.offset, handle.size + trailer_size);
    const auto size = static_cast<std::size_t>(handle.size);
    if (masked(crc32c(std::string_view(bytes).substr(0, size + 1))) != fixed_number<std::uint32_t>(bytes, size + 1))
      refuse(" is damaged: the block at byte ", handle.offset, " does not have its checksum");
    const char compression = bytes[size];
    bytes.resize(size);
    if (compression == 0) return bytes;
    if (compression != 1)
      throw UnimplementedError(detail::join(file_.name(), " has a block with the unknown compression ",
                                            static_cast<int>(static_cast<unsigned char>(compression))),
                               file_.where());
    auto plain = snappy_decompressed(bytes);
    if (!plain) refuse(" is damaged: the block at byte ", handle.offset, " is not what Snappy writes");
    return *std::move(plain);
  }

  /// Calls `entry` for each entry of a block. An entry consists of the number of bytes that its key shares with the key
  /// before, the lengths of the rest of the key and of the value, that rest, and the value. The block ends with the
  /// offsets of the entries whose keys share nothing, and their number; only a search needs these.
  template <class F>
  void read_entries(std::string_view block, Keys& keys, const F& entry) const {
    if (block.size() < 4) refuse(" has a block of ", block.size(), " bytes, which is too short");
    const std::uint64_t restarts = 4 * std::uint64_t{fixed_number<std::uint32_t>(block, block.size() - 4)};
    if (restarts > block.size() - 4)
      refuse(" has a block of ", block.size(), " bytes with ", restarts / 4, " restarts");
    block.remove_suffix(static_cast<std::size_t>(4 + restarts));
    for (bool first = true; !block.empty(); first = false) {
      const std::uint64_t shared = take_varint(block), own = take_varint(block), size = take_varint(block);
      if (shared > (first ? 0 : keys.last.size()) || own > block.size() || size > block.size() - own)
        refuse(" has an entry that goes on behind its block");
      const std::string_view rest = block.substr(0, static_cast<std::size_t>(own));
      if (keys.count > 0 && rest <= std::string_view(keys.last).substr(static_cast<std::size_t>(shared)))
        refuse(" has keys that do not ascend");
      keys.last.replace(static_cast<std::size_t>(shared), std::string::npos, rest);
      keys.count += 1;
      keys.bytes += keys.last.size();
      if (keys.bytes > always_allowed_key_bytes && keys.bytes / most_key_expansion > file_size())
        refuse(" has keys that are far longer than the file");
      entry(keys.last, block.substr(rest.size(), static_cast<std::size_t>(size)));
      block.remove_prefix(rest.size() + static_cast<std::size_t>(size));
    }
  }

  const SourceFile& file_;
};

// ---- Writing --------------------------------------------------------------------------------------------------------

class BlockWriter {
 public:
  /// Every key whose number is a multiple of `interval` stands whole.
  explicit BlockWriter(std::size_t interval) : interval_(interval) {}

  void add(std::string_view key, std::string_view value) {
    std::size_t shared = 0;
    if (count_++ % interval_ == 0) {
      restarts_.push_back(static_cast<std::uint32_t>(bytes_.size()));
    } else {
      const auto [differs, end] = std::mismatch(last_.begin(), last_.end(), key.begin(), key.end());
      shared = static_cast<std::size_t>(differs - last_.begin());
    }
    for (const std::size_t number : {shared, key.size() - shared, value.size()})
      protozero::add_varint_to_buffer(&bytes_, number);
    bytes_ += key.substr(shared);
    bytes_ += value;
    last_ = key;
  }

  std::size_t size() const { return bytes_.size() + 4 * restarts_.size() + 4; }
  const std::string& last_key() const { return last_; }

  /// Appends the block and its trailer to a file, and starts a new block.
  BlockHandle append_to(std::string& file) {
    if (restarts_.empty()) restarts_.push_back(0);
    for (const std::uint32_t each : restarts_) append_fixed(bytes_, each);
    append_fixed(bytes_, static_cast<std::uint32_t>(restarts_.size()));
    const BlockHandle handle{file.size(), bytes_.size()};
    bytes_ += '\0';  // not compressed
    file += bytes_;
    append_fixed(file, masked(crc32c(bytes_)));
    *this = BlockWriter(interval_);
    return handle;
  }

 private:
  std::size_t interval_, count_ = 0;
  std::string bytes_, last_;
  std::vector<std::uint32_t> restarts_;
};

/// A short key that is not below the last one of a block, and below the first one of the next.
std::string key_between(std::string last, std::string_view next) {
  const auto [differs, end] = std::mismatch(last.begin(), last.end(), next.begin(), next.end());
  if (differs == last.end() || end == next.end()) return last;
  const auto byte = static_cast<unsigned char>(*differs);
  if (byte == 255 || byte + 1 >= static_cast<unsigned char>(*end)) return last;
  ++*differs;
  last.erase(differs + 1, last.end());
  return last;
}

/// A short key that is not below the last one.
std::string key_behind(std::string last) {
  const auto small = std::find_if(last.begin(), last.end(), [](char c) { return c != '\xff'; });
  if (small == last.end()) return last;
  ++*small;
  last.erase(small + 1, last.end());
  return last;
}

}  // namespace

void read_table(const SourceFile& file, const TableEntry& entry) {
  try {
    TableReader(file).run(entry);
  } catch (const protozero::exception&) {
    throw DataLossError(file.name() + " is damaged: an entry is no message", file.where());
  }
}

std::string table_bytes(const std::map<std::string, std::string>& entries) {
  constexpr std::size_t block_size = 256 << 10, interval = 16;  // TensorFlow's
  std::string file;
  BlockWriter block(interval), filters(1), index(1);
  const auto end_block = [&](const std::string& key) {
    std::string handle;
    append_handle(handle, block.append_to(file));
    index.add(key, handle);
  };
  for (const auto& [key, value] : entries) {
    if (block.size() >= block_size) end_block(key_between(block.last_key(), key));
    block.add(key, value);
  }
  end_block(key_behind(block.last_key()));
  std::string footer;
  append_handle(footer, filters.append_to(file));
  append_handle(footer, index.append_to(file));
  footer.resize(footer_size - 8);
  append_fixed(footer, table_magic);
  return file + footer;
}

}  // namespace tapestry::io
