#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/windows.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {

void CudaBackend::pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::pool2d(f, x, window, y);
  if (y.size() == 0) return;
  Context& gpu = context();
  const Tensor image = contiguous(x);
  const auto pool = f == PoolKind::max ? max_pool : average_pool;
  pool(gpu.stream(), type_of(y), windows_on(x.shape(), y.shape(), window), image.impl().data, y.impl().data);
  gpu.started("pool2d");
}

void CudaBackend::pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                              const Tensor& dx) {
  if (is_half(dx.dtype())) return Backend::pool2d_grad(f, x, y, g, window, dx);
  if (dx.size() == 0) return;
  if (g.size() == 0) return fill(0, dx);
  Context& gpu = context();
  const Windows windows = windows_on(dx.shape(), g.shape(), window);
  const Tensor gradient = contiguous(g);
  Tensor positions;
  if (f == PoolKind::max) {
    const Tensor image = contiguous(x), result = contiguous(y);
    positions = detail::make_tensor(int32, g.shape(), g.device());
    max_positions(gpu.stream(), type_of(dx), windows, image.impl().data, result.impl().data,
                  detail::mutable_data<std::int32_t>(positions));
    gpu.started("pool2d_grad");
  }
  pool_grad(gpu.stream(), type_of(dx), windows, positions ? detail::mutable_data<std::int32_t>(positions) : nullptr,
            gradient.impl().data, dx.impl().data);
  gpu.started("pool2d_grad");
}

}  // namespace tapestry::gpu
