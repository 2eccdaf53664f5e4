#pragma once

// Reductions with the same bits at every level: a row is reduced in a fixed number of lanes, and each level holds them
// in as many registers as it needs.

#include <cstdint>

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif

/// 256 bytes of lanes: four AVX-512 registers, enough independent additions to hide their latency.
constexpr int lane_bytes = 256;
constexpr int registers = lane_bytes / register_bytes;
template <class T>
constexpr int lane_count = lane_bytes / sizeof(T);

/// A vector of T's. `load` and `store` copy it from and to memory of any alignment. Pointers to it would not do,
/// because clang forgets a type's lower alignment where templates pass it on.
template <class T, int bytes = register_bytes>
struct Register {
  using type [[gnu::vector_size(bytes)]] = T;
};
template <class V, class T>
[[gnu::always_inline]] inline V load(const T* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof(V));
  return value;
}
template <class V, class T>
[[gnu::always_inline]] inline void store(const V& value, T* to) {
  __builtin_memcpy(to, &value, sizeof(V));
}

struct Sum {
  template <class V>
  [[gnu::always_inline]] static V combine(V a, V b) {
    return static_cast<V>(a + b);
  }
};

/// NaN propagates: b is taken if it is NaN, and an a that is NaN stays, because no comparison with it holds.
struct Max {
  template <class V>
  [[gnu::always_inline]] static V combine(V a, V b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

/// Combines the values in a register as a balanced tree: first each value of the lower half with that of the upper
/// half, and so on.
template <class Op, class T, int bytes = register_bytes>
[[gnu::always_inline]] inline T fold(const typename Register<T, bytes>::type& values) {
  if constexpr (bytes == sizeof(T)) {
    return values[0];
  } else {
    constexpr int half = bytes / 2;
    typename Register<T, half>::type low, high;
    __builtin_memcpy(&low, &values, half);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&values) + half, half);
    return fold<Op, T, half>(Op::combine(low, high));
  }
}
template <class Op, class T>
[[gnu::always_inline]] inline T fold(typename Register<T>::type* values, int count) {
  for (int half = count / 2; half > 0; half /= 2)
    for (int r = 0; r < half; ++r) values[r] = Op::combine(values[r], values[r + half]);
  return fold<Op, T>(values[0]);
}

/// Combines term(i), i < n, by Op. `vector(i)` returns a register of the terms from i on, `scalar(i)` one term. A short
/// row stays scalar.
template <class Op, class T, class Vector, class Scalar>
[[gnu::always_inline]] inline T reduce_lanes(std::int64_t n, T identity, Vector vector, Scalar scalar) {
  using V = typename Register<T>::type;
  constexpr int lanes = lane_count<T>, width = register_bytes / sizeof(T);
  constexpr int quarter = lanes / 4, quarter_registers = registers / 4;
  T result = identity;
  std::int64_t i = 0;
  if (n >= quarter) {
    V sums[registers];
    for (int r = 0; r < quarter_registers; ++r) sums[r] = vector(r * width);
    i = quarter;
    if (n >= lanes) {
      for (int r = quarter_registers; r < registers; ++r) sums[r] = vector(r * width);
      for (i = lanes; i + lanes <= n; i += lanes)
        for (int r = 0; r < registers; ++r) sums[r] = Op::combine(sums[r], vector(i + r * width));
      for (int half = registers / 2; half >= quarter_registers; half /= 2)
        for (int r = 0; r < half; ++r) sums[r] = Op::combine(sums[r], sums[r + half]);
    }
    for (; i + quarter <= n; i += quarter)
      for (int r = 0; r < quarter_registers; ++r) sums[r] = Op::combine(sums[r], vector(i + r * width));
    result = fold<Op, T>(sums, quarter_registers);
  }
  for (; i < n; ++i) result = Op::combine(result, scalar(i));
  return result;
}

/// The number of terms that a sum adds in T before it goes on in double, for accuracy.
constexpr std::int64_t sum_block = 4096;

/// The sum of term(i), i < n: `vector` and `scalar` as for `reduce_lanes`.
template <class T, class Vector, class Scalar>
[[gnu::always_inline]] inline double sum_lanes(std::int64_t n, Vector vector, Scalar scalar) {
  double total = 0;
  for (std::int64_t begin = 0; begin < n; begin += sum_block) {
    const std::int64_t count = n - begin < sum_block ? n - begin : sum_block;
    total += static_cast<double>(reduce_lanes<Sum, T>(
        count, T(0), [=](std::int64_t i) { return vector(begin + i); },
        [=](std::int64_t i) { return scalar(begin + i); }));
  }
  return total;
}

}  // namespace
}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
