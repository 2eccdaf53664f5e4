#include "backend/cuda_loader.hpp"

#include <dlfcn.h>

#include "core/open_plugin.hpp"

namespace tapestry {
namespace {

CudaDevices no_devices(const std::string& reason) { return {{}, "CUDA is not available: " + reason}; }

}  // namespace

CudaDevices open_cuda(const CudaSearch& search) {
  if (search.enabled == "0") return no_devices("the environment variable TAPESTRY_CUDA is 0");
  const detail::OpenedPlugin opened = detail::open_plugin(
      {.file = "libtapestry_cuda.so", .what = "CUDA backend", .variable = "TAPESTRY_CUDA_PLUGIN", .path = search.path});
  if (!opened.handle) return no_devices(opened.reason);
  const auto* plugin = static_cast<const CudaPlugin*>(dlsym(opened.handle, cuda_plugin_symbol));
  if (!plugin) return no_devices(detail::join("the plugin does not define ", cuda_plugin_symbol));
  if (const std::string reason = detail::mismatch(*plugin, cuda_layout, TAPESTRY_VERSION); !reason.empty())
    return no_devices(reason);
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
