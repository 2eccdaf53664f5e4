#pragma once

// Safetensors, Hugging Face's format for weights: the length of a header (8 bytes, little-endian), the header (JSON:
// for each tensor its element type, its shape, and where its elements begin and end), and the elements of all tensors,
// without gaps.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/arrays/elements.hpp"
#include "io/file.hpp"
#include "tapestry/state_dict.hpp"

namespace tapestry::io {

struct SafetensorsHeader {
  struct Entry {
    std::string name;
    FileElements elements;
    Shape shape;
    std::int64_t begin = 0, end = 0;  ///< the range of its bytes, counted from the header's end
  };
  std::vector<Entry> entries;  ///< in the order of the JSON; SafetensorsFile sorts them by their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON. Throws DataLossError for what the format does not allow, such as a name that occurs twice, and
/// UnimplementedError for element types and ranks that tensors do not have. `file` is the file's name in errors.
SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file, Where where);

/// The JSON for tensors whose elements follow each other in the given order. Throws InvalidArgumentError for names and
/// metadata that are not UTF-8, and for the name that the format reserves for the metadata.
std::string safetensors_header(const std::vector<std::pair<std::string, Tensor>>& tensors,
                               const std::map<std::string, std::string>& metadata, Where where);

/// An open file. The constructor reads the header and checks it against the file's size.
class SafetensorsFile {
 public:
  SafetensorsFile(const std::filesystem::path& path, Where where);

  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  StateDict read() const;

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const;
  void check_layout() const;

  SourceFile file_;
  SafetensorsHeader header_;
  std::int64_t data_ = 0;  ///< where the elements begin
};

void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata, Where where, Durable durable = Durable::no);

}  // namespace tapestry::io
