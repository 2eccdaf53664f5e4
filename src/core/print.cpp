/// Printing as NumPy 2.4 does in `str(array)`: numpy/_core/arrayprint.py is the reference for every rule below.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <ostream>
#include <span>
#include <vector>

#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {
namespace {

std::mutex options_mutex;
PrintOptions global_options;

template <class T>
constexpr bool is_real = std::is_floating_point_v<T> || is_float16<T>;
/// The type in which a number is compared.
template <class T>
using Compared = std::conditional_t<is_float16<T>, float, T>;

/// Numbers of this magnitude or more are printed with an exponent: the type may not hold all their whole digits.
template <class T>
constexpr Compared<T> exact_limit = static_cast<Compared<T>>(is_float16<T>              ? 1e3
                                                             : std::is_same_v<T, float> ? 1e6
                                                                                        : 1e16);

// --- One number ------------------------------------------------------------------------------------------------------

/// to_chars into a string. The longest text is a double of 309 digits before the point and `precision` behind it.
template <class T, class... Precision>
std::string to_text(T value, std::chars_format format, Precision... precision) {
  std::array<char, 800> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format, precision...);
  if (error != std::errc()) throw InternalError("A number does not fit its print buffer");
  return {buffer.data(), end};
}

/// "d.ddde+xx": the shortest digits that read back as `value`.
template <class T>
std::string shortest_text(T value) {
  if constexpr (is_float16<T>) {
    constexpr int most = 4;  // behind the first
    for (int decimals = 0;; ++decimals) {
      std::string text = to_text(static_cast<float>(value), std::chars_format::scientific, decimals);
      double back = 0;
      std::from_chars(text.data(), text.data() + text.size(), back);
      if (T(back).bits() == value.bits() || decimals == most) return text;
    }
  } else {
    return to_text(value, std::chars_format::scientific);
  }
}

/// A number as text, divided where a column is aligned: `left` ends before the point, `right` starts with it.
struct Word {
  std::string left, right;
};

/// The shortest digits that read back as `value`. If more than `precision` of them are behind the point, it is the
/// exact value rounded to `precision` digits there, without trailing zeros.
template <class T>
Word fixed_word(T value, int precision) {
  // The digits are laid out here because to_chars prints 1e23 in fixed notation as 99999999999999991611392.
  std::string text = shortest_text(value);
  if (text.front() == '-') text.erase(0, 1);
  const std::size_t mark = text.find('e');
  std::string digits = text.substr(0, mark);
  if (digits.size() > 1) digits.erase(1, 1);
  const int exponent = std::atoi(text.c_str() + mark + 1);
  const int decimals = std::max(static_cast<int>(digits.size()) - 1 - exponent, 0);

  if (decimals > precision) {
    digits = to_text(static_cast<double>(std::abs(value)), std::chars_format::fixed, precision);
    if (precision > 0) digits.erase(digits.find('.'), 1);
  } else {
    if (exponent < 0) digits.insert(digits.begin(), -exponent, '0');
    const int whole = std::max(exponent, 0) + 1;
    if (whole > static_cast<int>(digits.size())) digits.append(static_cast<std::size_t>(whole) - digits.size(), '0');
  }
  const std::size_t point = digits.size() - std::min(decimals, precision);
  std::string right = '.' + digits.substr(point);
  right.erase(right.find_last_not_of('0') + 1);
  return {(std::signbit(value) ? "-" : "") + digits.substr(0, point), right};
}

/// The number of digits behind the point in the scientific form of a value: at most `precision`, without trailing
/// zeros.
template <class T>
int scientific_decimals(T value, int precision) {
  std::string text = shortest_text(value);
  text.erase(text.find('e'));
  const std::size_t point = text.find('.');
  if (point == std::string::npos || precision == 0) return 0;
  if (static_cast<int>(text.size() - point) - 1 > precision) {
    text = to_text(static_cast<double>(value), std::chars_format::scientific, precision);
    text.erase(text.find('e'));
    text.erase(text.find_last_not_of('0') + 1);
  }
  return static_cast<int>(text.size() - point) - 1;
}

/// "-1.250e-05" for 3 decimals; the exponent has two digits or more.
template <class T>
Word scientific_word(T value, int decimals) {
  std::string text = to_text(static_cast<double>(value), std::chars_format::scientific, decimals);
  if (decimals == 0) text.insert(text.find('e'), 1, '.');
  const std::size_t point = text.find('.');
  return {text.substr(0, point), text.substr(point)};
}

// --- All numbers of a tensor, padded to one width --------------------------------------------------------------------

/// Whether numbers are printed with exponents: the largest is very large, the smallest very small, or both are far
/// apart.
template <class T>
bool wants_exponents(std::span<const T> finite, bool suppress) {
  using C = Compared<T>;
  C largest = 0, smallest = std::numeric_limits<C>::infinity();
  for (const T value : finite) {
    if (value == 0) continue;
    largest = std::max(largest, std::abs(C(value)));
    smallest = std::min(smallest, std::abs(C(value)));
  }
  if (largest == 0) return false;
  return largest >= std::min(exact_limit<T>, C(1e8)) ||
         (!suppress && (smallest < C(1e-4) || largest / smallest > C(1000)));
}

