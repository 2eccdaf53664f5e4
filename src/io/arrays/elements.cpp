#include "io/arrays/elements.hpp"

#include <algorithm>
#include <array>

#include "core/make_tensor.hpp"

namespace tapestry::io {
namespace {

/// The number that starts at `bytes`.
template <class T, std::endian order>
T number_at(const std::byte* bytes) {
  std::array<std::byte, sizeof(T)> own;
  std::copy_n(bytes, sizeof(T), own.begin());
  if constexpr (std::endian::native != order) std::reverse(own.begin(), own.end());
  return std::bit_cast<T>(own);
}

/// A truth value in a file. A byte other than 0 and 1 must not be copied into a bool.
struct Truth {
  std::uint8_t bits;
  explicit operator bool() const { return bits != 0; }
};

template <class File, class Element, std::endian order>
constexpr FileElements elements() {
  if constexpr (std::is_same_v<File, Element> && (order == std::endian::native || sizeof(File) == 1))
    return {sizeof(File), dtype_of<Element>(), nullptr};
  return {sizeof(File), dtype_of<Element>(), [](const std::byte* from, std::int64_t count, void* to) {
            for (std::int64_t i = 0; i < count; ++i) {
              const std::byte* place = from + static_cast<std::size_t>(i) * sizeof(File);
              // NOLINTNEXTLINE(bugprone-signed-char-misuse): the file's signed bytes are numbers
              static_cast<Element*>(to)[i] = static_cast<Element>(number_at<File, order>(place));
            }
          }};
}

template <std::endian order>
FileElements elements_of(char kind, std::size_t size) {
  switch (kind << 8 | static_cast<int>(std::min<std::size_t>(size, 255))) {
    case 'b' << 8 | 1:
      return elements<Truth, bool, order>();
    case 'u' << 8 | 1:
      return elements<std::uint8_t, std::uint8_t, order>();
    case 'u' << 8 | 2:
      return elements<std::uint16_t, std::int32_t, order>();
    case 'u' << 8 | 4:
      return elements<std::uint32_t, std::int64_t, order>();
    case 'i' << 8 | 1:
      return elements<std::int8_t, std::int32_t, order>();
    case 'i' << 8 | 2:
      return elements<std::int16_t, std::int32_t, order>();
    case 'i' << 8 | 4:
      return elements<std::int32_t, std::int32_t, order>();
    case 'i' << 8 | 8:
      return elements<std::int64_t, std::int64_t, order>();
    case 'f' << 8 | 2:
      return elements<float16_t, float16_t, order>();
    case 'B' << 8 | 2:
      return elements<bfloat16_t, bfloat16_t, order>();
    case 'f' << 8 | 4:
      return elements<float, float, order>();
    case 'f' << 8 | 8:
      return elements<double, double, order>();
    default:
      return {};
  }
}

/// Fills the tensor from the stream, as far as that goes, and returns how many bytes were read.
std::int64_t fill(ByteStream& from, const FileElements& elements, const Tensor& tensor) {
  auto* to = detail::mutable_data<std::byte>(tensor);
  const std::int64_t count = tensor.size();
  if (!elements.convert) {
    const auto bytes = static_cast<std::size_t>(count) * elements.size;
    return static_cast<std::int64_t>(from.read({to, bytes}));
  }
  std::array<std::byte, 1 << 14> piece;
  const auto at_once = static_cast<std::int64_t>(piece.size() / elements.size);
  std::int64_t total = 0;
  for (std::int64_t done = 0; done < count; done += at_once) {
    const std::int64_t next = std::min(at_once, count - done);
    const auto bytes = static_cast<std::size_t>(next) * elements.size, read = from.read({piece.data(), bytes});
    total += static_cast<std::int64_t>(read);
    if (read < bytes) break;
    elements.convert(piece.data(), next, to + static_cast<std::size_t>(done) * size_of(elements.dtype));
  }
  return total;
}

}  // namespace

FileElements file_elements(char kind, std::size_t size, std::endian order) {
  return order == std::endian::big ? elements_of<std::endian::big>(kind, size)
                                   : elements_of<std::endian::little>(kind, size);
}

std::int64_t claimed_bytes(std::span<const std::int64_t> sizes, std::size_t element_size) {
  auto bytes = static_cast<std::int64_t>(element_size), claimed = bytes;
  for (const std::int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(claimed, std::max<std::int64_t>(size, 1), &claimed)) return -1;
    bytes *= size;
  }
  return bytes;
}

Tensor read_elements(ByteStream& from, const FileElements& elements, const Shape& shape) {
  const std::int64_t bytes = claimed_bytes(shape.sizes(), elements.size);
  if (bytes < 0) refuse(from, " claims more than 2^63 bytes of data");
  if (bytes > from.most_bytes())
    refuse(from, " claims ", bytes, " bytes of data for its shape ", shape, ", but cannot hold more than ",
           from.most_bytes());
  Tensor tensor = detail::make_tensor(elements.dtype, shape, cpu());
  const std::int64_t count = fill(from, elements, tensor);
  if (count < bytes)
    refuse(from, " stops early: its shape ", shape, " needs ", bytes, " bytes of data, but there are ", count);
  // Reading the end of packed data also verifies their checksum.
  std::byte more{};
  if (from.read({&more, 1}) > 0)
    refuse(from, " goes on behind the ", bytes, " bytes of data that its shape ", shape, " needs");
  return tensor;
}

Tensor saved_form(const Tensor& tensor, std::string_view name, Where where) {
  if (!tensor) throw InvalidArgumentError(detail::join("There is no tensor to save as ", name), where);
  if (tensor.is_symbolic())
    throw FailedPreconditionError(detail::join("A symbolic tensor has no elements to save as ", name), where);
  return detail::on_host(tensor);
}

std::span<const std::byte> bytes_of(const Tensor& host) {
  return {detail::mutable_data<const std::byte>(host), detail::nbytes(host)};
}

}  // namespace tapestry::io
