#pragma once

#include <span>
#include <string>

namespace tapestry::gpu {

/// What NVRTC compiles for a GPU: its machine code, or where NVRTC is older than the GPU, PTX for the newest one that
/// it knows, which the driver compiles further.
struct Target {
  int arch = 0;  ///< the compute capability: 90
  bool machine_code = true;
};
/// Throws NotFoundError where there is no NVRTC.
Target target_for(int compute_capability);

/// All that the result of `compile` depends on: NVRTC's version, the options, the headers that the plugin carries, and
/// the text. Throws NotFoundError.
std::string compilation_key(const std::string& text, Target target);

struct Compiled {
  std::string image;  ///< what cudaLibraryLoadData takes
  std::string log;
};
/// Compiles a text over the plugin's headers by NVRTC. Throws InternalError with the compiler's messages and the text,
/// and NotFoundError.
Compiled compile(const std::string& text, Target target, std::span<const char* const> more_options = {});

}  // namespace tapestry::gpu
