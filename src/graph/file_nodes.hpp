#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

class GraphState;
class Node;

/// The file that a graph was read from, by the names that its nodes have there. The graph lacks nodes that only tell
/// attributes of other nodes, or of which an op is composed, until they are asked for.
class FileNodes {
 public:
  /// A tensor by its name in the file, "node:output".
  struct Name {
    std::string node;
    std::size_t output = 0;
  };

  virtual ~FileNodes() = default;

  virtual bool has(std::string_view name) const = 0;
  /// The outputs of the file's node of this name, of which one with this number is wanted, or the node itself. The
  /// graph gets the node if it lacks it. nullptr when the file has no such node, or none of the graph's nodes does the
  /// same.
  virtual const Tensors* outputs(std::string_view name, std::size_t wanted) = 0;
  virtual Node* find(std::string_view name) = 0;

  /// A node of the file that no node of the graph stands for.
  struct Alias {
    std::string name;
    Tensors outputs;  ///< as other nodes of the graph have them; an empty handle for one that the graph lacks
    bool is_loop = false;
  };
  virtual std::vector<Alias> aliases() = 0;
  /// A constant of the file that the graph lacks, because its value is an attribute of other nodes.
  struct Constant {
    std::string name;
    Tensor value;
    std::string device;
  };
  virtual std::vector<Constant> constants_left_out() = 0;

  /// The name of a tensor or of a node in the file. Throws InvalidArgumentError for one that was added to the graph
  /// after it was read.
  virtual Name name_of(const Tensor& tensor) = 0;
  virtual std::string name_of(const Node& node) = 0;
  /// Whether the graph has the node only because somebody has asked for a tensor of the file by its name.
  virtual bool only_names(const Node& node) const = 0;

  /// The graph of the same file, with the same Variables, in which each of these tensors is a constant with this value.
  virtual std::shared_ptr<GraphState> with_values(const Tensors& tensors, const Tensors& values) = 0;

  /// The functions that nodes of the file call, as its bytes; "" when no node does.
  virtual std::string_view library() const = 0;
};

}  // namespace tapestry::detail
