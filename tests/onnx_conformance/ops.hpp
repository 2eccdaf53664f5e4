#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "onnx_conformance/case.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::test::onnx_case {

using Inputs = std::vector<Tensor>;  ///< empty tensors where optional ones are left out
using Outputs = std::vector<Tensor>;

/// What computes a node with Tapestry. Throws Inexpressible where the node asks for more than Tapestry has.
using Function = std::function<Outputs(const Node&, const Inputs&)>;
using Functions = std::map<std::string, Function>;

/// By the names of ONNX's ops.
Functions optimizer_functions();

/// The input number i, or an empty tensor.
inline Tensor optional_input(const Inputs& in, std::size_t i) { return i < in.size() ? in[i] : Tensor(); }

/// The whole numbers that a tensor holds.
inline Ints ints_of(const Tensor& x) {
  const std::vector<std::int64_t> list = x.to_vector<std::int64_t>();
  return Ints(list.begin(), list.end());
}
inline Shape shape_of(const Ints& sizes) {
  Shape shape;
  for (const std::int64_t size : sizes) shape.push_back(size);
  return shape;
}

}  // namespace tapestry::test::onnx_case
