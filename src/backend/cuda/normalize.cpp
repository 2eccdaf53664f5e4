#include "backend/cuda/kernels/normalize.hpp"

#include <limits>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/place.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {
namespace {

/// A tensor as rows along its last axis.
Rows rows_of(const Tensor& x) {
  const std::int64_t n = x.rank() > 0 ? x.shape().sizes().back() : 1;
  return {x.size() / n, n};
}

void* data(const Tensor& x) { return x.impl().data; }

}  // namespace

void CudaBackend::softmax(const Tensor& x, bool logarithm, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::softmax(x, logarithm, y);
  if (y.size() == 0) return;
  Context& gpu = context();
  const Tensor from = contiguous(x);
  gpu::softmax(gpu.stream(), type_of(y), rows_of(y), logarithm, data(from), data(y));
  gpu.started("softmax");
}

void CudaBackend::softmax_grad(const Tensor& y, const Tensor& g, bool logarithm, const Tensor& dx) {
  if (is_half(dx.dtype())) return Backend::softmax_grad(y, g, logarithm, dx);
  if (dx.size() == 0) return;
  Context& gpu = context();
  const Tensor output = contiguous(y), gradient = contiguous(g);
  gpu::softmax_grad(gpu.stream(), type_of(dx), rows_of(dx), logarithm, data(output), data(gradient), data(dx));
  gpu.started("softmax_grad");
}

void CudaBackend::sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Tensor& loss,
                                               const Tensor& backprop) {
  if (is_half(logits.dtype())) return Backend::sparse_softmax_cross_entropy(logits, labels, loss, backprop);
  if (loss.size() == 0) return;
  const std::int64_t classes = logits.shape().sizes().back();
  std::int64_t refused = 0;
  if (classes > 0) {
    Context& gpu = context();
    const Tensor x = contiguous(logits), positions = contiguous(labels);
    Refusal refusal(gpu);
    gpu::sparse_softmax_cross_entropy(gpu.stream(), type_of(x), rows_of(x), data(x), data(positions),
                                      positions.dtype() == int64, data(loss), data(backprop), refusal.word());
    gpu.started("sparse_softmax_cross_entropy");
    refused = refusal.position();
  }
  if (refused >= 0) throw InvalidArgumentError(label_out_of_range(labels.to_vector<std::int64_t>()[refused], classes));
}

void CudaBackend::normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                            const Tensor& mean, const Tensor& rstd) {
  if (is_half(x.dtype())) return Backend::normalize(x, scale, offset, epsilon, y, mean, rstd);
  if (x.size() == 0) {  // empty rows have no mean
    fill(std::numeric_limits<double>::quiet_NaN(), mean);
    return fill(std::numeric_limits<double>::quiet_NaN(), rstd);
  }
  Context& gpu = context();
  const Tensor from = contiguous(x), weight = contiguous(scale), bias = contiguous(offset);
  gpu::normalize(gpu.stream(), type_of(y), rows_of(y), data(from), data(weight), data(bias), epsilon, data(y),
                 data(mean), data(rstd));
  gpu.started("normalize");
}

void CudaBackend::normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& rstd,
                                 const Tensor& g, const Tensor& dx, const Tensor& dscale, const Tensor& doffset) {
  if (is_half(x.dtype())) return Backend::normalize_grad(x, scale, mean, rstd, g, dx, dscale, doffset);
  if (x.size() == 0) {
    fill(0, dscale);
    return fill(0, doffset);
  }
  Context& gpu = context();
  const Rows size = rows_of(x);
  const Tensor from = contiguous(x), weight = contiguous(scale), middle = contiguous(mean), factor = contiguous(rstd),
               gradient = contiguous(g);
  gpu::normalize_grad(gpu.stream(), type_of(x), size, data(from), data(weight), data(middle), data(factor),
                      data(gradient), data(dx));
  gpu.started("normalize_grad");
  const std::int64_t parts = (size.rows + gpu::sum_rows - 1) / gpu::sum_rows;
  const Tensor scales = detail::make_tensor(x.dtype(), {parts, size.n}, x.device());
  const Tensor offsets = detail::make_tensor(x.dtype(), {parts, size.n}, x.device());
  normalize_sums(gpu.stream(), type_of(x), size, data(from), data(middle), data(factor), data(gradient), data(scales),
                 data(offsets));
  gpu.started("normalize_grad");
  reduce(ReduceFunction::sum, scales, 1, dscale);
  reduce(ReduceFunction::sum, offsets, 1, doffset);
}

}  // namespace tapestry::gpu
