#include "io/tensorflow/tensor_bundle.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <protozero/buffer_string.hpp>
#include <protozero/varint.hpp>

#include "core/make_tensor.hpp"
#include "io/crc32c.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/leveldb_table.hpp"
#include "io/tensorflow/old_checkpoint.hpp"
#include "io/tensorflow/slice_assembly.hpp"
#include "tapestry/tensor_bundle.hpp"

namespace tapestry::io {
namespace {

namespace fs = std::filesystem;

/// The version of the format that this reader knows.
constexpr std::int64_t bundle_version = 1;

fs::path shard_path(const fs::path& prefix, std::int64_t shard, std::int64_t shards) {
  const auto five = [](std::int64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(5 - std::min<std::size_t>(digits.size(), 5), '0') + digits;
  };
  fs::path path = prefix;
  path += ".data-" + five(shard) + "-of-" + five(shards);
  return path;
}

/// The elements of a type of TensorFlow's. The size is 0 for types that no dtype can hold.
FileElements bundle_elements(TypeCode type) {
  struct Row {
    TypeCode type;
    char kind;
    std::size_t size;
  };
  // DT_FLOAT, DOUBLE, INT32, UINT8, INT16, INT8, INT64, BOOL, BFLOAT16, UINT16, HALF, UINT32.
  static constexpr auto rows = std::to_array<Row>({{{1}, 'f', 4},
                                                   {{2}, 'f', 8},
                                                   {{3}, 'i', 4},
                                                   {{4}, 'u', 1},
                                                   {{5}, 'i', 2},
                                                   {{6}, 'i', 1},
                                                   {{9}, 'i', 8},
                                                   {{10}, 'b', 1},
                                                   {{14}, 'B', 2},
                                                   {{17}, 'u', 2},
                                                   {{19}, 'f', 2},
                                                   {{22}, 'u', 4}});
  for (const Row& row : rows)
    if (row.type == type) return file_elements(row.kind, row.size);
  return {};
}

/// The texts in which TensorFlow keeps the structure of its Python objects.
bool is_object_graph(std::string_view name, const StoredTensor& stored) {
  constexpr TypeCode text{7};
  return stored.type == text && (name == object_graph_key || name.ends_with(".ATTRIBUTES/OBJECT_CONFIG_JSON"));
}

/// Reads the bytes of a tensor from a shard. The read that reaches their end throws if their checksum is wrong.
class StoredBytes final : public ByteStream {
 public:
  StoredBytes(const SourceFile& shard, std::string name, const StoredTensor& stored)
      : range_(shard, std::move(name), stored.offset, stored.offset + stored.size),
        left_(stored.size),
        expected_(stored.checksum) {}

  std::string name() const override { return range_.name(); }
  Where where() const override { return range_.where(); }
  std::int64_t most_bytes() const override { return range_.most_bytes(); }
  std::size_t read(std::span<std::byte> bytes) override {
    // The pieces are so small that the processor's cache still holds them when the checksum is computed.
    constexpr std::size_t piece = 256 << 10;
    std::size_t total = 0;
    while (total < bytes.size() && left_ > 0) {
      const auto next = bytes.subspan(total, std::min(piece, bytes.size() - total));
      const std::size_t count = range_.read(next);
      checksum_ = crc32c({reinterpret_cast<const char*>(next.data()), count}, checksum_);
      total += count;
      left_ -= static_cast<std::int64_t>(count);
    }
    if (left_ == 0 && masked(checksum_) != expected_) io::refuse(*this, " is damaged: it does not have its checksum");
    return total;
  }

