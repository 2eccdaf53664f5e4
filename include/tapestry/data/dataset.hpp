#pragma once

#include <cstdint>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// Examples and their targets: row i of `x` belongs to row i of `y`.
struct Dataset {
  Tensor x;  ///< the examples, [rows, ...]
  Tensor y;  ///< the targets, [rows, ...]

  /// The number of rows.
  std::int64_t size() const { return x.shape().dim(0); }
};

/// How `split` chooses the rows for validation.
struct SplitOptions {
  bool shuffle = true;     ///< whether they are random rows; otherwise they are the last rows
  std::uint64_t seed = 0;  ///< the seed of the random order
};
/// The result of `split`.
struct TrainValidation {
  Dataset train;       ///< the rows for training
  Dataset validation;  ///< the rows for validation
};
/// Splits a data set into rows for training and a fraction of rows for validation. The same seed gives the same split
/// on every machine. Throws InvalidArgumentError unless both get at least one row.
TAPESTRY_API TrainValidation split(const Dataset& dataset, double validation_fraction, const SplitOptions& options = {},
                                   Where where = Where::here());

/// A part of a published data set.
enum class Split {
  train,  ///< the examples for training
  test,   ///< the examples for the final test
};

/// Reads the MNIST database of handwritten digits (LeCun, Cortes, Burges), with 60,000 images for training and 10,000
/// for testing: x is float32 [n,784], the pixels row by row from 0 (paper) to 1 (ink); y is int64 [n], the digits.
///
/// The folder must contain the four original files, compressed (train-images-idx3-ubyte.gz) or not
/// (train-images-idx3-ubyte). Any set in the same format with 28 x 28 images and 10 classes will do. Throws
/// NotFoundError with their names, sizes, checksums and origin when they are missing, and DataLossError when they are
/// damaged or do not match each other.
TAPESTRY_API Dataset mnist(const std::string& dir, Split split, Where where = Where::here());

/// @}

}  // namespace tapestry::data
