#pragma once

#include <map>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup models
/// @{

/// What a model takes and gives, under the names that its users know: tensors of one graph.
struct Signature {
  std::map<std::string, Tensor> inputs = {};   ///< placeholders
  std::map<std::string, Tensor> outputs = {};  ///< what is computed of them
};

/// @}

}  // namespace tapestry
