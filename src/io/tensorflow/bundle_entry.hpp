#pragma once

// The keys and values of a checkpoint's index: tensor_bundle.proto and tensor_slice.proto. The numbers of the fields
// are TensorFlow's.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensorflow/graph_def.hpp"
#include "io/wire.hpp"

namespace tapestry::io {

/// The value of the key "".
struct BundleHeader {
  std::int64_t shards = 0, endianness = 0, min_consumer = 0;  ///< endianness: 1 is big
};

/// A tensor and where its bytes lie: at `offset` of the file of `shard`.
struct StoredTensor {
  TypeCode type;
  std::vector<std::int64_t> sizes;
  std::int64_t shard = 0, offset = 0, size = 0;
  std::uint32_t checksum = 0;  ///< of the bytes; masked
};

/// A part of one axis. The length -1 stands for all of it.
struct SliceExtent {
  std::int64_t start = 0, length = -1;
};
using SliceExtents = std::vector<SliceExtent>;

/// An entry of the index. A tensor that is stored in slices, as a partitioned Variable is, has no bytes of its own.
struct BundleEntry {
  StoredTensor stored;
  std::vector<SliceExtents> slices;
};

/// They throw protozero's exceptions for bytes that are no such message. The numbers may be anything.
/// @{
BundleHeader decode_bundle_header(std::string_view bytes);
BundleEntry decode_bundle_entry(std::string_view bytes);
/// @}

/// The sizes of a TensorShapeProto of any rank. An unknown rank, which no stored tensor has, becomes a size -1.
std::vector<std::int64_t> read_sizes(WireReader shape);
/// The extents of a TensorSliceProto.
SliceExtents read_extents(WireReader slice);

std::string encode(const BundleHeader& header);
std::string encode(const BundleEntry& entry);

/// The key of a slice, in TensorFlow's code that keeps the order. It begins with a byte 0, which no tensor's name does.
std::string slice_key(std::string_view name, const SliceExtents& extents);

}  // namespace tapestry::io
