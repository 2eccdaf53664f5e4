#include "backend/cuda/kernels/scan.hpp"

#include "backend/cuda/cuda_backend.hpp"

namespace tapestry::gpu {

void CudaBackend::scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::scan(f, x, axis, exclusive, reverse, y);
  if (y.size() == 0) return;
  ScanShape shape{1, x.shape().sizes()[axis], 1, exclusive, reverse};
  for (int i = 0; i < axis; ++i) shape.outer *= x.shape().sizes()[i];
  for (int i = axis + 1; i < x.rank(); ++i) shape.inner *= x.shape().sizes()[i];
  Context& gpu = context();
  const Tensor from = contiguous(x);
  gpu::scan(gpu.stream(), f == Scan::prod, type_of(x), shape, from.impl().data, y.impl().data);
  gpu.started("scan");
}

}  // namespace tapestry::gpu
