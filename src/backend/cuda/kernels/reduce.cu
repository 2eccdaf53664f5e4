#include "backend/cuda/kernels/convert.hpp"
#include "backend/cuda/kernels/reduce.hpp"

namespace tapestry::gpu {
namespace {

constexpr float infinity = __builtin_huge_valf();

template <class T>
TAPESTRY_HD T lowest() {
  if constexpr (is_float<T>) {
    return static_cast<T>(-infinity);
  } else if constexpr (is_whole<T>) {
    return Range<T>::lowest;
  } else {
    return false;
  }
}
template <class T>
TAPESTRY_HD T highest() {
  if constexpr (is_float<T>) {
    return static_cast<T>(infinity);
  } else if constexpr (is_whole<T>) {
    return Range<T>::highest;
  } else {
    return true;
  }
}

// A reduction has `none`, the result of no elements; `combine`, which joins two partial results; `lift`, which makes an
// element a partial result; and `store`, which writes the result.

template <class T>
struct Plain {
  using Element = T;
  using Partial = T;
  static TAPESTRY_HD T lift(T x, std::uint32_t) { return x; }
  static TAPESTRY_HD void store(const Reduction& r, std::int64_t i, T result) {
    if constexpr (is_float<T>) {
      if (r.divisor != 1) result /= static_cast<T>(r.divisor);
    }
    static_cast<T*>(r.y)[i] = result;
  }
};
template <class T>
struct Sum : Plain<T> {
  static TAPESTRY_HD T none() { return T(0); }
  static TAPESTRY_HD T combine(T a, T b) { return static_cast<T>(a + b); }
};
template <class T>
struct Prod : Plain<T> {
  static TAPESTRY_HD T none() { return T(1); }
  static TAPESTRY_HD T combine(T a, T b) { return static_cast<T>(a * b); }
};
template <class T>
struct Max : Plain<T> {
  static TAPESTRY_HD T none() { return lowest<T>(); }
  static TAPESTRY_HD T combine(T a, T b) { return a > b || a != a ? a : b; }
};
template <class T>
struct Min : Plain<T> {
  static TAPESTRY_HD T none() { return highest<T>(); }
  static TAPESTRY_HD T combine(T a, T b) { return a < b || a != a ? a : b; }
};

template <class T>
struct Candidate {
  T value;
  std::uint32_t index;
};
template <class T, bool largest>
struct Arg {
  using Element = T;
  using Partial = Candidate<T>;
  static constexpr std::uint32_t nowhere = 0xffffffffu;
  static TAPESTRY_HD Candidate<T> none() { return {T(0), nowhere}; }
  static TAPESTRY_HD Candidate<T> lift(T x, std::uint32_t i) { return {x, i}; }
  static TAPESTRY_HD Candidate<T> combine(Candidate<T> a, Candidate<T> b) {
    if (a.index == nowhere || b.index == nowhere) return a.index == nowhere ? b : a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (a_nan || a.value == b.value) return a.index < b.index ? a : b;
    return (a.value > b.value) == largest ? a : b;
  }
  static TAPESTRY_HD void store(const Reduction& r, std::int64_t i, Candidate<T> result) {
    if (r.wide) {
      static_cast<std::int64_t*>(r.y)[i] = result.index;
    } else {
      static_cast<std::int32_t*>(r.y)[i] = static_cast<std::int32_t>(result.index);
    }
  }
};

/// A block has lanes * group threads for `group` results. First each thread reduces every lanes-th element, in four
/// chains of 8 at a time, so that fewer floats are added one after another. Then the lanes are reduced by halves. The
/// second kernel does the same with the partial results of the first.
template <class F, bool second>
__global__ void __launch_bounds__(block_threads)
    reduce_kernel(const __grid_constant__ Reduction r, typename F::Partial* partial) {
  using Partial = typename F::Partial;
  __shared__ Partial shared[block_threads];
  const auto lanes = static_cast<std::uint32_t>(r.lanes), group = block_threads / lanes;
  const std::uint32_t lane = r.along ? threadIdx.x % lanes : threadIdx.x / group;
  const std::uint32_t place = r.along ? threadIdx.x / lanes : threadIdx.x % group;
  const auto outputs = static_cast<std::uint32_t>(r.outputs);
  const auto count = static_cast<std::uint32_t>(second ? r.splits : r.count);
  const std::uint32_t chunk = (count + gridDim.y - 1) / gridDim.y;
  const std::uint32_t begin = blockIdx.y * chunk, end = begin + chunk < count ? begin + chunk : count;
  for (std::uint32_t first = blockIdx.x * group; first < outputs; first += gridDim.x * group) {
    const std::uint32_t output = first + place;
    Partial total = F::none();
    if (output < outputs) {
      std::int32_t base[1];
      if (!second) r.kept.locate(output, base);
      const auto read = [&](std::uint32_t i) {
        if constexpr (second) {
          return partial[static_cast<std::int64_t>(i) * outputs + output];
        } else {
          std::int32_t offset[1];
          r.reduced.locate(i, offset);
          return F::lift(static_cast<const typename F::Element*>(r.x)[base[0] + offset[0]], i);
        }
      };
      for (std::uint32_t i = begin + lane; i < end;) {
        Partial chain[4] = {F::none(), F::none(), F::none(), F::none()};
        for (int step = 0; step < 8 && i < end; ++step, i += 4 * lanes) {
#pragma unroll
          for (std::uint32_t j = 0; j < 4; ++j)
            if (i + j * lanes < end) chain[j] = F::combine(chain[j], read(i + j * lanes));
        }
        total = F::combine(total, F::combine(F::combine(chain[0], chain[1]), F::combine(chain[2], chain[3])));
      }
    }
    shared[lane * group + place] = total;
    __syncthreads();
    for (std::uint32_t half = lanes / 2; half > 0; half /= 2) {
      if (lane < half)
        shared[lane * group + place] = F::combine(shared[lane * group + place], shared[(lane + half) * group + place]);
      __syncthreads();
    }
    if (lane == 0 && output < outputs) {
      if (gridDim.y > 1) {
        partial[static_cast<std::int64_t>(blockIdx.y) * outputs + output] = shared[place];
      } else {
        F::store(r, output, shared[place]);
      }
    }
    __syncthreads();
  }
}

unsigned tiles_of(const Reduction& r) {
  const std::int64_t group = block_threads / r.lanes, tiles = (r.outputs + group - 1) / group;
  return static_cast<unsigned>(tiles < 65536 ? tiles : 65536);
}

template <class F>
void start(Stream stream, const Reduction& r, void* partial) {
  auto* room = static_cast<typename F::Partial*>(partial);
  const dim3 grid(tiles_of(r), static_cast<unsigned>(r.splits));
  reduce_kernel<F, false><<<grid, block_threads, 0, stream>>>(r, room);
  if (r.splits == 1) return;
  Reduction last = r;
  last.along = false;
  for (last.lanes = 1; last.lanes < block_threads && last.lanes * 4 <= r.splits;) last.lanes *= 2;
  reduce_kernel<F, true><<<tiles_of(last), block_threads, 0, stream>>>(last, room);
}

using Start = void (*)(Stream, const Reduction&, void*);
template <template <class> class F>
constexpr Start starts[type_count] = {
    nullptr, nullptr, start<F<std::uint8_t>>, start<F<std::int32_t>>, start<F<std::int64_t>>,
    nullptr, nullptr, start<F<float>>,        start<F<double>>};
template <bool largest>
constexpr Start arg_starts[type_count] = {nullptr,
                                          start<Arg<bool, largest>>,
                                          start<Arg<std::uint8_t, largest>>,
                                          start<Arg<std::int32_t, largest>>,
                                          start<Arg<std::int64_t, largest>>,
                                          nullptr,
                                          nullptr,
                                          start<Arg<float, largest>>,
                                          start<Arg<double, largest>>};

Start start_of(ReduceKind kind, Type type) {
  const int i = static_cast<int>(type);
  switch (kind) {
    case ReduceKind::sum:
      return type == Type::b8 ? start<Max<bool>> : starts<Sum>[i];
    case ReduceKind::prod:
      return type == Type::b8 ? start<Min<bool>> : starts<Prod>[i];
    case ReduceKind::max:
      return type == Type::b8 ? start<Max<bool>> : starts<Max>[i];
    case ReduceKind::min:
      return type == Type::b8 ? start<Min<bool>> : starts<Min>[i];
    case ReduceKind::arg_max:
      return arg_starts<true>[i];
    default:
      return arg_starts<false>[i];
  }
}

}  // namespace

std::size_t partial_bytes(ReduceKind kind, Type type) {
  constexpr std::size_t sizes[type_count] = {0, 1, 1, 4, 8, 0, 0, 4, 8};
  const std::size_t size = sizes[static_cast<int>(type)];
  // A Candidate holds an element and a position of 4 bytes, and is aligned to the larger of the two.
  return kind == ReduceKind::arg_max || kind == ReduceKind::arg_min ? (size == 8 ? 16 : 8) : size;
}

void reduce(Stream stream, ReduceKind kind, Type type, const Reduction& reduction, void* partial) {
  start_of(kind, type)(stream, reduction, partial);
}

}  // namespace tapestry::gpu
