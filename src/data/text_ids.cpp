#include "tapestry/data/text_ids.hpp"

#include <cstring>
#include <unordered_map>
#include <utility>

#include "tapestry/data/csv.hpp"

namespace tapestry::data {
namespace {

// FarmHash's Fingerprint64 (G. Pike, 2014), whose values never change: TensorFlow's models depend on them.

using Number = std::uint64_t;

constexpr Number k0 = 0xc3a5c85c97cb3127U, k1 = 0xb492b66fbe98f273U, k2 = 0x9ae16a3b2f90404fU;

Number fetch(const char* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}
Number fetch32(const char* bytes) {
  std::uint32_t number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}
constexpr Number rotated(Number x, int by) { return x >> by | x << (64 - by); }
constexpr Number mixed(Number x) { return x ^ x >> 47; }
constexpr Number joined(Number u, Number v, Number factor) {
  const Number a = mixed((u ^ v) * factor);
  return mixed((v ^ a) * factor) * factor;
}

Number up_to_16(const char* s, std::size_t size) {
  const Number factor = k2 + size * 2;
  if (size >= 8) {
    const Number a = fetch(s) + k2, b = fetch(s + size - 8);
    return joined(rotated(b, 37) * factor + a, (rotated(a, 25) + b) * factor, factor);
  }
  if (size >= 4) return joined(size + (fetch32(s) << 3), fetch32(s + size - 4), factor);
  if (size == 0) return k2;
  const auto byte = [&](std::size_t i) { return Number{static_cast<unsigned char>(s[i])}; };
  const Number y = byte(0) + (byte(size >> 1) << 8), z = size + (byte(size - 1) << 2);
  return mixed((y & 0xFFFFFFFF) * k2 ^ z * k0) * k2;
}

Number up_to_32(const char* s, std::size_t size) {
  const Number factor = k2 + size * 2, a = fetch(s) * k1, b = fetch(s + 8), c = fetch(s + size - 8) * factor,
               d = fetch(s + size - 16) * k2;
  return joined(rotated(a + b, 43) + rotated(c, 30) + d, a + rotated(b + k2, 18) + c, factor);
}

Number up_to_64(const char* s, std::size_t size) {
  const Number factor = k2 + size * 2, a = fetch(s) * k2, b = fetch(s + 8), c = fetch(s + size - 8) * factor,
               d = fetch(s + size - 16) * k2, y = rotated(a + b, 43) + rotated(c, 30) + d,
               z = joined(y, a + rotated(b + k2, 18) + c, factor), e = fetch(s + 16) * factor, f = fetch(s + 24),
               g = (y + fetch(s + size - 32)) * factor, h = (z + fetch(s + size - 24)) * factor;
  return joined(rotated(e + f, 43) + rotated(g, 30) + h, e + rotated(f + a, 18) + g, factor);
}

/// Two numbers of 32 bytes and two others.
std::pair<Number, Number> of_32(const char* s, Number a, Number b) {
  const Number w = fetch(s), x = fetch(s + 8), y = fetch(s + 16), z = fetch(s + 24);
  a += w;
  b = rotated(b + a + z, 21);
  const Number c = a;
  a += x + y;
  b += rotated(a, 44);
  return {a + z, b + c};
}

Number longer(const char* s, std::size_t size) {
  const char* const end = s + (size - 1) / 64 * 64;
  const char* const last_64 = s + size - 64;
  Number x = 81, y = x * k1 + 113, z = mixed(y * k2 + 113) * k2;
  std::pair<Number, Number> v{}, w{};
  x = x * k2 + fetch(s);
  const auto round = [&](const char* at, Number factor, Number nine) {
    x = rotated(x + y + v.first + fetch(at + 8), 37) * factor;
    y = rotated(y + v.second + fetch(at + 48), 42) * factor;
    x ^= w.second * nine;
    y += v.first * nine + fetch(at + 40);
    z = rotated(z + w.first, 33) * factor;
    v = of_32(at, v.second * factor, x + w.first);
    w = of_32(at + 32, z + w.second, y + fetch(at + 16));
    std::swap(z, x);
  };
  for (; s != end; s += 64) round(s, k1, 1);
  const Number factor = k1 + ((z & 0xFF) << 1);
  w.first += (size - 1) & 63;
  v.first += w.first;
  w.first += v.first;
  round(last_64, factor, 9);
  return joined(joined(v.first, w.first, factor) + mixed(y) * k0 + z, joined(v.second, w.second, factor) + x, factor);
}

}  // namespace

std::uint64_t fingerprint(std::string_view text) {
  if (text.size() <= 16) return up_to_16(text.data(), text.size());
  if (text.size() <= 32) return up_to_32(text.data(), text.size());
  if (text.size() <= 64) return up_to_64(text.data(), text.size());
  return longer(text.data(), text.size());
}

std::int64_t hash_bucket(std::string_view text, std::int64_t buckets, Where where) {
  if (buckets < 1) throw InvalidArgumentError(detail::join("There cannot be ", buckets, " buckets"), where);
  return static_cast<std::int64_t>(fingerprint(text) % static_cast<std::uint64_t>(buckets));
}

struct Vocabulary::State {
  std::vector<std::string> words;
  std::unordered_map<std::string_view, std::int64_t> ids;  ///< of the words above
  std::int64_t unknown_buckets;
};

Vocabulary::Vocabulary(std::vector<std::string> words, const VocabularyOptions& options, Where where) {
  if (words.empty()) throw InvalidArgumentError("A Vocabulary needs words", where);
  if (options.unknown_buckets < 0)
    throw InvalidArgumentError(detail::join("There cannot be ", options.unknown_buckets, " buckets for unknown words"),
                               where);
  auto state = std::make_shared<State>(State{std::move(words), {}, options.unknown_buckets});
  for (std::size_t i = 0; i < state->words.size(); ++i)
    if (!state->ids.emplace(state->words[i], i).second)
      throw InvalidArgumentError(detail::join("The word '", state->words[i], "' occurs twice, as number ",
                                              state->ids.at(state->words[i]), " and ", i),
                                 where);
  state_ = state;
}

Vocabulary Vocabulary::read(const std::string& path, const VocabularyOptions& options, Where where) {
  return Vocabulary(read_lines(path, where), options, where);
}

std::int64_t Vocabulary::id(std::string_view word) const {
  const auto found = state_->ids.find(word);
  if (found != state_->ids.end()) return found->second;
  if (state_->unknown_buckets == 0) return -1;
  return static_cast<std::int64_t>(state_->words.size()) + hash_bucket(word, state_->unknown_buckets);
}

const std::string& Vocabulary::word(std::int64_t id, Where where) const {
  if (id < 0 || id >= static_cast<std::int64_t>(state_->words.size()))
    throw OutOfRangeError(detail::join("The Vocabulary has ", state_->words.size(), " words, and none of id ", id),
                          where);
  return state_->words[id];
}

std::int64_t Vocabulary::size() const {
  return static_cast<std::int64_t>(state_->words.size()) + state_->unknown_buckets;
}

}  // namespace tapestry::data
