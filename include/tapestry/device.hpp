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

/// A place where tensors live and ops run: `cpu()`, `cuda(0)`, `Device("/device:GPU:0")`.
class TAPESTRY_API Device {
 public:
  /// The CPU.
  constexpr Device() = default;
  /// Reads TensorFlow's spelling ("/device:GPU:0", "/cpu:0", also after "/job:..." parts) and the short one ("cpu",
  /// "cuda:1"). Throws InvalidArgumentError for anything else, and for a kind of device that nothing registered.
  Device(std::string_view name, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  /// The same, for a literal.
  Device(const char* name, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : Device(std::string_view(name), where) {}
  /// The device number `index` of a kind, whether or not there is one: see `kind()`.
  constexpr Device(int kind, int index)
      : kind_(static_cast<std::int16_t>(kind)), index_(static_cast<std::int16_t>(index)) {}

  /// 0 is the CPU, 1 a GPU; then come the kinds in the order of their registration.
  constexpr int kind() const { return kind_; }
  /// Which device of its kind, from 0.
  constexpr int index() const { return index_; }
  /// Whether it is the host itself, whose memory a program can read.
  constexpr bool is_cpu() const { return kind_ == 0; }
  /// The same device: of equal kind and index.
  friend constexpr bool operator==(Device, Device) = default;

 private:
  std::int16_t kind_ = 0;  ///< 0: CPU, 1: GPU, then the kinds in the order of their registration
  std::int16_t index_ = 0;
};

/// The host, where tensors live unless told otherwise.
constexpr Device cpu() { return {0, 0}; }
/// A GPU by its number, whether or not there is one: see `devices` and `cuda_status`.
constexpr Device cuda(int index = 0) { return {1, index}; }

/// "cpu", "cuda:0": as printed by `Tensor::describe`.
TAPESTRY_API std::string to_string(Device device);
/// Prints "cpu", "cuda:0".
TAPESTRY_API std::ostream& operator<<(std::ostream& out, Device device);
/// "/device:CPU:0": TensorFlow's spelling.
TAPESTRY_API std::string tensorflow_name(Device device);

/// The devices that can be used now, the CPU first.
TAPESTRY_API std::vector<Device> devices();
/// Why CUDA devices can or cannot be used, in one sentence; where they can, also whether convolutions are cuDNN's.
TAPESTRY_API std::string cuda_status();

/// Waits until a device has done everything that was started on it, as timing asks for: a GPU works behind the program.
/// Values need no such call, for what reads them waits. On the CPU there is nothing to wait for. Throws
/// InvalidArgumentError when there is no such device, and InternalError when work on it has failed.
TAPESTRY_API void synchronize(Device device);

/// From now on every op that runs outside of a Session tells std::clog so: "Executing op MatMul in device
/// /job:localhost/replica:0/task:0/device:GPU:0". For sessions there is SessionOptions::log_device_placement.
TAPESTRY_API void set_log_device_placement(bool on);
/// Whether, outside of a Session, the scope of a device that is not there (`device("/gpu:0")`) means the CPU, instead
/// of being an error of what runs in it; off at first. For sessions there is SessionOptions::allow_soft_placement.
TAPESTRY_API void set_soft_device_placement(bool on);

/// Number of threads that CPU kernels use, the caller's included; by default the number of processors this process may
/// use. Results never depend on it. Throws InvalidArgumentError below 1.
TAPESTRY_API void set_num_threads(int count, Where where = Where::here());
/// The number that `set_num_threads` has set, or its default.
TAPESTRY_API int num_threads();

/// How exactly GPUs multiply matrices of float32, and convolve with them; the words are PyTorch's. "highest", the
/// default: in float32. "high": with operands rounded to TF32, 10 bits of mantissa, several times as fast. "medium": to
/// bfloat16, 7 bits (of convolutions, still to TF32). Sums are float32 all the same. It holds for all GPUs, from the
/// next op or run of a session on, and changes nothing on the CPU or for other types. Before the first call the
/// environment variable TAPESTRY_MATMUL_PRECISION decides. Throws InvalidArgumentError for any other word.
TAPESTRY_API void set_matmul_precision(std::string_view precision, Where where = Where::here());
/// The word that `set_matmul_precision` has set, or its default. Throws InvalidArgumentError when
/// TAPESTRY_MATMUL_PRECISION is another word.
TAPESTRY_API std::string matmul_precision();

/// Counters of a device's caching allocator, in bytes.
struct MemoryStats {
  std::int64_t in_use = 0;       ///< handed out to live tensors
  std::int64_t cached = 0;       ///< kept for the next tensor
  std::int64_t peak = 0;         ///< the most ever handed out at one time since the last reset
  std::int64_t allocations = 0;  ///< blocks handed out since the start of the process
};
/// The counters of now. Throws InvalidArgumentError when there is no such device.
TAPESTRY_API MemoryStats memory_stats(Device device = cpu());
/// Lets `peak` start again at what is in use now. Throws InvalidArgumentError when there is no such device.
TAPESTRY_API void reset_peak_memory(Device device = cpu());
/// Gives the cached memory back to the system; returns the number of bytes.
TAPESTRY_API std::int64_t trim_memory(Device device = cpu());

/// @}

}  // namespace tapestry