 private:
  FileRange range_;
  std::int64_t left_;
  std::uint32_t checksum_ = 0, expected_;
};

}  // namespace

fs::path bundle_index(const fs::path& prefix) {
  fs::path path = prefix;
  path += ".index";
  return path;
}

// ---- The index ------------------------------------------------------------------------------------------------------

template <class... Parts>
void TensorBundle::refuse(const Parts&... parts) const {
  throw DataLossError(detail::join(bundle_index(prefix_).string(), parts...), where_);
}

TensorBundle::TensorBundle(const fs::path& prefix, Where where) : prefix_(prefix), where_(where) {
  std::map<std::string, BundleEntry> found;
  const fs::path index = bundle_index(prefix);
  std::error_code error;
  if (!fs::exists(index, error) && fs::is_regular_file(prefix, error))
    throw NotFoundError(detail::join("There is no checkpoint ", index.string(), "; ", prefix.string(), " is a file",
                                     known_as(Format::unknown, prefix)),
                        where);
  read_table(SourceFile(index, where), [&](std::string_view key, std::string_view value) {
    if (key.empty()) {
      read_header(value);
    } else {
      found.emplace(key, decode_bundle_entry(value));
    }
  });
  if (shards_ == 0) refuse(" is no checkpoint of TensorFlow: it has no header");
  take_entries(std::move(found));
  check_overlaps();
}

void TensorBundle::read_header(std::string_view value) {
  const BundleHeader header = decode_bundle_header(value);
  if (header.shards < 1 || header.shards > INT32_MAX) refuse(" claims to have ", header.shards, " shards");
  if (header.endianness != 0)
    throw UnimplementedError(bundle_index(prefix_).string() + " is of a checkpoint with big-endian tensors", where_);
  if (header.min_consumer > bundle_version)
    throw UnimplementedError(detail::join(bundle_index(prefix_).string(), " has version ", header.min_consumer,
                                          " of the format; version ", bundle_version, " is known"),
                             where_);
  shards_ = header.shards;
}

/// Keys of slices begin with a byte 0, and so come before the names of the tensors that own them.
void TensorBundle::take_entries(std::map<std::string, BundleEntry> found) {
  const auto first_name = found.lower_bound("\1");
  for (auto each = first_name; each != found.end(); ++each) {
    const auto& [name, entry] = *each;
    if (entry.slices.empty()) {
      check(entry.stored, name);
      entries_.emplace(name, Entry{entry.stored, {}});
    } else {
      take_slices(name, entry, found);
    }
  }
  if (!found.empty() && found.begin()->first.front() == '\0') refuse(" has a slice that no tensor consists of");
}

/// Moves the slices of a tensor out of `found`.
void TensorBundle::take_slices(const std::string& name, const BundleEntry& whole,
                               std::map<std::string, BundleEntry>& found) {
  Entry entry{whole.stored, {}};
  const std::vector<std::int64_t>& sizes = whole.stored.sizes;
  const std::int64_t elements = claimed_bytes(sizes, 1);
  if (elements < 0) refuse(", tensor ", name, " has a shape that no tensor has");
  std::int64_t covered = 0;
  for (SliceExtents extents : whole.slices) {
    const auto slice = found.find(slice_key(name, extents));
    if (slice == found.end()) refuse(", tensor ", name, " lacks a slice");
    if (extents.size() != sizes.size()) refuse(", tensor ", name, " has a slice of another rank");
    std::vector<std::int64_t> lengths;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      auto& [start, length] = extents[axis];
      if (length == -1) length = sizes[axis];
      if (start < 0 || length < 0 || length > sizes[axis] || start > sizes[axis] - length)
        refuse(", tensor ", name, " has a slice that reaches beyond it");
      lengths.push_back(length);
    }
    const StoredTensor& stored = slice->second.stored;
    if (stored.type != whole.stored.type || stored.sizes != lengths || !slice->second.slices.empty())
      refuse(", tensor ", name, " has a slice of another type or shape");
    check(stored, name);
    const std::int64_t count = claimed_bytes(lengths, 1);
    if (count > elements - covered) refuse(", tensor ", name, " has slices that overlap");
    covered += count;
    entry.slices.emplace_back(std::move(extents), stored);
    found.erase(slice);
  }
  if (covered != elements) refuse(", tensor ", name, " has slices that do not cover it");
  entries_.emplace(name, std::move(entry));
}

