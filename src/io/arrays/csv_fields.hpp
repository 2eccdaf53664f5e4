#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/data/csv.hpp"

namespace tapestry::data {

/// The fields of a CSV file, by columns. They are views of the text, or of `own`.
struct CsvFields {
  /// A view without data stands for a field that means "unknown".
  using Column = std::vector<std::string_view>;

  std::vector<std::string> names;
  std::vector<Column> columns;
  std::vector<std::int64_t> lines;  ///< where each row begins, from 1
  std::deque<std::string> own;      ///< fields in which doubled quotes have become single ones
};

/// Cuts a text, which must outlive the fields. `path` is its name in errors.
CsvFields split_fields(std::string_view text, const CsvOptions& options, const std::string& path, Where where);

}  // namespace tapestry::data
