#pragma once

#include <map>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup keeping
/// @{

/// Tensors by their names, such as "hidden.weight": the contents of a model, an optimizer or a file.
using StateDict = std::map<std::string, Tensor>;

/// @}

}  // namespace tapestry
