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

/// The format of a CSV file, and what is read from it.
struct CsvOptions {
  /// Whether the first line names the columns. Otherwise their names are "0", "1", ...
  bool header = true;
  /// The character between fields.
  char separator = ',';
  /// The character around fields that contain separators, line ends, or quotes (which are doubled).
  char quote = '"';
  /// The columns to keep, in this order; all of them if the list is empty.
  std::vector<std::string> columns = {};
  /// The element types of columns. A column without an entry is int64 if all its fields are integers, float64 if all
  /// are numbers, and text otherwise.
  std::map<std::string, DType> types = {};
  /// The fields without quotes that mean "unknown", besides empty ones.
  std::vector<std::string> missing = {};
  /// The number that replaces unknown fields in columns of numbers. If it is not an integer, such as NaN, a column of
  /// integers with unknown fields becomes float64. Without this number, unknown fields are errors there. Unknown fields
  /// in columns of text become "".
  std::optional<double> fill = {};
};

/// The columns of a CSV file. Asking for a column throws NotFoundError when there is none of that name, and
/// InvalidArgumentError when it is text instead of numbers, or numbers instead of text.
class TAPESTRY_API Table {
 public:
  /// A column of text as numbers 0, 1, ...: `names[codes[row]]` is the text of a row.
  struct Categories {
    Tensor codes;                    ///< int64 [rows]
    std::vector<std::string> names;  ///< the different texts, sorted
  };
  /// A column of text: one string for each row.
  using Texts = std::vector<std::string>;
  /// A column of numbers, which is a Tensor [rows], or a column of text.
  using Column = std::variant<Tensor, Texts>;

  /// A table from its columns, one for each name, which must have `rows` rows each.
  Table(std::int64_t rows, std::vector<std::string> names, std::vector<Column> columns);

  /// The number of rows, not counting the header.
  std::int64_t rows() const { return rows_; }
  /// The names of the columns, in order.
  const std::vector<std::string>& names() const { return names_; }

  /// A column of numbers, [rows].
  const Tensor& column(const std::string& name, Where where = Where::here()) const;
  /// A column of text.
  const Texts& text(const std::string& name, Where where = Where::here()) const;
  /// A column of text as numbers.
  Categories categories(const std::string& name, Where where = Where::here()) const;
  /// Columns of numbers side by side, [rows, columns]. Without names these are all columns of numbers.
  Tensor matrix(const std::vector<std::string>& names = {}, DType dtype = float32, Where where = Where::here()) const;

 private:
  const Column& find(const std::string& name, Where where) const;

  std::int64_t rows_;
  std::vector<std::string> names_;
  std::vector<Column> columns_;
};

/// Reads a table of numbers and texts with one line for each row (RFC 4180), which may be compressed with gzip. Lines
/// end with "\n", "\r\n" or "\r". Spaces around fields without quotes are ignored, and so are lines without any field,
/// and the byte order mark of UTF-8. Truth values are 0, 1, true, false, True or False. A number that is too large for
/// its column's type of floats becomes infinite, and one that is too small 0; an integer that is out of range is not of
/// its column's type.
///
/// Throws NotFoundError when there is no such file or no such column as the options name; DataLossError, with the line
/// and the column, for a row with more or fewer fields than the first, a quote that is never closed, and a field that
/// is not of its column's type; InvalidArgumentError when two columns have the same name, or the separator equals the
/// quote.
TAPESTRY_API Table read_csv(const std::string& path, const CsvOptions& options = {}, Where where = Where::here());

/// Reads a whole text file, which may be compressed with gzip. Throws NotFoundError when there is no such file, and
/// DataLossError when the compressed data is damaged.
TAPESTRY_API std::string read_text(const std::string& path, Where where = Where::here());
/// Reads the lines of a text file, without their ends ("\n" or "\r\n"). Throws what `read_text` throws.
TAPESTRY_API std::vector<std::string> read_lines(const std::string& path, Where where = Where::here());

/// @}

}  // namespace tapestry::data
