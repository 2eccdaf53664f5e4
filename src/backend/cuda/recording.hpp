#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"

namespace tapestry::gpu {

/// A block of device memory.
struct DeviceBuffer {
  void* data;
  std::size_t bytes;
};

/// A word of the host's memory that the device can write.
struct FreePinned {
  void operator()(unsigned long long* word) const { cudaFreeHost(word); }
};
using PinnedWord = std::unique_ptr<unsigned long long, FreePinned>;

/// While a Capture lives, CUDA records the work that the calling thread starts on a device, in a stream of its own.
///
/// The workspace of kernels must exist in every replay. So memory that is allocated and freed while recording is kept,
/// and reused for later allocations of the recording. Memory that was allocated before and is freed while recording is
/// kept until the first replay, which uses it.
class Capture {
 public:
  explicit Capture(Context& gpu);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// The calling thread's Capture on a device; nullptr if it records nothing there.
  static Capture* on(const Context& gpu);

  Stream stream() const { return stream_; }
  void* allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;
  /// The word of the recording's late checks (Refusal), in pinned memory: the device writes it only when it refuses a
  /// value, and the host reads it without a copy.
  unsigned long long* refused();

  /// Ends the recording and returns it; nullptr if CUDA could not record the work.
  std::unique_ptr<Recording> finish();

 private:
  friend class Graph;
  Context& gpu_;
  Stream stream_ = nullptr;
  Capture* outer_;
  std::vector<DeviceBuffer> used_, free_;  ///< allocated while recording: in use, and freed again
  std::vector<DeviceBuffer> old_;          ///< allocated before, and freed while recording
  PinnedWord refused_;
};

}  // namespace tapestry::gpu
