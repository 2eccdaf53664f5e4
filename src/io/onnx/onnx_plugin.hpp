#pragma once

#include <cstdint>

#include "core/open_plugin.hpp"
#include "graph/graph_state.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "tapestry/model.hpp"

namespace tapestry::io {

/// libtapestry_onnx.so exports this as the C symbol `tapestry_onnx_plugin`. The first members are as in every plugin
/// (see `mismatch`).
struct OnnxPlugin {
  std::uint32_t bytes;   ///< of this structure
  std::uint32_t layout;  ///< `onnx_layout` of the plugin
  const char* version;   ///< the version of Tapestry that it belongs to
  const void* library;   ///< `library_mark` of the library that it is linked with
  void (*save)(const std::string& path, const Model& model, Where where);
  Model (*load)(const std::string& path, const GraphLimits& limits, Where where);
  const ForeignOp* (*find_op)(const NodeDef& def);
};
inline constexpr const char* onnx_plugin_symbol = "tapestry_onnx_plugin";

/// Differs as soon as one of the structures that the library and the plugin share has another size.
inline constexpr std::uint32_t onnx_layout = [] {
  std::uint32_t sum = 0;
  for (const std::size_t bytes :
       {sizeof(detail::TensorImpl), sizeof(detail::Node), sizeof(detail::GraphState), sizeof(Error), sizeof(Model),
        sizeof(Model::Parts), sizeof(GraphLimits), sizeof(NodeDef), sizeof(ForeignOp), sizeof(Op), sizeof(OpRule)})
    sum = sum * 31 + static_cast<std::uint32_t>(bytes);
  return sum;
}();

/// What reads and writes ONNX. The shared library opens the plugin at the first call (onnx_loader.cpp), and throws
/// UnavailableError without it; the static library has its code (onnx_linked.cpp).
const OnnxPlugin& onnx_plugin();

void save_onnx(const std::string& path, const Model& model, Where where);
Model load_onnx(const std::string& path, const GraphLimits& limits, Where where);

}  // namespace tapestry::io
