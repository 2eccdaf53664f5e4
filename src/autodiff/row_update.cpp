#include "autodiff/row_update.hpp"

#include "backend/backend.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"

namespace tapestry {
namespace {

/// So many rows of the shape of those of a tensor.
Tensor rows_like(const Tensor& tensor, std::int64_t count) {
  Shape shape = tensor.shape();
  shape.set(0, count);
  return detail::make_tensor(tensor.dtype(), shape, tensor.device());
}

}  // namespace

IndexedSlices summed_rows(const IndexedSlices& slices, const Variable& variable) {
  const Tensor values = detail::computed(slices.values);
  // In a graph whose shapes were unknown, nothing has checked them yet.
  const Shape whole = variable.shape().is_known() ? variable.shape() : variable.cell()->load().shape();
  Shape expected = whole;
  if (expected.rank() > 0) expected.set(0, slices.indices.size());
  if (whole.rank() < 1 || slices.indices.rank() != 1 || values.shape() != expected)
    throw InvalidArgumentError(detail::join("Rows of shape ", values.shape(), " with indices of shape ",
                                            slices.indices.shape(), " do not fit the variable '", variable.name(),
                                            "', ", to_string(variable.dtype()), whole));
  Backend::IndexedRows rows = backend_of(values.device()).sum_rows({slices.indices, values}, whole.sizes()[0]);
  return {std::move(rows.indices), std::move(rows.values)};
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
