#include "backend/cpu/kernels/random.hpp"

#include <cstdint>

#include "backend/cpu/kernels/math.hpp"
#include "backend/philox.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

/// The number of blocks that are made at a time.
constexpr int batch = 64;

/// lanes[l][i]: number l of block i.
template <class T>
struct Lanes {
  static constexpr int count = static_cast<int>(elements_per_block<T>);
  T lanes[count][batch];
};

[[gnu::always_inline]] inline void units(const philox::Block& block, int i, Lanes<float>& to) {
  for (int l = 0; l < 4; ++l) to.lanes[l][i] = philox::unit_float(block.words[l]);
}
[[gnu::always_inline]] inline void units(const philox::Block& block, int i, Lanes<double>& to) {
  for (int l = 0; l < 2; ++l) to.lanes[l][i] = philox::unit_double(block.words[2 * l], block.words[2 * l + 1]);
}

template <class T>
struct SineCosine {
  T sine, cosine;
};
/// The sine and cosine of 2 pi u for u in [0, 1). They are computed within an eighth of a turn around a multiple of a
/// quarter turn, where Taylor's series is exact to the last bits.
template <class T>
[[gnu::always_inline]] inline SineCosine<T> turn(T u) {
  constexpr T half_pi = static_cast<T>(1.57079632679489661923);
  const T quarter = math::floor(u * T(4) + T(0.5));
  const T x = (u * T(4) - quarter) * half_pi, z = x * x;
  constexpr int terms = sizeof(T) == 4 ? 5 : 9;
  T s = 1, c = 1;
  for (int i = terms; i > 0; --i) {
    s = T(1) - z * s * static_cast<T>(1.0 / (2 * i * (2 * i + 1)));
    c = T(1) - z * c * static_cast<T>(1.0 / (2 * i * (2 * i - 1)));
  }
  s *= x;
  // quarter is 0 ... 4; an odd one exchanges sine and cosine.
  const bool odd = quarter == T(1) || quarter == T(3);
  const T sine = odd ? c : s, cosine = odd ? s : c;
  return {quarter == T(2) || quarter == T(3) ? -sine : sine, quarter == T(1) || quarter == T(2) ? -cosine : cosine};
}

/// Box and Muller 1958: pairs of uniform numbers become pairs of independent normal ones.
template <class T>
[[gnu::always_inline]] inline void make_normal(Lanes<T>& values) {
  constexpr T unit = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-53);
  for (int l = 0; l < Lanes<T>::count; l += 2) {
    for (int i = 0; i < batch; ++i) {
      const T radius = math::sqrt(T(-2) * math::log(values.lanes[l][i] + unit));  // log of (0, 1] is finite
      const SineCosine<T> angle = turn(values.lanes[l + 1][i]);
      values.lanes[l][i] = radius * angle.cosine;
      values.lanes[l + 1][i] = radius * angle.sine;
    }
  }
}

template <class T>
[[gnu::always_inline]] inline void draw(RandomKind kind, uint64_t key, uint64_t counter, uint32_t attempt, T a, T b,
                                        T top, Lanes<T>& values) {
  for (int i = 0; i < batch; ++i) units(philox::block(key, counter + i, attempt), i, values);
  switch (kind) {
    case RandomKind::uniform:
      for (int l = 0; l < Lanes<T>::count; ++l) {
        for (int i = 0; i < batch; ++i) {
          const T value = a + values.lanes[l][i] * (b - a);
          values.lanes[l][i] = value > top ? top : value;  // the sum may have been rounded up
        }
      }
      break;
    case RandomKind::bernoulli:
      for (int l = 0; l < Lanes<T>::count; ++l)
        for (int i = 0; i < batch; ++i) values.lanes[l][i] = values.lanes[l][i] < a ? T(1) : T(0);
      break;
    default:
      make_normal(values);
  }
}

template <class T>
[[gnu::noinline]] void fill_batch(RandomKind kind, uint64_t key, uint64_t counter, T a, T b, T top, T* y) {
  Lanes<T> values;
  draw(kind, key, counter, 0, a, b, top, values);
  if (kind == RandomKind::truncated_normal) {
    for (uint32_t attempt = 1, left = 1; left > 0; ++attempt) {
      left = 0;
      for (int l = 0; l < Lanes<T>::count; ++l)
        for (int i = 0; i < batch; ++i) left += math::abs(values.lanes[l][i]) > T(2);
      if (left == 0) break;
      Lanes<T> again;
      draw(kind, key, counter, attempt, a, b, top, again);
      for (int l = 0; l < Lanes<T>::count; ++l)
        for (int i = 0; i < batch; ++i)
          values.lanes[l][i] = math::abs(values.lanes[l][i]) > T(2) ? again.lanes[l][i] : values.lanes[l][i];
    }
  }
  const bool scaled = kind == RandomKind::normal || kind == RandomKind::truncated_normal;
  const T mean = scaled ? a : T(0), deviation = scaled ? b : T(1);
  for (int i = 0; i < batch; ++i)
    for (int l = 0; l < Lanes<T>::count; ++l) y[i * Lanes<T>::count + l] = mean + deviation * values.lanes[l][i];
}

template <class T>
void floats(RandomKind kind, uint64_t key, uint64_t counter, T a, T b, T top, T* y, int64_t n) {
  constexpr int64_t size = batch * elements_per_block<T>;
  for (; n >= size; n -= size, y += size, counter += batch) fill_batch(kind, key, counter, a, b, top, y);
  if (n > 0) {
    T rest[size];
    fill_batch(kind, key, counter, a, b, top, rest);
    for (int64_t i = 0; i < n; ++i) y[i] = rest[i];
  }
}

template <class T>
void whole(uint64_t key, uint64_t counter, int64_t a, uint64_t range, T* y, int64_t n) {
  for (int64_t i = 0; i < n; i += whole_per_block, ++counter) {
    const philox::Block block = philox::block(key, counter);
    for (int64_t l = 0; l < whole_per_block && i + l < n; ++l) {
      const uint64_t word = uint64_t{block.words[2 * l]} << 32 | block.words[2 * l + 1];
      // The upper half of a product of 128 bits has a bias of range / 2^64.
      const auto product = static_cast<unsigned __int128>(word) * range;
      y[i + l] = static_cast<T>(a + static_cast<uint64_t>(product >> 64));
    }
  }
}

}  // namespace

const RandomTable random_table = {
    .f32 = floats<float>, .f64 = floats<double>, .i32 = whole<std::int32_t>, .i64 = whole<std::int64_t>};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
