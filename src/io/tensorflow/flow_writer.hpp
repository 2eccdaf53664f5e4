#pragma once

#include <functional>
#include <set>

#include "graph/flow/flow_ops.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/node_writer.hpp"

/// Writes branches and loops as TensorFlow's If, Case and While, with their functions.

namespace tapestry::io {

/// The functions of a file while it is written.
class LibraryWriter {
 public:
  /// `library`: the functions that the file has already.
  explicit LibraryWriter(std::string_view library);
  /// Adds the functions of one node and returns their names, which end with an FNV-1a hash of what all of them do:
  /// TensorFlow has the functions of all graphs of a process in one table, those of gradients of loops included.
  std::vector<std::string> add(std::vector<FunctionDef> functions);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
  std::set<std::string, std::less<>> names_;
};

/// What the writer of a graph gives to that of its branches and loops.
struct FlowContext {
  /// The nodes of the function's graph that the function needs, in their own names. The handles of Variables are left
  /// out.
  std::function<std::vector<NodeDef>(const detail::GraphFunction&)> nodes_of;
  /// The name of the handle of a Variable in the graph around the functions.
  std::function<std::string(const Variable&)> handle_of;
  /// Whether a stacked output of a loop is used, and only by other loops as a sequence. Then it is written as the list
  /// of its elements, which need not be alike.
  std::function<bool(const Tensor&)> is_list;
  LibraryWriter& library;
  VariableStyle style;
};

/// Writes a node that runs functions. Throws UnimplementedError for functions that read or change Variables themselves
/// in a style of Variables that cannot express it.
void write_flow(NodeWriter& writer, GraphDef& file, FileNames& names, const FlowContext& context);

}  // namespace tapestry::io
