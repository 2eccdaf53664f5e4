#pragma once

#include "tapestry/nn/module.hpp"
#include "tapestry/op.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A module that makes one tensor of another; what it does is `forward`. Calling it adds, to an open graph, a name
/// scope of the class's name, and errors name the caller's line.
class TAPESTRY_API Layer : public Module {
 public:
  /// What the layer makes of x.
  Tensor operator()(In x) const;

 private:
  virtual Tensor forward(const Tensor& x) const = 0;
};

/// @}

}  // namespace tapestry::nn
