// libFuzzer's entry; READER is one of readers.hpp.

#include <cstdint>

#include "fuzz/readers.hpp"

// Nothing but libFuzzer knows it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tapestry::test::READER(std::as_bytes(std::span(data, size)));
  return 0;
}
