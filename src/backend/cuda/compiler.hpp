#pragma once

#include <span>
#include <string>

namespace tapestry::gpu {

/// What NVRTC generates for a GPU: machine code or, if NVRTC does not know the GPU, PTX for an older one, which the
/// driver compiles further.
struct Target {
  int arch = 0;  ///< a compute capability: 90 for 9.0
  bool machine_code = true;
};
/// Throws NotFoundError where there is no NVRTC.
Target target_for(int compute_capability);

/// Everything that the result of `compile` depends on: NVRTC's version, the options, the headers that the plugin
/// carries, and the text. Throws NotFoundError where there is no NVRTC.
std::string compilation_key(const std::string& text, Target target);

struct Compiled {
  std::string image;  ///< what cudaLibraryLoadData takes
  std::string log;
};
/// Compiles a text, which may include the plugin's headers, with NVRTC. Throws InternalError with the compiler's
/// messages and the text if there is an error in it, and NotFoundError where there is no NVRTC.
Compiled compile(const std::string& text, Target target, std::span<const char* const> more_options = {});

}  // namespace tapestry::gpu
