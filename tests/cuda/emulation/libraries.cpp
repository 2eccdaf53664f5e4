// In the place of CUDA's libraries: sorting, in the interface of kernels/sort.hpp, and products of matrices.

#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/cuda/kernels/sort.hpp"
#include "backend/cuda/multiplier.hpp"

namespace tapestry::gpu {

void number(Stream, std::uint32_t* values, std::int64_t count) { std::iota(values, values + count, 0U); }

std::size_t sort_scratch(std::int64_t) { return 1; }

void sort_pairs(Stream, const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits, void*, std::size_t) {
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
  for (const std::int64_t i : order) {
    *sorted_keys++ = keys[i];
    *sorted_values++ = values[i];
  }
}

Multiplier::Multiplier(Context& gpu) : gpu_(gpu), workspace_(nullptr) {}

namespace {

template <class T>
void multiply_as(const Product& p, bool accumulate) {
  const auto at = [](const Product::Matrix& m, std::int64_t batch, std::int64_t i, std::int64_t j) {
    if (m.transposed) std::swap(i, j);
    return static_cast<T*>(m.data) + batch * m.batch + i * m.row + j;
  };
  for (std::int64_t batch = 0; batch < p.count; ++batch)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = accumulate ? static_cast<double>(*at(p.y, batch, i, j)) : 0;
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += static_cast<double>(*at(p.a, batch, i, k)) * static_cast<double>(*at(p.b, batch, k, j));
        *at(p.y, batch, i, j) = static_cast<T>(sum);
      }
}

}  // namespace

void Multiplier::multiply(const Product& product, bool wide, bool accumulate) {
  (wide ? multiply_as<double> : multiply_as<float>)(product, accumulate);
}

}  // namespace tapestry::gpu
