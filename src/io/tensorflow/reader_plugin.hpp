#pragma once

#include <cstdint>

#include "core/open_plugin.hpp"
#include "graph/graph_state.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/inline_functions.hpp"
#include "io/tensorflow/variable_table.hpp"

namespace tapestry::io {

/// libtapestry_tensorflow.so exports this as the C symbol `tapestry_tensorflow_plugin`. The first members are as in
/// every plugin (see `mismatch`).
struct ReaderPlugin {
  std::uint32_t bytes;   ///< of this structure
  std::uint32_t layout;  ///< `reader_layout` of the plugin
  const char* version;   ///< the version of Tapestry that it belongs to
  const void* library;   ///< `library_mark` of the library that it is linked with
  GraphDef (*raise_graph)(GraphDef file, const GraphLimits& limits, const UnevenLists& uneven,
                          const FileGradients& gradients);
  UnevenLists (*import_into)(detail::GraphState& graph, GraphDef file, Where where,
                             const std::shared_ptr<VariableTable>& shared);
  const ForeignOp* (*find_op)(const NodeDef& def);
};
inline constexpr const char* reader_plugin_symbol = "tapestry_tensorflow_plugin";

/// Differs as soon as one of the structures that the library and the plugin share has another size.
inline constexpr std::uint32_t reader_layout = [] {
  std::uint32_t sum = 0;
  for (const std::size_t bytes :
       {sizeof(detail::TensorImpl), sizeof(detail::Node), sizeof(detail::GraphState), sizeof(Error),
        sizeof(GraphLimits), sizeof(GraphDef), sizeof(NodeDef), sizeof(ForeignOp), sizeof(ForeignNode), sizeof(Op)})
    sum = sum * 31 + static_cast<std::uint32_t>(bytes);
  return sum;
}();

/// What only graphs of files need. The shared library opens the plugin at the first call (reader_loader.cpp), and
/// throws UnavailableError without it; the static library has its code (reader_linked.cpp).
const ReaderPlugin& reader_plugin();

/// What `read_graph` gives for a graph that was decoded: functions are inlined, TensorFlow 1's branches and loops are
/// brought into the form of TensorFlow 2's, and types that Tapestry lacks into tensors of others.
GraphDef raise_graph(GraphDef file, const GraphLimits& limits, const UnevenLists& uneven,
                     const FileGradients& gradients);
/// Adds the nodes of a file to a graph, whose `file` then is what it was read from. `shared`, and what is returned: see
/// `import_graph` and `Importer::uneven`.
UnevenLists import_into(detail::GraphState& graph, GraphDef file, Where where,
                        const std::shared_ptr<VariableTable>& shared);
/// The op of a node of TensorFlow, or nullptr.
const ForeignOp* find_in_tables(const NodeDef& def);

}  // namespace tapestry::io
