#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/program.hpp"

namespace tapestry {

/// The CUDA devices of this process: one backend for each, in CUDA's order, or the reason why there is none.
struct CudaDevices {
  std::vector<std::unique_ptr<Backend>> backends;
  std::string status;  ///< one sentence without a full stop; behind "CUDA is not available: " when there is no device
  std::string (*remark)() = nullptr;  ///< what has turned out since then, to stand behind the status
};

/// What libtapestry_cuda.so exports as the C symbol `tapestry_cuda_plugin`. It is compiled by the library's own
/// compiler from the same headers, and the first three members tell whether that is so. They keep their places.
struct CudaPlugin {
  std::uint32_t bytes;    ///< of this structure
  std::uint32_t layout;   ///< `cuda_layout` of the plugin
  const char* version;    ///< the version of Tapestry that it belongs to
  const void* library;    ///< `library_mark` of the library that it is linked with
  CudaDevices (*find)();  ///< looks for devices; throws nothing
};
inline constexpr const char* cuda_plugin_symbol = "tapestry_cuda_plugin";

/// Differs as soon as one of the structures that cross the border has another size.
inline constexpr std::uint32_t cuda_layout = [] {
  std::uint32_t sum = 0;
  for (const std::size_t bytes : {sizeof(detail::TensorImpl), sizeof(detail::Storage), sizeof(Program),
                                  sizeof(Window2d), sizeof(MemoryStats), sizeof(Error), sizeof(CudaDevices)})
    sum = sum * 31 + static_cast<std::uint32_t>(bytes);
  return sum;
}();

/// Its address tells one copy of the library from another: a program that is linked with the static library would get a
/// second one together with the plugin.
TAPESTRY_API extern const char library_mark;

}  // namespace tapestry
