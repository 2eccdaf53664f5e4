// A plugin to be opened in place of the real one; the test fills in what it tells about itself.

#include "backend/cuda_plugin.hpp"

extern "C" {
TAPESTRY_API tapestry::CudaPlugin tapestry_cuda_plugin{};
}
