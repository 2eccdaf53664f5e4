#pragma once

#include <cstddef>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// The bytes of the file that `write_png` writes.
std::vector<std::byte> encode_png(const Tensor& image, Where where);

}  // namespace tapestry::io
