#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tapestry::test {

/// Random choices that follow from two numbers: the same on every machine.
class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t number) : state_(seed * 0x9E3779B97F4A7C15U + number) { bits(); }

  /// SplitMix64 (Steele, Lea, Flood 2014).
  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  /// Below n, which is above 0.
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(bits() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class List>
  auto& of(List& list) {
    return *(std::begin(list) + static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

  /// A number at which something may go wrong.
  std::int64_t number() {
    static constexpr auto edges = std::to_array<std::int64_t>({0,
                                                               1,
                                                               2,
                                                               3,
                                                               4,
                                                               5,
                                                               7,
                                                               8,
                                                               9,
                                                               15,
                                                               16,
                                                               31,
                                                               32,
                                                               63,
                                                               64,
                                                               100,
                                                               127,
                                                               255,
                                                               256,
                                                               1000,
                                                               1023,
                                                               1024,
                                                               4096,
                                                               65535,
                                                               65536,
                                                               std::int64_t{1} << 20,
                                                               std::int64_t{1} << 24,
                                                               INT32_MAX,
                                                               std::int64_t{1} << 31,
                                                               UINT32_MAX,
                                                               std::int64_t{1} << 33,
                                                               std::int64_t{1} << 40,
                                                               std::int64_t{1} << 53,
                                                               std::int64_t{1} << 61,
                                                               std::int64_t{1} << 62,
                                                               INT64_MAX,
                                                               INT64_MIN,
                                                               -1734967297});
    const std::int64_t edge = one_in(3) ? of(edges) : edges[below(8)];
    const std::int64_t near = static_cast<std::int64_t>(static_cast<std::uint64_t>(edge) + below(3) - 1);
    return one_in(4) ? static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(near)) : near;
  }

  /// The bytes with one change: some of them lost, doubled, moved or made other ones.
  std::string damaged(std::string bytes) {
    if (bytes.empty()) return {static_cast<char>(bits())};
    const std::size_t at = below(bytes.size()), count = 1 + below(std::min<std::size_t>(bytes.size() - at, 16));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bits());
        return bytes;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8));
        return bytes;
      case 2:
        return bytes.erase(at, count);
      case 3:
        return bytes.insert(at, bytes.substr(below(bytes.size()), count));
      case 4:
        return bytes.substr(0, at);
      default:
        for (std::size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(one_in(2) ? 0 : 255);
        return bytes;
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace tapestry::test
