#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "backend/program.hpp"
#include "core/open_plugin.hpp"

namespace tapestry {

/// The CUDA devices of this process: one backend for each, in CUDA's order, or the reason why there is none.
struct CudaDevices {
  std::vector<std::unique_ptr<Backend>> backends;
  /// One sentence without a full stop. If there is no device, it is the reason, and `open_cuda` puts "CUDA is not
  /// available: " before it.
  std::string status;
  std::string (*details)() = nullptr;  ///< tells more about the devices, as of now; may open libraries
};

/// libtapestry_cuda.so exports this as the C symbol `tapestry_cuda_plugin`. The plugin must be compiled by the
/// library's own compiler from the same headers. The first three members tell whether it was, so they keep their
/// offsets.
struct CudaPlugin {
  std::uint32_t bytes;    ///< of this structure
  std::uint32_t layout;   ///< `cuda_layout` of the plugin
  const char* version;    ///< the version of Tapestry that it belongs to
  const void* library;    ///< `library_mark` of the library that it is linked with
  CudaDevices (*find)();  ///< looks for devices; throws nothing
};
inline constexpr const char* cuda_plugin_symbol = "tapestry_cuda_plugin";

/// Differs as soon as one of the structures that the library and the plugin share has another size. Virtual functions
/// of Backend that are added, removed or moved have no size: the number at the start counts such changes.
inline constexpr std::uint32_t cuda_layout = [] {
  std::uint32_t sum = 1;
  for (const std::size_t bytes : {sizeof(detail::TensorImpl), sizeof(detail::Storage), sizeof(Program),
                                  sizeof(Window2d), sizeof(MemoryStats), sizeof(Error), sizeof(CudaDevices)})
    sum = sum * 31 + static_cast<std::uint32_t>(bytes);
  return sum;
}();

}  // namespace tapestry