/// Pads the exponents with zeros to a common number of digits.
void align_exponents(std::vector<Word>& words) {
  const auto length = [](const Word& word) { return word.right.size() - word.right.find('e'); };
  std::size_t longest = 0;
  for (const Word& word : words) longest = std::max(longest, length(word));
  for (Word& word : words) word.right.insert(word.right.find('e') + 2, longest - length(word), '0');
}

template <class T>
std::vector<std::string> float_words(std::span<const T> values, const PrintOptions& options) {
  std::vector<T> finite;
  bool minus_infinity = false;
  for (const T value : values) {
    if (std::isfinite(value)) finite.push_back(value);
    if (value == -std::numeric_limits<Compared<T>>::infinity()) minus_infinity = true;
  }

  std::vector<Word> words;
  words.reserve(finite.size());
  if (wants_exponents<T>(finite, options.suppress)) {
    int decimals = 0;
    for (const T value : finite) decimals = std::max(decimals, scientific_decimals(value, options.precision));
    for (const T value : finite) words.push_back(scientific_word(value, decimals));
    align_exponents(words);
  } else {
    for (const T value : finite) words.push_back(fixed_word(value, options.precision));
  }

  std::size_t left = 0, right = 1;
  for (const Word& word : words) {
    left = std::max(left, word.left.size());
    right = std::max(right, word.right.size());
  }
  if (finite.size() < values.size()) left = std::max(left + right, minus_infinity ? 4UL : 3UL) - right;

  std::vector<std::string> padded;
  padded.reserve(values.size());
  auto word = words.begin();
  for (const T value : values) {
    if (std::isfinite(value)) {
      padded.push_back(std::string(left - word->left.size(), ' ') + word->left + word->right +
                       std::string(right - word->right.size(), ' '));
      ++word;
    } else {
      const std::string text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
      padded.push_back(std::string(left + right - text.size(), ' ') + text);
    }
  }
  return padded;
}

template <class T>
std::vector<std::string> padded_words(std::span<const T> values, const PrintOptions& options) {
  if constexpr (is_real<T>) {
    return float_words(values, options);
  } else {
    std::vector<std::string> words;
    words.reserve(values.size());
    std::size_t width = 0;
    for (const T value : values) {
      if constexpr (std::is_same_v<T, bool>) {
        words.emplace_back(value ? "True" : "False");
        width = 5;
      } else {
        words.push_back(std::to_string(value));
        width = std::max(width, words.back().size());
      }
    }
    for (std::string& word : words) word.insert(0, width - word.size(), ' ');
    return words;
  }
}

/// A 0-d tensor prints as a Python number does: "0.1", "1e-05", "True".
template <class T>
std::string scalar_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "True" : "False";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    if (value != 0 && (std::abs(value) < 1e-4 || std::abs(value) >= exact_limit<T>)) return shortest_text(value);
    const Word word = fixed_word(value, std::numeric_limits<int>::max());
    return word.left + (word.right == "." ? ".0" : word.right);
  }
}

// --- Brackets and lines ----------------------------------------------------------------------------------------------

/// Chooses the elements that are shown, and lays out their words in brackets and lines.
class Layout {
 public:
  Layout(const Shape& shape, const PrintOptions& options)
      : shape_(shape), options_(options), summarised_(shape.size() > options.threshold) {}

  /// The elements that are shown, in the order in which `text` takes their words.
  template <class T>
  std::vector<T> shown(const T* data, std::span<const std::int64_t> strides) const {
    std::vector<T> values;
    collect(data, strides, 0, values);
    return values;
  }

  /// `words` are the shown elements, padded to one width.
  std::string text(std::span<const std::string> words) {
    next_ = words.begin();
    return bracket(0, " ", options_.line_width);
  }

 private:
  bool is_cut(int axis) const { return summarised_ && shape_[axis] > 2 * std::int64_t{options_.edge_items}; }

