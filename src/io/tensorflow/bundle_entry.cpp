#include "io/tensorflow/bundle_entry.hpp"

#include <bit>

#include <protozero/pbf_writer.hpp>

#include "io/wire.hpp"

namespace tapestry::io {
namespace {

/// The sizes of a TensorShapeProto of any rank. An unknown rank, which no stored tensor has, becomes a size -1.
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

/// The extents of a TensorSliceProto.
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

/// A number in the code that keeps the order of signed numbers: as many bits 1 as there are bytes, a bit 0, and the
/// number in the other bits, which are at least one byte less 2; of a negative number all bits are the others of
/// ~number.
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

std::string encode_bundle_header() {
  std::string bytes;
  protozero::pbf_writer header(bytes);
  header.add_int64(1, 1);
  add_message(header, 3, [](protozero::pbf_writer& version) { version.add_int64(1, 1); });
  return bytes;
}

std::string encode_bundle_entry(const Tensor& tensor, std::int64_t offset, std::int64_t size, std::uint32_t checksum) {
  std::string bytes;
  protozero::pbf_writer entry(bytes);
  entry.add_enum(1, code_of(tensor.dtype()).value);
  add_message(entry, 2, [&](protozero::pbf_writer& shape) { write_shape(shape, tensor.shape()); });
  if (offset != 0) entry.add_int64(4, offset);
  if (size != 0) entry.add_int64(5, size);
  entry.add_fixed32(6, checksum);
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
  // The rank: the number of its bytes, and these.
  key += extents.empty() ? std::string(1, '\0') : std::string{'\1', static_cast<char>(extents.size())};
  for (const auto& [start, length] : extents) key += ordered(start) + ordered(length);
  return key;
}

}  // namespace tapestry::io
