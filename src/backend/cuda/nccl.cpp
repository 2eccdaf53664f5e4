#include "backend/cuda/nccl.hpp"

#include "backend/cuda/libraries.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {

const Nccl& nccl() {
  static const Nccl table = [] {
    void* library = open_library("nccl", "2");
    Nccl functions{};
#define TAPESTRY_FIND(member, name) find_function(functions.member, library, #name);
    TAPESTRY_NCCL(TAPESTRY_FIND)
#undef TAPESTRY_FIND
    return functions;
  }();
  return table;
}

std::string nccl_name() {
  int number = 0;
  nccl().version(&number);
  return detail::join("NCCL ", number / 10000, ".", number / 100 % 100, ".", number % 100);
}

}  // namespace tapestry::gpu
