#include "tapestry/data/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

#include "core/make_tensor.hpp"
#include "io/arrays/csv_fields.hpp"
#include "io/gzip.hpp"
#include "io/known_format.hpp"

namespace tapestry::data {
namespace {

/// The float nearest to a number that from_chars finds out of range: infinity, or 0.
template <class T>
T beyond_range(const std::string& field) {
  std::istringstream text(field);
  text.imbue(std::locale::classic());
  double number = 0;
  text >> number;  // the largest double where there is no larger one
  return static_cast<T>(std::abs(number) > 1 ? std::copysign(std::numeric_limits<double>::infinity(), number) : number);
}

/// Parses a field. Returns false unless all of it is one number. One that is too large or too small for a float becomes
/// infinite or 0, as in NumPy; an integer that is out of range is none.
template <class T>
bool parse(std::string_view field, T& number) {
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  const char* end = field.data() + field.size();
  if constexpr (is_float16<T>) {
    double exact = 0;
    const bool is_number = parse(field, exact);
    number = T(exact);
    return is_number;
  } else {
    const auto [stop, error] = std::from_chars(field.data(), end, number);
    if (stop != end) return false;
    if constexpr (std::is_floating_point_v<T>)
      if (error == std::errc::result_out_of_range) {
        number = beyond_range<T>(std::string(field));
        return true;
      }
    return error == std::errc{};
  }
}
bool parse(std::string_view field, bool& truth) {
  truth = field == "1" || field == "true" || field == "True";
  return truth || field == "0" || field == "false" || field == "False";
}

template <class T>
bool all_parse(const CsvFields::Column& column) {
  T number{};
  return std::all_of(column.begin(), column.end(), [&](std::string_view f) { return !f.data() || parse(f, number); });
}

/// Makes the columns of a table from their fields.
class ColumnMaker {
 public:
  ColumnMaker(std::string_view text, const CsvFields& fields, const CsvOptions& options, const std::string& path,
              Where where)
      : text_(text), fields_(fields), options_(options), path_(path), where_(where) {}

  Table::Column make(std::size_t index) const {
    const auto type = options_.types.find(fields_.names[index]);
    const DType dtype = type != options_.types.end() ? type->second : guess(fields_.columns[index]);
    if (dtype == DType::unknown) return texts(fields_.columns[index]);
    return detail::visit_dtype(dtype, [&]<class T>() { return Table::Column(numbers<T>(index)); });
  }

 private:
  /// `unknown` for text.
  DType guess(const CsvFields::Column& column) const {
    const bool some_missing = std::any_of(column.begin(), column.end(), [](std::string_view f) { return !f.data(); });
    const bool whole = !some_missing || !options_.fill || std::trunc(*options_.fill) == *options_.fill;
    if (whole && all_parse<std::int64_t>(column)) return int64;
    return all_parse<double>(column) ? float64 : DType::unknown;
  }

  static Table::Texts texts(const CsvFields::Column& column) { return {column.begin(), column.end()}; }

  template <class T>
  Tensor numbers(std::size_t index) const {
    const CsvFields::Column& column = fields_.columns[index];
    Tensor tensor = detail::make_tensor(dtype_of<T>(), {static_cast<std::int64_t>(column.size())}, cpu());
    auto* to = detail::mutable_data<T>(tensor);
    for (std::size_t row = 0; row < column.size(); ++row)
      if (!column[row].data()) {
        to[row] = fill<T>(index, row);
      } else if (!parse(column[row], to[row])) {
        refuse(index, row, detail::join("'", column[row], "', which is no ", dtype_of<T>()));
      }
    return tensor;
  }

  template <class T>
  T fill(std::size_t index, std::size_t row) const {
    if (!options_.fill)
      refuse(index, row, missing_as_written(index, row) + "; CsvOptions::fill can say what to put there");
    const auto value = static_cast<T>(*options_.fill);
    if constexpr (std::is_integral_v<T>)
      if (static_cast<double>(value) != *options_.fill)
        throw InvalidArgumentError(detail::join("Column '", fields_.names[index], "' of ", dtype_of<T>(),
                                                " cannot be filled with ", *options_.fill),
                                   where_);
    return value;
  }

  /// What stands in the file where a field is missing. The fields do not have it, so the text is split again.
  std::string missing_as_written(std::size_t index, std::size_t row) const {
    CsvOptions as_written = options_;
    as_written.header = false;
    as_written.missing = {};
    const CsvFields all = split_fields(text_, as_written, path_, where_);
    const std::string_view field = all.columns[index][row + (options_.header ? 1 : 0)];
    return field.empty() ? "nothing" : detail::join("'", field, "', which CsvOptions::missing lists");
  }

