#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/math.hpp"
#include "backend/cuda/kernels/update.hpp"

namespace tapestry::gpu {
namespace {

#define TAPESTRY_FORMULA(name, slot_count, statements)                                                   \
  struct name {                                                                                          \
    static constexpr int slots = slot_count;                                                             \
    template <class T>                                                                                   \
    static TAPESTRY_HD void apply(const T* p, T& v, T g, [[maybe_unused]] T& s, [[maybe_unused]] T& t) { \
      statements;                                                                                        \
    }                                                                                                    \
  };
TAPESTRY_UPDATES(TAPESTRY_FORMULA)
#undef TAPESTRY_FORMULA

template <class F, class T>
__global__ void __launch_bounds__(block_threads)
    update_kernel(const __grid_constant__ UpdateNumbers numbers, T* variable, const T* gradient, T* first, T* second,
                  std::int64_t n) {
  T p[max_update_numbers];
#pragma unroll
  for (int i = 0; i < max_update_numbers; ++i)
    p[i] = static_cast<T>(i < numbers.count ? numbers.on_device[i] : numbers.p[i]);
  for (std::int64_t i = global_thread(); i < n; i += grid_threads()) {
    T v = variable[i], s = F::slots > 0 ? first[i] : T(0), t = F::slots > 1 ? second[i] : T(0);
    F::template apply<T>(p, v, gradient[i], s, t);
    variable[i] = v;
    if (F::slots > 0) first[i] = s;
    if (F::slots > 1) second[i] = t;
  }
}

template <class F, class T>
void start(Stream stream, const UpdateNumbers& numbers, void* variable, const void* gradient, void* s, void* t,
           std::int64_t n) {
  update_kernel<F, T><<<blocks_for(n), block_threads, 0, stream>>>(
      numbers, static_cast<T*>(variable), static_cast<const T*>(gradient), static_cast<T*>(s), static_cast<T*>(t), n);
}

using Start = void (*)(Stream, const UpdateNumbers&, void*, const void*, void*, void*, std::int64_t);
#define TAPESTRY_FLOAT32(name, slots, statements) start<name, float>,
#define TAPESTRY_FLOAT64(name, slots, statements) start<name, double>,
constexpr Start float32_starts[] = {TAPESTRY_UPDATES(TAPESTRY_FLOAT32)};
constexpr Start float64_starts[] = {TAPESTRY_UPDATES(TAPESTRY_FLOAT64)};
#undef TAPESTRY_FLOAT32
#undef TAPESTRY_FLOAT64

}  // namespace

void update(Stream stream, UpdateKind kind, Type type, const UpdateNumbers& numbers, void* variable,
            const void* gradient, void* s, void* t, std::int64_t n) {
  const Start start = (type == Type::f32 ? float32_starts : float64_starts)[static_cast<int>(kind)];
  start(stream, numbers, variable, gradient, s, t, n);
}

}  // namespace tapestry::gpu
