#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cuda/context.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {

// --- Device memory ------------------------------------------------------------------------------------------------

Memory::Memory(int index, Stream stream) : index_(index), stream_(stream), pool_(make_pool()) {}

cudaMemPool_t Memory::make_pool() const {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = index_;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "creating a memory pool");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "setting up a memory pool");
  return pool;
}

void* Memory::try_allocate(std::size_t bytes) {
  make_current(index_);
  void* data = nullptr;
  const cudaError_t error = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, "allocating memory");
  const std::lock_guard lock(mutex_);
  stats_.in_use += bytes;
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  ++stats_.allocations;
  return data;
}

void* Memory::allocate(std::size_t bytes) {
  void* data = try_allocate(bytes);
  if (data) return data;
  trim();
  data = try_allocate(bytes);
  return data ? data : refuse(bytes);
}

void* Memory::refuse(std::size_t bytes) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  const MemoryStats now = stats();
  throw ResourceExhaustedError(detail::join(
      "OOM when allocating ", bytes, " bytes on ", tensorflow_name(cuda(index_)), ": ", now.in_use,
      " bytes are in use, ", now.cached, " more are in the pool, and the device has ", free, " of ", total, " left"));
}

void Memory::deallocate(void* data, std::size_t bytes) noexcept {
  // While the process ends, the driver may be gone. It has freed all memory then, so failures do not matter.
  try {
    make_current(index_);
  } catch (const Error&) {
    return;
  }
  cudaFreeAsync(data, stream_);
  const std::lock_guard lock(mutex_);
  stats_.in_use -= bytes;
}

void Memory::allow_access(int device) {
  const std::lock_guard lock(mutex_);
  if (!readers_.insert(device).second) return;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, device, index_), "asking which devices are joined");
  if (can == 0) return;
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  check(cudaMemPoolSetAccess(pool_, &access, 1), "opening a memory pool to another device");
}

std::int64_t Memory::attribute(cudaMemPoolAttr which) {
  std::uint64_t value = 0;
  check(cudaMemPoolGetAttribute(pool_, which, &value), "asking a memory pool");
  return value;
}

MemoryStats Memory::stats() {
  make_current(index_);
  const std::int64_t cached = attribute(cudaMemPoolAttrReservedMemCurrent) - attribute(cudaMemPoolAttrUsedMemCurrent);
  const std::lock_guard lock(mutex_);
  MemoryStats stats = stats_;
  stats.cached = cached;
  return stats;
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.in_use;
}

std::int64_t Memory::trim() {
  make_current(index_);
  const std::int64_t before = attribute(cudaMemPoolAttrReservedMemCurrent);
  check(cudaStreamSynchronize(stream_), "waiting for the device");  // completes the frees in the stream
  check(cudaMemPoolTrimTo(pool_, 0), "trimming a memory pool");
  return before - attribute(cudaMemPoolAttrReservedMemCurrent);
}

// --- Copies -------------------------------------------------------------------------------------------------------

void Staging::prepare() {
  if (buffers_[0].data) return;
  std::byte* next = nullptr;
  const auto add = [&](Buffer& buffer, std::size_t bytes) {
    check(cudaEventCreateWithFlags(&buffer.done, cudaEventDisableTiming), "creating an event");
    buffer.data = std::exchange(next, next + bytes);
  };
  void* data = nullptr;
  check(cudaMallocHost(&data, small_buffers * small_bytes + 2 * buffer_bytes), "allocating pinned memory");
  next = static_cast<std::byte*>(data);
  for (Buffer& buffer : small_) add(buffer, small_bytes);
  for (Buffer& buffer : buffers_) add(buffer, buffer_bytes);
}

void Staging::send(const Buffer& buffer, void* to, const void* from, std::size_t bytes, Stream stream) {
  check(cudaEventSynchronize(buffer.done), "waiting for a copy");
  std::memcpy(buffer.data, from, bytes);
  check(cudaMemcpyAsync(to, buffer.data, bytes, cudaMemcpyHostToDevice, stream), "copying to the device");
  check(cudaEventRecord(buffer.done, stream), "recording an event");
}

void Staging::to_device(void* to, const void* from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  prepare();
  if (bytes <= small_bytes) return send(small_[small_copies_++ % small_buffers], to, from, bytes, stream);
  for (std::size_t begin = 0, i = 0; begin < bytes; begin += buffer_bytes, ++i)
    send(buffers_[i % 2], static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
         std::min(buffer_bytes, bytes - begin), stream);
}

void Staging::to_host(void* to, const void* from, std::size_t bytes, Stream stream) {
  const std::lock_guard lock(mutex_);
  prepare();
  const std::size_t count = (bytes + buffer_bytes - 1) / buffer_bytes;
  for (std::size_t i = 0; i <= count && bytes > 0; ++i) {
    if (i < count) {
      const Buffer& buffer = buffers_[i % 2];
      const std::size_t begin = i * buffer_bytes;
      check(cudaMemcpyAsync(buffer.data, static_cast<const std::byte*>(from) + begin,
                            std::min(buffer_bytes, bytes - begin), cudaMemcpyDeviceToHost, stream),
            "copying to the host");
      check(cudaEventRecord(buffer.done, stream), "recording an event");
    }
    if (i > 0) {
      const Buffer& buffer = buffers_[(i - 1) % 2];
      const std::size_t begin = (i - 1) * buffer_bytes;
      check(cudaEventSynchronize(buffer.done), "waiting for the device");
      std::memcpy(static_cast<std::byte*>(to) + begin, buffer.data, std::min(buffer_bytes, bytes - begin));
    }
  }
}

}  // namespace tapestry::gpu
