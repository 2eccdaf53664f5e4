#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string_view>

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/kernel.hpp"
#include "tapestry/device.hpp"

namespace tapestry::gpu {

/// Throws InternalError with the error's name unless it is cudaSuccess: `check(cudaStreamCreate(&s), "stream")`.
void check(cudaError_t error, std::string_view what);

/// Whether TAPESTRY_CUDA_SYNC asks to wait for every kernel.
bool is_synchronous();

/// Makes a device current in the calling thread. The call costs nothing if it is current already.
void make_current(int index);

/// Copies between host and device memory through two buffers of pinned memory: while the processor copies one of them,
/// the device copies the other. Small copies to the device, such as the numbers of an optimizer, take turns in many
/// small buffers: a copy waits for the work before it in the stream, and the next one must not wait for that. The host
/// memory may be used again as soon as a call returns.
class Staging {
 public:
  void to_device(void* to, const void* from, std::size_t bytes, Stream stream);
  void to_host(void* to, const void* from, std::size_t bytes, Stream stream);

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20, small_bytes = std::size_t{16} << 10;
  static constexpr std::size_t small_buffers = 64;
  struct Buffer {
    std::byte* data = nullptr;
    cudaEvent_t done = nullptr;  ///< recorded after the device's last copy from or to the buffer
  };
  void prepare();
  /// Queues a copy of at most the buffer's bytes, once the buffer is free.
  static void send(const Buffer& buffer, void* to, const void* from, std::size_t bytes, Stream stream);

  std::mutex mutex_;
  Buffer buffers_[2], small_[small_buffers];
  std::size_t small_copies_ = 0;
};

/// A stream-ordered memory pool of a device. Freed memory stays in the pool until `trim`.
class Memory {
 public:
  Memory(int index, Stream stream);
  /// Throws ResourceExhaustedError if there is not enough memory even after `trim`.
  void* allocate(std::size_t bytes);
  /// Returns nullptr if there is not enough memory in the pool and on the device. It does not call `trim`.
  void* try_allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;
  /// Lets another device read this memory directly where the hardware can; elsewhere CUDA copies through the host.
  void allow_access(int device);
  MemoryStats stats();
  void reset_peak();
  std::int64_t trim();

 private:
  cudaMemPool_t make_pool() const;
  /// An attribute of the pool that counts bytes: those that it has reserved, or those in use.
  std::int64_t attribute(cudaMemPoolAttr which);
  [[noreturn]] void* refuse(std::size_t bytes);

  int index_;
  Stream stream_;
  cudaMemPool_t pool_;
  std::mutex mutex_;
  MemoryStats stats_;
  std::set<int> readers_;
};

/// A device in use: its stream, memory and staging. All work of a device goes through its one stream, in the order of
/// the calls; exchanges with other ranks' devices have one beside it. Never destroyed: the driver may be gone before
/// the last tensor.
class Context {
 public:
  explicit Context(int index);

  int index() const { return index_; }
  int compute_capability() const { return compute_capability_; }  ///< 90 for 9.0
  /// The stream of the calling thread's work: the device's, or the one in which the work is recorded.
  Stream stream() const;
  /// The stream of exchanges with other ranks' devices, which the first call creates. Its work must wait for that of
  /// the device's stream, and be waited for.
  Stream exchange_stream();
  /// An event at the end of what a stream of this device has been given so far.
  cudaEvent_t event_behind(Stream stream) const;
  /// Makes later work of a stream wait for an event of a device, which is used up.
  void wait_for(cudaEvent_t event, Stream stream) const;
  /// Throws CannotRecord while the thread's work is recorded. Call it before the thread waits for the device, copies
  /// from or to the host, or starts a library.
  void require_execution() const;
  Memory& memory() { return memory_; }
  Staging& staging() { return staging_; }

  /// Throws InternalError if the last kernel did not start and, with TAPESTRY_CUDA_SYNC=1, if it failed. Call it after
  /// every start of a kernel.
  void started(std::string_view kernel);
  void synchronize();

 private:
  friend class Refusal;
  int index_, compute_capability_;
  Stream stream_;
  std::once_flag exchange_once_;
  Stream exchange_stream_ = nullptr;
  Memory memory_;
  Staging staging_;
  std::mutex refusal_mutex_;
  unsigned long long* refused_ = nullptr;  ///< in device memory
};

/// Finds the first value that kernels refuse, such as an index out of range. Kernels lower `word()` to the position of
/// a refused value; `position()` waits for them. There is one Refusal at a time on each device, but for those of a
/// recording with LateChecks, which do not wait and share the recording's word.
class Refusal {
 public:
  /// `harmless`: the kernels behind the check change nothing if it refuses a value. Throws CannotRecord while the
  /// thread's work is recorded without LateChecks, or with those for harmless kernels only.
  explicit Refusal(Context& context, bool harmless = false);
  unsigned long long* word() const { return word_; }
  /// The first position that a kernel refused, -1 if none did or if the recording tells that later.
  std::int64_t position();

  static constexpr unsigned long long none = ~0ULL;  ///< the word while nothing is refused

 private:
  Context& context_;
  std::unique_lock<std::mutex> lock_;
  unsigned long long* word_;
};

}  // namespace tapestry::gpu
