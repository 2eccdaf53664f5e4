#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// The value of a feed in the key's dtype. Throws InvalidArgumentError if its shape or its dtype does not fit the key.
Tensor fed_value(const Tensor& key, const Init& value, Where where);

}  // namespace tapestry::detail
