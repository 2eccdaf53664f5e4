#pragma once

// What the parts of the emulator share; all of it is called under `mutex()`.

#include <cstdint>
#include <functional>
#include <mutex>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATOR_ASAN 1
#endif
#endif

namespace emulator {

std::recursive_mutex& mutex();

/// In which order the threads of a block and the blocks of a grid take turns: EMULATED_CUDA_ORDER is `forward`,
/// `backward`, or a number that shuffles them.
class Order {
 public:
  static Order asked_for();
  std::vector<unsigned> of(unsigned count) const;

 private:
  enum class Kind { forward, backward, shuffled } kind_ = Kind::forward;
  unsigned seed_ = 0;
};

/// Runs a kernel to its end. Returns what is wrong with it; empty when nothing is.
std::string run(const Configuration& configuration, const Order& order, const Kernel& kernel);

/// Appends work to a stream; it is done when somebody waits for it. What `task` returns is an error, if not empty; the
/// name stands in front of it.
void enqueue(cudaStream_t stream, const std::string& name, std::function<std::string()> task);

/// Notes the names of the kernels and products that are started while it lives; one at a time.
struct Recording {
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::vector<std::string> names;
};

/// Keeps an error for cudaGetLastError, and returns it.
cudaError_t refuse(cudaError_t error, const std::string& text);

}  // namespace emulator
