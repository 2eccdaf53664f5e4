/// IDX, the format of the MNIST files: two zero bytes, a byte for the element type, a byte for the number of
/// dimensions, their sizes as 32-bit numbers, then the elements row by row. All numbers are big-endian.

#include <array>

#include "io/arrays/elements.hpp"
#include "io/gzip.hpp"
#include "io/known_format.hpp"
#include "tapestry/data/arrays.hpp"

namespace tapestry::data {
namespace {

io::FileElements elements_of_code(int code) {
  constexpr auto order = std::endian::big;
  switch (code) {
    case 0x08:
      return io::file_elements('u', 1, order);
    case 0x09:
      return io::file_elements('i', 1, order);
    case 0x0B:
      return io::file_elements('i', 2, order);
    case 0x0C:
      return io::file_elements('i', 4, order);
    case 0x0D:
      return io::file_elements('f', 4, order);
    case 0x0E:
      return io::file_elements('f', 8, order);
    default:
      return {};
  }
}

std::int64_t size_at(const std::byte* bytes) {
  std::int64_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | std::to_integer<std::int64_t>(bytes[i]);
  return size;
}

}  // namespace

Tensor read_idx(const std::string& path, Where where) {
  io::InputFile file(path, where);
  std::array<std::byte, 4> magic{};
  if (file.read(magic) < magic.size())
    io::refuse(file, " is not an IDX file: it has fewer than 4 bytes", io::known_as(io::Format::unknown, path));
  const io::FileElements elements = elements_of_code(std::to_integer<int>(magic[2]));
  const int rank = std::to_integer<int>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || elements.size == 0 || rank > Shape::max_rank)
    io::refuse(file, " is not an IDX file: it starts with the bytes ", std::to_integer<int>(magic[0]), ' ',
               std::to_integer<int>(magic[1]), ' ', std::to_integer<int>(magic[2]), ' ', rank,
               ", but 0, 0, a type (8, 9, 11, 12, 13 or 14) and a rank of at most ", Shape::max_rank, " are due",
               io::known_as(io::Format::unknown, path));

  std::array<std::byte, 4 * Shape::max_rank> sizes{};
  const std::span given(sizes.data(), static_cast<std::size_t>(rank) * 4);
  if (file.read(given) < given.size()) io::refuse(file, " stops within the sizes of its ", rank, " dimensions");
  Shape shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(size_at(sizes.data() + 4 * axis));
  return io::read_elements(file, elements, shape);
}

}  // namespace tapestry::data