/// Throws unless the type, the shape and the place of a tensor's bytes make sense.
void TensorBundle::check(const StoredTensor& stored, const std::string& name) const {
  std::int64_t end = 0;
  if (stored.type == TypeCode{}) refuse(", tensor ", name, " has no type");
  if (stored.shard < 0 || stored.shard >= shards_)
    refuse(", tensor ", name, " lies in shard ", stored.shard, " of ", shards_);
  if (stored.offset < 0 || stored.size < 0 || __builtin_add_overflow(stored.offset, stored.size, &end))
    refuse(", tensor ", name, " lies at byte ", stored.offset, " and has ", stored.size, " bytes");
  // Of a type that Tapestry lacks, only the number of elements is known.
  const std::size_t element = bundle_elements(stored.type).size;
  const std::int64_t needed = claimed_bytes(stored.sizes, std::max<std::size_t>(element, 1));
  if (needed < 0) refuse(", tensor ", name, " has a shape that no tensor has");
  if (element > 0 && needed != stored.size)
    refuse(", tensor ", name, " has ", stored.size, " bytes of data for its shape, which needs ", needed);
}

/// Throws if tensors share bytes. Otherwise small files could make many large tensors.
void TensorBundle::check_overlaps() const {
  std::vector<const StoredTensor*> all;
  for (const auto& [name, entry] : entries_) {
    if (entry.slices.empty() && entry.stored.size > 0) all.push_back(&entry.stored);
    for (const auto& [extents, stored] : entry.slices)
      if (stored.size > 0) all.push_back(&stored);
  }
  std::sort(all.begin(), all.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(a->shard, a->offset) < std::pair(b->shard, b->offset);
  });
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i]->shard == all[i - 1]->shard && all[i]->offset < all[i - 1]->offset + all[i - 1]->size)
      refuse(" has tensors that share byte ", all[i]->offset, " of shard ", all[i]->shard);
}

// ---- The tensors ----------------------------------------------------------------------------------------------------

/// Throws UnimplementedError when no tensor can hold the stored one.
FileElements TensorBundle::elements_of(const StoredTensor& stored, const std::string& name) const {
  const FileElements elements = bundle_elements(stored.type);
  if (elements.dtype == DType::unknown)
    throw UnimplementedError(detail::join(bundle_index(prefix_).string(), ", tensor ", name, " has the type ",
                                          type_name(stored.type), ", which no dtype can hold"),
                             where_);
  if (stored.sizes.size() > Shape::max_rank)
    throw UnimplementedError(detail::join(bundle_index(prefix_).string(), ", tensor ", name, " has more than ",
                                          Shape::max_rank, " dimensions"),
                             where_);
  return elements;
}

Tensor TensorBundle::read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end())
    throw NotFoundError(detail::join("There is no tensor ", name, " in ", bundle_index(prefix_).string()), where_);
  const Entry& entry = found->second;
  return entry.slices.empty() ? read_stored(entry.stored, name) : read_slices(entry, name);
}

StateDict TensorBundle::read_all() const {
  StateDict tensors;
  const std::string* left_out = nullptr;
  for (const auto& [name, entry] : entries_) {
    if (is_object_graph(name, entry.stored)) continue;
    if (bundle_elements(entry.stored.type).dtype == DType::unknown || entry.stored.sizes.size() > Shape::max_rank)
      left_out = &name;
    else
      tensors.emplace(name, read(name));
  }
  if (tensors.empty() && left_out) read(*left_out);  // throws, and says why
  return tensors;
}

/// Throws unless the shard has the tensor's bytes.
void TensorBundle::check_shard(const SourceFile& shard, const StoredTensor& stored, const std::string& name) const {
  if (stored.offset + stored.size > shard.size())
    throw DataLossError(detail::join(shard.name(), " stops early, at byte ", shard.size(), ": tensor ", name,
                                     " ends at byte ", stored.offset + stored.size),
                        where_);
}

Tensor TensorBundle::read_stored(const StoredTensor& stored, const std::string& name) const {
  const FileElements elements = elements_of(stored, name);
  const SourceFile shard(shard_path(prefix_, stored.shard, shards_), where_);
  check_shard(shard, stored, name);
  StoredBytes bytes(shard, detail::join(shard.name(), ", tensor ", name), stored);
  return read_elements(bytes, elements, Shape(stored.sizes));
}

