#include "backend/cuda/kernels/matmul.hpp"

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/multiplier.hpp"

namespace tapestry::gpu {

Multiplier& CudaBackend::multiplier() {
  Context& gpu = context();
  std::call_once(multiplier_once_, [&] {
    gpu.require_execution();
    multiplier_ = new Multiplier(gpu);
  });
  return *multiplier_;
}

Tensor CudaBackend::readable(const Tensor& x) { return is_readable(View(x)) ? x : contiguous(x); }

void CudaBackend::gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) {
  if (y.size() == 0) return;
  if (a.size() == 0 || b.size() == 0) return fill(0, y);
  Context& gpu = context();
  const Tensor left = readable(a), right = readable(b);
  for_each_product(View(left), View(right), transpose_a, transpose_b, View(y), [&](const Product& p) {
    if (is_floating(y.dtype())) return multiplier().multiply(p, y.dtype());
    const auto strided = [](const Product::Matrix& matrix) {
      const std::int64_t row = matrix.transposed ? 1 : matrix.row, column = matrix.transposed ? matrix.row : 1;
      return Matrices{matrix.data, row, column, matrix.batch};
    };
    multiply_whole(gpu.stream(), type_of(y), p.m, p.n, p.k, p.count, strided(p.a), strided(p.b), p.y.data, p.y.batch);
    gpu.started("gemm");
  });
}

void CudaBackend::gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                               std::span<const Tensor> others, std::span<const Tensor> outputs) {
  const Tensor& y = outputs[fused.into];
  const std::optional<Epilogue> epilogue = epilogue_of(fused, program, others, y);
  bool done = false;
  if (epilogue && y.size() > 0 && a.size() > 0) {
    const Tensor left = readable(a), right = readable(b);
    for_each_product(View(left), View(right), fused.transpose_a, fused.transpose_b, View(y),
                     [&](const Product& p) { done = multiplier().multiply(p, y.dtype(), *epilogue); });
  }
  if (!done) Backend::gemm_program(fused, a, b, program, others, outputs);
}

}  // namespace tapestry::gpu
