#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "fuzz/mutants.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/wire_damage.hpp"
#include "io/crc32c.hpp"
#include "io/tensorflow/bundle_entry.hpp"
#include "io/wire.hpp"

namespace tapestry::test {
namespace {

// ---- Entries --------------------------------------------------------------------------------------------------------

std::uint32_t checksum_of(const io::StoredTensor& stored) {
  const auto offset = static_cast<std::size_t>(stored.offset), size = static_cast<std::size_t>(stored.size);
  return io::masked(io::crc32c(std::string_view(bundle_shard()).substr(offset, size)));
}

/// A checkpoint in the making. The tensors lie one behind the other in one of two shards.
struct Bundle {
  std::int64_t shards = 1;
  std::array<std::int64_t, 2> ends{};
  std::map<std::string, io::BundleEntry> entries{};

  /// Places a tensor, unless its shard is full.
  bool add(const std::string& key, io::TypeCode type, std::int64_t element, const std::vector<std::int64_t>& sizes,
           Dice& dice) {
    io::StoredTensor stored{.type = type, .sizes = sizes};
    stored.size = element;
    for (const std::int64_t size : sizes) stored.size *= size;
    stored.shard = static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(shards)));
    std::int64_t& end = ends[static_cast<std::size_t>(stored.shard)];
    if (end + stored.size > static_cast<std::int64_t>(bundle_shard().size())) return false;
    stored.offset = end;
    end += stored.size;
    stored.checksum = checksum_of(stored);
    return entries.emplace(key, io::BundleEntry{stored, {}}).second;
  }

  /// Places a tensor in slices along its first axis, which may have lost one.
  void add_sliced(const std::string& name, io::TypeCode type, std::int64_t element, std::vector<std::int64_t> sizes,
                  Dice& dice) {
    io::BundleEntry whole{{.type = type, .sizes = sizes}, {}};
    for (std::int64_t start = 0; start < sizes[0];) {
      io::SliceExtents extents(sizes.size());
      std::vector<std::int64_t> part = sizes;
      part[0] = std::min(sizes[0] - start, 1 + static_cast<std::int64_t>(dice.below(3)));
      extents[0] = {start, part[0]};
      if (dice.one_in(32)) extents[dice.below(extents.size())].start = dice.number();
      start += part[0];
      if (add(io::slice_key(name, extents), type, element, part, dice) || dice.one_in(2))
        whole.slices.push_back(extents);
    }
    entries.emplace(name, whole);
  }
};

Bundle some_bundle(Dice& dice) {
  struct Type {
    std::int32_t code;
    std::int64_t size;
  };
  static constexpr auto types = std::to_array<Type>(
      {{1, 4}, {2, 8}, {3, 4}, {4, 1}, {5, 2}, {6, 1}, {9, 8}, {10, 1}, {14, 2}, {17, 2}, {19, 2}, {22, 4}});
  Bundle bundle{.shards = 1 + static_cast<std::int64_t>(dice.below(2))};
  for (std::size_t i = dice.below(dice.one_in(8) ? 60 : 6); i > 0; --i) {
    const auto [code, size] = dice.of(types);
    std::vector<std::int64_t> sizes;
    for (std::size_t k = dice.below(4); k > 0; --k) sizes.push_back(static_cast<std::int64_t>(dice.below(5)));
    const std::string name = (dice.one_in(2) ? "layer/" : "layer/weights_") + std::to_string(i);
    if (!sizes.empty() && dice.one_in(4)) {
      bundle.add_sliced(name, {code}, size, sizes, dice);
    } else {
      bundle.add(name, {code}, size, sizes, dice);
    }
  }
  return bundle;
}

/// One of the numbers of a tensor becomes another one; its checksum is right again, if it can be.
void change(io::StoredTensor& stored, Dice& dice) {
  switch (dice.below(5)) {
    case 0:
      stored.offset = dice.number();
      break;
    case 1:
      stored.size = dice.number();
      break;
    case 2:
      stored.shard = dice.number();
      break;
    case 3:
      stored.type = {static_cast<std::int32_t>(dice.below(40))};
      break;
    default:
      stored.sizes.insert(stored.sizes.end(), 1 + dice.below(dice.one_in(8) ? 12 : 2),
                          dice.one_in(2) ? 1 : dice.number());
  }
  const auto room = static_cast<std::int64_t>(bundle_shard().size());
  if (stored.offset >= 0 && stored.offset <= room && stored.size >= 0) stored.checksum = checksum_of(stored);
}

