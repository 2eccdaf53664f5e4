#pragma once

// The words of CUDA C++ and where a thread stands; and kernels as the emulator runs them. Without the standard
// library's containers: NVRTC's stand-in compiles it with every program.

#include <new>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern dim3 gridDim, blockDim;
extern uint3 blockIdx, threadIdx;

namespace emulator {

/// What each thread of a started kernel does.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual void thread() const = 0;
  /// What the kernel was given.
  virtual const void* arguments() const = 0;
  virtual unsigned long argument_bytes() const = 0;
};
/// The arguments are made where they stay, in memory full of zeros: whoever looks for addresses in them finds none that
/// lay there before, between them.
template <class Make>
class KernelOf final : public Kernel {
  using Call = decltype((*static_cast<const Make*>(nullptr))());

 public:
  explicit KernelOf(const Make& make) : call_(::new (static_cast<void*>(place_)) Call(make())) {}
  ~KernelOf() override { call_->~Call(); }
  KernelOf(const KernelOf&) = delete;
  KernelOf& operator=(const KernelOf&) = delete;
  void thread() const override { (*call_)(); }
  const void* arguments() const override { return place_; }
  unsigned long argument_bytes() const override { return sizeof place_; }

 private:
  alignas(Call) unsigned char place_[sizeof(Call)]{};
  Call* call_;
};

/// What NVRTC's stand-in makes of a text, and cudaLibraryLoadData takes: this in front of a shared object, which has
/// the function `emulated_kernel`.
struct Image {
  char magic[16];
  unsigned long long bytes;  ///< of the shared object
};
inline constexpr char image_magic[16] = "emulated kernel";
/// A kernel's function with its arguments, which it copies.
using MakeKernel = Kernel* (*)(void** arguments);

/// Called by every thread of a kernel with __launch_bounds__.
void check_launch_bounds(unsigned threads);

}  // namespace emulator
