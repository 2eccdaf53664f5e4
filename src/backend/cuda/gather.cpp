#include "backend/cuda/kernels/gather.hpp"

#include <bit>
#include <string>

#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/sorting.hpp"
#include "backend/place.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {
namespace {

using detail::make_tensor;
using detail::mutable_data;

/// The slices of a contiguous tensor around `axes` axes from `axis` on, which count as one.
Slices slices_around(const Shape& shape, int axis, int axes = 1) {
  Slices slices{1, 1, 1};
  for (int i = 0; i < shape.rank(); ++i)
    (i < axis ? slices.outer : i < axis + axes ? slices.size : slices.inner) *= shape.sizes()[i];
  return slices;
}

Indices indices_of(const Tensor& dense, std::int64_t count) {
  return {dense.impl().data, dense.dtype() == int64, count};
}

/// Copies the elements [first, first + count) of a tensor of integers from the device.
std::vector<std::int64_t> read(Backend& backend, const Tensor& dense, std::int64_t first, std::int64_t count) {
  const Tensor part = view_as(dense, {count}, first);
  const Tensor host = detail::make_tensor(dense.dtype(), {count}, cpu());
  backend.copy_to_host(host.impl().data, part.impl().data, count * size_of(dense.dtype()));
  return host.to_vector<std::int64_t>();
}

/// The positions that `resolve` writes. Throws InvalidArgumentError with error(i) if i is the first that it refuses.
template <class Resolve, class Error>
Tensor checked(Context& gpu, Device device, std::int64_t count, const Resolve& resolve, const Error& error) {
  Tensor positions = make_tensor(int64, {count}, device);
  if (count == 0) return positions;
  std::int64_t refused = -1;
  {
    Refusal refusal(gpu);
    resolve(mutable_data<std::int64_t>(positions), refusal.word());
    gpu.started("the check of indices");
    refused = refusal.position();
  }
  if (refused >= 0) throw InvalidArgumentError(error(refused));
  return positions;
}

/// The error of the i-th element of contiguous indices.
std::string index_out_of_range(Backend& backend, const Tensor& dense, std::int64_t i, std::int64_t size) {
  return detail::join("indices", place_in(dense.shape(), i), " = ", read(backend, dense, i, 1)[0], " is not in [0, ",
                      size, ")");
}

/// The positions of indices in an axis of `size` elements. With `along`: the positions of single elements in those
/// slices; the axis of the indices has `length` elements.
Tensor positions_in_axis(Backend& backend, Context& gpu, const Tensor& dense, std::int64_t size,
                         const Slices* along = nullptr, std::int64_t length = 0) {
  const Indices indices = indices_of(dense, dense.size());
  return checked(
      gpu, dense.device(), dense.size(),
      [&](std::int64_t* positions, unsigned long long* refused) {
        if (along) return resolve_along(gpu.stream(), indices, length, along->inner, size, positions, refused);
        resolve(gpu.stream(), indices, size, positions, refused);
      },
      [&](std::int64_t i) { return index_out_of_range(backend, dense, i, size); });
}

/// The positions that the coordinates in the last axis of `dense` have in the leading dimensions of `shape`.
Tensor positions_of_coordinates(Backend& backend, Context& gpu, const Tensor& dense, const Shape& shape,
                                std::string_view what) {
  Coordinates coordinates{{}, static_cast<int>(dense.shape().sizes().back())};
  for (int d = 0; d < coordinates.depth; ++d) coordinates.size[d] = shape.sizes()[d];
  Shape leading = dense.shape();
  leading.erase(leading.rank() - 1);
  return checked(
      gpu, dense.device(), leading.size(),
      [&](std::int64_t* positions, unsigned long long* refused) {
        resolve_coordinates(gpu.stream(), indices_of(dense, leading.size()), coordinates, positions, refused);
      },
      [&](std::int64_t i) {
        std::string text;
        for (const std::int64_t index : read(backend, dense, i * coordinates.depth, coordinates.depth))
          text += (text.empty() ? "" : ", ") + std::to_string(index);
        return detail::join("indices", place_in(leading, i), " = [", text, "] does not index into ", what, " ", shape);
      });
}

/// The positions of indices that `sum_rows` has given: there is nothing to wait for.
Tensor positions_of_rows(Backend& backend, const Tensor& indices) {
  if (indices.dtype() == int64) return backend.contiguous(indices);
  const Tensor positions = make_tensor(int64, indices.shape(), indices.device());
  backend.copy(indices, positions);
  return positions;
}

void take(Context& gpu, const Slices& slices, const Tensor& positions, const Tensor& x, const Tensor& y) {
  if (y.size() == 0) return;
  gather_slices(gpu.stream(), size_of(y.dtype()), slices, mutable_data<std::int64_t>(positions), positions.size(),
                x.impl().data, y.impl().data);
  gpu.started("gather");
}

/// Sorts the updates by their positions: those that are added to one row become neighbours and keep their order.
void add(Backend& backend, Context& gpu, const Slices& slices, const Tensor& positions, const Tensor& updates,
         const Tensor& y) {
  if (y.size() == 0) return;
  const std::int64_t count = positions.size();
  if (count == 0) return backend.fill(0, y);
  const Sorted sorted =
      sort(gpu, positions, {}, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(slices.size))));
  add_slices(gpu.stream(), type_of(y), slices, mutable_data<std::uint64_t>(sorted.keys),
             mutable_data<std::uint32_t>(sorted.order), count, updates.impl().data, y.impl().data);
  gpu.started("scatter");
}

}  // namespace

