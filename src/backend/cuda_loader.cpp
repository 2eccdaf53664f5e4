#include "backend/cuda_loader.hpp"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

namespace tapestry {

const char library_mark = 0;

namespace {

constexpr const char* plugin_file = "libtapestry_cuda.so";

/// The file that contains this code: libtapestry.so, or the program itself.
std::filesystem::path this_file() {
  Dl_info info{};
  return dladdr(&library_mark, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

struct Opened {
  void* handle = nullptr;
  std::string reason;  ///< why there is no handle
};

Opened open_file(const std::string& file) {
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {handle, handle ? "" : dlerror()};
}

Opened open_plugin(const CudaSearch& search) {
  if (!search.path.empty()) {
    Opened opened = open_file(search.path);
    if (!opened.handle) opened.reason = "TAPESTRY_CUDA_PLUGIN cannot be opened: " + opened.reason;
    return opened;
  }
  const std::filesystem::path beside = this_file().replace_filename(plugin_file);
  std::error_code error;
  if (std::filesystem::exists(beside, error)) return open_file(beside);
  Opened opened = open_file(plugin_file);
  if (!opened.handle)
    opened.reason = detail::join("this build of Tapestry has no CUDA backend: there is no ", plugin_file, " beside ",
                                 this_file().string());
  return opened;
}

/// Why a plugin cannot be used by this library; empty when it can.
std::string mismatch(const CudaPlugin& plugin) {
  const std::string ours = TAPESTRY_VERSION;
  if (plugin.bytes != sizeof(CudaPlugin) || plugin.version != ours)
    return detail::join("the plugin belongs to another version of Tapestry",
                        plugin.bytes == sizeof(CudaPlugin) ? detail::join(", ", plugin.version, ", not ", ours) : "");
  if (plugin.layout != cuda_layout) return "the plugin was compiled with another layout of Tapestry's structures";
  if (plugin.library != &library_mark)
    return "the plugin works with the shared libtapestry only, and this program has a copy of its own (is it linked "
           "with the static library?)";
  return "";
}

CudaDevices no_devices(const std::string& reason) { return {{}, "CUDA is not available: " + reason}; }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace

CudaDevices open_cuda(const CudaSearch& search) {
  if (search.enabled == "0") return no_devices("the environment variable TAPESTRY_CUDA is 0");
  const Opened opened = open_plugin(search);
  if (!opened.handle) return no_devices(opened.reason);
  const auto* plugin = static_cast<const CudaPlugin*>(dlsym(opened.handle, cuda_plugin_symbol));
  if (!plugin) return no_devices(detail::join("the plugin does not define ", cuda_plugin_symbol));
  if (const std::string reason = mismatch(*plugin); !reason.empty()) return no_devices(reason);
  CudaDevices found = plugin->find();
  return found.backends.empty() ? no_devices(found.status) : std::move(found);
}

const CudaDevices& cuda_devices() {
  // Never destroyed, like all backends: tensors in static variables outlive every destructor here.
  static const CudaDevices& found =
      *new CudaDevices(open_cuda({environment("TAPESTRY_CUDA"), environment("TAPESTRY_CUDA_PLUGIN")}));
  return found;
}

}  // namespace tapestry
