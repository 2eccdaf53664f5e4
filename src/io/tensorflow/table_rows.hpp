#pragma once

#include <string_view>

#include "tapestry/shape.hpp"
#include "tapestry/tensor.hpp"
#include "tapestry/variable.hpp"

/// A table that changes while a graph runs, from whole numbers to numbers, is a Variable of its rows: int64[n, 1 + w],
/// each a key and the w elements of its value, bit by bit.

namespace tapestry::io {

/// The attribute of the node of such a Variable: the type of the values.
inline constexpr std::string_view hint_table = "_tapestry_table";
/// The attribute with the keys of a dense table that stand for none, or for a removed one.
inline constexpr std::string_view hint_reserved = "_tapestry_reserved";
/// How the names of a table's keys and values end in a checkpoint.
inline constexpr std::string_view table_keys = "-keys", table_values = "-values";
/// The op of a node that inserts into rows: keys, and their values.
inline constexpr std::string_view insert_in_table = "TensorFlow::InsertInTable";

/// Whether a Variable can have the rows of a table.
TAPESTRY_API bool is_table(const Variable& variable);
/// Whether rows have room for the values of a type.
TAPESTRY_API bool has_rows(DType dtype);
/// The rows of keys of any shape and their values, of that shape and `value_shape`.
TAPESTRY_API Tensor rows_of_table(const Tensor& keys, const Tensor& values, const Shape& value_shape);
/// The values of rows, [n] and `value_shape`, from the columns behind the key.
TAPESTRY_API Tensor values_of_rows(const Tensor& columns, DType dtype, const Shape& value_shape);
/// Rows without any key.
TAPESTRY_API Tensor empty_table(const Shape& value_shape);

}  // namespace tapestry::io
