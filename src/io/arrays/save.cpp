#include "tapestry/save.hpp"

#include <filesystem>

#include "io/arrays/safetensors.hpp"
#include "tapestry/data/arrays.hpp"

namespace tapestry {
namespace {

enum class Format { safetensors, npz };

Format format_of(const std::string& path, Where where) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".safetensors") return Format::safetensors;
  if (extension == ".npz") return Format::npz;
  throw InvalidArgumentError(
      detail::join("Tensors are kept in files that end in .safetensors or .npz, not ", extension, ": ", path), where);
}

}  // namespace

void save(const std::string& path, const StateDict& tensors, const Metadata& metadata, Where where) {
  if (format_of(path, where) == Format::safetensors) {
    io::write_safetensors(path, tensors, metadata, where);
    return;
  }
  if (!metadata.empty()) throw InvalidArgumentError("An npz file cannot hold metadata: " + path, where);
  data::write_npz(path, tensors, {}, where);
}

void load(const std::string& path, StateDict& tensors, Where where) {
  tensors = format_of(path, where) == Format::safetensors ? io::SafetensorsFile(path, where).read()
                                                          : data::read_npz(path, where);
}

Metadata load_metadata(const std::string& path, Where where) {
  if (format_of(path, where) == Format::npz) throw InvalidArgumentError("An npz file has no metadata: " + path, where);
  return io::SafetensorsFile(path, where).metadata();
}

}  // namespace tapestry
