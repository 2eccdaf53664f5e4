#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/config.hpp"
#include "tapestry/error.hpp"

namespace tapestry {

/// A place where tensors live and ops run: `cpu()`, `cuda(0)`, `Device("/device:GPU:0")`.
class TAPESTRY_API Device {
 public:
  constexpr Device() = default;
  /// Reads TensorFlow's spelling ("/device:GPU:0", "/cpu:0", also after "/job:..." parts) and the short one ("cpu",
  /// "cuda:1"). Throws InvalidArgumentError for anything else, and for a kind of device that nothing registered.
  Device(std::string_view name, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  Device(const char* name, Where where = Where::here())        // NOLINT(google-explicit-constructor)
      : Device(std::string_view(name), where) {}
  constexpr Device(int kind, int index)
      : kind_(static_cast<std::int16_t>(kind)), index_(static_cast<std::int16_t>(index)) {}

  constexpr int kind() const { return kind_; }
  constexpr int index() const { return index_; }
  constexpr bool is_cpu() const { return kind_ == 0; }
  friend constexpr bool operator==(Device, Device) = default;

 private:
  std::int16_t kind_ = 0;  ///< 0: CPU, 1: GPU, then the kinds in the order of their registration
  std::int16_t index_ = 0;
};

constexpr Device cpu() { return {0, 0}; }
constexpr Device cuda(int index = 0) { return {1, index}; }

/// "cpu", "cuda:0": as printed by `Tensor::describe`.
TAPESTRY_API std::string to_string(Device device);
TAPESTRY_API std::ostream& operator<<(std::ostream& out, Device device);
/// "/device:CPU:0": TensorFlow's spelling.
TAPESTRY_API std::string tensorflow_name(Device device);

/// The devices that can be used now, the CPU first.
TAPESTRY_API std::vector<Device> devices();
/// Why CUDA devices can or cannot be used, in one sentence.
TAPESTRY_API std::string cuda_status();

/// Number of threads that CPU kernels use, the caller's included; by default the number of processors this process may
/// use. Results never depend on it. Throws InvalidArgumentError below 1.
TAPESTRY_API void set_num_threads(int count, Where where = Where::here());
TAPESTRY_API int num_threads();

/// Counters of a device's caching allocator, in bytes.
struct MemoryStats {
  std::int64_t in_use = 0;       ///< handed out to live tensors
  std::int64_t cached = 0;       ///< kept for the next tensor
  std::int64_t peak = 0;         ///< the most ever handed out at one time since the last reset
  std::int64_t allocations = 0;  ///< blocks handed out since the start of the process
};
TAPESTRY_API MemoryStats memory_stats(Device device = cpu());
TAPESTRY_API void reset_peak_memory(Device device = cpu());
/// Gives the cached memory back to the system; returns the number of bytes.
TAPESTRY_API std::int64_t trim_memory(Device device = cpu());

}  // namespace tapestry
