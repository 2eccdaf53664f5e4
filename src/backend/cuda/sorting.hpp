#pragma once

#include "backend/cuda/context.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::gpu {

/// Pairs on the device: keys, as int64, and the numbers of elements, as int32, in the order of the keys.
struct Sorted {
  Tensor keys, order;
};
/// Sorts by the lower `bits` bits of the keys, as unsigned numbers; what has equal keys keeps its order. `order`
/// numbers the elements; empty: 0, 1, 2, ... Throws UnimplementedError for 2^31 keys and more.
Sorted sort(Context& gpu, const Tensor& keys, const Tensor& order, int bits);

}  // namespace tapestry::gpu
