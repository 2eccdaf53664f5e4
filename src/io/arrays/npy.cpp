#include "io/arrays/npy.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/make_tensor.hpp"
#include "io/arrays/elements.hpp"
#include "io/file.hpp"
#include "io/gzip.hpp"
#include "io/known_format.hpp"
#include "tapestry/data/arrays.hpp"

namespace tapestry {
namespace io {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
/// NumPy's own headers are shorter than 200 bytes; those of structured types, which we do not read, may be longer.
constexpr std::size_t longest_npy_header = 1 << 16;

struct Header {
  std::string type;  ///< "<f4"
  bool column_major = false;
  std::vector<std::int64_t> sizes;
};

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`: only the syntax of Python that NumPy writes.
class HeaderParser {
 public:
  HeaderParser(const ByteStream& from, std::string_view text) : from_(from), rest_(text) {}

  Header run() {
    Header header;
    int seen = 0;
    expect('{');
    while (!take('}')) {
      const std::string key = quoted();
      expect(':');
      const int bit = key == "descr" ? 1 : key == "fortran_order" ? 2 : key == "shape" ? 4 : 0;
      if (bit == 0 || (seen & bit) != 0) damaged();
      seen |= bit;
      if (bit == 1) header.type = quoted();
      if (bit == 2) header.column_major = truth();
      if (bit == 4) header.sizes = tuple();
      if (!take(',') && !next_is('}')) damaged();
    }
    skip_spaces();
    if (seen != 7 || !rest_.empty()) damaged();
    return header;
  }

 private:
  [[noreturn]] void damaged() const { refuse(from_, " has a header that is not NumPy's"); }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
  bool next_is(char c) {
    skip_spaces();
    return rest_.starts_with(c);
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) damaged();
  }
  bool take_word(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string quoted() {
    skip_spaces();
    if (rest_.starts_with('['))
      throw UnimplementedError(detail::join(from_.name(), " holds records of several fields, not numbers"),
                               from_.where());
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) damaged();
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) damaged();
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  bool truth() {
    skip_spaces();
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    damaged();
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> sizes;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (error != std::errc{} || size < 0) damaged();
      rest_.remove_prefix(end - rest_.data());
      take_word("L");  // Python 2's long numbers
      sizes.push_back(size);
      if (!take(',') && !next_is(')')) damaged();
    }
    return sizes;
  }

  const ByteStream& from_;
  std::string_view rest_;
};

std::string read_text(ByteStream& from, std::size_t size) {
  std::string text(size, '\0');
  if (from.read(std::as_writable_bytes(std::span(text))) < size) refuse(from, " stops within its header");
  return text;
}

Header read_header(ByteStream& from) {
  std::string start(magic.size() + 2, '\0');
  if (from.read(std::as_writable_bytes(std::span(start))) < start.size() || !start.starts_with(magic))
    refuse(from, " is not an NPY file: it does not start with \"\\x93NUMPY\"", known_as(Format::npy, from.name()));
  const int version = static_cast<unsigned char>(start[magic.size()]);
  if (version < 1 || version > 3)
    throw UnimplementedError(detail::join(from.name(), " is an NPY file of version ", version, ", not of 1 to 3"),
                             from.where());
  std::size_t size = 0;
  const std::string digits = read_text(from, version == 1 ? 2 : 4);
  for (std::size_t i = digits.size(); i > 0; --i) size = size << 8 | static_cast<unsigned char>(digits[i - 1]);
  if (size > longest_npy_header) refuse(from, " claims a header of ", size, " bytes");
  return HeaderParser(from, read_text(from, size)).run();
}

FileElements elements_of(const ByteStream& from, const std::string& type) {
  FileElements elements;
  std::size_t size = 0;
  const char* end = type.data() + type.size();
  const bool is_simple = type.size() >= 3 && std::string_view("<>|=").find(type[0]) != std::string_view::npos &&
                         std::string_view("biuf").find(type[1]) != std::string_view::npos;
  if (is_simple && std::from_chars(type.data() + 2, end, size).ptr == end)
    elements = file_elements(type[1], size, type[0] == '>' ? std::endian::big : std::endian::little);
  if (elements.dtype == DType::unknown)
    throw UnimplementedError(
        detail::join(from.name(), " holds elements of NumPy's type '", type, "', which no dtype can hold"),
        from.where());
  return elements;
}

/// The row-major form of an array that is stored column-major. `reversed` has its elements as they are stored: it is
/// row-major itself, with the sizes in reverse order.
Tensor transposed(const Tensor& reversed, const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> strides{};
  std::int64_t stride = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(shape.sizes()[axis], 1);
  }
  const std::span used(strides.data(), shape.rank());
  return detail::on_host(detail::make_view(reversed, shape, used));
}

}  // namespace

Tensor read_npy(ByteStream& from) {
  const Header header = read_header(from);
  const FileElements elements = elements_of(from, header.type);
  if (header.sizes.size() > Shape::max_rank)
    throw UnimplementedError(detail::join(from.name(), " holds an array of ", header.sizes.size(),
                                          " dimensions; tensors have at most ", Shape::max_rank),
                             from.where());
  if (claimed_bytes(header.sizes, elements.size) < 0) refuse(from, " claims more than 2^63 bytes of data");
  const Shape shape(header.sizes);
  if (!header.column_major || shape.rank() < 2) return read_elements(from, elements, shape);
  return transposed(read_elements(from, elements, Shape(std::vector(header.sizes.rbegin(), header.sizes.rend()))),
                    shape);
}

std::string npy_header(const Tensor& tensor, std::string_view name, Where where) {
  static_assert(std::endian::native == std::endian::little, "the headers below say so");
  constexpr const char* types[] = {"", "|b1", "|u1", "<i4", "<i8", "<f2", "", "<f4", "<f8"};
  if (tensor.dtype() == bfloat16)
    throw UnimplementedError(detail::join("NumPy has no bfloat16, which is the dtype of ", name,
                                          "; cast it to float32, or save it as .safetensors"),
                             where);
  std::string shape;
  for (const std::int64_t size : tensor.shape().sizes()) shape += detail::join(size, ", ");
  if (tensor.rank() > 1) shape.resize(shape.size() - 2);
  if (tensor.rank() == 1) shape.pop_back();
  std::string text = detail::join("{'descr': '", types[static_cast<std::size_t>(tensor.dtype())],
                                  "', 'fortran_order': False, 'shape': (", shape, "), }");
  // The elements begin at a multiple of 64 bytes, so that they can be mapped into memory.
  const std::size_t start = magic.size() + 4;
  text.append(63 - (start + text.size()) % 64, ' ');
  text += '\n';
  const auto size = text.size();
  return std::string(magic) + '\1' + '\0' + static_cast<char>(size & 255) + static_cast<char>(size >> 8) + text;
}

}  // namespace io

namespace data {

Tensor read_npy(const std::string& path, Where where) {
  io::InputFile file(path, where);
  return io::read_npy(file);
}

void write_npy(const std::string& path, const Tensor& tensor, Where where) {
  const Tensor host = io::saved_form(tensor, path, where);
  const std::string header = io::npy_header(host, path, where);
  const std::array chunks{std::as_bytes(std::span(header)), io::bytes_of(host)};
  io::write_file(path, chunks, where);
}

}  // namespace data
}  // namespace tapestry
