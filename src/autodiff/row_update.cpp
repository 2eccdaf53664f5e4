#include "autodiff/row_update.hpp"

#include <unordered_map>

#include "backend/backend.hpp"
#include "backend/place.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"

namespace tapestry {
namespace {

Tensor on_device(const std::vector<std::int64_t>& numbers, Device device) {
  const Tensor result = detail::make_tensor(int64, {static_cast<std::int64_t>(numbers.size())}, device);
  backend_of(device).copy_from_host(result.impl().data, numbers.data(), numbers.size() * sizeof(std::int64_t));
  return result;
}

/// So many rows of the shape of those of a tensor.
Tensor rows_like(const Tensor& tensor, std::int64_t count) {
  Shape shape = tensor.shape();
  shape.set(0, count);
  return detail::make_tensor(tensor.dtype(), shape, tensor.device());
}

}  // namespace

IndexedSlices summed_rows(const IndexedSlices& slices, const Variable& variable) {
  const std::int64_t size = variable.shape().sizes()[0];
  const Tensor values = detail::computed(slices.values);
  // In a graph whose shapes were unknown, nothing has checked them yet.
  Shape expected = variable.shape();
  expected.set(0, slices.indices.size());
  if (slices.indices.rank() != 1 || values.shape() != expected)
    throw InvalidArgumentError(detail::join("Rows of shape ", values.shape(), " with indices of shape ",
                                            slices.indices.shape(), " do not fit the variable '", variable.name(),
                                            "', ", to_string(variable.dtype()), variable.shape()));
  const std::vector<std::int64_t> indices = slices.indices.to_vector<std::int64_t>();
  std::unordered_map<std::int64_t, std::int64_t> places;
  places.reserve(indices.size());
  std::vector<std::int64_t> distinct, place_of;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= size)
      throw InvalidArgumentError(detail::join("indices", place_in(slices.indices.shape(), static_cast<std::int64_t>(i)),
                                              " = ", indices[i], " is not in [0, ", size, ")"));
    const auto [found, is_new] = places.try_emplace(indices[i], std::ssize(distinct));
    if (is_new) distinct.push_back(indices[i]);
    place_of.push_back(found->second);
  }
  Backend& backend = backend_of(values.device());
  const Tensor rows = on_device(distinct, values.device());
  if (distinct.size() == indices.size()) return {rows, backend.contiguous(values)};
  const Tensor sums = rows_like(values, std::ssize(distinct));
  backend.scatter_add(on_device(place_of, values.device()), values, 0, sums);
  return {rows, sums};
}

void update_rows_in_place(Update formula, const Tensor& numbers, const IndexedSlices& rows,
                          std::span<const Variable> variable_and_slots) {
  const std::int64_t count = rows.indices.size();
  if (count == 0) return;
  Backend& backend = backend_of(rows.values.device());
  modify_all(variable_and_slots, [&](std::span<const Tensor> opened) {
    SmallVector<Tensor, 4> parts;
    for (const Tensor& each : opened) {
      parts.push_back(rows_like(each, count));
      backend.take_rows(each, rows.indices, parts.back());
    }
    backend.update(formula, numbers, rows.values, std::span<const Tensor>(parts.begin() + 1, parts.end()), parts[0]);
    for (std::size_t i = 0; i < parts.size(); ++i) backend.put_rows(parts[i], rows.indices, opened[i]);
  });
}

}  // namespace tapestry
