#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/formulas.hpp"

namespace tapestry::gpu {

Launch unary_kernel(Unary f, Type type) {
  static constexpr auto table = unary_table<Launch, Kernel>();
  return table.at(f, type);
}

}  // namespace tapestry::gpu
