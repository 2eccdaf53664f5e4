#pragma once

#include <utility>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup clip
/// Clipping of gradients. It is made of ops, so that gradients pass through it. Clipping by value is the op `clip`.
/// Norms are Euclidean. Row-sparse gradients stay so, and their rows of the same index count as one. The functions
/// throw InvalidArgumentError for a limit that is not a positive, finite number.
/// @{

/// x, scaled down to the norm `clip_norm` if its norm is larger. Otherwise x itself, even if all its elements are 0.
TAPESTRY_API Tensor clip_by_norm(In x, double clip_norm);

/// The norm of all elements of all tensors together, a scalar; 0 if there is no tensor. Empty tensors (None) are
/// ignored.
TAPESTRY_API Tensor global_norm(const InList& tensors);

/// All tensors, scaled by clip_norm / max(norm, clip_norm), and their global `norm`. Empty tensors stay empty. If the
/// norm is infinite or NaN, all elements become NaN, as in TensorFlow, so that the problem does not go unnoticed. (R.
/// Pascanu, T. Mikolov, Y. Bengio, "On the difficulty of training recurrent neural networks", 2013.)
TAPESTRY_API std::pair<std::vector<Tensor>, Tensor> clip_by_global_norm(const InList& tensors, double clip_norm);

/// @}

}  // namespace tapestry