void CudaBackend::gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) {
  Context& gpu = context();
  const Tensor positions = positions_in_axis(*this, gpu, contiguous(indices), x.shape().sizes()[axis]);
  take(gpu, slices_around(x.shape(), axis), positions, contiguous(x), y);
}

Backend::IndexedRows CudaBackend::sum_rows(const IndexedRows& rows, std::int64_t size) {
  const Tensor& values = rows.values;
  if (is_half(values.dtype()) || rows.indices.device() != values.device() || values.size() == 0)
    return Backend::sum_rows(rows, size);
  Context& gpu = context();
  const Tensor indices = contiguous(rows.indices);
  const std::int64_t count = indices.size();
  const IndexedRows sums{make_tensor(int64, {count}, values.device()),
                         make_tensor(values.dtype(), values.shape(), values.device())};
  std::int64_t refused = -1;
  {
    Refusal refusal(gpu, true);
    const Tensor positions = make_tensor(int64, {count}, values.device()), from = contiguous(values);
    resolve(gpu.stream(), indices_of(indices, count), size, mutable_data<std::int64_t>(positions), refusal.word());
    gpu.started("the check of indices");
    const Sorted sorted = sort(gpu, positions, {}, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size))));
    sum_runs(gpu.stream(), type_of(values), values.size() / count, mutable_data<std::uint64_t>(sorted.keys),
             mutable_data<std::uint32_t>(sorted.order), count, from.impl().data, refusal.word(),
             mutable_data<std::int64_t>(sums.indices), sums.values.impl().data);
    gpu.started("sum_rows");
    refused = refusal.position();
  }
  if (refused >= 0) throw InvalidArgumentError(index_out_of_range(*this, indices, refused, size));
  return sums;
}

void CudaBackend::put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) {
  if (rows.size() == 0) return;
  Context& gpu = context();
  const Tensor positions = positions_of_rows(*this, indices);
  put_slices(gpu.stream(), size_of(y.dtype()), slices_around(y.shape(), 0).inner, mutable_data<std::int64_t>(positions),
             positions.size(), contiguous(rows).impl().data, y.impl().data);
  gpu.started("put_rows");
}

void CudaBackend::take_rows(const Tensor& x, const Tensor& indices, const Tensor& rows) {
  take(context(), slices_around(x.shape(), 0), positions_of_rows(*this, indices), contiguous(x), rows);
}

void CudaBackend::scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::scatter_add(indices, updates, axis, y);
  Context& gpu = context();
  const Tensor positions = positions_in_axis(*this, gpu, contiguous(indices), y.shape().sizes()[axis]);
  add(*this, gpu, slices_around(y.shape(), axis), positions, contiguous(updates), y);
}

void CudaBackend::gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) {
  Context& gpu = context();
  const Tensor positions = positions_of_coordinates(*this, gpu, contiguous(indices), x.shape(), "param shape");
  take(gpu, slices_around(x.shape(), 0, static_cast<int>(indices.shape().sizes().back())), positions, contiguous(x), y);
}

void CudaBackend::scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::scatter_nd_add(indices, updates, y);
  Context& gpu = context();
  const Tensor positions = positions_of_coordinates(*this, gpu, contiguous(indices), y.shape(), "shape");
  add(*this, gpu, slices_around(y.shape(), 0, static_cast<int>(indices.shape().sizes().back())), positions,
      contiguous(updates), y);
}

void CudaBackend::take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) {
  Context& gpu = context();
  const Slices slices = slices_around(x.shape(), axis);
  const Tensor positions =
      positions_in_axis(*this, gpu, contiguous(indices), slices.size, &slices, indices.shape().sizes()[axis]);
  take(gpu, {1, x.size(), 1}, positions, contiguous(x), y);
}

void CudaBackend::put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::put_along_add(indices, updates, axis, y);
  Context& gpu = context();
  const Slices slices = slices_around(y.shape(), axis);
  const Tensor positions =
      positions_in_axis(*this, gpu, contiguous(indices), slices.size, &slices, indices.shape().sizes()[axis]);
  add(*this, gpu, {1, y.size(), 1}, positions, contiguous(updates), y);
}

}  // namespace tapestry::gpu
