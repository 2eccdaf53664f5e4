#pragma once

#include <string>

#include <cublasLt.h>
#include <nvrtc.h>

namespace tapestry::gpu {

// CUDA's libraries are hundreds of megabytes large. Each is opened when it is first needed, so that programs start
// without them, and machines without them run all work that does not need them.

/// The functions of cuBLASLt.
struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&cublasLtGetStatusString) status_string;
};
/// Throws NotFoundError, with the reason of the last attempt, when the library cannot be opened.
const CublasLt& cublas_lt();

/// The functions of NVRTC, which compiles CUDA C++, and its version.
struct Nvrtc {
  int major, minor;
  decltype(&nvrtcGetNumSupportedArchs) arch_count;
  decltype(&nvrtcGetSupportedArchs) archs;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetPTXSize) ptx_size;
  decltype(&nvrtcGetPTX) ptx;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetErrorString) error_string;
};
/// Throws NotFoundError as `cublas_lt` does, also when NVRTC's own library of built-in functions cannot be opened.
const Nvrtc& nvrtc();

/// Opens libNAME.so.VERSION. It looks in $TAPESTRY_CUDA_LIBRARIES, where the dynamic linker looks, in $CUDA_HOME/lib64
/// and in /usr/local/cuda/lib64, in this order. Throws NotFoundError.
void* open_library(const std::string& name, const std::string& version);
/// A function of an open library. Throws NotFoundError.
void* function_of(void* library, const char* name);
/// Sets `function` to the function of that name. Throws NotFoundError.
template <class Function>
void find_function(Function*& function, void* library, const char* name) {
  function = reinterpret_cast<Function*>(function_of(library, name));
}

}  // namespace tapestry::gpu
