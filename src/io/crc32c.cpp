#include "io/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tapestry::io {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table = [] {
  std::array<std::uint32_t, 256> made{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    made[i] = crc;
  }
  return made;
}();

std::uint32_t by_table(std::uint32_t crc, std::string_view bytes) {
  for (const char c : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ c) & 0xFF];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc, std::string_view bytes) {
  std::uint64_t state = crc;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    state = _mm_crc32_u64(state, word);
  }
  return by_table(static_cast<std::uint32_t>(state), bytes);
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes, std::uint32_t before) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~by_instruction(~before, bytes);
#endif
  return ~by_table(~before, bytes);
}

}  // namespace tapestry::io
