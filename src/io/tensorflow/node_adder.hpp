#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/tensorflow/file_names.hpp"
#include "io/tensorflow/function_def.hpp"

namespace tapestry::io {

NodeDef constant_def(std::string name, const Tensor& value, std::string device);

/// Adds nodes of TensorFlow's, which the graph does not have, to a file or to a function.
class TAPESTRY_API NodeAdder {
 public:
  /// The names of the nodes begin with `prefix`.
  NodeAdder(std::vector<NodeDef>& nodes, FileNames& names, std::string prefix, std::string device)
      : nodes_(nodes), names_(names), prefix_(std::move(prefix)), device_(std::move(device)) {}

  /// A name that no node has; from now on it is taken.
  std::string unique(const std::string& label);
  /// Each adds a node and returns its name.
  /// @{
  std::string op(std::string_view op, const std::vector<std::string>& inputs, AttrDefs attrs,
                 std::string_view label = {});
  std::string constant(std::string_view label, const Tensor& value);
  std::string number(std::string_view label, std::int64_t value);
  std::string shape(std::string_view label, const Shape& shape);
  std::string whole(std::string_view name, const std::string& a, const std::string& b);
  /// An op with no attribute but its type "T"; the others have what TensorFlow has for them.
  std::string typed(std::string_view name, const std::vector<std::string>& inputs, DType dtype,
                    std::string_view label = {});
  /// @}

 private:
  std::vector<NodeDef>& nodes_;
  FileNames& names_;
  std::string prefix_, device_;
};

}  // namespace tapestry::io
