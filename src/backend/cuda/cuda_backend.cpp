#include "backend/cuda/cuda_backend.hpp"

#include "core/make_tensor.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {

Context& CudaBackend::context() {
  make_current(index_);
  std::call_once(once_, [this] { context_ = new Context(index_); });
  return *context_;
}

Tensor CudaBackend::dense(const Tensor& x) {
  if (x.is_contiguous()) return x;
  Tensor tensor = detail::make_tensor(x.dtype(), x.shape(), x.device());
  copy(x, tensor);
  return tensor;
}

void* CudaBackend::allocate(std::size_t bytes) { return context().memory().allocate(bytes); }
void CudaBackend::deallocate(void* data, std::size_t bytes) noexcept { context_->memory().deallocate(data, bytes); }

void CudaBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  Context& gpu = context();
  gpu.staging().to_host(to, from, bytes, gpu.stream());
}
void CudaBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  Context& gpu = context();
  gpu.staging().to_device(to, from, bytes, gpu.stream());
}

void CudaBackend::synchronize() { context().synchronize(); }
MemoryStats CudaBackend::memory_stats() { return context().memory().stats(); }
void CudaBackend::reset_peak_memory() { context().memory().reset_peak(); }
std::int64_t CudaBackend::trim_memory() { return context().memory().trim(); }

}  // namespace tapestry::gpu
