#pragma once

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup math
/// @{

/// x itself, of a float type; throws InvalidArgumentError, "message : Tensor had NaN values" or "Inf" or "Inf and NaN",
/// when an element is not finite. Gradients that come through it are checked, too. In a graph the run throws. ONNX,
/// which has no such op, gets x.
TAPESTRY_API Tensor check_numerics(In x, std::string_view message, std::string_view name = {});

/// @}

}  // namespace tapestry
