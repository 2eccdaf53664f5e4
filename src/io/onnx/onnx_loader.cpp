// For the shared library: what reads and writes ONNX is in a plugin, which this opens when a program first needs it.

#include <atomic>

#include "io/onnx/onnx_plugin.hpp"

namespace tapestry::io {
namespace {

std::atomic<const OnnxPlugin*> opened_onnx_plugin = nullptr;

const OnnxPlugin& open_onnx_plugin() {
  const auto [plugin, reason] = detail::find_plugin<OnnxPlugin>({.file = "libtapestry_onnx.so",
                                                                 .what = "ONNX",
                                                                 .variable = "TAPESTRY_ONNX_PLUGIN",
                                                                 .path = detail::environment("TAPESTRY_ONNX_PLUGIN")},
                                                                onnx_plugin_symbol, onnx_layout, TAPESTRY_VERSION);
  if (!plugin) throw UnavailableError("ONNX can be neither read nor written: " + reason);
  return *plugin;
}

}  // namespace

const OnnxPlugin& onnx_plugin() {
  if (const OnnxPlugin* plugin = opened_onnx_plugin) return *plugin;
  const OnnxPlugin& plugin = open_onnx_plugin();
  set_other_ops(plugin.find_op);
  opened_onnx_plugin = &plugin;
  return plugin;
}

}  // namespace tapestry::io
