#pragma once

#include <memory>
#include <string_view>
#include <unordered_set>

#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/variable_table.hpp"

namespace tapestry::io::rpc {

/// The graph of a session, which a client sends in parts.
class SentGraph {
 public:
  explicit SentGraph(const GraphLimits& limits) : limits_(limits) {}

  /// Adds the nodes and functions of a GraphDef. Throws what `decode` throws, InvalidArgumentError for a node that is
  /// there already, and ResourceExhaustedError for too many nodes; then nothing has changed.
  void extend(std::string_view graph_def);
  void extend(GraphDef more);
  const GraphDef& file() const { return file_; }
  /// The graph as it is now. Throws what `read_graph` and `import_graph` throw.
  Graph read(const std::shared_ptr<VariableTable>& variables) const;

 private:
  GraphLimits limits_;
  GraphDef file_;
  std::unordered_set<std::string> names_;
};

}  // namespace tapestry::io::rpc
