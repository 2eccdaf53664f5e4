#pragma once

#include "tapestry/op.hpp"

namespace tapestry {

/// Applies an op of one output, like `apply`. Where the result would be eager, it is deferred: it is computed when its
/// elements are asked for. The op must promote nothing. The inputs of which it reads the shape only lose their memory.
Tensor apply_deferred(const Op& op, const Tensors& inputs, const Attrs& attrs, Where where);

/// The call that computes a deferred or symbolic tensor, which must live as long as the call is used; nullptr for a
/// tensor that has elements.
const Call* call_of(const Tensor& tensor);

}  // namespace tapestry
