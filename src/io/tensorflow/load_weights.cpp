#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "io/arrays/pytorch.hpp"
#include "io/arrays/safetensors.hpp"
#include "io/arrays/zip.hpp"
#include "io/file.hpp"
#include "io/known_format.hpp"
#include "io/tensorflow/old_checkpoint.hpp"
#include "io/tensorflow/tensor_bundle.hpp"
#include "tapestry/data/arrays.hpp"
#include "tapestry/save.hpp"
#include "tapestry/tensor_bundle.hpp"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

using namespace std::string_view_literals;

enum class Weights { safetensors, npz, pytorch, keras, hdf5, checkpoint_part, unknown };

/// What an archive is for, by a member that only one program writes.
Weights kind_of_archive(const std::string& path, Where where) {
  const io::ZipReader archive(path, where);
  for (const io::ZipReader::Member& member : archive.members()) {
    if (io::is_pytorch_member(member.name)) return Weights::pytorch;
    if (member.name.ends_with(".weights.h5")) return Weights::keras;
  }
  return Weights::npz;
}

/// What a file is, by its first and last bytes.
Weights kind_of(const std::string& path, Where where) {
  const io::SourceFile file(path, where);
  const auto bytes_at = [&](std::int64_t begin, std::int64_t count) {
    std::string bytes(static_cast<std::size_t>(std::clamp<std::int64_t>(file.size() - begin, 0, count)), '\0');
    file.read(begin, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  };
  const std::string head = bytes_at(0, 16);
  // A file and the end of an empty archive.
  if (head.starts_with("PK\3\4") || head.starts_with("PK\5\6")) return kind_of_archive(path, where);
  if (head.starts_with("\x89HDF\r\n\x1a\n")) return Weights::hdf5;
  if (io::is_early_pytorch(head)) return Weights::pytorch;
  if (bytes_at(std::max<std::int64_t>(file.size() - 8, 0), 8) == "\x57\xfb\x80\x8b\x24\x75\x47\xdb"sv)
    return Weights::checkpoint_part;
  if (head.size() > 8 && head[8] == '{') return Weights::safetensors;
  return Weights::unknown;
}

}  // namespace

StateDict load_weights(const std::string& path, Where where) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    const std::string index = io::bundle_index(path).string();
    if (fs::is_regular_file(index, error) || io::is_old_checkpoint(path)) return tensor_bundle::load(path, where);
    if (fs::exists(fs::path(path) / "saved_model.pb", error))
      throw InvalidArgumentError(detail::join(path, " is the folder of a SavedModel; its weights are the checkpoint ",
                                              (fs::path(path) / "variables" / "variables").string()),
                                 where);
    throw NotFoundError(detail::join("There is neither a file ", path, " nor a checkpoint ", index), where);
  }
  const auto refuse = [&](std::string_view problem) {
    return UnimplementedError(detail::join(path, " is ", problem), where);
  };
  switch (kind_of(path, where)) {
    case Weights::safetensors:
      return io::SafetensorsFile(path, where).read();
    case Weights::npz:
      return data::read_npz(path, where);
    case Weights::pytorch:
      return io::read_pytorch(path, where);
    case Weights::keras:
      throw refuse("a model of Keras (.keras), which is not read: save its weights by tf.train.Checkpoint");
    case Weights::hdf5:
      throw refuse("a file of HDF5 (.h5), which is not read: save the weights by tf.train.Checkpoint");
    case Weights::checkpoint_part:
      if (io::is_old_checkpoint(path)) return io::read_old_checkpoint(path, where);
      throw refuse("the index of a checkpoint: give the prefix, the path without .index");
    case Weights::unknown:
      break;
  }
  const std::string_view known = io::name_of(io::format_of_file(path));
  throw InvalidArgumentError(
      detail::join(path, " holds no weights: it is ",
                   known.empty() ? "neither a safetensors file nor an NPZ file, nor a checkpoint's prefix" : known),
      where);
}

}  // namespace tapestry
