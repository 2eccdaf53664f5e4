#include "backend/cuda/cudnn.hpp"

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "backend/cuda/libraries.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

/// The library, or why it is not used.
struct Library {
  Cudnn functions{};
  std::mutex mutex;
  std::string reason;

  Library() {
    const char* setting = std::getenv("TAPESTRY_CUDNN");
    if (setting && std::string_view(setting) == "0") {
      reason = "the environment variable TAPESTRY_CUDNN is 0";
      return;
    }
    try {
      void* library = open_library("cudnn", "9");
#define TAPESTRY_FIND(member, name) find_function(functions.member, library, #name);
      TAPESTRY_CUDNN(TAPESTRY_FIND)
#undef TAPESTRY_FIND
    } catch (const NotFoundError& error) {
      reason = error.message();
    }
  }
};

Library& library() {
  static Library& only = *new Library;
  return only;
}

}  // namespace

const Cudnn* cudnn() {
  const std::lock_guard lock(library().mutex);
  return library().reason.empty() ? &library().functions : nullptr;
}

void disable_cudnn(const std::string& reason) {
  const std::lock_guard lock(library().mutex);
  library().reason = reason;
}

std::string convolutions_by() {
  if (const Cudnn* functions = cudnn()) {
    const std::size_t version = functions->version();
    return detail::join("convolutions by cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100);
  }
  const std::lock_guard lock(library().mutex);
  return "convolutions by Tapestry's own kernels: " + library().reason;
}

}  // namespace tapestry::gpu
