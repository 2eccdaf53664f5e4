#include "backend/cuda/kernels/linalg.hpp"

#include <algorithm>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {
namespace {

constexpr const char* not_invertible = "Input matrix is not invertible.";

/// Calls start(word of a Refusal). Throws InvalidArgumentError with the message if a matrix is refused. LateChecks are
/// for integers only.
template <class Start>
void run(Context& gpu, const char* message, const Start& start) {
  gpu.require_execution();
  Refusal refusal(gpu);
  start(refusal.word());
  gpu.started("linalg");
  if (refusal.position() >= 0) throw InvalidArgumentError(message);
}

}  // namespace

void CudaBackend::linalg(Linalg f, std::span<const Tensor> inputs, bool adjoint, std::span<const Tensor> outputs) {
  if (is_half(outputs[0].dtype())) return Backend::linalg(f, inputs, adjoint, outputs);
  const Tensor &a = inputs[0], &y = outputs[0];
  if (y.size() == 0) return;  // then the other outputs are empty, too
  Context& gpu = context();
  const Type type = type_of(a);
  const std::int64_t rows = a.shape().sizes()[a.rank() - 2], columns = a.shape().sizes().back(),
                     batch = a.size() / (rows * columns);
  const auto solution = [&](const Tensor& matrices) {
    const Tensor work = contiguous_copy(adjoint ? view_transposed(matrices) : matrices);  // `solve` overwrites it
    run(gpu, not_invertible, [&](unsigned long long* refused) {
      gpu::solve(gpu.stream(), type, batch, rows, y.shape().sizes().back(), work.impl().data, y.impl().data, refused);
    });
  };
  switch (f) {
    case Linalg::cholesky:
      copy(a, y);
      return run(
          gpu, "Cholesky decomposition was not successful. The input might not be valid.",
          [&](unsigned long long* refused) { gpu::cholesky(gpu.stream(), type, batch, rows, y.impl().data, refused); });
    case Linalg::solve:
      copy(inputs[1], y);
      return solution(a);
    case Linalg::inverse:
      identity(gpu.stream(), type, batch, rows, y.impl().data);
      gpu.started("linalg");
      return solution(a);
    case Linalg::triangular_solve: {
      const Tensor triangles = contiguous(a);
      copy(inputs[1], y);
      return run(gpu, not_invertible, [&](unsigned long long* refused) {
        solve_triangular(gpu.stream(), type, batch, rows, y.shape().sizes().back(), adjoint, triangles.impl().data,
                         y.impl().data, refused);
      });
    }
    case Linalg::svd: {
      // `right` gets the shorter singular vectors: u of a wide matrix, v of a tall one.
      const bool wide = rows < columns;
      const std::int64_t n = std::min(rows, columns), length = std::max(rows, columns);
      const Tensor left = detail::make_tensor(a.dtype(), {batch, n, length}, a.device());
      const Tensor right = detail::make_tensor(a.dtype(), {batch, n, n}, a.device());
      const Tensor by_columns = wide ? a : view_transposed(a);
      copy(by_columns, view_as(left, by_columns.shape()));
      run(gpu, "Singular value decomposition was not successful. The input might not be valid.",
          [&](unsigned long long* refused) {
            decompose(gpu.stream(), type, batch, n, length, left.impl().data, right.impl().data, y.impl().data,
                      refused);
          });
      const auto store = [&](const Tensor& vectors, const Tensor& to) {
        const Tensor turned = view_transposed(vectors);
        copy(turned, view_as(to, turned.shape()));
      };
      store(wide ? right : left, outputs[1]);
      return store(wide ? left : right, outputs[2]);
    }
    case Linalg::determinant:
    case Linalg::log_determinant:
    case Linalg::qr:
    case Linalg::eigh:
      throw InternalError("The host computes this op.");
  }
}

}  // namespace tapestry::gpu
