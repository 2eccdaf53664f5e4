#pragma once

#include <utility>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup clip
/// Clipping, made of ops, so gradients pass. Clipping by value is the op `clip`. Norms are Euclidean. A limit that is
/// not a positive, finite number throws InvalidArgumentError.
/// @{

/// x scaled down to the norm `clip_norm` where its own is larger; where it is not, x as it is, all zeros included.
TAPESTRY_API Tensor clip_by_norm(In x, double clip_norm);

/// The norm of all elements of all tensors together, a scalar; 0 of no tensor. Empty tensors (None) are left out.
TAPESTRY_API Tensor global_norm(const InList& tensors);

/// All tensors scaled by clip_norm / max(norm, clip_norm), and the `norm`, which is the global one. Empty tensors stay
/// empty. If the norm is infinite or NaN, all become NaN, as in TensorFlow, so that a spoilt step does not pass unseen.
/// (R. Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training recurrent neural networks", 2013.)
TAPESTRY_API std::pair<std::vector<Tensor>, Tensor> clip_by_global_norm(const InList& tensors, double clip_norm);

/// @}

}  // namespace tapestry
