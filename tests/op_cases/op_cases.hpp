#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::test {

/// The elements of an argument or a result in row-major order.
using Elements = std::vector<double>;

/// A row of the op table: a function built of one op (or few), arguments for it, and what it must compute.
struct OpCase {
  std::string name;
  std::vector<Tensor> inputs;  ///< those of a float type are differentiated
  std::function<Tensor(const std::vector<Tensor>&)> f;
  /// The result computed by other means: plain loops, the standard library. Absent where the row is about gradients.
  std::function<Elements(const std::vector<Elements>&)> reference = {};
  int orders = 2;           ///< how often finite differences check the derivative; 0: there is none
  double tolerance = 1e-6;  ///< of the finite differences, relative to 1 + |derivative|
  bool open = false;        ///< whether the size of the result depends on values, so that a graph does not know it
};

using OpCases = std::vector<OpCase>;

/// Numbers in [low, high) that depend on the seed only, of float64.
Tensor numbers(const Shape& shape, double low, double high, unsigned seed);
/// The same for whole numbers in [low, high), of int64.
Tensor whole_numbers(const Shape& shape, int low, int high, unsigned seed);
/// true and false, of bool.
Tensor booleans(const Shape& shape, unsigned seed);

/// The rows, by family: each in the file of its name.
OpCases math_cases();
OpCases reduce_cases();
OpCases array_cases();
OpCases linalg_cases();
OpCases nn_cases();
OpCases numeric_cases();
OpCases random_cases();
OpCases segment_cases();
OpCases selection_cases();

/// All of them.
OpCases op_cases();

/// The inputs with those of a float type as another.
std::vector<Tensor> converted(const std::vector<Tensor>& inputs, DType dtype);
/// The row's function of the inputs, followed by its gradients by the inputs that are differentiated.
std::vector<Tensor> value_and_gradients(const OpCase& row, const std::vector<Tensor>& inputs);

}  // namespace tapestry::test
