#pragma once

#include "tapestry/op.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// In a graph: a value whose gradient flows to another tensor of its dtype and shape, `source`, of which nothing else
/// is read.
Tensor with_gradient_to(const Tensor& value, const Tensor& source, Where where);
/// Whether a call is that of such a value. Its input 1 is the source, to whose gradient all uses of the value add.
bool is_with_gradient_to(const Call& call);

}  // namespace tapestry::detail
