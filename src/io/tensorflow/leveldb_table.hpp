#pragma once

// Tables of LevelDB (.ldb, .sst): entries of a key and a value in the order of their keys, as bytes. A table consists
// of blocks of entries, an index block, whose entries are the places of the others, and a footer of 48 bytes.

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "io/file.hpp"

namespace tapestry::io {

/// Is called with each entry of a table. The views are valid during the call.
using TableEntry = std::function<void(std::string_view key, std::string_view value)>;

/// Reads all entries, whose keys ascend. Throws DataLossError for a file that is no table, or damaged, and
/// UnimplementedError for a compression other than Snappy. The blocks are read one after the other; all keys together
/// have at most 4 MiB, or 64 times the bytes of the file.
void read_table(const SourceFile& file, const TableEntry& entry);

/// The file of a table. The bytes are those that LevelDB writes with the options of TensorFlow.
std::string table_bytes(const std::map<std::string, std::string>& entries);

}  // namespace tapestry::io
