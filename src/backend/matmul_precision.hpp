#pragma once

#include <cstdint>

#include "tapestry/detail/config.hpp"

namespace tapestry {

/// What `set_matmul_precision` has set: for backends that can multiply float32 numbers faster by rounding them.
enum class MatmulPrecision : std::uint8_t { highest, high, medium };
/// The setting of now. Throws InvalidArgumentError when TAPESTRY_MATMUL_PRECISION is none of the words.
TAPESTRY_API MatmulPrecision current_matmul_precision();

}  // namespace tapestry
