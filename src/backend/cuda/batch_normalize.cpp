#include "backend/cuda/kernels/batch_normalize.hpp"

#include "backend/cuda/cuda_backend.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {
namespace {

RowParts parts_of(const Tensor& x) {
  const std::int64_t n = x.shape().sizes().back();
  return row_parts(x.size() / n, n);
}

/// A number for each part and column.
Tensor partial(const Tensor& x, const RowParts& size) {
  return detail::make_tensor(x.dtype(), {static_cast<std::int64_t>(size.parts), size.n}, x.device());
}

void* data(const Tensor& x) { return x.impl().data; }

}  // namespace

void CudaBackend::batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                                  const Tensor& y, const Tensor& mean, const Tensor& variance) {
  if (is_half(x.dtype()) || x.size() == 0)
    return Backend::batch_normalize(x, scale, offset, epsilon, y, mean, variance);
  Context& gpu = context();
  const RowParts size = parts_of(x);
  const Tensor from = contiguous(x), weight = contiguous(scale), bias = contiguous(offset), means = partial(x, size),
               squares = partial(x, size);
  part_moments(gpu.stream(), type_of(x), size, data(from), data(means), data(squares));
  gpu.started("batch_normalize");
  join_moments(gpu.stream(), type_of(x), size, data(means), data(squares), data(mean), data(variance));
  gpu.started("batch_normalize");
  gpu::batch_normalize(gpu.stream(), type_of(x), size, data(from), data(weight), data(bias), data(mean), data(variance),
                       epsilon, data(y));
  gpu.started("batch_normalize");
}

void CudaBackend::batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                                       const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                                       const Tensor& doffset) {
  if (is_half(x.dtype()) || x.size() == 0)
    return Backend::batch_normalize_grad(x, scale, mean, variance, g, epsilon, dx, dscale, doffset);
  Context& gpu = context();
  const RowParts size = parts_of(x);
  const Tensor from = contiguous(x), gradient = contiguous(g), weight = contiguous(scale), middle = contiguous(mean),
               spread = contiguous(variance), scales = partial(x, size), offsets = partial(x, size);
  part_sums(gpu.stream(), type_of(x), size, data(from), data(gradient), data(middle), data(spread), epsilon,
            data(scales), data(offsets));
  gpu.started("batch_normalize_grad");
  join_sums(gpu.stream(), type_of(x), size, data(scales), data(offsets), data(dscale), data(doffset));
  gpu.started("batch_normalize_grad");
  gpu::batch_normalize_grad(gpu.stream(), type_of(x), size, data(from), data(gradient), data(weight), data(middle),
                            data(spread), epsilon, data(dscale), data(doffset), data(dx));
  gpu.started("batch_normalize_grad");
}

}  // namespace tapestry::gpu
