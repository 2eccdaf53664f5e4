#pragma once

#include <cmath>

#include "tapestry/tapestry.hpp"

namespace tapestry::test {

/// One tensor of each dtype, and of the shapes and values that are easy to get wrong, for files that keep them.
inline StateDict state_samples() {
  StateDict tensors;
  for (const DType dtype : {boolean, uint8, int32, int64, float16, float32, float64})
    tensors["layer." + to_string(dtype)] = tensor({{0, 1, 2}, {3, 0, 255}}).cast(dtype);
  tensors["scalar"] = tensor(1.5);
  tensors["vector"] = tensor({1.0, NAN, -INFINITY});
  tensors["empty"] = zeros({3, 0, 2});
  tensors["view"] = transpose(tensor<float>({{1, 2, 3}, {4, 5, 6}}));
  tensors["many/axes"] = ones({1, 2, 1, 2, 1, 2, 1, 2});
  tensors["large"] = reshape(arange(0, 100000), {100, 1000});
  return tensors;
}

}  // namespace tapestry::test
