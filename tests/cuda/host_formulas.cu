#include "backend/cuda/kernels/convert.hpp"
#include "backend/cuda/kernels/formulas.hpp"
#include "host_formulas.hpp"

namespace tapestry::gpu {
namespace {

template <int inputs, class F, class A, class T, class Y>
void loop(const void* a, const void* b, const void* c, void* y, std::int64_t n, double number) {
  const T p = static_cast<T>(number);
  for (std::int64_t i = 0; i < n; ++i) {
    const T second = inputs > 1 ? static_cast<const T*>(b)[i] : T(0);
    const T third = inputs > 2 ? static_cast<const T*>(c)[i] : T(0);
    static_cast<Y*>(y)[i] = static_cast<Y>(F::template apply<A, T>(static_cast<const A*>(a)[i], second, third, p));
  }
}
template <int inputs, class F, class A, class T, class Y>
struct Loop {
  static constexpr HostLoop value = loop<inputs, F, A, T, Y>;
};

template <class To>
struct Convert {
  template <class From, class>
  static To apply(From x, From, From, From) {
    return convert<To>(x);
  }
};
template <class From>
HostLoop convert_from(Type to) {
  switch (to) {
    case Type::b8:
      return loop<1, Convert<bool>, From, From, bool>;
    case Type::u8:
      return loop<1, Convert<std::uint8_t>, From, From, std::uint8_t>;
    case Type::i32:
      return loop<1, Convert<std::int32_t>, From, From, std::int32_t>;
    case Type::i64:
      return loop<1, Convert<std::int64_t>, From, From, std::int64_t>;
    case Type::f32:
      return loop<1, Convert<float>, From, From, float>;
    default:
      return loop<1, Convert<double>, From, From, double>;
  }
}

template <class T>
void floats(RandomKind kind, std::uint64_t key, std::uint64_t counter, double a, double b, double top, void* y,
            std::int64_t n) {
  constexpr int count = block_elements<T>;
  for (std::int64_t i = 0; i * count < n; ++i) {
    T numbers[count];
    draw(kind, key, counter + static_cast<std::uint64_t>(i), static_cast<T>(a), static_cast<T>(b), static_cast<T>(top),
         numbers);
    for (int j = 0; j < count && i * count + j < n; ++j) static_cast<T*>(y)[i * count + j] = numbers[j];
  }
}

template <class T>
void whole(std::uint64_t key, std::uint64_t counter, std::int64_t a, std::uint64_t range, void* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const philox::Block block = philox::block(key, counter + static_cast<std::uint64_t>(i / whole_block_elements));
    static_cast<T*>(y)[i] = static_cast<T>(draw_whole(block, static_cast<int>(i % whole_block_elements), a, range));
  }
}

}  // namespace

HostLoop host_unary(Unary f, Type type) { return unary_table<HostLoop, Loop>().at(f, type); }
HostLoop host_binary(Binary f, Type type) { return binary_table<HostLoop, Loop>().at(f, type); }
HostLoop host_ternary(Ternary f, Type type) { return ternary_table<HostLoop, Loop>().at(f, type); }

HostLoop host_convert(Type from, Type to) {
  switch (from) {
    case Type::b8:
      return convert_from<bool>(to);
    case Type::u8:
      return convert_from<std::uint8_t>(to);
    case Type::i32:
      return convert_from<std::int32_t>(to);
    case Type::i64:
      return convert_from<std::int64_t>(to);
    case Type::f32:
      return convert_from<float>(to);
    default:
      return convert_from<double>(to);
  }
}

void host_floats(Type type, RandomKind kind, std::uint64_t key, std::uint64_t counter, double a, double b, double top,
                 void* y, std::int64_t n) {
  (type == Type::f32 ? floats<float> : floats<double>)(kind, key, counter, a, b, top, y, n);
}
void host_whole(Type type, std::uint64_t key, std::uint64_t counter, std::int64_t a, std::uint64_t range, void* y,
                std::int64_t n) {
  (type == Type::i32 ? whole<std::int32_t> : whole<std::int64_t>)(key, counter, a, range, y, n);
}

}  // namespace tapestry::gpu
