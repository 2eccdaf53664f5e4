#include "io/arrays/safetensors.hpp"

#include <algorithm>
#include <array>

#include "io/known_format.hpp"

namespace tapestry::io {
namespace {

constexpr std::int64_t length_size = 8;
/// The limit of Hugging Face's own reader.
constexpr std::uint64_t longest_header = 100'000'000;

std::array<std::byte, length_size> length_bytes(std::uint64_t length) {
  std::array<std::byte, length_size> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(length >> 8 * i);
  return bytes;
}

std::uint64_t length_of(const std::array<std::byte, length_size>& bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = bytes.size(); i > 0; --i) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i - 1]);
  return length;
}

}  // namespace

template <class... Parts>
void SafetensorsFile::refuse(const Parts&... parts) const {
  throw DataLossError(detail::join(file_.name(), parts...), file_.where());
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, Where where) : file_(path, where) {
  std::array<std::byte, length_size> bytes;
  if (file_.size() < length_size)
    refuse(" is not a safetensors file: it has fewer than 8 bytes", known_as(Format::safetensors, path));
  file_.read(0, bytes);
  const std::uint64_t length = length_of(bytes);
  if (length > longest_header || length > static_cast<std::uint64_t>(file_.size() - length_size))
    refuse(" is not a safetensors file, or it stops early: it claims a header of ", length, " bytes",
           known_as(Format::safetensors, path));
  std::string text(length, '\0');
  file_.read(length_size, std::as_writable_bytes(std::span(text)));
  if (!text.starts_with('{'))
    refuse(" is not a safetensors file: its header does not start with {", known_as(Format::safetensors, path));
  header_ = parse_safetensors_header(text, file_.name(), where);
  data_ = length_size + length;
  std::sort(header_.entries.begin(), header_.entries.end(),
            [](const auto& a, const auto& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  check_layout();
}

/// Throws unless the tensors cover the data without gaps and overlaps, each with the bytes that its shape needs.
void SafetensorsFile::check_layout() const {
  std::int64_t place = 0;
  for (const auto& [name, elements, shape, begin, end] : header_.entries) {
    if (begin != place || end < begin)
      refuse(", tensor ", name, " begins at byte ", begin, " of the data, not at ", place);
    if (end - begin != claimed_bytes(shape.sizes(), elements.size))
      refuse(", tensor ", name, " has ", end - begin, " bytes of data for its shape ", shape, ", which needs ",
             claimed_bytes(shape.sizes(), elements.size));
    place = end;
  }
  if (place != file_.size() - data_)
    refuse(" has ", file_.size() - data_, " bytes of data, but its tensors need ", place);
}

StateDict SafetensorsFile::read() const {
  StateDict tensors;
  for (const auto& [name, elements, shape, begin, end] : header_.entries) {
    FileRange range(file_, detail::join(file_.name(), ", tensor ", name), data_ + begin, data_ + end);
    tensors.emplace(name, read_elements(range, elements, shape));
  }
  return tensors;
}

void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata, Where where, Durable durable) {
  std::vector<std::pair<std::string, Tensor>> hosts;
  for (const auto& [name, tensor] : tensors) hosts.emplace_back(name, saved_form(tensor, name, where));
  // The widest elements come first, so that the offset of each element is a multiple of its size.
  std::stable_sort(hosts.begin(), hosts.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  std::string header = safetensors_header(hosts, metadata, where);
  header.append((8 - header.size() % 8) % 8, ' ');
  const auto length = length_bytes(header.size());
  std::vector<Chunk> chunks{length, std::as_bytes(std::span(header))};
  for (const auto& [name, tensor] : hosts) chunks.push_back(bytes_of(tensor));
  write_file(path, chunks, where, durable);
}

}  // namespace tapestry::io
