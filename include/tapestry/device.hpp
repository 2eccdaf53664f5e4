#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/config.hpp"
#include "tapestry/error.hpp"

namespace tapestry {

/// @addtogroup devices
/// @{

/// A device that holds tensors and runs ops: `cpu()`, `cuda(0)`, `Device("/device:GPU:0")`.
class TAPESTRY_API Device {
 public:
  /// The CPU.
  constexpr Device() = default;
  /// Parses TensorFlow's spelling ("/device:GPU:0", "/cpu:0", also after "/job:..." parts) and the short one ("cpu",
  /// "cuda:1"). Throws InvalidArgumentError for anything else, and for a kind of device that is not registered.
  Device(std::string_view name, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  /// The same for a literal.
  Device(const char* name, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : Device(std::string_view(name), where) {}
  /// The device number `index` of a kind (see `kind()`), whether or not it exists.
  constexpr Device(int kind, int index)
      : kind_(static_cast<std::int16_t>(kind)), index_(static_cast<std::int16_t>(index)) {}

  /// 0 for the CPU, 1 for GPUs, and further numbers for other kinds in the order of their registration.
  constexpr int kind() const { return kind_; }
  /// The number of the device among those of its kind, from 0.
  constexpr int index() const { return index_; }
  /// Whether it is the host itself, whose memory a program can read.
  constexpr bool is_cpu() const { return kind_ == 0; }
  /// Whether kind and index are equal.
  friend constexpr bool operator==(Device, Device) = default;

 private:
  std::int16_t kind_ = 0;  ///< 0: CPU, 1: GPU, then the kinds in the order of their registration
  std::int16_t index_ = 0;
};

/// The host, which is the default device.
constexpr Device cpu() { return {0, 0}; }
/// A GPU by its number, whether or not it exists: see `devices` and `cuda_status`.
constexpr Device cuda(int index = 0) { return {1, index}; }

/// The short name, "cpu" or "cuda:0".
TAPESTRY_API std::string to_string(Device device);
/// Prints the short name.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, Device device);
/// TensorFlow's spelling, "/device:CPU:0".
TAPESTRY_API std::string tensorflow_name(Device device);

/// The devices that can be used now, the CPU first.
TAPESTRY_API std::vector<Device> devices();
/// Explains in one sentence why CUDA devices can or cannot be used. If they can, it also tells whether convolutions use
/// cuDNN.
TAPESTRY_API std::string cuda_status();

/// Waits until a device has finished all work that was started on it. Timing needs this, because a GPU works
/// asynchronously. Reading values does not: it waits by itself. On the CPU there is nothing to wait for. Throws
/// InvalidArgumentError when there is no such device, and InternalError when work on it has failed.
TAPESTRY_API void synchronize(Device device, Where where = Where::here());

/// Turns a log on or off: for every op that runs outside of a Session, a line such as "Executing op MatMul in device
/// /job:localhost/replica:0/task:0/device:GPU:0" is written to std::clog. For sessions there is
/// SessionOptions::log_device_placement.
TAPESTRY_API void set_log_device_placement(bool on);
/// Chooses what the scope of a missing device (`device("/gpu:0")`) means outside of a Session. By default, what runs in
/// it throws; with `on` it runs on the CPU. For sessions there is SessionOptions::allow_soft_placement.
TAPESTRY_API void set_soft_device_placement(bool on);

/// Sets the number of threads that CPU kernels use, including the calling thread. The default is the number of
/// processors that this process may use. Results never depend on it. Throws InvalidArgumentError for a number below 1
/// or above 4096.
TAPESTRY_API void set_num_threads(int count, Where where = Where::here());
/// The number of threads that CPU kernels use.
TAPESTRY_API int num_threads();

/// Sets the precision of matrix products and convolutions of float32 on GPUs, in PyTorch's words:
///  - "highest", the default: in float32;
///  - "high": with operands rounded to TF32 (10 bits of mantissa), which is several times as fast;
///  - "medium": with operands rounded to bfloat16 (7 bits); in convolutions, still to TF32.
///
/// Sums are float32 in all cases. The setting holds for all GPUs, from the next op or run of a session on. It does not
/// affect the CPU or other types. Before the first call, the environment variable TAPESTRY_MATMUL_PRECISION decides.
/// Throws InvalidArgumentError for any other word.
TAPESTRY_API void set_matmul_precision(std::string_view precision, Where where = Where::here());
/// The current precision. Throws InvalidArgumentError when it is set by TAPESTRY_MATMUL_PRECISION to another word.
TAPESTRY_API std::string matmul_precision();

/// Counters of a device's caching allocator.
struct MemoryStats {
  std::int64_t in_use = 0;       ///< bytes handed out to live tensors
  std::int64_t cached = 0;       ///< bytes that are kept for new tensors
  std::int64_t peak = 0;         ///< the largest `in_use` since the last reset
  std::int64_t allocations = 0;  ///< memory blocks handed out since the start of the process
};
/// The current counters. Throws InvalidArgumentError when there is no such device.
TAPESTRY_API MemoryStats memory_stats(Device device = cpu(), Where where = Where::here());
/// Resets `peak` to the bytes that are in use now. Throws InvalidArgumentError when there is no such device.
TAPESTRY_API void reset_peak_memory(Device device = cpu(), Where where = Where::here());
/// Returns the cached memory to the system, and caches no more from now on than what is needed from now on. The result
/// is the number of bytes.
TAPESTRY_API std::int64_t trim_memory(Device device = cpu(), Where where = Where::here());

/// @}

}  // namespace tapestry
