#pragma once

// A TensorBundle, which is TensorFlow's checkpoint V2: a table of LevelDB, PREFIX.index, tells the dtype, the shape and
// the place of each tensor in the files PREFIX.data-SSSSS-of-NNNNN, the shards.

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/arrays/elements.hpp"
#include "io/file.hpp"
#include "io/tensorflow/bundle_entry.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::io {

/// The path of the index, which every bundle has.
std::filesystem::path bundle_index(const std::filesystem::path& prefix);

/// An open bundle. The constructor reads the index and checks it; the shards are opened when tensors are read.
class TensorBundle {
 public:
  /// Throws NotFoundError when there is no index, DataLossError when it is damaged or contradicts itself, and
  /// UnimplementedError for big-endian tensors and newer versions of the format.
  TensorBundle(const std::filesystem::path& prefix, Where where);

  /// A tensor, which is stored whole, or in slices that cover it without overlapping.
  struct Entry {
    StoredTensor stored;                                        ///< of a tensor in slices, only the type and the sizes
    std::vector<std::pair<SliceExtents, StoredTensor>> slices;  ///< the extents have their lengths
  };
  /// The entries by the names of the tensors.
  const std::map<std::string, Entry>& entries() const { return entries_; }

  /// Reads a tensor. Element types that tensors do not have become the next wider one that holds all their values.
  /// Throws NotFoundError when there is no such tensor, or no shard; DataLossError when the shard stops early or does
  /// not have the checksum; UnimplementedError when tensors cannot have the element type or the number of dimensions.
  Tensor read(const std::string& name) const;
  /// Reads all tensors that `read` can read. Throws what it throws where there are only others, but for the texts in
  /// which TensorFlow keeps the structure of its Python objects.
  StateDict read_all() const;

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const;
  void read_header(std::string_view value);
  void take_entries(std::map<std::string, BundleEntry> found);
  void take_slices(const std::string& name, const BundleEntry& whole, std::map<std::string, BundleEntry>& found);
  void check(const StoredTensor& stored, const std::string& name) const;
  void check_overlaps() const;

  FileElements elements_of(const StoredTensor& stored, const std::string& name) const;
  void check_shard(const SourceFile& shard, const StoredTensor& stored, const std::string& name) const;
  Tensor read_stored(const StoredTensor& stored, const std::string& name) const;
  Tensor read_slices(const Entry& entry, const std::string& name) const;

  std::filesystem::path prefix_;
  Where where_;
  std::int64_t shards_ = 0;
  std::map<std::string, Entry> entries_;
};

/// The name under which TensorFlow 2 keeps the structure of its Python objects, a text.
inline constexpr std::string_view object_graph_key = "_CHECKPOINTABLE_OBJECT_GRAPH";

/// Writes a bundle of one shard: first the shard, then the index, each completely or not at all. `object_graph`: the
/// text under `object_graph_key`; "" for none. Throws what `write_file` throws, and InvalidArgumentError for a prefix
/// or a name that a bundle cannot have.
void write_tensor_bundle(const std::filesystem::path& prefix, const StateDict& tensors, Where where,
                         std::string_view object_graph = {});

}  // namespace tapestry::io
