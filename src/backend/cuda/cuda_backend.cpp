#include "backend/cuda/cuda_backend.hpp"

#include "backend/cuda/nccl_group.hpp"
#include "backend/cuda/recording.hpp"
#include "core/make_tensor.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {

Context& CudaBackend::context() {
  make_current(index_);
  std::call_once(once_, [this] { context_ = new Context(index_); });
  return *context_;
}

void* CudaBackend::allocate(std::size_t bytes) {
  Context& gpu = context();
  Capture* capture = Capture::on(gpu);
  return capture ? capture->allocate(bytes) : gpu.memory().allocate(bytes);
}
void CudaBackend::deallocate(void* data, std::size_t bytes) noexcept {
  Capture* capture = Capture::on(*context_);
  capture ? capture->deallocate(data, bytes) : context_->memory().deallocate(data, bytes);
}

void CudaBackend::copy_to_host(void* to, const void* from, std::size_t bytes) {
  Context& gpu = context();
  gpu.require_execution();
  gpu.staging().to_host(to, from, bytes, gpu.stream());
}
void CudaBackend::copy_from_host(void* to, const void* from, std::size_t bytes) {
  Context& gpu = context();
  gpu.require_execution();
  gpu.staging().to_device(to, from, bytes, gpu.stream());
}

namespace {

/// Makes later work of `waiting` wait for the work that `other` has been given so far.
void wait_for(const Context& other, const Context& waiting) {
  waiting.wait_for(other.event_behind(other.stream()), waiting.stream());
}

}  // namespace

bool CudaBackend::copy_from_peer(Backend& peer, void* to, const void* from, std::size_t bytes) {
  auto* source = dynamic_cast<CudaBackend*>(&peer);
  if (!source) return false;
  if (bytes == 0) return true;
  Context &there = source->context(), &here = context();
  there.require_execution();
  here.require_execution();
  there.memory().allow_access(index_);
  wait_for(there, here);
  check(cudaMemcpyPeerAsync(to, index_, from, source->index_, bytes, here.stream()), "copying between devices");
  wait_for(here, there);  // before the peer reuses the memory
  return true;
}

std::string CudaBackend::address() { return nccl_address(index_); }
std::string CudaBackend::new_group() { return new_nccl_id(); }
std::unique_ptr<DeviceGroup> CudaBackend::join_group(const std::string& group, int rank, int ranks) {
  return join_by_nccl(context(), group, rank, ranks);
}

void CudaBackend::synchronize() { context().synchronize(); }
MemoryStats CudaBackend::memory_stats() { return context().memory().stats(); }
void CudaBackend::reset_peak_memory() { context().memory().reset_peak(); }
std::int64_t CudaBackend::trim_memory() {
  context().require_execution();
  return context().memory().trim();
}

}  // namespace tapestry::gpu