std::map<std::string, std::string> table_entries(Dice& dice) {
  Bundle bundle = some_bundle(dice);
  io::BundleHeader header{.shards = bundle.shards};
  if (dice.one_in(32)) header.shards = dice.number();
  std::map<std::string, std::string> entries{{"", io::encode(header)}};
  const std::size_t liar = dice.one_in(2) ? dice.below(bundle.entries.size() + 1) : bundle.entries.size();
  std::size_t number = 0;
  for (auto& [key, entry] : bundle.entries) {
    const bool lies = number++ == liar;
    if (lies && dice.one_in(2)) change(entry.stored, dice);
    std::string value = io::encode(entry);
    if (lies && dice.one_in(2)) value = damage_bundle_field(value, dice);
    entries.emplace(lies && dice.one_in(4) ? dice.damaged(key) : key, value);
  }
  if (dice.one_in(64)) entries.begin()->second = damage_bundle_field(entries.begin()->second, dice);
  return entries;
}

/// A SavedSlice of some elements, whose TensorProto has the numbers of all types.
std::string old_slice(const std::string& name, const std::vector<std::int64_t>& starts,
                      const std::vector<std::int64_t>& lengths, Dice& dice) {
  std::int64_t count = 1;
  for (const std::int64_t each : lengths) count *= each;
  std::string bytes, numbers;
  for (std::int64_t i = 0; i < 4 * count; ++i) numbers += static_cast<char>(i % 2);
  protozero::pbf_writer slice(bytes);
  slice.add_string(1, name);
  io::add_message(slice, 2, [&](protozero::pbf_writer& extents) {
    for (std::size_t i = 0; i < starts.size(); ++i)
      io::add_message(extents, 1, [&](protozero::pbf_writer& extent) {
        extent.add_int64(1, starts[i]);
        extent.add_int64(2, dice.one_in(8) ? -1 : lengths[i]);
      });
  });
  io::add_message(slice, 3, [&](protozero::pbf_writer& tensor) {
    tensor.add_bytes(5, numbers);
    tensor.add_bytes(7, numbers.substr(0, static_cast<std::size_t>(count)));
  });
  return bytes;
}

/// A checkpoint V1, whose tensors are whole or in two slices.
std::map<std::string, std::string> old_entries(Dice& dice) {
  std::string list;
  std::map<std::string, std::string> entries;
  const auto add = [&](const std::string& slice) {
    std::string value;
    protozero::pbf_writer(value).add_message(2, slice);
    entries.emplace("key" + std::to_string(entries.size()), dice.one_in(8) ? damage_bundle_field(value, dice) : value);
  };
  for (std::size_t i = 1 + dice.below(4); i > 0; --i) {
    const std::string name = "w" + std::to_string(i);
    std::vector<std::int64_t> sizes(dice.below(3)), starts(sizes.size());
    for (std::int64_t& each : sizes) each = 1 + static_cast<std::int64_t>(dice.below(4));
    protozero::pbf_writer writer(list);
    io::add_message(writer, 1, [&](protozero::pbf_writer& tensor) {
      tensor.add_string(1, name);
      io::add_message(tensor, 2, [&](protozero::pbf_writer& shape) { io::write_sizes(shape, sizes); });
      tensor.add_enum(3, dice.one_in(8) ? static_cast<std::int32_t>(dice.below(24)) : dice.one_in(2) ? 1 : 3);
    });
    if (!sizes.empty() && sizes[0] > 1 && dice.one_in(2)) {
      std::vector<std::int64_t> part = sizes;
      part[0] = 1;
      add(old_slice(name, starts, part, dice));
      starts[0] = 1;
      --sizes[0];
    }
    add(old_slice(name, starts, sizes, dice));
  }
  std::string value;
  protozero::pbf_writer(value).add_message(1, list);
  entries.emplace("", dice.one_in(8) ? damage_bundle_field(value, dice) : value);
  return entries;
}

// ---- Tables ---------------------------------------------------------------------------------------------------------

