#include "backend/cuda_loader.hpp"

#include "core/open_plugin.hpp"

namespace tapestry {
namespace {

CudaDevices no_devices(const std::string& reason) { return {{}, "CUDA is not available: " + reason}; }

}  // namespace

CudaDevices open_cuda(const CudaSearch& search) {
  if (search.enabled == "0") return no_devices("the environment variable TAPESTRY_CUDA is 0");
  const auto [plugin, reason] = detail::find_plugin<CudaPlugin>(
      {.file = "libtapestry_cuda.so", .what = "CUDA backend", .variable = "TAPESTRY_CUDA_PLUGIN", .path = search.path},
      cuda_plugin_symbol, cuda_layout, TAPESTRY_VERSION);
  if (!plugin) return no_devices(reason);
  CudaDevices found = plugin->find();
  return found.backends.empty() ? no_devices(found.status) : std::move(found);
}

const CudaDevices& cuda_devices() {
  // Never destroyed, like all backends: tensors in static variables outlive every destructor here.
  static const CudaDevices& found =
      *new CudaDevices(open_cuda({detail::environment("TAPESTRY_CUDA"), detail::environment("TAPESTRY_CUDA_PLUGIN")}));
  return found;
}

}  // namespace tapestry
