#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The keys and the values that a text file gives a table, one of each for a line.
struct TableFields {
  std::vector<std::string> keys{}, values{};
};

/// Reads the lines of a file as TensorFlow's InitializeTableFromTextFile does: each gives a key and a value, which are
/// columns, the whole line, or its number. Throws NotFoundError for a file that does not exist, and what TensorFlow
/// throws for one whose lines are no such table.
TAPESTRY_API TableFields read_table_file(const NodeDef& initializer, const std::filesystem::path& file,
                                         std::int64_t most_bytes);

/// The numbers that fields are. Throws InvalidArgumentError for a field that is none, UnimplementedError for a dtype
/// that tables of files do not have.
TAPESTRY_API Tensor numbers_of_fields(const NodeDef& initializer, const std::vector<std::string>& fields, DType dtype);

/// TensorFlow's error for two values of one key.
[[noreturn]] TAPESTRY_API void refuse_second_value(const std::string& key, const std::string& first,
                                                   const std::string& second);

}  // namespace tapestry::io