void append_varint(std::string& bytes, std::uint64_t value) {
  for (; value > 127; value >>= 7) bytes += static_cast<char>(value | 128);
  bytes += static_cast<char>(value);
}

void append_fixed32(std::string& bytes, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> 8 * i);
}

/// What Snappy could have made of some bytes: literals, and copies of what repeats.
std::string packed(const std::string& bytes) {
  std::string result;
  append_varint(result, bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t before = at < 4 ? std::string::npos : bytes.rfind(bytes.substr(at, 4), at - 1);
    if (before != std::string::npos && at + 4 <= bytes.size() && at - before < 65536) {
      std::size_t count = 4;
      while (count < 64 && at + count < bytes.size() && bytes[before + count] == bytes[at + count]) ++count;
      const std::size_t distance = at - before;
      result +=
          {static_cast<char>((count - 1) << 2 | 2), static_cast<char>(distance), static_cast<char>(distance >> 8)};
      at += count;
    } else {
      result += {'\0', bytes[at]};
      ++at;
    }
  }
  return result;
}

/// The entries as a block. One in a hundred or so has a number that is wrong.
std::string block_of(const std::vector<std::pair<std::string, std::string>>& entries, Dice& dice) {
  const std::size_t interval = 1 + dice.below(20);
  std::string bytes, last;
  std::vector<std::uint32_t> restarts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [key, value] = entries[i];
    std::size_t shared = 0;
    if (i % interval == 0) {
      restarts.push_back(static_cast<std::uint32_t>(bytes.size()));
    } else {
      while (shared < std::min(last.size(), key.size()) && last[shared] == key[shared]) ++shared;
    }
    for (const std::size_t number : {shared, key.size() - shared, value.size()})
      append_varint(bytes, dice.one_in(512) ? static_cast<std::uint64_t>(dice.number()) : number);
    bytes += key.substr(shared) + value;
    last = key;
  }
  for (const std::uint32_t each : restarts) append_fixed32(bytes, each);
  append_fixed32(
      bytes, dice.one_in(64) ? static_cast<std::uint32_t>(dice.number()) : static_cast<std::uint32_t>(restarts.size()));
  return dice.one_in(128) ? dice.damaged(bytes) : bytes;
}

/// Appends a block and its trailer, with a checksum that is right, to a table. Returns the block's handle.
std::string append_block(std::string& table, const std::string& block, Dice& dice) {
  std::string bytes = block;
  char compression = 0;
  if (dice.one_in(4)) {
    bytes = packed(bytes);
    compression = 1;
    if (dice.one_in(16)) bytes = dice.damaged(bytes);
  }
  if (dice.one_in(256)) compression = static_cast<char>(dice.bits());
  std::string handle;
  append_varint(handle, dice.one_in(128) ? static_cast<std::uint64_t>(dice.number()) : table.size());
  append_varint(handle, dice.one_in(128) ? static_cast<std::uint64_t>(dice.number()) : bytes.size());
  bytes += compression;
  table += bytes;
  append_fixed32(table, io::masked(io::crc32c(bytes)));
  return handle;
}

std::string make_bundle(Dice& dice) {
  const auto sound = dice.one_in(4) ? old_entries(dice) : table_entries(dice);
  std::vector<std::pair<std::string, std::string>> entries(sound.begin(), sound.end()), block, index;
  if (dice.one_in(64)) std::swap(dice.of(entries), dice.of(entries));
  std::string table;
  const std::size_t most = 1 + dice.below(30);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    block.push_back(entries[i]);
    if (block.size() < most && i + 1 < entries.size()) continue;
    index.emplace_back(entries[i].first, append_block(table, block_of(block, dice), dice));
    block.clear();
  }
  if (dice.one_in(64)) index.push_back(index.front());
  std::string footer = append_block(table, block_of({}, dice), dice);
  footer += append_block(table, block_of(index, dice), dice);
  footer.resize(40);
  const std::string bytes = table + footer + "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
  return dice.one_in(64) ? dice.damaged(bytes) : bytes;
}

}  // namespace

Mutants bundle_mutants() {
  return {.name = "mutate_bundle", .make = make_bundle, .use = [](const std::string& bytes, Dice&) {
            return read_bundle(std::as_bytes(std::span(bytes)));
          }};
}

}  // namespace tapestry::test
