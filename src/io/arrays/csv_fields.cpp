#include "io/arrays/csv_fields.hpp"

#include <algorithm>

namespace tapestry::data {
namespace {

class Splitter {
 public:
  Splitter(std::string_view text, const CsvOptions& options, const std::string& path, Where where)
      : rest_(text), options_(options), path_(path), where_(where) {}

  CsvFields run() {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (rest_.starts_with(byte_order_mark)) rest_.remove_prefix(byte_order_mark.size());
    bool first = true;
    while (!rest_.empty()) {
      const std::int64_t line = line_;
      const std::vector<std::string_view> row = read_row();
      if (row.empty()) continue;
      if (first) name_columns(row);
      if (!first || !options_.header) add_row(row, line);
      first = false;
    }
    return std::move(fields_);
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(std::int64_t line, const Parts&... parts) const {
    throw DataLossError(detail::join(path_, ':', line, ": ", parts...), where_);
  }

  // Lines end with "\n", "\r\n" or "\r".
  bool at_line_end() const { return rest_.empty() || rest_[0] == '\n' || rest_[0] == '\r'; }
  void skip_line_end() {
    if (rest_.empty()) return;
    rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
    ++line_;
  }
  static std::int64_t line_ends(std::string_view text) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n' || (text[i] == '\r' && !text.substr(i).starts_with("\r\n"))) ++count;
    return count;
  }
  bool is_space(char c) const { return (c == ' ' || c == '\t') && c != options_.separator; }
  void skip_spaces() {
    while (!rest_.empty() && is_space(rest_[0])) rest_.remove_prefix(1);
  }

  /// Reads the fields of a line; none for a blank line.
  std::vector<std::string_view> read_row() {
    std::vector<std::string_view> row;
    skip_spaces();
    if (at_line_end()) {
      skip_line_end();
      return row;
    }
    while (true) {
      skip_spaces();
      row.push_back(rest_.starts_with(options_.quote) ? quoted(row.size()) : plain());
      if (at_line_end()) break;
      rest_.remove_prefix(1);  // the separator
    }
    skip_line_end();
    return row;
  }

  std::string_view plain() {
    std::size_t size = 0;
    while (size < rest_.size() && rest_[size] != options_.separator && rest_[size] != '\n' && rest_[size] != '\r')
      ++size;
    std::string_view field = rest_.substr(0, size);
    rest_.remove_prefix(size);
    while (!field.empty() && is_space(field.back())) field.remove_suffix(1);
    const auto& missing = options_.missing;
    const bool unknown = field.empty() || std::find(missing.begin(), missing.end(), field) != missing.end();
    return unknown ? std::string_view() : field;
  }

  std::string_view quoted(std::size_t column) {
    const std::int64_t start = line_;
    rest_.remove_prefix(1);
    const std::string_view from = rest_;
    std::size_t size = 0;
    bool doubled = false;
    while (true) {
      size = from.find(options_.quote, size);
      if (size == std::string_view::npos)
        refuse(start, "column ", column + 1, " begins with a quote that is never closed");
      if (!from.substr(size + 1).starts_with(options_.quote)) break;
      doubled = true;
      size += 2;
    }
    std::string_view field = from.substr(0, size);
    line_ += line_ends(field);
    rest_.remove_prefix(size + 1);
    skip_spaces();
    if (!at_line_end() && rest_[0] != options_.separator)
      refuse(line_, "column ", column + 1, " goes on behind its closing quote");
    return doubled ? undoubled(field) : field;
  }

  std::string_view undoubled(std::string_view field) {
    std::string& own = fields_.own.emplace_back();
    for (std::size_t i = 0; i < field.size(); ++i) {
      own += field[i];
      if (field[i] == options_.quote) ++i;
    }
    return own;
  }

  void name_columns(const std::vector<std::string_view>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      fields_.names.push_back(options_.header ? std::string(row[i]) : std::to_string(i));
      const auto last = fields_.names.end() - 1;
      if (std::find(fields_.names.begin(), last, *last) != last)
        throw InvalidArgumentError(detail::join(path_, " has two columns called '", *last, "'"), where_);
    }
    fields_.columns.resize(row.size());
  }

  void add_row(const std::vector<std::string_view>& row, std::int64_t line) {
    if (row.size() != fields_.columns.size())
      refuse(line, "the row has ", row.size(), " fields where the first has ", fields_.columns.size());
    for (std::size_t i = 0; i < row.size(); ++i) fields_.columns[i].push_back(row[i]);
    fields_.lines.push_back(line);
  }

  std::string_view rest_;
  const CsvOptions& options_;
  const std::string& path_;
  Where where_;
  std::int64_t line_ = 1;
  CsvFields fields_;
};

}  // namespace

CsvFields split_fields(std::string_view text, const CsvOptions& options, const std::string& path, Where where) {
  return Splitter(text, options, path, where).run();
}

}  // namespace tapestry::data
