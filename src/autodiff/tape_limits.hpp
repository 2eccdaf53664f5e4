#pragma once

#include <cstddef>

namespace tapestry {

/// A tape lets go of the data of tensors above this size that no gradient needs. The tests set it to 0, to catch an op
/// that reads elements which it did not say it needs.
extern constinit std::size_t strip_above_bytes;

}  // namespace tapestry
