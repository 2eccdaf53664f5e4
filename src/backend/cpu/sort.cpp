#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

/// A number whose order is that of the values, with NaN as the largest and both zeros equal.
template <class T>
std::uint64_t ordered(T value) {
  if constexpr (is_float16<T>) {
    return ordered(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    constexpr Bits sign = Bits{1} << (8 * sizeof(T) - 1);
    if (value != value) return ~std::uint64_t{0};
    const Bits bits = std::bit_cast<Bits>(value + T(0));  // -0 + 0 is 0
    return (bits & sign) != 0 ? (~bits) : bits | sign;
  } else if constexpr (std::is_signed_v<T>) {
    return value ^ (std::uint64_t{1} << 63);
  } else {
    return value;
  }
}

struct Entry {
  std::uint64_t key;
  std::int64_t position;
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

/// Writes the first k elements of a row, in order, to `values`, and their positions to `positions`.
template <class T, class Index>
void top_of_row(const T* row, std::int64_t n, std::int64_t k, bool largest, std::vector<Entry>& entries, T* values,
                Index* positions) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t key = ordered(row[i]);
    entries[i] = {largest ? ~key : key, i};
  }
  if (k < n) std::nth_element(entries.begin(), entries.begin() + k, entries.end());
  std::sort(entries.begin(), entries.begin() + k);
  for (std::int64_t i = 0; i < k; ++i) {
    const std::int64_t position = entries[i].position;
    values[i] = row[position];
    positions[i] = static_cast<Index>(position);
  }
}

}  // namespace

void CpuBackend::top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) {
  if (values.size() == 0) return;
  const Tensor from = contiguous(x);
  const std::int64_t n = x.shape().sizes().back();
  constexpr std::int64_t task_elements = 4096;
  const auto sort_rows = [&]<class T, class Index>() {
    const T* data = static_cast<const T*>(from.impl().data);
    parallel_for(x.size() / n, std::max<std::int64_t>(1, task_elements / n), [&](std::int64_t row, std::int64_t end) {
      std::vector<Entry> entries(n);
      for (; row < end; ++row)
        top_of_row(data + row * n, n, k, largest, entries, detail::mutable_data<T>(values) + row * k,
                   detail::mutable_data<Index>(indices) + row * k);
    });
  };
  detail::visit_dtype(x.dtype(), [&]<class T>() {
    if (indices.dtype() == DType::int32) {
      sort_rows.template operator()<T, std::int32_t>();
    } else {
      sort_rows.template operator()<T, std::int64_t>();
    }
  });
}

}  // namespace tapestry::host
