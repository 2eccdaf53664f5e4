#pragma once

#include <map>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup keeping
/// @{

/// Tensors by their names, "hidden.weight": what a model, an optimizer or a file holds.
using StateDict = std::map<std::string, Tensor>;

/// @}

}  // namespace tapestry
