#pragma once

#include <cstddef>

namespace tapestry {

/// A tape releases the data of tensors above this size that no gradient needs, and an elementwise op computes in the
/// memory of temporary tensors above it. The tests set it to 0, to find a gradient that reads elements which its op did
/// not declare in `needs`.
extern constinit std::size_t strip_above_bytes;

}  // namespace tapestry
