// For the shared library: what only graphs of files need is in a plugin, which this opens when a program first reads
// one.

#include <atomic>

#include "io/tensorflow/reader_plugin.hpp"

namespace tapestry::io {
namespace {

std::atomic<const ReaderPlugin*> opened_reader_plugin = nullptr;

const ReaderPlugin& open_reader_plugin() {
  const auto [plugin, reason] =
      detail::find_plugin<ReaderPlugin>({.file = "libtapestry_tensorflow.so",
                                         .what = "reader of TensorFlow's graphs",
                                         .variable = "TAPESTRY_TENSORFLOW_PLUGIN",
                                         .path = detail::environment("TAPESTRY_TENSORFLOW_PLUGIN")},
                                        reader_plugin_symbol, reader_layout, TAPESTRY_VERSION);
  if (!plugin) throw UnavailableError("Graphs cannot be read: " + reason);
  return *plugin;
}

}  // namespace

const ReaderPlugin& reader_plugin() {
  if (const ReaderPlugin* plugin = opened_reader_plugin) return *plugin;
  const ReaderPlugin& plugin = open_reader_plugin();
  opened_reader_plugin = &plugin;
  return plugin;
}

}  // namespace tapestry::io