Tensor TensorBundle::read_slices(const Entry& entry, const std::string& name) const {
  const FileElements elements = elements_of(entry.stored, name);
  // All shards are checked before the tensor takes memory.
  for (const auto& [extents, stored] : entry.slices)
    check_shard(SourceFile(shard_path(prefix_, stored.shard, shards_), where_), stored, name);
  Tensor whole = detail::make_tensor(elements.dtype, Shape(entry.stored.sizes), cpu());
  SliceAssembly assembly(whole);
  for (const auto& [extents, stored] : entry.slices) assembly.add(extents, read_stored(stored, name));
  if (!assembly.is_whole()) refuse(", tensor ", name, " has slices that overlap");
  return whole;
}

// ---- Writing --------------------------------------------------------------------------------------------------------

/// A scalar of a text as a shard has it: its length, the checksum of that, and the text.
std::string stored_text(std::string_view text, std::uint32_t& checksum) {
  const auto number = [](std::uint32_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  // The checksums run over the length as four bytes, whatever it takes as a varint.
  const std::string length = number(static_cast<std::uint32_t>(text.size()));
  std::string bytes, checked = length;
  protozero::add_varint_to_buffer(&bytes, text.size());
  const std::string length_checksum = number(masked(crc32c(length)));
  bytes += length_checksum;
  checked += length_checksum;
  checksum = masked(crc32c(checked.append(text)));
  return bytes.append(text);
}

void write_tensor_bundle(const fs::path& prefix, const StateDict& tensors, Where where, std::string_view object_graph) {
  if (!prefix.has_filename())
    throw InvalidArgumentError(detail::join("A checkpoint's prefix cannot be ", prefix.string()), where);
  std::map<std::string, std::string> entries{{"", encode(BundleHeader{.shards = 1})}};
  std::vector<Tensor> hosts;  // own the bytes until they are written
  std::vector<Chunk> chunks;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    if (name.empty() || name.front() == '\0')
      throw InvalidArgumentError("The name of a tensor in a checkpoint is neither empty nor begins with a byte 0",
                                 where);
    const Tensor& host = hosts.emplace_back(saved_form(tensor, name, where));
    const Chunk bytes = chunks.emplace_back(bytes_of(host));
    const StoredTensor stored{.type = code_of(host.dtype()),
                              .sizes = host.shape().to_vector(),
                              .offset = offset,
                              .size = static_cast<std::int64_t>(bytes.size()),
                              .checksum = masked(crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))};
    entries.emplace(name, encode(BundleEntry{stored, {}}));
    offset += stored.size;
  }
  StoredTensor text{.type = {7}, .sizes = {}, .offset = offset};
  const std::string text_bytes = stored_text(object_graph, text.checksum);
  if (!object_graph.empty()) {
    text.size = static_cast<std::int64_t>(text_bytes.size());
    entries.insert_or_assign(std::string(object_graph_key), encode(BundleEntry{text, {}}));
    chunks.push_back(std::as_bytes(std::span(text_bytes)));
  }
  write_file(shard_path(prefix, 0, 1), chunks, where);
  const std::string index = table_bytes(entries);
  write_file(bundle_index(prefix), std::as_bytes(std::span(index)), where);
}

}  // namespace tapestry::io

namespace tapestry {

StateDict tensor_bundle::load(const std::string& prefix, Where where) {
  if (io::is_old_checkpoint(prefix)) return io::read_old_checkpoint(prefix, where);
  return io::TensorBundle(prefix, where).read_all();
}

void tensor_bundle::save(const std::string& prefix, const StateDict& tensors, Where where) {
  std::error_code error;  // if there is no folder, writing into it says so
  std::filesystem::create_directories(std::filesystem::path(prefix).parent_path(), error);
  io::write_tensor_bundle(prefix, tensors, where);
}

}  // namespace tapestry
