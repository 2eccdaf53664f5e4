#pragma once

#include <string>

#include "tapestry/state_dict.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::data {

/// @addtogroup data
/// Files of arrays. Element types that tensors do not have become the next wider one that holds all their values: int8,
/// int16 and uint16 become int32, uint32 becomes int64. A reader that throws DataLossError has
/// allocated no more than the file could fill, whatever its header claims.
/// @{

/// An array from a file in the IDX format of the MNIST database, as it is or packed with gzip. uint8, int32, float32
/// and float64 keep their types; int8 and int16 become int32. Throws NotFoundError when there is no such file,
/// DataLossError when it is not an IDX file, stops early, has something behind its end, or is damaged.
TAPESTRY_API Tensor read_idx(const std::string& path, Where where = Where::here());

/// The array of an NPY file, NumPy's format (`numpy.save`), as it is or packed with gzip: any byte order, row- or
/// column-major. Throws NotFoundError when there is no such file, DataLossError when it is damaged, stops early or goes
/// on behind the array, and UnimplementedError for other element types (uint64, complex numbers, strings, objects) and
/// for more than 8 dimensions.
TAPESTRY_API Tensor read_npy(const std::string& path, Where where = Where::here());

/// Writes a tensor so that `numpy.load` opens it. Nobody ever sees half of the file. Throws NotFoundError when the
/// folder does not exist, ResourceExhaustedError when the disk is full, FailedPreconditionError when the file cannot be
/// written for another reason or the tensor is symbolic, InvalidArgumentError for an empty handle, and
/// UnimplementedError for bfloat16, which NumPy does not have.
TAPESTRY_API void write_npy(const std::string& path, const Tensor& tensor, Where where = Where::here());

/// The arrays of an NPZ file, a ZIP archive of NPY files (`numpy.savez`, `numpy.savez_compressed`), by their names.
/// Errors as those of `read_npy`; UnimplementedError also for members that are no NPY files, are encrypted, or packed
/// by another method than Deflate.
TAPESTRY_API StateDict read_npz(const std::string& path, Where where = Where::here());

/// How `write_npz` writes.
struct NpzOptions {
  bool compress = false;  ///< with Deflate; weights hardly shrink, whole numbers and zeros do
};
/// Writes tensors so that `numpy.load` opens them. Equal tensors give equal files. Errors as those of `write_npy`.
TAPESTRY_API void write_npz(const std::string& path, const StateDict& tensors, const NpzOptions& options = {},
                            Where where = Where::here());

/// @}

}  // namespace tapestry::data
