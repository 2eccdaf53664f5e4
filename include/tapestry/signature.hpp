#pragma once

#include <map>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup models
/// @{

/// The inputs and outputs of a model, which are tensors of one graph, under the names that its users know.
struct Signature {
  std::map<std::string, Tensor> inputs = {};   ///< the placeholders
  std::map<std::string, Tensor> outputs = {};  ///< the results
};

/// @}

}  // namespace tapestry
