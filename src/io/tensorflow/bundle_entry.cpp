#include "io/tensorflow/bundle_entry.hpp"

#include <bit>

#include <protozero/pbf_writer.hpp>

#include "io/wire.hpp"

namespace tapestry::io {

using protozero::pbf_writer;

namespace {

/// Leaves out a 0, as protobuf does.
void add_number(pbf_writer& writer, protozero::pbf_tag_type tag, std::int64_t number) {
  if (number != 0) writer.add_int64(tag, number);
}

/// A signed number in TensorFlow's code, in which bytes have the order of the numbers. The number of leading ones is
/// that of the bytes; a zero and the bits of the number follow. The code of a negative number is that of ~number with
/// all bits inverted.
std::string ordered(std::int64_t number) {
  const auto value = static_cast<std::uint64_t>(number < 0 ? ~number : number);
  const auto length = static_cast<std::size_t>(std::bit_width(value)) / 7 + 1;
  std::string bytes(length, '\0');
  for (std::size_t i = 0; i < length && i < 8; ++i) bytes[length - 1 - i] = static_cast<char>(value >> 8 * i);
  for (std::size_t bit = 0; bit < length; ++bit) bytes[bit / 8] = static_cast<char>(bytes[bit / 8] | 128 >> bit % 8);
  if (number < 0)
    for (char& each : bytes) each = static_cast<char>(~each);
  return bytes;
}

}  // namespace

std::vector<std::int64_t> read_sizes(WireReader shape) {
  std::vector<std::int64_t> sizes;
  while (shape.next()) {
    if (shape.tag() == 3) {
      if (shape.get_bool()) return {-1};
    } else if (shape.tag() == 2) {
      std::int64_t& size = sizes.emplace_back(0);
      for (WireReader dim = shape.get_message(); dim.next();) {
        if (dim.tag() == 1) {
          size = dim.get_int64();
        } else {
          dim.skip();
        }
      }
    } else {
      shape.skip();
    }
  }
  return sizes;
}

SliceExtents read_extents(WireReader slice) {
  SliceExtents extents;
  while (slice.next()) {
    if (slice.tag() != 1) {
      slice.skip();
      continue;
    }
    SliceExtent& extent = extents.emplace_back();
    for (WireReader part = slice.get_message(); part.next();) {
      if (part.tag() == 1) {
        extent.start = part.get_int64();
      } else if (part.tag() == 2) {
        extent.length = part.get_int64();
      } else {
        part.skip();
      }
    }
  }
  return extents;
}

BundleHeader decode_bundle_header(std::string_view bytes) {
  WireReader reader(bytes.data(), bytes.size());
  BundleHeader header;
  while (reader.next()) {
    if (reader.tag() == 1) {
      header.shards = reader.get_int64();
    } else if (reader.tag() == 2) {
      header.endianness = reader.get_enum();
    } else if (reader.tag() == 3) {
      for (WireReader version = reader.get_message(); version.next();) {
        if (version.tag() == 2) {
          header.min_consumer = version.get_int64();
        } else {
          version.skip();
        }
      }
    } else {
      reader.skip();
    }
  }
  return header;
}

BundleEntry decode_bundle_entry(std::string_view bytes) {
  WireReader reader(bytes.data(), bytes.size());
  BundleEntry entry;
  StoredTensor& stored = entry.stored;
  while (reader.next()) {
    switch (reader.tag()) {
      case 1:
        stored.type.value = reader.get_enum();
        break;
      case 2:
        stored.sizes = read_sizes(reader.get_message());
        break;
      case 3:
        stored.shard = reader.get_int64();
        break;
      case 4:
        stored.offset = reader.get_int64();
        break;
      case 5:
        stored.size = reader.get_int64();
        break;
      case 6:
        stored.checksum = reader.get_fixed32();
        break;
      case 7:
        entry.slices.push_back(read_extents(reader.get_message()));
        break;
      default:
        reader.skip();
    }
  }
  return entry;
}

std::string encode(const BundleHeader& header) {
  std::string bytes;
  pbf_writer writer(bytes);
  add_number(writer, 1, header.shards);
  add_number(writer, 2, header.endianness);
  add_message(writer, 3, [&](pbf_writer& version) {
    version.add_int64(1, 1);
    add_number(version, 2, header.min_consumer);
  });
  return bytes;
}

std::string encode(const BundleEntry& entry) {
  std::string bytes;
  pbf_writer writer(bytes);
  const StoredTensor& stored = entry.stored;
  add_number(writer, 1, stored.type.value);
  add_message(writer, 2, [&](pbf_writer& shape) { write_sizes(shape, stored.sizes); });
  add_number(writer, 3, stored.shard);
  add_number(writer, 4, stored.offset);
  add_number(writer, 5, stored.size);
  if (stored.checksum != 0) writer.add_fixed32(6, stored.checksum);
  for (const SliceExtents& extents : entry.slices)
    add_message(writer, 7, [&](pbf_writer& slice) {
      for (const auto& [start, length] : extents)
        add_message(slice, 1, [begin = start, count = length](pbf_writer& extent) {
          add_number(extent, 1, begin);
          if (count != -1) extent.add_int64(2, count);
        });
    });
  return bytes;
}

std::string slice_key(std::string_view name, const SliceExtents& extents) {
  std::string key(1, '\0');
  for (const char c : name) {
    key += c;
    if (c == '\0') key += '\xff';
    if (c == '\xff') key += '\0';
  }
  key += {'\0', '\1'};
  // The rank is written as the number of its bytes, 0 or 1, and these.
  key += extents.empty() ? std::string(1, '\0') : std::string{'\1', static_cast<char>(extents.size())};
  for (const auto& [start, length] : extents) key += ordered(start) + ordered(length);
  return key;
}

}  // namespace tapestry::io
