#pragma once

#include <unordered_map>
#include <vector>

#include "io/tensorflow/node_writer.hpp"

namespace tapestry::io {

/// The lookups of rows in Variables, which are written as ResourceGather: it reads the rows only, and not, as the
/// ReadVariableOp of our graph, the whole Variable.
class Lookups {
 public:
  /// Those among the nodes that are kept.
  Lookups(const detail::GraphState& graph, const std::vector<char>& kept);

  bool contains(const detail::Node& node) const;
  void write(NodeWriter& writer) const;
  /// Lets what waits for a read wait for its lookups, too, or instead if nothing else needs the read.
  void replace_waits(std::vector<NodeDef>& nodes) const;

 private:
  struct Read {
    std::vector<const detail::Node*> lookups;
    bool is_awaited = false;  ///< whether a node before the present one waits for the read
    bool is_whole = false;    ///< whether other nodes need the whole value
  };
  std::unordered_map<const detail::Node*, Read> reads_;
};

}  // namespace tapestry::io
