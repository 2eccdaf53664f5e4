#include "backend/cpu/kernels/pool.hpp"

#include <cstdint>

#include "backend/cpu/kernels/lanes.hpp"
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;

/// Calls body(V(), window, channel) for all channels of all windows: a register of channels at a time, then single
/// ones, for which V is T.
template <class T, class Body>
[[gnu::always_inline]] inline void for_channels(const WindowRun& run, Channels channels, const Body& body) {
  using V = typename Register<T>::type;
  constexpr int64_t width = register_bytes / static_cast<int>(sizeof(T));
  for (int64_t window = 0; window < run.windows; ++window) {
    int64_t c = 0;
    for (; c + width <= channels.count; c += width) body(V{}, window, c);
    for (; c < channels.count; ++c) body(T{}, window, c);
  }
}

/// The elements of a window, combined by Op from `start` on.
template <class Op, class V, class T>
[[gnu::always_inline]] inline V combined(const WindowRun& run, V start, const T* x) {
  V result = start;
  for (int64_t k = 0; k < run.count; ++k) result = Op::combine(result, load<V>(x + run.taps[k]));
  return result;
}

template <class T>
void max(const WindowRun& run, Channels channels, const T* x, T* y) {
  for_channels<T>(run, channels, [&](auto zero, int64_t window, int64_t c) {
    const auto lowest = zero - math::Real<T>::infinity;
    store(combined<Max>(run, lowest, x + window * run.step + c), y + window * channels.stride + c);
  });
}

template <class T>
void average(const WindowRun& run, Channels channels, const T* x, T* y) {
  const T count = static_cast<T>(run.count);
  for_channels<T>(run, channels, [&](auto zero, int64_t window, int64_t c) {
    store(combined<Sum>(run, zero, x + window * run.step + c) / count, y + window * channels.stride + c);
  });
}

template <class T, bool adds>
void max_grad(const WindowRun& run, Channels channels, const T* x, const T* y, const T* g, T* dx) {
  for_channels<T>(run, channels, [&](auto zero, int64_t window, int64_t c) {
    using V = decltype(zero);
    const int64_t at = window * run.step + c;
    const V largest = load<V>(y + window * channels.stride + c);
    V left = load<V>(g + window * channels.stride + c);
    for (int64_t k = 0; k < run.count; ++k) {
      const V element = load<V>(x + at + run.taps[k]);
      const auto is_largest = (element == largest) | (element != element);
      T* const to = dx + at + run.taps[k];
      const V part = is_largest ? left : zero;
      if constexpr (adds) {
        store(load<V>(to) + part, to);
      } else {
        store(part, to);
      }
      left = is_largest ? zero : left;
    }
  });
}

template <class T>
void average_grad(const WindowRun& run, Channels channels, const T* g, T* dx) {
  const T count = static_cast<T>(run.count);
  for_channels<T>(run, channels, [&](auto zero, int64_t window, int64_t c) {
    using V = decltype(zero);
    const V part = load<V>(g + window * channels.stride + c) / count;
    for (int64_t k = 0; k < run.count; ++k) {
      T* const to = dx + window * run.step + c + run.taps[k];
      store(load<V>(to) + part, to);
    }
  });
}

template <class T>
constexpr PoolKernels<T> kernels = {max<T>, average<T>, max_grad<T, true>, max_grad<T, false>, average_grad<T>};

}  // namespace

const PoolTable pool_table = {.f32 = kernels<float>, .f64 = kernels<double>};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
