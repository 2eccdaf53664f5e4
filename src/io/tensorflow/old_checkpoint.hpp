#pragma once

// TensorFlow's checkpoint V1, which its Saver wrote until 2016: one table of LevelDB, whose values are
// SavedTensorSlices, or one for each device, "model.ckpt-00000-of-00002". That of the key "" lists the tensors; each of
// the others has a tensor's elements, or a slice's.

#include <filesystem>

#include "tapestry/error.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::io {

/// Whether there is such a file, by its first and last bytes, or several with the prefix `path`, or as a Saver names
/// them, "model.ckpt-?????-of-00002".
bool is_old_checkpoint(const std::filesystem::path& path);

/// Reads all tensors whose types tensors can have, or the next wider types. Throws DataLossError for a file that is
/// damaged or contradicts itself, and UnimplementedError where there are only tensors of other types.
StateDict read_old_checkpoint(const std::filesystem::path& path, Where where);

}  // namespace tapestry::io