  [[noreturn]] void refuse(std::size_t index, std::size_t row, const std::string& what) const {
    throw DataLossError(detail::join(path_, ':', fields_.lines[row], ": column ", index + 1, " ('",
                                     fields_.names[index], "') holds ", what),
                        where_);
  }

  std::string_view text_;
  const CsvFields& fields_;
  const CsvOptions& options_;
  const std::string& path_;
  Where where_;
};

std::size_t index_of(const std::vector<std::string>& names, const std::string& name, Where where) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string list;
  for (const std::string& each : names) list += detail::join(list.empty() ? "'" : ", '", each, "'");
  throw NotFoundError(detail::join("There is no column '", name, "'; there are ", list.empty() ? "none" : list), where);
}

}  // namespace

Table::Table(std::int64_t rows, std::vector<std::string> names, std::vector<Column> columns)
    : rows_(rows), names_(std::move(names)), columns_(std::move(columns)) {}

const Table::Column& Table::find(const std::string& name, Where where) const {
  return columns_[index_of(names_, name, where)];
}

const Tensor& Table::column(const std::string& name, Where where) const {
  const auto* numbers = std::get_if<Tensor>(&find(name, where));
  if (!numbers) throw InvalidArgumentError(detail::join("Column '", name, "' holds text, not numbers"), where);
  return *numbers;
}

const Table::Texts& Table::text(const std::string& name, Where where) const {
  const auto* texts = std::get_if<Texts>(&find(name, where));
  if (!texts) throw InvalidArgumentError(detail::join("Column '", name, "' holds numbers, not text"), where);
  return *texts;
}

Table::Categories Table::categories(const std::string& name, Where where) const {
  const Texts& texts = text(name, where);
  Categories found{detail::make_tensor(int64, {rows_}, cpu()), texts};
  std::sort(found.names.begin(), found.names.end());
  found.names.erase(std::unique(found.names.begin(), found.names.end()), found.names.end());
  auto* code = detail::mutable_data<std::int64_t>(found.codes);
  for (const std::string& each : texts)
    *code++ = std::lower_bound(found.names.begin(), found.names.end(), each) - found.names.begin();
  return found;
}

Tensor Table::matrix(const std::vector<std::string>& names, DType dtype, Where where) const {
  std::vector<Tensor> chosen;
  chosen.reserve(names_.size());
  for (const std::string& name : names) chosen.push_back(column(name, where));
  if (names.empty())
    for (const Column& each : columns_)
      if (const auto* numbers = std::get_if<Tensor>(&each)) chosen.push_back(*numbers);
  const auto width = static_cast<std::int64_t>(chosen.size());
  Tensor matrix = detail::make_tensor(dtype, {rows_, width}, cpu());
  detail::visit_dtype(dtype, [&]<class T>() {
    for (std::int64_t j = 0; j < width; ++j) {
      const auto values = chosen[j].to_vector<T>();
      auto* to = detail::mutable_data<T>(matrix) + j;
      for (const T value : values) {
        *to = value;
        to += width;
      }
    }
  });
  return matrix;
}

Table read_csv(const std::string& path, const CsvOptions& options, Where where) {
  if (options.separator == options.quote)
    throw InvalidArgumentError("The separator and the quote of a CSV file must differ", where);
  const std::string text = read_text(path, where);
  io::refuse_all_but(io::Format::text, text, path, where);
  const CsvFields fields = split_fields(text, options, path, where);
  for (const auto& [name, type] : options.types) index_of(fields.names, name, where);
  const std::vector<std::string> names = options.columns.empty() ? fields.names : options.columns;
  const ColumnMaker maker(text, fields, options, path, where);
  std::vector<Table::Column> columns;
  columns.reserve(names.size());
  for (const std::string& name : names) columns.push_back(maker.make(index_of(fields.names, name, where)));
  return {static_cast<std::int64_t>(fields.lines.size()), names, std::move(columns)};
}

std::string read_text(const std::string& path, Where where) {
  constexpr std::size_t piece = 1 << 16;
  io::InputFile file(path, where);
  std::string text;
  for (std::size_t count = piece, size = 0; count == piece; size += count) {
    text.resize(size + piece);
    count = file.read(std::as_writable_bytes(std::span(text).subspan(size)));
    text.resize(size + count);
  }
  return text;
}

std::vector<std::string> read_lines(const std::string& path, Where where) {
  const std::string text = read_text(path, where);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const bool is_dos = end < text.size() && end > begin && text[end - 1] == '\r';
    lines.push_back(text.substr(begin, end - begin - (is_dos ? 1 : 0)));
    begin = end + 1;
  }
  return lines;
}

}  // namespace tapestry::data
