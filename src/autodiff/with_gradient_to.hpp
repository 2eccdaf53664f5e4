#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// In a graph: a value whose gradient flows to another tensor of its dtype and shape, `source`, of which nothing else
/// is read.
Tensor with_gradient_to(const Tensor& value, const Tensor& source, Where where);

}  // namespace tapestry::detail
