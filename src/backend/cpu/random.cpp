#include "backend/cpu/kernels/random.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

const RandomTable& kernels() {
  static const RandomTable& table = TAPESTRY_PICK_LEVEL(random_table);
  return table;
}

/// The elements of a task: a multiple of the elements of any block.
constexpr std::int64_t task_elements = 8192;

template <class T>
void fill_floats(RandomFloats<T> kernel, Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b,
                 const Tensor& y) {
  const T low = static_cast<T>(a), high = static_cast<T>(b);
  const T top = low < high ? std::nextafter(high, low) : high;
  const auto kind = static_cast<RandomKind>(f);
  T* data = detail::mutable_data<T>(y);
  parallel_for(y.size(), task_elements, [&](std::int64_t i, std::int64_t end) {
    kernel(kind, key, offset + static_cast<std::uint64_t>(i / elements_per_block<T>), low, high, top, data + i,
           end - i);
  });
}

template <class T>
void fill_whole(RandomWhole<T> kernel, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) {
  const auto low = static_cast<std::int64_t>(a);
  const std::uint64_t range =
      static_cast<std::uint64_t>(static_cast<std::int64_t>(b)) - static_cast<std::uint64_t>(low);
  T* data = detail::mutable_data<T>(y);
  parallel_for(y.size(), task_elements, [&](std::int64_t i, std::int64_t end) {
    kernel(key, offset + static_cast<std::uint64_t>(i / whole_per_block), low, range, data + i, end - i);
  });
}

}  // namespace

void CpuBackend::random(Distribution f, std::uint64_t key, std::uint64_t offset, double a, double b, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::random(f, key, offset, a, b, y);
  switch (y.dtype()) {
    case DType::float32:
      return fill_floats(kernels().f32, f, key, offset, a, b, y);
    case DType::float64:
      return fill_floats(kernels().f64, f, key, offset, a, b, y);
    case DType::int32:
      return fill_whole(kernels().i32, key, offset, a, b, y);
    default:
      return fill_whole(kernels().i64, key, offset, a, b, y);
  }
}

}  // namespace tapestry::host
