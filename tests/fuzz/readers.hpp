#pragma once

#include <cstddef>
#include <span>
#include <string>

/// The readers of files that others have made, each on bytes that may be anything. What a reader refuses is well, and
/// returns false; whatever else happens is a defect that a fuzzer, or the test that replays its corpus, makes visible.

namespace tapestry::test {

using Fuzzed = std::span<const std::byte>;

bool read_graph(Fuzzed bytes);       ///< a GraphDef in the binary form
bool read_graph_text(Fuzzed bytes);  ///< a GraphDef in the text form
bool run_graph(Fuzzed bytes);        ///< the text form; runs what has been read, fed with small tensors
bool read_idx(Fuzzed bytes);         ///< an IDX file, packed with gzip or not
bool read_npy(Fuzzed bytes);         ///< an NPY file, packed with gzip or not
bool read_npz(Fuzzed bytes);         ///< an NPZ file, or any other ZIP archive
bool read_safetensors(Fuzzed bytes);
bool read_bundle(Fuzzed bytes);  ///< the index of a checkpoint, whose shards are `bundle_shard`, or a checkpoint V1
bool read_csv(Fuzzed bytes);     ///< a CSV file with a header
bool read_events(Fuzzed bytes);  ///< an event file; then the bytes as an event of a file that is sound around it

/// A TFRecord file of tf.Examples, which is packed if it begins so.
bool read_records(Fuzzed bytes);

/// The bytes of each shard of the checkpoints whose indices `read_bundle` reads.
const std::string& bundle_shard();

}  // namespace tapestry::test
