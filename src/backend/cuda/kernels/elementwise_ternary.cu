#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/formulas.hpp"

namespace tapestry::gpu {

Launch ternary_kernel(Ternary f, Type type) {
  static constexpr auto table = ternary_table<Launch, Kernel>();
  return table.at(f, type);
}

}  // namespace tapestry::gpu
