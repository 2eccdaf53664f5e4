#pragma once

// What the tests of the kernel families share: tensors in awkward layouts, and their elements read without any kernel.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "backend/backend.hpp"
#include "core/make_tensor.hpp"
#include "same_bits.hpp"

namespace tapestry::testing {

using test::same_bits;

inline Backend& cpu_backend() { return backend_of(cpu()); }

inline const std::vector<DType> all_dtypes = {boolean, uint8, int32, int64, float32, float64};
/// With the types that are computed in float32.
inline const std::vector<DType> dtypes_and_halves = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};
inline const std::vector<DType> float_dtypes = {float32, float64};

inline double element(const Tensor& t, std::int64_t offset) {
  return detail::visit_dtype(
      t.dtype(), [&]<class T>() { return static_cast<double>(static_cast<const T*>(t.impl().data)[offset]); });
}

/// Calls f(index, offset) for every element in row-major order.
inline void for_each_index(const Shape& shape, std::span<const std::int64_t> strides,
                           const std::function<void(const std::vector<std::int64_t>&, std::int64_t)>& f) {
  std::vector<std::int64_t> index(static_cast<std::size_t>(shape.rank()), 0);
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < index.size(); ++a) offset += index[a] * (a < strides.size() ? strides[a] : 0);
    f(index, offset);
    for (int a = shape.rank() - 1; a >= 0; --a) {
      if (++index[static_cast<std::size_t>(a)] < shape.sizes()[a]) break;
      index[static_cast<std::size_t>(a)] = 0;
    }
  }
}

inline std::vector<double> values(const Tensor& t) {
  std::vector<double> result;
  for_each_index(t.shape(), t.strides(),
                 [&](const auto&, std::int64_t offset) { result.push_back(element(t, offset)); });
  return result;
}

/// Whether two lists agree to some units in the last place of numbers of that size.
inline bool are_close(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return std::abs(x - y) <= 2e-6F * (1 + std::abs(x)); });
}

/// A contiguous tensor of the given numbers (converted).
inline Tensor tensor_of(DType dtype, const Shape& shape, const std::vector<double>& numbers) {
  Tensor t = detail::make_tensor(dtype, shape, cpu());
  detail::visit_dtype(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < numbers.size(); ++i) detail::mutable_data<T>(t)[i] = static_cast<T>(numbers[i]);
  });
  return t;
}

inline Tensor empty(DType dtype, const Shape& shape) { return detail::make_tensor(dtype, shape, cpu()); }

/// Numbers that every dtype can hold: small whole ones, and for floats with a fraction.
inline Tensor random_tensor(DType dtype, const Shape& shape, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::vector<double> numbers(static_cast<std::size_t>(shape.size()));
  for (double& number : numbers) {
    const auto bits = generator();
    const int whole = dtype == boolean ? static_cast<int>(bits % 2)
                      : dtype == uint8 ? static_cast<int>(bits % 8)
                                       : static_cast<int>(bits % 41) - 20;
    number = whole;
    if (is_floating(dtype)) number += static_cast<double>(generator() % 1024) / 1024;
  }
  return tensor_of(dtype, shape, numbers);
}

/// The same elements in another layout: the axes lie in reverse order in memory, every second one backwards, with gaps.
inline Tensor twisted(const Tensor& x) {
  std::array<std::int64_t, Shape::max_rank> strides{};
  std::int64_t stride = 2, first = 0;
  for (int i = 0; i < x.rank(); ++i) {
    const auto axis = static_cast<std::size_t>(i);
    strides[axis] = i % 2 == 0 ? stride : -stride;
    if (i % 2 != 0) first += (x.shape().sizes()[i] > 0 ? x.shape().sizes()[i] - 1 : 0) * stride;
    stride *= x.shape().sizes()[i] > 0 ? x.shape().sizes()[i] : 1;
  }
  const Tensor base = detail::make_tensor(x.dtype(), {stride + 1}, cpu());
  std::memset(base.impl().data, 1, static_cast<std::size_t>(stride + 1) * size_of(x.dtype()));
  Tensor view = detail::make_view(base, x.shape(), {strides.data(), static_cast<std::size_t>(x.rank())}, first);
  const std::vector<double> numbers = values(x);
  std::size_t i = 0;
  for_each_index(view.shape(), view.strides(), [&](const auto&, std::int64_t offset) {
    detail::visit_dtype(x.dtype(),
                        [&]<class T>() { static_cast<T*>(view.impl().data)[offset] = static_cast<T>(numbers[i]); });
    ++i;
  });
  return view;
}

