#pragma once

// The counter-based generator Philox4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2,
// 3, 2011), for every backend: g++, clang, nvcc and NVRTC. A block of numbers is a function of its key and counter
// alone, so the numbers depend neither on the thread that draws them nor on the order of the draws.

#ifdef __CUDACC__
#define TAPESTRY_PHILOX __host__ __device__ __forceinline__
#else
// Inlined always: see the trap in backend/cpu/levels.hpp.
#define TAPESTRY_PHILOX inline __attribute__((always_inline))
#endif

namespace tapestry::philox {

using Word = unsigned int;
using LongWord = unsigned long long;
static_assert(sizeof(Word) == 4 && sizeof(LongWord) == 8);

/// A counter, or the block of four random words that `scramble` makes of it.
struct Block {
  Word words[4];
};

TAPESTRY_PHILOX Block scramble(Block c, Word k0, Word k1) {
  for (int round = 0; round < 10; ++round) {
    const LongWord p0 = LongWord{0xD2511F53u} * c.words[0], p1 = LongWord{0xCD9E8D57u} * c.words[2];
    c = Block{{static_cast<Word>(p1 >> 32) ^ c.words[1] ^ k0, static_cast<Word>(p1),
               static_cast<Word>(p0 >> 32) ^ c.words[3] ^ k1, static_cast<Word>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// The words at a counter. `attempt` selects one of the blocks of a counter, for callers that must draw again.
TAPESTRY_PHILOX Block block(LongWord key, LongWord counter, Word attempt = 0) {
  return scramble(Block{{static_cast<Word>(counter), static_cast<Word>(counter >> 32), attempt, 0}},
                  static_cast<Word>(key), static_cast<Word>(key >> 32));
}

/// In [0, 1), a multiple of 2^-24.
TAPESTRY_PHILOX float unit_float(Word word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
/// In [0, 1), a multiple of 2^-53.
TAPESTRY_PHILOX double unit_double(Word high, Word low) {
  return static_cast<double>((LongWord{high} << 32 | low) >> 11) * 0x1p-53;
}

}  // namespace tapestry::philox
