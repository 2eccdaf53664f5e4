#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "backend/philox.hpp"
#include "io/tensorflow/foreign_parts.hpp"

/// Random numbers that are functions of a seed, bit for bit TensorFlow's.

namespace tapestry::io {

using philox::Block, philox::Word;

/// TensorFlow's Philox: a key and a counter of 128 bits, which counts blocks.
struct Generator {
  Word key[2];
  Block counter;

  Block next() {
    const Block made = philox::scramble(counter, key[0], key[1]);
    skip(1);
    return made;
  }
  void skip(std::uint64_t blocks) {
    std::uint64_t low = counter.words[0] | std::uint64_t{counter.words[1]} << 32;
    low += blocks;
    const bool carries = low < blocks;
    counter.words[0] = static_cast<Word>(low);
    counter.words[1] = static_cast<Word>(low >> 32);
    if (carries && ++counter.words[2] == 0) ++counter.words[3];
  }
  Generator after(std::uint64_t blocks) const {
    Generator other = *this;
    other.skip(blocks);
    return other;
  }
};

inline constexpr std::int32_t philox_algorithm = 1, automatic_algorithm = 3;

/// The generator of a seed of two numbers, which are mixed.
Generator generator_of(const std::vector<std::int64_t>& seed);
/// The generator that a node's inputs tell from `first` on: a seed, or else a key, a counter and the number of an
/// algorithm.
Generator generator_of(const ForeignNode& n, std::size_t first, bool is_seed);

inline float unit_float(Word word) { return std::bit_cast<float>(Word{127} << 23 | (word & 0x7fffff)) - 1.0F; }
inline double unit_double(Word first, Word second) {
  return std::bit_cast<double>(std::uint64_t{1023} << 52 | std::uint64_t{first & 0xfffff} << 32 | second) - 1.0;
}

template <class T>
constexpr T two_pi = static_cast<T>(2 * 3.14159265358979323846);

/// Two normally distributed numbers from two uniform ones, by Box and Muller.
template <class T>
std::array<T, 2> normal_pair(T a, T b) {
  const T angle = two_pi<T> * b, length = std::sqrt(T(-2) * std::log(std::max(a, static_cast<T>(1.0e-7))));
  return {std::sin(angle) * length, std::cos(angle) * length};
}

/// What one block of words gives: four numbers of 32 bits, or two of 64 bits.
/// @{
template <class T>
std::array<T, 16 / sizeof(T)> uniform_group(const Block& block) {
  const Word* w = block.words;
  if constexpr (sizeof(T) == 4) {
    return {unit_float(w[0]), unit_float(w[1]), unit_float(w[2]), unit_float(w[3])};
  } else {
    return {unit_double(w[0], w[1]), unit_double(w[2], w[3])};
  }
}

template <class T>
std::array<T, 16 / sizeof(T)> normal_group(const Block& block) {
  const auto unit = uniform_group<T>(block);
  std::array<T, 16 / sizeof(T)> group;
  for (std::size_t i = 0; i < group.size(); i += 2) {
    const std::array<T, 2> pair = normal_pair(unit[i], unit[i + 1]);
    std::copy(pair.begin(), pair.end(), group.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return group;
}
/// @}

}  // namespace tapestry::io