/// Numbers of a shape in a layout that the generator draws: the axes lie in any order in memory, forwards or backwards,
/// with gaps, or repeat one element; the distance along an axis of one element, which means nothing, is any number. The
/// numbers are whole and small, so that their sums and products are exact. NaN or 777 lies in the gaps.
inline Tensor in_any_layout(DType dtype, const Shape& shape, std::mt19937& generator) {
  const auto below = [&](unsigned n) { return static_cast<std::int64_t>(generator() % n); };
  const auto rank = static_cast<std::size_t>(shape.rank());
  std::array<std::size_t, Shape::max_rank> order{};
  for (std::size_t i = 0; i < rank; ++i) {
    order[i] = i;
    if (below(2) == 0) std::swap(order[i], order[static_cast<std::size_t>(below(static_cast<unsigned>(i) + 1))]);
  }
  std::array<std::int64_t, Shape::max_rank> strides{};
  const bool repeats = below(2) == 0;
  std::int64_t stride = below(4) == 0 ? 2 : 1, first = 0;
  for (std::size_t i = rank; i-- > 0;) {
    const std::size_t axis = order[i];
    const std::int64_t size = shape.sizes()[static_cast<int>(axis)], kind = below(6);
    if (repeats && below(2) == 0) continue;
    if (size <= 1) {
      constexpr std::int64_t any[] = {0, 1, -1, 2, 7, -1000000, 1000000};
      strides[axis] = kind == 0 ? stride : any[below(7)];
    } else {
      const bool backwards = kind == 2;
      strides[axis] = backwards ? -stride : stride;
      if (backwards) first += (size - 1) * stride;
      stride *= size + (kind == 3 ? 1 : 0);
    }
  }
  const Tensor base = detail::make_tensor(dtype, {first + stride * 2 + 1}, cpu());
  return detail::visit_dtype(dtype, [&]<class T>() {
    std::fill_n(detail::mutable_data<T>(base), base.size(),
                is_floating(dtype) ? static_cast<T>(std::nanf("")) : static_cast<T>(777));
    Tensor view = detail::make_view(base, shape, {strides.data(), rank}, first);
    for_each_index(shape, view.strides(), [&](const auto&, std::int64_t offset) {
      detail::mutable_data<T>(view)[offset] = static_cast<T>(dtype == boolean ? below(2)
                                                             : dtype == uint8 ? below(8)
                                                                              : below(9) - 4);
    });
    return view;
  });
}

/// The same elements in row-major order, copied without any kernel.
inline Tensor row_major(const Tensor& x) { return tensor_of(x.dtype(), x.shape(), values(x)); }

/// x with the axes of the given bits repeated from its first element there.
inline Tensor repeated(const Tensor& x, unsigned axes) {
  std::array<std::int64_t, Shape::max_rank> strides{};
  for (int i = 0; i < x.rank(); ++i)
    strides[static_cast<std::size_t>(i)] = (axes >> i & 1) != 0 ? 0 : x.strides()[static_cast<std::size_t>(i)];
  return detail::make_view(x, x.shape(), {strides.data(), static_cast<std::size_t>(x.rank())});
}

/// Whether `compute` writes the same bits with 1, 2, 3 and 4 threads.
inline bool same_for_any_threads(DType dtype, const Shape& shape, const std::function<void(const Tensor&)>& compute) {
  const int before = num_threads();
  bool same = true;
  Tensor first;
  for (int threads = 1; threads <= 4; ++threads) {
    set_num_threads(threads);
    const Tensor y = empty(dtype, shape);
    compute(y);
    if (!first) first = y;
    same = same && same_bits(first, y);
  }
  set_num_threads(before);
  return same;
}

}  // namespace tapestry::testing
