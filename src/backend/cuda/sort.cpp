#include "backend/cuda/kernels/sort.hpp"

#include <bit>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/kernels/top_k.hpp"
#include "backend/cuda/sorting.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {

using detail::make_tensor;
using detail::mutable_data;

Sorted sort(Context& gpu, const Tensor& keys, const Tensor& order, int bits) {
  const std::int64_t count = keys.size();
  if (count >= std::int64_t{1} << 31) throw UnimplementedError("Sorting 2^31 elements is not implemented on GPU");
  Tensor numbers = order;
  if (!numbers) {
    numbers = make_tensor(int32, {count}, keys.device());
    number(gpu.stream(), mutable_data<std::uint32_t>(numbers), count);
    gpu.started("sort");
  }
  Sorted sorted{make_tensor(int64, {count}, keys.device()), make_tensor(int32, {count}, keys.device())};
  const std::size_t bytes = sort_scratch(count);
  const Tensor scratch = make_tensor(uint8, {static_cast<std::int64_t>(bytes)}, keys.device());
  const int error = sort_pairs(gpu.stream(), mutable_data<std::uint64_t>(keys),
                               mutable_data<std::uint64_t>(sorted.keys), mutable_data<std::uint32_t>(numbers),
                               mutable_data<std::uint32_t>(sorted.order), count, bits, scratch.impl().data, bytes);
  check(static_cast<cudaError_t>(error), "sort");
  gpu.started("sort");
  return sorted;
}

// All rows are sorted at once: first by element, and then by row. The second sort keeps the order inside a row.
void CudaBackend::top_k(const Tensor& x, std::int64_t k, bool largest, const Tensor& values, const Tensor& indices) {
  if (is_half(x.dtype())) return Backend::top_k(x, k, largest, values, indices);
  if (values.size() == 0) return;
  Context& gpu = context();
  const Tensor from = contiguous(x);
  const std::int64_t count = x.size(), n = x.shape().sizes().back(), rows = count / n;
  const Tensor keys = make_tensor(int64, {count}, x.device());
  order_keys(gpu.stream(), type_of(x), largest, from.impl().data, count, mutable_data<std::uint64_t>(keys));
  gpu.started("top_k");
  Sorted sorted = sort(gpu, keys, {}, key_bits(type_of(x)));
  if (rows > 1) {
    row_keys(gpu.stream(), mutable_data<std::uint32_t>(sorted.order), n, count, mutable_data<std::uint64_t>(keys));
    gpu.started("top_k");
    sorted = sort(gpu, keys, sorted.order, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows))));
  }
  take_first(gpu.stream(), size_of(x.dtype()), from.impl().data, mutable_data<std::uint32_t>(sorted.order), rows, n, k,
             values.impl().data, indices.impl().data, indices.dtype() == int64);
  gpu.started("top_k");
}

}  // namespace tapestry::gpu
