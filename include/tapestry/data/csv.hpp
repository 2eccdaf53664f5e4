#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// How a file is written, and what is wanted of it.
struct CsvOptions {
  bool header = true;                     ///< the first line names the columns; otherwise they are called "0", "1", ...
  char separator = ',';                   ///< between fields
  char quote = '"';                       ///< around fields that hold separators, line ends, or quotes (doubled)
  std::vector<std::string> columns = {};  ///< those to keep, in this order; all of them if none is named
  /// The element types of columns. Others are int64 when all their fields are whole numbers, float64 when all are
  /// numbers, and text otherwise.
  std::map<std::string, DType> types = {};
  /// What fields without quotes that mean "unknown" look like.
  std::vector<std::string> missing = {""};
  /// The number that takes their place in columns of numbers (NaN makes whole numbers float64); without it they are
  /// errors there. Columns of text have "" there.
  std::optional<double> fill = {};
};

/// The columns of a CSV file. To ask for one throws NotFoundError when there is none of that name, and
/// InvalidArgumentError when it is one of text where numbers are wanted, or the other way round.
class TAPESTRY_API Table {
 public:
  /// Texts as numbers 0, 1, ...: `names[codes[row]]` is the text of a row.
  struct Categories {
    Tensor codes;                    ///< int64 [rows]
    std::vector<std::string> names;  ///< sorted
  };
  /// A column of text, one for each row.
  using Texts = std::vector<std::string>;
  /// A Tensor [rows], of numbers, or texts.
  using Column = std::variant<Tensor, Texts>;

  /// All columns have `rows` rows, and there is one for each name.
  Table(std::int64_t rows, std::vector<std::string> names, std::vector<Column> columns);

  /// Number of rows, without the header.
  std::int64_t rows() const { return rows_; }
  /// The names of the columns, in order.
  const std::vector<std::string>& names() const { return names_; }

  /// A column of numbers: [rows].
  const Tensor& column(const std::string& name, Where where = Where::here()) const;
  /// A column of text.
  const Texts& text(const std::string& name, Where where = Where::here()) const;
  /// A column of text as numbers.
  Categories categories(const std::string& name, Where where = Where::here()) const;
  /// Columns of numbers side by side: [rows, columns]. Without names all that are none of text.
  Tensor matrix(const std::vector<std::string>& names = {}, DType dtype = float32, Where where = Where::here()) const;

 private:
  const Column& find(const std::string& name, Where where) const;

  std::int64_t rows_;
  std::vector<std::string> names_;
  std::vector<Column> columns_;
};

/// A table of numbers and texts, one line for each row (RFC 4180), as it is or packed with gzip. Spaces around fields
/// without quotes do not count, nor do lines without any field, nor the byte order mark of UTF-8. Truth values are 0,
/// 1, true, false, True or False.
///
/// Throws NotFoundError when there is no such file or a column that the options name; DataLossError, with the line and
/// the column, for a row with more or fewer fields than the first, a quote that is never closed, and a field that is
/// not of its column's type; InvalidArgumentError when two columns have one name, or the separator and the quote are
/// the same.
TAPESTRY_API Table read_csv(const std::string& path, const CsvOptions& options = {}, Where where = Where::here());

/// The whole of a text file, as it is or packed with gzip. Throws NotFoundError when there is no such file,
/// DataLossError when packed data are damaged.
TAPESTRY_API std::string read_text(const std::string& path, Where where = Where::here());
/// Its lines, without their ends ("\n" or "\r\n"). Errors as those of `read_text`.
TAPESTRY_API std::vector<std::string> read_lines(const std::string& path, Where where = Where::here());

/// @}

}  // namespace tapestry::data
