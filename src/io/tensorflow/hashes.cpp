#include "io/tensorflow/hashes.hpp"

#include <bit>

#include "tapestry/error.hpp"

namespace tapestry::io {
namespace {

constexpr std::uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

/// The first characters as a number, the lowest byte first.
std::uint64_t number_in(std::string_view text, std::size_t bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(text[i]);
  return number;
}

std::uint64_t shift_mix(std::uint64_t x) { return x ^ x >> 47; }

std::uint64_t mixed(std::uint64_t u, std::uint64_t v, std::uint64_t factor) {
  const std::uint64_t a = shift_mix((u ^ v) * factor);
  return shift_mix((v ^ a) * factor) * factor;
}

std::uint64_t farm_hash_of_few(std::string_view text) {
  const std::uint64_t length = text.size(), factor = k2 + length * 2;
  if (length >= 8) {
    const std::uint64_t a = number_in(text, 8) + k2, b = number_in(text.substr(length - 8), 8);
    return mixed(std::rotr(b, 37) * factor + a, (std::rotr(a, 25) + b) * factor, factor);
  }
  if (length >= 4) return mixed(length + (number_in(text, 4) << 3), number_in(text.substr(length - 4), 4), factor);
  if (length == 0) return k2;
  const auto at = [&](std::size_t i) { return std::uint64_t{static_cast<unsigned char>(text[i])}; };
  const std::uint64_t y = at(0) + (at(length / 2) << 8), z = length + (at(length - 1) << 2);
  return shift_mix(y * k2 ^ z * k0) * k2;
}

}  // namespace

std::uint64_t farm_hash(std::string_view text) {
  const std::uint64_t length = text.size(), factor = k2 + length * 2;
  if (length <= 16) return farm_hash_of_few(text);
  if (length > 32) throw InternalError("Only short texts are hashed");
  const std::uint64_t a = number_in(text, 8) * k1, b = number_in(text.substr(8), 8),
                      c = number_in(text.substr(length - 8), 8) * factor,
                      d = number_in(text.substr(length - 16), 8) * k2;
  return mixed(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + k2, 18) + c, factor);
}

std::uint64_t sip_hash(std::string_view text, std::uint64_t key0, std::uint64_t key1) {
  std::uint64_t v[4] = {0x736f6d6570736575 ^ key0, 0x646f72616e646f6d ^ key1, 0x6c7967656e657261 ^ key0,
                        0x7465646279746573 ^ key1};
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v[0] += v[1];
      v[2] += v[3];
      v[1] = std::rotl(v[1], 13) ^ v[0];
      v[3] = std::rotl(v[3], 16) ^ v[2];
      v[0] = std::rotl(v[0], 32) + v[3];
      v[2] += v[1];
      v[1] = std::rotl(v[1], 17) ^ v[2];
      v[3] = std::rotl(v[3], 21) ^ v[0];
      v[2] = std::rotl(v[2], 32);
    }
  };
  const auto absorb = [&](std::uint64_t word) {
    v[3] ^= word;
    rounds(2);
    v[0] ^= word;
  };
  const std::uint64_t length = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) absorb(number_in(text, 8));
  absorb(number_in(text, text.size()) | length << 56);
  v[2] ^= 0xff;
  rounds(4);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

std::uint64_t murmur_hash(std::string_view text, std::uint64_t seed) {
  constexpr std::uint64_t factor = 0xc6a4a7935bd1e995;
  std::uint64_t hash = seed ^ text.size() * factor;
  for (; text.size() >= 8; text.remove_prefix(8))
    hash = (hash ^ shift_mix(number_in(text, 8) * factor) * factor) * factor;
  if (!text.empty()) hash = (hash ^ number_in(text, text.size())) * factor;
  return shift_mix(shift_mix(hash) * factor);
}

std::uint64_t pair_hash(std::uint64_t first, std::uint64_t second) {
  constexpr std::uint64_t factor = 0xc6a4a7935bd1e995;
  const std::uint64_t hash = (first ^ factor ^ shift_mix(second * factor) * factor) * factor;
  return shift_mix(shift_mix(hash) * factor);
}

}  // namespace tapestry::io
