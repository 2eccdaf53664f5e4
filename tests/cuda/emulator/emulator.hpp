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

/// A piece of work; what it returns is an error, if not empty.
using Task = std::function<std::string()>;

/// Appends work to a stream; it is done when somebody waits for it, or, in a stream that is captured, recorded with the
/// memory that it has been given. The name stands in front of its errors.
void enqueue(cudaStream_t stream, const std::string& name, Task task, const std::vector<const void*>& memory = {});

/// The number of the block of device memory in which something lies, which no other block has or will have; 0 outside.
std::uint64_t block_number(const void* data);

/// What the calling thread may not do while it captures a stream, unless it has said "relaxed": refuses it, and the
/// capture is lost.
cudaError_t refuse_while_capturing(const char* what);

/// Notes the names of the kernels and products that are started while it lives; one at a time.
struct Recording {
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::vector<std::string> names;
};

/// Adds the name of what is started to the Recording that lives, if any.
void note(const std::string& name);

/// Keeps an error for cudaGetLastError, and returns it.
cudaError_t refuse(cudaError_t error, const std::string& text);

}  // namespace emulator
