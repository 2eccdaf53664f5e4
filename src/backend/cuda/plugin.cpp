#include <cuda_runtime_api.h>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/cudnn.hpp"
#include "backend/cuda_plugin.hpp"

namespace tapestry::gpu {
namespace {

/// "13.0" for 13000.
std::string version_text(int number) { return detail::join(number / 1000, ".", number % 1000 / 10); }

std::string describe(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "asking a device what it is");
  return detail::join(properties.name, " (compute capability ", properties.major, ".", properties.minor, ", ",
                      properties.totalGlobalMem >> 20, " MiB)");
}

/// Why the runtime sees no device, in words that say what to do.
std::string reason(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver) {
    int version = 0;
    cudaDriverGetVersion(&version);
    if (version == 0) return "there is no NVIDIA driver (cudaErrorInsufficientDriver)";
    return detail::join("the NVIDIA driver is for CUDA ", version_text(version), ", and this build needs ",
                        version_text(CUDART_VERSION), " (cudaErrorInsufficientDriver)");
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess)
    return "the driver finds no device (is CUDA_VISIBLE_DEVICES set?)";
  return detail::join(cudaGetErrorName(error), ", ", cudaGetErrorString(error));
}

CudaDevices find_devices() {
  CudaDevices found;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    found.status = reason(error);
    return found;
  }
  std::string names;
  for (int i = 0; i < count; ++i) names += (i > 0 ? ", " : "") + describe(i);
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "asking for the driver's version");
  found.status = detail::join("CUDA is available: ", names, "; CUDA ", version_text(CUDART_VERSION), ", driver for ",
                              version_text(driver));
  found.details = [] { return convolutions_by() + program_details(); };
  for (int i = 0; i < count; ++i) found.backends.push_back(std::make_unique<CudaBackend>(i));
  return found;
}

CudaDevices find() {
  try {
    return find_devices();
  } catch (const Error& error) {
    return {{}, error.message()};
  }
}

}  // namespace
}  // namespace tapestry::gpu

extern "C" {
TAPESTRY_API extern const tapestry::CudaPlugin tapestry_cuda_plugin;
const tapestry::CudaPlugin tapestry_cuda_plugin{sizeof(tapestry::CudaPlugin), tapestry::cuda_layout, TAPESTRY_VERSION,
                                                &tapestry::library_mark, tapestry::gpu::find};
}
