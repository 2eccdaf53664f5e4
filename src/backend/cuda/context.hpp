#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string_view>

#include <cuda_runtime_api.h>

#include "backend/cuda/kernels/kernel.hpp"
#include "tapestry/device.hpp"

namespace tapestry::gpu {

/// Throws InternalError with CUDA's name for the error when there is one: `check(cudaStreamCreate(&s), "stream")`.
void check(cudaError_t error, std::string_view what);

/// Whether TAPESTRY_CUDA_SYNC asks to wait for every kernel.
bool is_synchronous();

/// Makes a device the calling thread's; the call costs nothing when it is already.
void make_current(int index);

/// Copies between the host's memory and a device's, by way of two blocks of pinned memory: while the processor copies
/// one of them, the device copies the other. The host's memory may be used again as soon as a call returns.
class Staging {
 public:
  void to_device(void* to, const void* from, std::size_t bytes, Stream stream);
  void to_host(void* to, const void* from, std::size_t bytes, Stream stream);

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20;
  struct Buffer {
    std::byte* data = nullptr;
    cudaEvent_t done = nullptr;  ///< what the device last did with the buffer
  };
  void prepare();

  std::mutex mutex_;
  Buffer buffers_[2];
};

/// The memory of a device: a pool of its own, in the order of the stream. What is freed stays in the pool until `trim`.
class Memory {
 public:
  Memory(int index, Stream stream);
  /// Throws ResourceExhaustedError when there is not enough, also after the pool has given back what it did not use.
  void* allocate(std::size_t bytes);
  /// The same, nullptr when there is not enough in the pool and on the device.
  void* try_allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;
  /// Lets another device copy from here by itself, where the two are joined; else CUDA copies by way of the host.
  void let_read(int device);
  MemoryStats stats();
  void reset_peak();
  std::int64_t trim();

 private:
  cudaMemPool_t make_pool() const;
  /// Of bytes that the pool holds, and of which it has handed out.
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
/// the calls. Never destroyed: the driver may be gone before the last tensor.
class Context {
 public:
  explicit Context(int index);

  int index() const { return index_; }
  int compute_capability() const { return compute_capability_; }  ///< 90 of 9.0
  /// Where the calling thread's work goes: the device's stream, or the one in which it is recorded.
  Stream stream() const;
  /// To be called before the thread waits for the device, copies from or to the host, or starts a library: throws
  /// CannotRecord while its work is recorded.
  void require_execution() const;
  Memory& memory() { return memory_; }
  Staging& staging() { return staging_; }

  /// To be called after every start of a kernel: throws InternalError if it did not start, and with
  /// TAPESTRY_CUDA_SYNC=1 also if it failed.
  void started(std::string_view kernel);
  void synchronize();

 private:
  friend class Refusal;
  int index_, compute_capability_;
  Stream stream_;
  Memory memory_;
  Staging staging_;
  std::mutex refusal_mutex_;
  unsigned long long* refused_ = nullptr;  ///< in device memory
};

/// For families that refuse some elements: kernels lower `word()` to the position of an element that may not stand
/// there, and `position()` waits for them. One at a time on each device.
class Refusal {
 public:
  explicit Refusal(Context& context);
  unsigned long long* word() const { return context_.refused_; }
  /// The first position that a kernel refused, -1 if none did.
  std::int64_t position();

 private:
  Context& context_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace tapestry::gpu
