/// IDX, the format of the MNIST files: two zero bytes, a byte for the element type, a byte for the number of
/// dimensions, their sizes as 32-bit numbers, then the elements row by row. All numbers are big-endian.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "core/make_tensor.hpp"
#include "io/gzip.hpp"
#include "tapestry/data.hpp"

namespace tapestry::data {
namespace {

/// The number that starts at `bytes`.
template <class T>
T big_endian(const std::byte* bytes) {
  std::array<std::byte, sizeof(T)> own;
  std::copy_n(bytes, sizeof(T), own.begin());
  if constexpr (std::endian::native == std::endian::little) std::reverse(own.begin(), own.end());
  return std::bit_cast<T>(own);
}

/// What a file's type code stands for: `size` bytes per element, read as elements of `dtype`.
struct Type {
  std::size_t size = 0;
  DType dtype = DType::unknown;
  void (*convert)(const std::byte* from, std::int64_t count, void* to) = nullptr;
};

template <class File, class Element>
constexpr Type type_of() {
  return {sizeof(File), dtype_of<Element>(), [](const std::byte* from, std::int64_t count, void* to) {
            for (std::int64_t i = 0; i < count; ++i)
              // NOLINTNEXTLINE(bugprone-signed-char-misuse): the file's signed bytes are numbers
              static_cast<Element*>(to)[i] = big_endian<File>(from + i * std::int64_t{sizeof(File)});
          }};
}

Type type_of_code(int code) {
  switch (code) {
    case 0x08:
      return type_of<std::uint8_t, std::uint8_t>();
    case 0x09:
      return type_of<std::int8_t, std::int32_t>();
    case 0x0B:
      return type_of<std::int16_t, std::int32_t>();
    case 0x0C:
      return type_of<std::int32_t, std::int32_t>();
    case 0x0D:
      return type_of<float, float>();
    case 0x0E:
      return type_of<double, double>();
    default:
      return {};
  }
}

class Reader {
 public:
  Reader(const std::string& path, Where where) : file_(path, where), where_(where) {}

  Tensor read() {
    read_header();
    Tensor tensor = detail::make_tensor(type_.dtype, shape_, cpu());
    const std::int64_t count = shape_.size();
    if (type_.dtype == uint8) {
      read_elements(std::as_writable_bytes(std::span(detail::mutable_data<std::uint8_t>(tensor), std::size_t(count))));
    } else {
      std::vector<std::byte> bytes(static_cast<std::size_t>(count) * type_.size);
      read_elements(bytes);
      type_.convert(bytes.data(), count, tensor.impl().data);
    }
    return tensor;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw DataLossError(detail::join(file_.path().string(), parts...), where_);
  }

  void read_header() {
    std::array<std::byte, 4> magic{};
    if (file_.read(magic) < magic.size()) refuse(" is not an IDX file: it has fewer than 4 bytes");
    type_ = type_of_code(std::to_integer<int>(magic[2]));
    const int rank = std::to_integer<int>(magic[3]);
    if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type_.size == 0 || rank > Shape::max_rank)
      refuse(" is not an IDX file: it starts with the bytes ", std::to_integer<int>(magic[0]), ' ',
             std::to_integer<int>(magic[1]), ' ', std::to_integer<int>(magic[2]), ' ', rank,
             ", but 0, 0, a type (8, 9, 11, 12, 13 or 14) and a rank of at most ", Shape::max_rank, " are due");

    std::vector<std::byte> sizes(static_cast<std::size_t>(rank) * 4);
    if (file_.read(sizes) < sizes.size()) refuse(" stops within the sizes of its ", rank, " dimensions");
    // Checked before anything is allocated, so that a header cannot ask for more memory than its file is worth. A size
    // of 0 does not excuse the others.
    std::int64_t bytes = static_cast<std::int64_t>(type_.size), claimed = bytes;
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t size = big_endian<std::uint32_t>(sizes.data() + 4 * axis);
      if (__builtin_mul_overflow(claimed, std::max<std::int64_t>(size, 1), &claimed))
        refuse(" claims more than 2^63 bytes of data");
      bytes *= size;
      shape_.push_back(size);
    }
    if (bytes > file_.most_bytes())
      refuse(" claims ", bytes, " bytes of data for its shape ", shape_, ", but cannot hold more than ",
             file_.most_bytes());
  }

  void read_elements(std::span<std::byte> bytes) {
    const std::size_t count = file_.read(bytes);
    if (count < bytes.size())
      refuse(" stops early: its shape ", shape_, " needs ", bytes.size(), " bytes of data, but there are ", count);
    // For a packed file, reaching the end also compares the checksum.
    std::byte more{};
    if (file_.read({&more, 1}) > 0)
      refuse(" goes on behind the ", bytes.size(), " bytes of data that its shape ", shape_, " needs");
  }

  io::InputFile file_;
  Where where_;
  Type type_;
  Shape shape_;
};

}  // namespace

Tensor read_idx(const std::string& path, Where where) { return Reader(path, where).read(); }

}  // namespace tapestry::data
