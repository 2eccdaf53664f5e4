#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"

namespace tapestry::gpu {

/// Device memory.
struct DeviceBuffer {
  void* data;
  std::size_t bytes;
};

/// While it lives, what the calling thread starts on a device is recorded by CUDA, in a stream of its own.
///
/// Memory that kernels need for themselves must be there in every replay. So what is allocated and given back meanwhile
/// is kept, and given to the next who asks; what was allocated before and is given back now is kept for the first
/// replay, which uses it.
class Capture {
 public:
  explicit Capture(Context& gpu);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// The calling thread's on that device; nullptr when it records nothing there.
  static Capture* on(const Context& gpu);

  Stream stream() const { return stream_; }
  void* allocate(std::size_t bytes);
  void deallocate(void* data, std::size_t bytes) noexcept;

  /// What has been recorded; nullptr when CUDA could not.
  std::unique_ptr<Recording> finish();

 private:
  friend class Graph;
  Context& gpu_;
  Stream stream_ = nullptr;
  Capture* outer_;
  std::vector<DeviceBuffer> used_, free_;  ///< of those that were allocated meanwhile
  std::vector<DeviceBuffer> old_;          ///< given back, and allocated before
};

}  // namespace tapestry::gpu
