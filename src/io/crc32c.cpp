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
/// The instruction takes 3 cycles, but a new one can begin in each: three parts of the bytes are summed at once. This
/// is the length of a part.
constexpr std::size_t lane = 8192;

/// Continues a checksum by `lane` bytes of 0, for each byte of the checksum. The checksum of two parts is that of the
/// first, continued so, with that of the second added bit by bit.
constexpr std::array<std::array<std::uint32_t, 256>, 4> lane_table = [] {
  std::array<std::uint32_t, 32> columns{};  // what each bit becomes
  for (std::size_t bit = 0; bit < 32; ++bit) {
    const std::uint32_t crc = 1U << bit;
    columns[bit] = (crc >> 8) ^ crc_table[crc & 0xFF];
  }
  const auto apply = [](const std::array<std::uint32_t, 32>& to, std::uint32_t crc) {
    std::uint32_t result = 0;
    for (std::size_t bit = 0; bit < 32; ++bit) result ^= (crc >> bit & 1) != 0 ? to[bit] : 0U;
    return result;
  };
  for (std::size_t bytes = 1; bytes < lane; bytes *= 2) {
    const std::array<std::uint32_t, 32> half = columns;
    for (std::uint32_t& each : columns) each = apply(half, each);
  }
  std::array<std::array<std::uint32_t, 256>, 4> made{};
  for (std::uint32_t byte = 0; byte < 4; ++byte)
    for (std::uint32_t i = 0; i < 256; ++i) made[byte][i] = apply(columns, i << (8 * byte));
  return made;
}();

std::uint32_t after_lane(std::uint64_t crc) {
  return lane_table[0][crc & 0xFF] ^ lane_table[1][crc >> 8 & 0xFF] ^ lane_table[2][crc >> 16 & 0xFF] ^
         lane_table[3][crc >> 24 & 0xFF];
}

std::uint64_t word_at(const char* bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t crc, std::string_view bytes) {
  std::uint64_t state = crc;
  for (; bytes.size() >= 3 * lane; bytes.remove_prefix(3 * lane)) {
    std::uint64_t second = 0, third = 0;
    for (std::size_t i = 0; i < lane; i += 8) {
      state = _mm_crc32_u64(state, word_at(bytes.data() + i));
      second = _mm_crc32_u64(second, word_at(bytes.data() + lane + i));
      third = _mm_crc32_u64(third, word_at(bytes.data() + 2 * lane + i));
    }
    state = after_lane(after_lane(state) ^ second) ^ third;
  }
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) state = _mm_crc32_u64(state, word_at(bytes.data()));
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
