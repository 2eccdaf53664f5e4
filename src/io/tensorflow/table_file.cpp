#include "io/tensorflow/table_file.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "io/file.hpp"
#include "io/tensorflow/frames.hpp"
#include "tapestry/error.hpp"
#include "tapestry/op.hpp"

namespace tapestry::io {
namespace {

constexpr std::int64_t whole_line = -2, line_number = -1;

template <class T>
T attr_or(const NodeDef& node, std::string_view name, T otherwise) {
  const T* value = attr_of<T>(node, name);
  return value ? *value : otherwise;
}

/// What the attributes of the node tell.
struct Columns {
  explicit Columns(const NodeDef& node)
      : key(attr_or<std::int64_t>(node, "key_index", whole_line - 1)),
        value(attr_or<std::int64_t>(node, "value_index", whole_line - 1)),
        most_lines(attr_or<std::int64_t>(node, "vocab_size", -1)),
        offset(attr_or<std::int64_t>(node, "offset", 0)) {
    const auto text = attr_or<std::string>(node, "delimiter", "\t");
    if (key < whole_line || value < whole_line || text.size() != 1)
      throw InvalidArgumentError(detail::join("'", node.name, "': a table of a file has columns from -2 on, not ", key,
                                              " and ", value, ", and a delimiter of one character, not '", text, "'"));
    delimiter = text.front();
  }

  std::int64_t key, value, most_lines, offset;
  char delimiter = '\t';
};

/// Reads the lines of a file one after the other.
class Lines {
 public:
  explicit Lines(std::string_view bytes) : bytes_(bytes) {}

  bool next() {
    if (place_ == bytes_.size()) return false;
    const std::size_t end = std::min(bytes_.find('\n', place_), bytes_.size());
    line_ = bytes_.substr(place_, end - place_);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    place_ = std::min(end + 1, bytes_.size());
    return true;
  }
  std::string_view line() const { return line_; }
  std::size_t place() const { return place_; }

 private:
  std::string_view bytes_, line_;
  std::size_t place_ = 0;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(blanks);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// Whether a whole text is a number, which then is the value.
template <class T>
bool parse(std::string_view text, T& value) {
  text = trimmed(text);
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.starts_with('-')) return false;
  std::string digits = is_negative ? "-" : "";
  const auto whole = [&](auto... format) {
    digits += text;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value, format...);
    return error == std::errc() && end == last;
  };
  if constexpr (std::is_floating_point_v<T>)
    if (text.starts_with("0x") || text.starts_with("0X")) {
      text.remove_prefix(2);
      return whole(std::chars_format::hex);
    }
  return whole();
}

/// The begin of a text, for messages.
std::string_view shown(std::string_view text) { return text.substr(0, 100); }

template <class T, class Read = T>
Tensor numbers_as(const std::vector<std::string>& fields, const char* type) {
  std::vector<T> numbers;
  numbers.reserve(fields.size());
  for (const std::string& each : fields) {
    Read value{};
    if (!parse(each, value))
      throw InvalidArgumentError(
          detail::join("Field ", shown(each), " in line ", numbers.size(), " is not a valid ", type, "."));
    numbers.push_back(static_cast<T>(value));
  }
  return tensor(numbers);
}

}  // namespace

TableFields read_table_file(const NodeDef& initializer, const std::filesystem::path& file, std::int64_t most_bytes) {
  const Columns columns(initializer);
  const std::string bytes = bytes_of_file(file, most_bytes, {}), name = file.string();
  TableFields fields;
  std::int64_t number = 0;
  Lines lines{bytes};
  for (; lines.next(); ++number) {
    if (number == columns.most_lines) break;
    const std::string_view line = lines.line();
    if (line.empty())
      throw InvalidArgumentError(
          detail::join("Invalid content in ", name, ": empty line found at position ", lines.place(), "."));
    if (number > 0 && columns.offset > std::numeric_limits<std::int64_t>::max() - number)
      throw InvalidArgumentError(detail::join("'", initializer.name, "': the numbers of lines overflow int64"));
    const auto field = [&](std::int64_t index) {
      if (index == line_number) return std::to_string(columns.offset + number);
      std::string_view rest = line;
      for (std::int64_t i = 0; i < index; ++i) {
        const std::size_t end = rest.find(columns.delimiter);
        if (end == std::string_view::npos)
          throw InvalidArgumentError(detail::join("Invalid number of columns in ", name, " line ", number, " (",
                                                  shown(line), ") : expected at least ",
                                                  std::max(columns.key, columns.value) + 1, " got ",
                                                  std::count(line.begin(), line.end(), columns.delimiter) + 1));
        rest.remove_prefix(end + 1);
      }
      return std::string(index == whole_line ? rest : rest.substr(0, rest.find(columns.delimiter)));
    };
    fields.keys.push_back(field(columns.key));
    fields.values.push_back(field(columns.value));
  }
  if (number < columns.most_lines)
    throw InvalidArgumentError(
        detail::join("Invalid vocab_size in ", name, ": expected ", columns.most_lines, " but got ", number));
  if (number == 0) throw OutOfRangeError(detail::join("'", initializer.name, "': ", name, " has no lines"));
  return fields;
}

Tensor numbers_of_fields(const NodeDef& initializer, const std::vector<std::string>& fields, DType dtype) {
  if (dtype == int64) return numbers_as<std::int64_t>(fields, "int64");
  if (dtype == int32) return numbers_as<std::int32_t>(fields, "int32");
  // 1e99 is infinite.
  if (dtype == float32) return numbers_as<float, double>(fields, "float");
  if (dtype == float64) return numbers_as<double>(fields, "double");
  throw UnimplementedError(
      detail::join("'", initializer.name, "' fills a table of ", to_string(dtype), " from a file"));
}

void refuse_second_value(const std::string& key, const std::string& first, const std::string& second) {
  throw FailedPreconditionError(detail::join("HashTable has different value for same key. Key ", key, " has ", first,
                                             " and trying to add value ", second));
}

}  // namespace tapestry::io
