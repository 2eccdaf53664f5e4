#pragma once

#include <string_view>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// An attribute that the node of an asset's path has while a SavedModel is read: where the asset is.
inline constexpr std::string_view asset_path = "_tapestry_asset_path";

/// Replaces lookups in hash tables of numbers by searches in their keys, where the graph fills the table with constants
/// or from a text file. Throws what `read_table_file` throws for lines that are no table. Lookups in a file that does
/// not exist stay as they are. Takes the attributes `asset_path` away.
void search_number_tables(GraphDef& graph, const GraphLimits& limits);

}  // namespace tapestry::io
