#pragma once

#include "tapestry/nn/module.hpp"
#include "tapestry/op.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A module that makes one tensor from another, by its function `forward`. In an open graph, a call has a name scope:
/// the path of the layer, "1.b", or the name of its class if it is in no module. Errors name the layer and the caller's
/// line: "1.b: Dense(8, 9) got [2,5]: ...".
class TAPESTRY_API Layer : public Module {
 public:
  /// Applies the layer to x.
  Tensor operator()(In x) const;

 private:
  virtual Tensor forward(const Tensor& x) const = 0;
};

/// @}

}  // namespace tapestry::nn
