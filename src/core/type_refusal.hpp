#pragma once

#include "tapestry/error.hpp"

namespace tapestry {

/// For an element type that an op lacks: the reader of a file keeps such a node as it is.
struct TypeRefusal : InvalidArgumentError {
  using InvalidArgumentError::InvalidArgumentError;
};

}  // namespace tapestry
