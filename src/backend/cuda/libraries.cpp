#include "backend/cuda/libraries.hpp"

#include <cstdlib>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "tapestry/error.hpp"

namespace tapestry::gpu {

void* open_library(const std::string& name, int major) {
  const std::string file = "lib" + name + ".so." + std::to_string(major);
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
    void* library = open_library("cublasLt", CUDART_VERSION / 1000);
    CublasLt functions{};
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(function_of(library, name));
    };
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

}  // namespace tapestry::gpu
