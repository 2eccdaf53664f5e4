// The families that the GPU does not have yet.

#include "backend/cuda/cuda_backend.hpp"

namespace tapestry::gpu {
namespace {

[[noreturn]] void missing(std::string_view family) {
  throw UnimplementedError(detail::join(family, " is not implemented on GPU; move the inputs with .to(tp::cpu())"));
}

}  // namespace

void CudaBackend::linalg(Linalg, std::span<const Tensor>, bool, std::span<const Tensor>) { missing("linalg"); }

}  // namespace tapestry::gpu
