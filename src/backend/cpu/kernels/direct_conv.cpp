#include "backend/cpu/kernels/direct_conv.hpp"

#include <cstdint>

#include "backend/cpu/kernels/lanes.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;

constexpr int together = 8;  ///< sums in registers at the same time, enough to hide an addition's latency

/// Calls body(V(), channel): for a register of output channels at a time, then for single ones, for which V is T.
template <class T, class Body>
[[gnu::always_inline]] inline void for_channels(int64_t channels, const Body& body) {
  using V = typename Register<T>::type;
  constexpr int64_t width = register_bytes / static_cast<int>(sizeof(T));
  int64_t c = 0;
  for (; c + width <= channels; c += width) body(V{}, c);
  for (; c < channels; ++c) body(T{}, c);
}

/// `count` windows of a run from number `first` on.
template <int count, class V, class T>
[[gnu::always_inline]] inline void some_windows(V zero, const WindowRun& run, int64_t first, int64_t in, int64_t out,
                                                const T* x, const T* filter, T* y) {
  V sums[count];
  for (int i = 0; i < count; ++i) sums[i] = zero;
  for (int64_t k = 0; k < run.count; ++k) {
    for (int64_t c = 0; c < in; ++c) {
      const V weights = load<V>(filter + (run.places[k] * in + c) * out);
      const T* from = x + run.taps[k] + first * run.step + c;
      for (int i = 0; i < count; ++i) sums[i] = sums[i] + weights * from[i * run.step];
    }
  }
  for (int i = 0; i < count; ++i) store(sums[i], y + (first + i) * out);
}

template <class T>
void convolve(const WindowRun& run, int64_t in, int64_t out, const T* x, const T* filter, T* y) {
  for_channels<T>(out, [&](auto zero, int64_t o) {
    int64_t i = 0;
    for (; i + together <= run.windows; i += together)
      some_windows<together>(zero, run, i, in, out, x, filter + o, y + o);
    for (; i < run.windows; ++i) some_windows<1>(zero, run, i, in, out, x, filter + o, y + o);
  });
}

/// Adds up the gradients of the filter that belong to `count` elements of a window, from element p on. The element of
/// tap k and channel c has the number k * in + c.
template <int count, class V, class T>
[[gnu::always_inline]] inline void some_elements(V zero, const WindowRun& run, int64_t p, int64_t in, int64_t out,
                                                 const T* x, const T* g, T* dfilter) {
  V sums[count];
  const T* from[count];
  for (int i = 0; i < count; ++i) {
    sums[i] = zero;
    from[i] = x + run.taps[(p + i) / in] + (p + i) % in;
  }
  for (int64_t window = 0; window < run.windows; ++window) {
    const V gradient = load<V>(g + window * out);
    for (int i = 0; i < count; ++i) sums[i] = sums[i] + gradient * from[i][window * run.step];
  }
  for (int i = 0; i < count; ++i) {
    T* const to = dfilter + (run.places[(p + i) / in] * in + (p + i) % in) * out;
    store(load<V>(to) + sums[i], to);
  }
}

template <class T>
void grad_filter(const WindowRun& run, int64_t in, int64_t out, const T* x, const T* g, T* dfilter) {
  for_channels<T>(out, [&](auto zero, int64_t o) {
    const int64_t elements = run.count * in;
    int64_t p = 0;
    for (; p + together <= elements; p += together)
      some_elements<together>(zero, run, p, in, out, x, g + o, dfilter + o);
    for (; p < elements; ++p) some_elements<1>(zero, run, p, in, out, x, g + o, dfilter + o);
  });
}

}  // namespace

const DirectConvTable direct_conv_table = {
    .f32 = {convolve<float>, grad_filter<float>},
    .f64 = {convolve<double>, grad_filter<double>},
};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
