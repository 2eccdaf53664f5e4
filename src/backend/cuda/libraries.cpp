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
    find_function(functions.create, library, "cublasLtCreate");
    find_function(functions.matmul, library, "cublasLtMatmul");
    find_function(functions.heuristic, library, "cublasLtMatmulAlgoGetHeuristic");
    find_function(functions.desc_create, library, "cublasLtMatmulDescCreate");
    find_function(functions.desc_destroy, library, "cublasLtMatmulDescDestroy");
    find_function(functions.desc_set, library, "cublasLtMatmulDescSetAttribute");
    find_function(functions.layout_create, library, "cublasLtMatrixLayoutCreate");
    find_function(functions.layout_destroy, library, "cublasLtMatrixLayoutDestroy");
    find_function(functions.layout_set, library, "cublasLtMatrixLayoutSetAttribute");
    find_function(functions.preference_create, library, "cublasLtMatmulPreferenceCreate");
    find_function(functions.preference_destroy, library, "cublasLtMatmulPreferenceDestroy");
    find_function(functions.preference_set, library, "cublasLtMatmulPreferenceSetAttribute");
    find_function(functions.status_string, library, "cublasLtGetStatusString");
    return functions;
  }();
  return table;
}

}  // namespace tapestry::gpu
