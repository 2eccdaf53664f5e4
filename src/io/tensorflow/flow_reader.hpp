#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/node_reader.hpp"

namespace tapestry::io {

/// What a function of a file is given for an argument: a tensor, or a Variable.
struct Argument {
  Tensor tensor{};
  std::optional<Variable> variable{};
};

/// Adds what a function computes to the open graph and returns its outputs, in `outputs` by their names as tensors of
/// the function. An empty handle for one that the function does not give. `given`: its arguments, by name.
using ReadBody = std::function<Tensors(const FunctionBody& body, const std::map<std::string, Argument>& given,
                                       const std::vector<std::string>& outputs)>;

/// Adds a branch or a loop to the open graph, and returns the outputs of the file's node. Those of a loop that are
/// lists become the tensors of their elements. `inputs`: empty for those that the node does not need. Throws
/// UnimplementedError for a loop variable that cannot be read. Adds to `uneven` the lists to which the loop appends
/// tensors of different shapes.
Tensors read_flow(const NodeReader& reader, const std::vector<Argument>& inputs, const ReadBody& read_body,
                  UnevenLists& uneven, Where where);

}  // namespace tapestry::io
