// Runs device_cases.cpp where there is a CUDA device, and says in one line that there is none.

#include <cstdio>
#include <cstdlib>

#include <doctest/doctest.h>

#include "tapestry/device.hpp"

int main(int argc, char** argv) {
  const std::string status = tapestry::cuda_status();
  if (tapestry::devices().back().is_cpu()) {
    const bool required = std::getenv("TAPESTRY_REQUIRE_CUDA") != nullptr;
    std::printf("%s: no CUDA device: %s\n", required ? "failed" : "skipped", status.c_str());
    return required ? 1 : 77;
  }
  std::printf("%s\n", status.c_str());
  return doctest::Context(argc, argv).run();
}
