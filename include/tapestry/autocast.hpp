#pragma once

#include "tapestry/dtype.hpp"
#include "tapestry/error.hpp"

namespace tapestry {

/// @addtogroup train
/// @{

/// While an Autocast object exists, each op of its thread runs in the element type that suits it, as in PyTorch's
/// autocast. Matrix products and convolutions run in float16 or bfloat16. Ops that easily leave the range of float16,
/// or that add up many numbers (exp, log, power, sums, softmax, losses, layer_norm), run in float32. All other ops run
/// in the type of their inputs.
///
///     tp::Tensor loss;
///     {
///       const tp::Autocast scope(tp::float16);
///       loss = tp::nn::CrossEntropyLoss()(net(x), labels);
///     }
///     auto gradients = tape.gradient(loss, net.parameters());
///
/// Variables keep their type: float32 ones are cast where they are used, and their gradients are float32. Integer
/// inputs are never cast. An op that has a float64 input runs as it would without the scope.
///
/// The casts are ops like others: tapes differentiate them, and traces record them. So the scope belongs around the
/// forward pass, inside the function that is traced. Gradients are computed in the types of the forward pass, whether
/// or not the scope still exists.
///
/// Scopes nest: the innermost one counts, and a float32 scope turns the others off.
class TAPESTRY_API Autocast {
 public:
  /// Throws InvalidArgumentError unless the type is float16, bfloat16 or float32.
  explicit Autocast(DType dtype, Where where = Where::here());
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// The type of this thread's innermost scope; float32 when there is none.
  static DType current();

 private:
  DType outer_;
};

/// @}

}  // namespace tapestry
