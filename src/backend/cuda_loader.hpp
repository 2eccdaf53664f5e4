#pragma once

#include <string>

#include "backend/cuda_plugin.hpp"

namespace tapestry {

/// Where the plugin is looked for; see docs/devices.md for the environment variables.
struct CudaSearch {
  std::string enabled;  ///< TAPESTRY_CUDA: "0" disables the search
  std::string path;  ///< TAPESTRY_CUDA_PLUGIN: the plugin's file; empty: beside the library, then the linker's folders
};

/// Opens the plugin. It is never closed: kernels and tensors may be in use until the process ends.
CudaDevices open_cuda(const CudaSearch& search);

/// The devices that the environment variables select. The first call looks for them; later calls return the same.
const CudaDevices& cuda_devices();

}  // namespace tapestry
