#pragma once

#include <cstdint>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// Examples and what is to be learnt of them: row i of `x` belongs to row i of `y`.
struct Dataset {
  Tensor x;  ///< [rows, ...]
  Tensor y;  ///< [rows, ...]

  /// Number of rows.
  std::int64_t size() const { return x.shape().dim(0); }
};

/// Which rows `split` sets aside.
struct SplitOptions {
  bool shuffle = true;     ///< otherwise the last rows are those for validation
  std::uint64_t seed = 0;  ///< of the order
};
/// What `split` makes of a data set.
struct TrainValidation {
  Dataset train;       ///< to learn from
  Dataset validation;  ///< set aside
};
/// Sets a fraction of the rows aside, on which to see what a model has learnt. The same seed gives the same parts on
/// every machine. Throws InvalidArgumentError unless both parts get a row.
TAPESTRY_API TrainValidation split(const Dataset& dataset, double validation_fraction, const SplitOptions& options = {},
                                   Where where = Where::here());

/// Which part of a published data set.
enum class Split {
  train,  ///< to learn from
  test,   ///< to be seen at the end only
};

/// The MNIST database of handwritten digits (LeCun, Cortes, Burges), 60,000 images for training and 10,000 for testing:
/// x is float32 [n,784], the pixels row by row from 0 (paper) to 1 (ink); y is int64 [n], the digits.
///
/// The folder holds the four original files, packed (train-images-idx3-ubyte.gz) or not (train-images-idx3-ubyte); any
/// set in the same format with 28 x 28 images and 10 classes will do. Throws NotFoundError with their names, sizes,
/// checksums and origin when they are missing, DataLossError when they are damaged or do not fit together.
TAPESTRY_API Dataset mnist(const std::string& dir, Split split, Where where = Where::here());

/// @}

}  // namespace tapestry::data
