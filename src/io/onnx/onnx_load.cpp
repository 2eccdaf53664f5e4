#include <filesystem>

#include "dispatch/recorder.hpp"
#include "io/file.hpp"
#include "io/known_format.hpp"
#include "io/onnx/onnx_import.hpp"
#include "io/onnx/onnx_plugin.hpp"
#include "io/tensorflow/graph_import.hpp"
#include "io/tensorflow/read_graph.hpp"

namespace tapestry::io {
namespace {

namespace fs = std::filesystem;

void refuse_saved_model(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path / "saved_model.pb", error))
    throw InvalidArgumentError(
        detail::join(path.string(), " is the folder of a SavedModel; read it with tp::saved_model::load"));
}

}  // namespace

Model load_onnx(const std::string& path, const GraphLimits& limits, Where where) {
  const ExecuteNow now;
  const PauseRecording pause;
  Graph().set_limits(limits);  // throws for negative ones
  refuse_saved_model(path);
  const std::string bytes = bytes_of_file(path, limits.bytes, where);
  refuse_all_but(Format::onnx, bytes, path, where);
  OnnxImport import = naming(
      path, [&] { return import_onnx(decode_onnx(bytes, fs::path(path).parent_path(), limits, where), limits); });
  require_printable(import.graph);
  Model::Parts parts{.graph = import_graph(std::move(import.graph), limits, where)};
  Signature signature;
  for (const auto& [name, tensor] : import.inputs) {
    parts.inputs.push_back(name);
    signature.inputs.emplace(name, parts.graph.get_tensor_by_name(tensor + ":0"));
  }
  for (const auto& [name, tensor] : import.outputs) {
    parts.outputs.push_back(name);
    signature.outputs.emplace(name, parts.graph.get_tensor_by_name(tensor + ":0"));
  }
  parts.called = "serving_default";
  parts.signatures.emplace(parts.called, std::move(signature));
  return Model(std::move(parts));
}

}  // namespace tapestry::io
