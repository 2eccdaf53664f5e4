#pragma once

#include "backend/cuda/context.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::gpu {

/// Sorted keys (int64), and the numbers of the elements in that order (int32), on the device.
struct Sorted {
  Tensor keys, order;
};
/// Sorts by the lower `bits` bits of the keys, as unsigned numbers; elements with equal keys keep their order. `order`
/// numbers the elements; if it is empty, they are 0, 1, 2, ... Throws UnimplementedError for 2^31 keys and more.
Sorted sort(Context& gpu, const Tensor& keys, const Tensor& order, int bits);

}  // namespace tapestry::gpu
