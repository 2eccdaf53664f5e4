#pragma once

#include <cstdint>

#include "tapestry/detail/config.hpp"

namespace tapestry {

/// The setting of `set_matmul_precision`, for backends that can multiply float32 numbers faster by rounding them.
enum class MatmulPrecision : std::uint8_t { highest, high, medium };
/// The current setting. Throws InvalidArgumentError when TAPESTRY_MATMUL_PRECISION is none of the words.
TAPESTRY_API MatmulPrecision current_matmul_precision();

}  // namespace tapestry
