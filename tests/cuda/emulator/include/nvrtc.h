#pragma once

// The types and functions of NVRTC that the plugin uses, with their names and numbers; see ../README.md.

#include <cstddef>

enum nvrtcResult {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_INVALID_INPUT = 3,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6
};
using nvrtcProgram = struct _nvrtcProgram*;

extern "C" {
const char* nvrtcGetErrorString(nvrtcResult result);
nvrtcResult nvrtcVersion(int* major, int* minor);
nvrtcResult nvrtcGetNumSupportedArchs(int* count);
nvrtcResult nvrtcGetSupportedArchs(int* archs);
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* text, const char* name, int header_count,
                               const char* const* headers, const char* const* header_names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char* const* options);
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* cubin);
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* bytes);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
}
