#pragma once

#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry {

/// @addtogroup summary
/// @{

/// Writes a picture as a PNG file: uint8 of shape [height,width] (grey) or [height,width,3] (red, green, blue). The
/// file is written completely or not at all. Throws InvalidArgumentError for another type or shape, NotFoundError when
/// the folder does not exist, and FailedPreconditionError when the file cannot be written.
TAPESTRY_API void write_png(const std::string& path, const Tensor& image, Where where = Where::here());

/// @}

}  // namespace tapestry