  /// The indices shown along an axis; -1 stands for the "...".
  std::vector<std::int64_t> indices(int axis) const {
    std::vector<std::int64_t> list;
    const std::int64_t size = shape_[axis];
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(axis) && i == options_.edge_items) {
        list.push_back(-1);
        i = size - options_.edge_items;
      }
      list.push_back(i);
    }
    return list;
  }

  template <class T>
  void collect(const T* data, std::span<const std::int64_t> strides, int axis, std::vector<T>& values) const {
    if (axis == shape_.rank()) return values.push_back(*data);
    for (const std::int64_t i : indices(axis))
      if (i >= 0) collect(data + i * strides[axis], strides, axis + 1, values);
  }

  /// The text, in brackets, of the elements at one index of each axis before this one. Every line but the first begins
  /// with `indent`. A line has `width` characters, and each axis reserves one of them for its closing bracket.
  std::string bracket(int axis, const std::string& indent, int width) {
    std::string text;
    if (axis + 1 == shape_.rank()) {
      text = row(axis, indent, width - 1);
    } else {
      const std::string gap(shape_.rank() - 1 - axis, '\n');
      for (const std::int64_t i : indices(axis)) {
        if (!text.empty()) text += gap + indent;
        text += i < 0 ? "..." : bracket(axis + 1, indent + ' ', width - 1);
      }
    }
    return '[' + text + ']';
  }

  /// The elements of the last axis, in lines of at most `width` characters. A longer word has a line of its own.
  std::string row(int axis, const std::string& indent, int width) {
    std::string text, line = indent;
    for (const std::int64_t i : indices(axis)) {
      const std::string& word = i < 0 ? ellipsis_ : *next_++;
      if (line.size() + word.size() > static_cast<std::size_t>(std::max(width, 0)) && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
        line = indent;
      }
      line += word + ' ';
    }
    line.pop_back();
    return (text + line).substr(indent.size());
  }

  const Shape& shape_;
  const PrintOptions& options_;
  bool summarised_;
  std::span<const std::string>::iterator next_;
  const std::string ellipsis_ = "...";
};

template <class T>
std::string array_text(const Tensor& tensor, const PrintOptions& options) {
  const Shape& shape = tensor.shape();
  const auto* data = static_cast<const T*>(tensor.impl().data);
  if (shape.rank() == 0) return scalar_text(data[0]);
  if (shape.size() == 0) return "[]";
  Layout layout(shape, options);
  std::vector<std::string> words;
  if constexpr (std::is_same_v<T, bool>) {
    // std::vector<bool> is no array of bools.
    const auto bytes = layout.shown(reinterpret_cast<const std::uint8_t*>(data), tensor.strides());
    words = padded_words(std::span(reinterpret_cast<const bool*>(bytes.data()), bytes.size()), options);
  } else {
    words = padded_words(std::span<const T>(layout.shown(data, tensor.strides())), options);
  }
  return layout.text(words);
}

// --- describe() ------------------------------------------------------------------------------------------------------

std::string short_number(double value) {
  std::array<char, 32> buffer;
  std::snprintf(buffer.data(), buffer.size(), "%.4g", value);
  return buffer.data();
}

/// " min -0.42 max 2.8 mean 0.13" of the elements that are not NaN, and " nan 2" if two are NaN.
template <class T>
std::string statistics(std::span<const T> values) {
  T smallest{}, largest{};
  double sum = 0;
  std::int64_t count = 0;
  for (const T value : values) {
    if (value != value) continue;
    if (count++ == 0) smallest = largest = value;
    smallest = std::min(smallest, value);
    largest = std::max(largest, value);
    sum += static_cast<double>(value);
  }
  std::string text;
  if (count > 0) {
    const auto exact = [](T value) {
      if constexpr (is_real<T>) return short_number(value);
      return std::to_string(value);
    };
    text = detail::join(" min ", exact(smallest), " max ", exact(largest), " mean ",
                        short_number(sum / static_cast<double>(count)));
  }
  const std::int64_t missing = std::ssize(values) - count;
  return missing > 0 ? detail::join(text, " nan ", missing) : text;
}

}  // namespace

void set_print_options(const PrintOptions& options, Where where) {
  if (options.precision < 0 || options.threshold < 0 || options.edge_items < 1 || options.line_width < 1)
    throw InvalidArgumentError(
        detail::join("Print options need precision >= 0, threshold >= 0, edge_items >= 1 and line_width >= 1, but got ",
                     options.precision, ", ", options.threshold, ", ", options.edge_items, " and ", options.line_width),
        where);
  const std::lock_guard lock(options_mutex);
  global_options = options;
}

PrintOptions print_options() {
  const std::lock_guard lock(options_mutex);
  return global_options;
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  if (!tensor) return out << "None";
  if (tensor.is_symbolic())
    return out << "Tensor(shape=" << tensor.shape() << ", dtype=" << to_string(tensor.dtype()) << ')';
  const PrintOptions options = print_options();
  // A view is not copied, because only the corners of a large tensor are read.
  const Tensor host = tensor.device().is_cpu() ? detail::computed(tensor) : detail::on_host(tensor);
  return out << detail::visit_dtype(tensor.dtype(), [&]<class T>() { return array_text<T>(host, options); });
}

std::string Tensor::describe() const {
  if (!*this) return "None";
  const std::string head = detail::join(dtype(), shape(), ' ', to_string(device()));
  if (is_symbolic()) return head + " symbolic";
  if (size() == 0) return head + " empty";
  const Tensor host = detail::on_host(*this);
  return head + detail::visit_dtype(dtype(), [&]<class T>() {
           const auto* data = static_cast<const T*>(host.impl().data);
           const std::span values(data, static_cast<std::size_t>(size()));
           if (rank() == 0) return ' ' + scalar_text(data[0]);
           if constexpr (std::is_same_v<T, bool>) {
             const auto count = std::count(values.begin(), values.end(), true);
             return detail::join(' ', count, " of ", values.size(), " true");
           } else {
             return statistics(values);
           }
         });
}

}  // namespace tapestry
