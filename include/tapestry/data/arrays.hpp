#pragma once

#include <string>

#include "tapestry/state_dict.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::data {

/// @addtogroup data
/// Files of arrays. An element type that tensors do not have becomes the next wider one that holds all its values:
/// int8, int16 and uint16 become int32, uint32 becomes int64. A reader that throws DataLossError has allocated no more
/// memory than the file can fill, whatever its header says.
/// @{

/// Reads an array from a file in the IDX format of the MNIST database, which may be compressed with gzip. uint8, int32,
/// float32 and float64 keep their types; int8 and int16 become int32. Throws NotFoundError when there is no such file,
/// and DataLossError when it is not an IDX file, is truncated, has further bytes after the array, or is damaged.
TAPESTRY_API Tensor read_idx(const std::string& path, Where where = Where::here());

/// Reads the array of an NPY file, NumPy's format (`numpy.save`), which may be compressed with gzip. The elements may
/// have any byte order, and be in row- or column-major order. Throws NotFoundError when there is no such file,
/// DataLossError when it is damaged, truncated or has further bytes after the array, and UnimplementedError for other
/// element types (uint64, complex numbers, strings, objects) and for more than 8 dimensions.
TAPESTRY_API Tensor read_npy(const std::string& path, Where where = Where::here());

/// Writes a tensor as a file for `numpy.load`. No other program ever sees an incomplete file. Throws NotFoundError when
/// the folder does not exist, ResourceExhaustedError when the disk is full, FailedPreconditionError when the file
/// cannot be written for another reason or the tensor is symbolic, InvalidArgumentError for an empty handle, and
/// UnimplementedError for bfloat16, which NumPy does not have.
TAPESTRY_API void write_npy(const std::string& path, const Tensor& tensor, Where where = Where::here());

/// Reads the arrays of an NPZ file, a ZIP archive of NPY files (`numpy.savez`, `numpy.savez_compressed`), by their
/// names. Throws what `read_npy` throws, and UnimplementedError for members that are not NPY files, are encrypted, or
/// are compressed by another method than Deflate.
TAPESTRY_API StateDict read_npz(const std::string& path, Where where = Where::here());

/// The options of `write_npz`.
struct NpzOptions {
  bool compress = false;  ///< whether to use Deflate, which shrinks integers and zeros, but hardly weights
};
/// Writes tensors as a file for `numpy.load`. Equal tensors give equal files. Throws what `write_npy` throws.
TAPESTRY_API void write_npz(const std::string& path, const StateDict& tensors, const NpzOptions& options = {},
                            Where where = Where::here());

/// @}

}  // namespace tapestry::data
