#pragma once

#include <string_view>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// What nodes do with the rows of a table (see table_rows.hpp), beside `insert_in_table`. Their attribute "value_shape"
/// is that of the values, and "reserved" has the keys that a dense table does not take.
/// @{
inline constexpr std::string_view find_in_table = "TensorFlow::FindInTable";  ///< rows, keys, the default
inline constexpr std::string_view remove_from_table = "TensorFlow::RemoveFromTable";
inline constexpr std::string_view size_of_table = "TensorFlow::SizeOfTable";
inline constexpr std::string_view export_table = "TensorFlow::ExportTable";
/// @}

/// Makes Variables of the tables that nodes change, from whole numbers to numbers, and reads and assignments of their
/// uses. A table that is filled with constants once stays a table (see number_tables.hpp).
void raise_mutable_tables(GraphDef& graph);

}  // namespace tapestry::io
