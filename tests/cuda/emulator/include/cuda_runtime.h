#pragma once

// What nvcc offers kernels, included in front of every kernel file. __shared__, __launch_bounds__ and <<<>>> are left
// to launches.py.

#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include <math.h>

#include "cuda_runtime_api.h"

namespace emulator {

struct Configuration {
  Configuration(dim3 grid_, dim3 block_, std::size_t shared_ = 0, cudaStream_t stream_ = nullptr)
      : grid(grid_), block(block_), shared(shared_), stream(stream_) {}
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};

/// Appends the kernel to the work of its stream. Messages name it, and the place of its start.
void start(const std::string& name, const Configuration& configuration, std::unique_ptr<Kernel> kernel);

/// name<<<configuration>>>(arguments...) is launch(name, configuration, make), where every thread calls what `make`
/// makes.
template <class Make>
void launch(const char* name, const Configuration& configuration, const Make& make, const char* file = __builtin_FILE(),
            int line = __builtin_LINE()) {
  const char* slash = std::strrchr(file, '/');
  start(std::string(name) + " (" + (slash ? slash + 1 : file) + ":" + std::to_string(line) + ")", configuration,
        std::make_unique<KernelOf<Make>>(make));
}

/// What kernels call by way of launches.py and of the intrinsics below.
void enter_shared(void* data, std::size_t bytes);
template <class... T>
void declare_shared(T&... variables) {
  (enter_shared(&variables, sizeof variables), ...);
}
void wait_for_block(int line);
/// Waits for the lanes of `mask`; result = the value of the lane `source`, of up to 16 bytes.
void exchange(unsigned mask, int line, unsigned source, const void* value, std::size_t bytes, void* result);
unsigned lane();

}  // namespace emulator

inline void __syncthreads(int line = __builtin_LINE()) { emulator::wait_for_block(line); }
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int line = __builtin_LINE()) {
  static_assert(sizeof(T) <= 16);
  T result;
  emulator::exchange(mask, line, emulator::lane() ^ static_cast<unsigned>(lanes), &value, sizeof value, &result);
  return result;
}
inline unsigned long long atomicMin(unsigned long long* to, unsigned long long value) {
  return std::exchange(*to, value < *to ? value : *to);
}
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
