#pragma once

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup math
/// @{

/// x itself, which must be of a float type. Throws InvalidArgumentError, "message : Tensor had NaN values" or "Inf" or
/// "Inf and NaN", when an element is not finite. Gradients that pass through it are checked, too. In a graph, the run
/// throws. ONNX has no such op; its files get x instead.
TAPESTRY_API Tensor check_numerics(In x, std::string_view message, std::string_view name = {});

/// @}

}  // namespace tapestry
