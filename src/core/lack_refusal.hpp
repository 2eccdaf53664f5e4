#pragma once

#include "tapestry/error.hpp"

namespace tapestry {

/// For what the library lacks, not the file: an element type of an op, or so many dimensions. The reader of a file
/// keeps such a node as it is.
struct LackRefusal : InvalidArgumentError {
  using InvalidArgumentError::InvalidArgumentError;
};

}  // namespace tapestry
