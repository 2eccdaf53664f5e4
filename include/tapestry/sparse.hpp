#pragma once

#include <optional>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup sparse
/// The gradient of a table [rows, ...] in which rows were looked up, by `embedding_lookup` or by `gather` along axis 0,
/// is row-sparse: it keeps the rows that were looked up, and is computed as a whole only when something else is asked
/// of it, such as its elements or a product. Row-sparse gradients stay so when they are added to each other, clipped,
/// unscaled and applied, and so do those that a graph computes.
/// @{

/// Rows of a tensor whose other rows are 0. Indices that occur more than once stand for the sum of their rows.
struct IndexedSlices {
  Tensor indices;  ///< [n], int32 or int64
  Tensor values;   ///< [n, ...]: a row for each index
};

/// The rows of a row-sparse gradient; nothing for any other tensor, which has all its rows.
TAPESTRY_API std::optional<IndexedSlices> indexed_slices(const Tensor& gradient, Where where = Where::here());

/// A row-sparse gradient of the shape of `like`, of which only the shape is read. Throws InvalidArgumentError when the
/// indices are not int32 or int64, when the values are not one row of `like` for each index, and, when it is computed
/// or applied, for an index outside the rows.
TAPESTRY_API Tensor to_tensor(const IndexedSlices& slices, In like);

/// @}

}  // namespace tapestry
