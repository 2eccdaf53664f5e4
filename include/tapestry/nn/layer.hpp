#pragma once

#include "tapestry/nn/module.hpp"
#include "tapestry/op.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A module that makes one tensor of another; what it does is `forward`. Calling it adds, to an open graph, a name
/// scope: its path, "1.b", or the class's name when it is in no module. Errors name the layer and the caller's line:
/// "1.b: Dense(8, 9) got [2,5]: ...".
class TAPESTRY_API Layer : public Module {
 public:
  /// What the layer makes of x.
  Tensor operator()(In x) const;

 private:
  virtual Tensor forward(const Tensor& x) const = 0;
};

/// @}

}  // namespace tapestry::nn
