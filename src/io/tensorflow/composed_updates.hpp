#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph_state.hpp"
#include "io/tensorflow/node_reader.hpp"

namespace tapestry::io {

/// An update of Variables that is being read, with its inputs in TensorFlow's order.
struct UpdateCall {
  detail::GraphState& graph;
  const NodeReader& node;
  std::vector<std::optional<Variable>> variables;  ///< by input: the Variable that it refers to
  Tensors inputs;                                  ///< the values; those of Variables before the update
  Where where;
  /// Of an update of rows: their numbers, each once. The values of Variables are those of these rows, and the indices
  /// are no longer among the inputs.
  Tensor rows{};
  Tensors wholes{};  ///< of an update of rows: by input, the value of the whole Variable
};

/// An update of TensorFlow's that is read as several of our operations, the last of which assigns to the first input's
/// Variable.
struct ComposedUpdate {
  std::string_view resource, reference;  ///< the op's names for the two styles of Variables
  std::size_t variables;                 ///< how many inputs, from the first on, are Variables of one shape
  std::size_t inputs;
  void (*add)(const UpdateCall&);
  std::size_t indices = 0;  ///< of an update of rows: the input that has their numbers
};

/// The update of this op, or nullptr.
const ComposedUpdate* find_composed_update(std::string_view op);

}  // namespace tapestry::io
