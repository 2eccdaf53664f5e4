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
  /// A view whose data() is null stands for a missing value.
  using Column = std::vector<std::string_view>;

  std::vector<std::string> names;
  std::vector<Column> columns;
  std::vector<std::int64_t> lines;  ///< the line on which each row begins, counted from 1
  std::deque<std::string> own;      ///< fields in which doubled quotes have become single ones
};

/// Splits a text into fields. The text must outlive them; `path` is its name in errors.
CsvFields split_fields(std::string_view text, const CsvOptions& options, const std::string& path, Where where);

}  // namespace tapestry::data
