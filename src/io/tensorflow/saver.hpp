#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

/// The nodes by which a graph of TensorFlow's restores its Variables from a checkpoint, and writes them to one.

namespace tapestry::io {

/// Where a checkpoint has the value of a Variable: in a tensor, or in a part of it, "6 2 2,2:-" for [2:4, :] of [6, 2].
struct CheckpointTensor {
  std::string name{}, slice{};
};

/// By the name of a Variable's node: what the graph restores the Variable from. For a table this is what the names of
/// its keys and its values have in common.
std::map<std::string, CheckpointTensor, std::less<>> restored_variables(const GraphDef& graph);

/// The nodes of the graph without those that depend on this tensor, from which the saver takes the checkpoint's prefix.
GraphDef without_saver(GraphDef graph, std::string_view filename);

/// The key of a Variable's value in a checkpoint that we write. TensorFlow 2 asks for this ending.
inline std::string checkpoint_key(const std::string& variable) { return variable + "/.ATTRIBUTES/VARIABLE_VALUE"; }

/// A saver of Variables, by the names of its nodes.
struct Saver {
  /// A Variable, and the nodes that read it for the checkpoint and assign what the checkpoint has.
  struct Part {
    std::string variable{};
    TypeCode type{};
    bool trainable = true;
    std::string read{}, assign{};
  };
  std::string filename{}, save{}, restore{};  ///< as a SaverDef has them: two tensors and an operation
  std::vector<Part> variables{};
};
/// Adds a saver to the graph, under names that the graph does not have yet. The checkpoint has the keys of the
/// Variables, which are VarHandleOp nodes of the graph. `read` and `assign` of the given parts are ignored.
Saver add_saver(GraphDef& graph, std::vector<Saver::Part> variables);

}  // namespace tapestry::io
