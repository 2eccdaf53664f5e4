#include "backend/cuda/libraries.hpp"

#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "tapestry/error.hpp"

namespace tapestry::gpu {

namespace {

/// The major version of this CUDA, which its libraries share.
std::string cuda_major() { return std::to_string(CUDART_VERSION / 1000); }

/// Sets pointers to the functions of a library.
struct Finder {
  void* library;

  template <class Function>
  void operator()(Function*& function, const char* name) const {
    find_function(function, library, name);
  }
};

}  // namespace

void* open_library(const std::string& name, const std::string& version) {
  const std::string file = "lib" + name + ".so." + version;
  std::vector<std::string> places;
  if (const char* folder = std::getenv("TAPESTRY_CUDA_LIBRARIES")) places.push_back(std::string(folder) + "/" + file);
  places.push_back(file);
  if (const char* home = std::getenv("CUDA_HOME")) places.push_back(std::string(home) + "/lib64/" + file);
  places.push_back("/usr/local/cuda/lib64/" + file);
  std::string reason;
  for (const std::string& place : places) {
    if (void* library = dlopen(place.c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
    reason = dlerror();
  }
  throw NotFoundError(detail::join("CUDA's library ", file, " cannot be opened: ", reason));
}

void* function_of(void* library, const char* name) {
  if (void* function = dlsym(library, name)) return function;
  throw NotFoundError(detail::join("CUDA's library has no function ", name));
}

const CublasLt& cublas_lt() {
  static const CublasLt table = [] {
    void* library = open_library("cublasLt", cuda_major());
    CublasLt functions{};
    const Finder find{library};
    find(functions.create, "cublasLtCreate");
    find(functions.matmul, "cublasLtMatmul");
    find(functions.heuristic, "cublasLtMatmulAlgoGetHeuristic");
    find(functions.desc_create, "cublasLtMatmulDescCreate");
    find(functions.desc_destroy, "cublasLtMatmulDescDestroy");
    find(functions.desc_set, "cublasLtMatmulDescSetAttribute");
    find(functions.layout_create, "cublasLtMatrixLayoutCreate");
    find(functions.layout_destroy, "cublasLtMatrixLayoutDestroy");
    find(functions.layout_set, "cublasLtMatrixLayoutSetAttribute");
    find(functions.preference_create, "cublasLtMatmulPreferenceCreate");
    find(functions.preference_destroy, "cublasLtMatmulPreferenceDestroy");
    find(functions.preference_set, "cublasLtMatmulPreferenceSetAttribute");
    find(functions.status_string, "cublasLtGetStatusString");
    return functions;
  }();
  return table;
}

const Nvrtc& nvrtc() {
  static const Nvrtc table = [] {
    const Finder find{open_library("nvrtc", cuda_major())};
    Nvrtc functions{};
    decltype(&nvrtcVersion) version = nullptr;
    find(version, "nvrtcVersion");
    version(&functions.major, &functions.minor);
    // NVRTC opens this library by its file name alone. If it is open already, that succeeds wherever it is installed.
    open_library("nvrtc-builtins", detail::join(functions.major, ".", functions.minor));
    find(functions.arch_count, "nvrtcGetNumSupportedArchs");
    find(functions.archs, "nvrtcGetSupportedArchs");
    find(functions.create, "nvrtcCreateProgram");
    find(functions.destroy, "nvrtcDestroyProgram");
    find(functions.compile, "nvrtcCompileProgram");
    find(functions.cubin_size, "nvrtcGetCUBINSize");
    find(functions.cubin, "nvrtcGetCUBIN");
    find(functions.ptx_size, "nvrtcGetPTXSize");
    find(functions.ptx, "nvrtcGetPTX");
    find(functions.log_size, "nvrtcGetProgramLogSize");
    find(functions.log, "nvrtcGetProgramLog");
    find(functions.error_string, "nvrtcGetErrorString");
    return functions;
  }();
  return table;
}

}  // namespace tapestry::gpu
