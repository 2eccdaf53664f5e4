#pragma once

#include "tapestry/dtype.hpp"
#include "tapestry/error.hpp"

namespace tapestry {

/// @addtogroup train
/// @{

/// While it lives, ops of this thread run in the element type that suits them, as in PyTorch's autocast: products of
/// matrices and convolutions in float16 or bfloat16; what leaves the range of float16 easily or adds up much (exp, log,
/// power, sums, softmax, losses, layer_norm) in float32; all others in the type of their inputs.
///
///     tp::Tensor loss;
///     {
///       const tp::Autocast scope(tp::float16);
///       loss = tp::nn::CrossEntropyLoss()(net(x), labels);
///     }
///     auto gradients = tape.gradient(loss, net.parameters());
///
/// Variables stay what they are: float32 ones are cast where they are used, and their gradients are float32. Inputs of
/// float64 and of whole numbers are left alone, with the ops that read them. The casts are ops like others: tapes
/// differentiate them, and traces keep them, so that the scope belongs around the forward pass, inside the function
/// that is traced. Gradients are computed in the types of the forward pass, whether the scope still lives or not.
///
/// Scopes nest: the innermost counts, and one of float32 turns the others off.
class TAPESTRY_API Autocast {
 public:
  /// Throws InvalidArgumentError unless the type is float16, bfloat16 or float32.
  explicit Autocast(DType dtype, Where where = Where::here());
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// The type of this thread's innermost scope; float32 outside of all.
  static DType current();

 private:
  DType outer_;
};

/// @}

}  // namespace tapestry
