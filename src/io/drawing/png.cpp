/// PNG (ISO/IEC 15948): a signature, then chunks of length, name, data and CRC, all numbers big-endian.

#include "tapestry/png.hpp"

#include <cstring>
#include <string_view>
#include <vector>

#include <zlib.h>

#include "core/make_tensor.hpp"
#include "io/drawing/png.hpp"
#include "io/file.hpp"

namespace tapestry {
namespace {

using Bytes = std::vector<std::byte>;

void append_number(Bytes& out, std::uint32_t value) {
  for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<std::byte>(value >> shift));
}

void append_chunk(Bytes& out, std::string_view name, std::span<const std::byte> data) {
  append_number(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t start = out.size();
  for (const char letter : name) out.push_back(static_cast<std::byte>(letter));
  out.insert(out.end(), data.begin(), data.end());
  const auto* checked = reinterpret_cast<const Bytef*>(out.data() + start);
  append_number(out, static_cast<std::uint32_t>(crc32_z(0, checked, out.size() - start)));
}

Bytes header(std::uint32_t width, std::uint32_t height, bool color) {
  Bytes data;
  append_number(data, width);
  append_number(data, height);
  const int grey = 0, red_green_blue = 2;
  for (const int field : {8, color ? red_green_blue : grey, 0, 0, 0}) data.push_back(static_cast<std::byte>(field));
  return data;
}

/// The compressed rows. Each follows the number of its filter: 0, none, which suits the flat colours of plots best.
Bytes packed_rows(const std::uint8_t* pixels, std::size_t rows, std::size_t row_bytes, Where where) {
  Bytes raw(rows * (row_bytes + 1));
  for (std::size_t y = 0; y < rows; ++y)
    std::memcpy(raw.data() + y * (row_bytes + 1) + 1, pixels + y * row_bytes, row_bytes);
  uLongf size = compressBound(raw.size());
  Bytes packed(size);
  const int code = compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
                             raw.size(), Z_DEFAULT_COMPRESSION);
  if (code != Z_OK) throw ResourceExhaustedError("Not enough memory to pack a picture", where);
  packed.resize(size);
  return packed;
}

}  // namespace

std::vector<std::byte> io::encode_png(const Tensor& image, Where where) {
  const Shape& shape = image.shape();
  const bool color = shape.rank() == 3;
  if (image.dtype() != uint8 || !(shape.rank() == 2 || (color && shape.sizes()[2] == 3)) || shape.size() <= 0)
    throw InvalidArgumentError(
        detail::join("A picture is uint8 of shape [height,width] or [height,width,3], but got ", image.dtype(), shape),
        where);
  // One chunk holds at most 2^31 - 1 bytes; a picture half as large still fits if it does not compress at all.
  if (shape.size() + shape.sizes()[0] > (std::int64_t{1} << 30))
    throw InvalidArgumentError(detail::join("A picture of shape ", shape, " is too large for a PNG file"), where);
  const Tensor host = detail::on_host(image);
  const auto height = static_cast<std::uint32_t>(shape.sizes()[0]),
             width = static_cast<std::uint32_t>(shape.sizes()[1]);

  Bytes out;
  for (const char byte : {'\x89', 'P', 'N', 'G', '\r', '\n', '\x1A', '\n'}) out.push_back(static_cast<std::byte>(byte));
  append_chunk(out, "IHDR", header(width, height, color));
  append_chunk(out, "IDAT",
               packed_rows(host.data<std::uint8_t>(), height, std::size_t{width} * (color ? 3 : 1), where));
  append_chunk(out, "IEND", {});
  return out;
}

void write_png(const std::string& path, const Tensor& image, Where where) {
  io::write_file(path, io::encode_png(image, where), where);
}

}  // namespace tapestry
