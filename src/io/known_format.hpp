#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tapestry/error.hpp"

namespace tapestry::io {

/// What a file is.
enum class Format : std::uint8_t {
  unknown,
  empty,
  graph,
  graph_text,
  meta_graph,
  meta_graph_text,
  saved_model,
  saved_model_text,
  onnx,
  safetensors,
  npy,
  zip,
  gzip,
  hdf5,
  tflite,
  gguf,
  records,  ///< TFRecord, and event files
  checkpoint_index,
  old_checkpoint,  ///< of TensorFlow's checkpoint V1, a table as well
  checkpoint_shard,
  checkpoint_list,  ///< the file "checkpoint" of a folder
  pickle,
  image,
  json,
  page,     ///< HTML, such as what a server sends in place of a file
  pointer,  ///< of git-lfs, which stands for a file
  text,
};

/// What a file is, by its bytes. `is_whole`: whether they are all of the file; else they are its beginning.
Format format_of(std::string_view bytes, bool is_whole = true);
/// The same for a file that may be large, of which little is read. `unknown` if it cannot be read.
Format format_of_file(const std::filesystem::path& path);

/// What a message calls the format, and what reads it: "a GraphDef; read it with tp::Graph::load"; "" for `unknown`.
std::string_view name_of(Format format);

/// The end of a message that says that a file is not of the wanted format: "; it is a GraphDef, ..."; "" where it
/// begins as it should, or is not known.
std::string known_as(Format wanted, const std::filesystem::path& path);

/// Throws InvalidArgumentError for the bytes of a file that are known to be of another format, with what reads it. Any
/// text may be a GraphDef's, and a `text` may be in any format of texts but those that stand for a file. `what`: the
/// file's name, or "The data".
TAPESTRY_API void refuse_all_but(Format wanted, std::string_view bytes, const std::string& what, Where where);

}  // namespace tapestry::io
