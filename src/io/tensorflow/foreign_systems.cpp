// Systems of linear equations: their triangular factors, and matrices that are given by a few of their diagonals.

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

/// More rows than a matrix has that is decomposed by a few operations for each.
constexpr std::int64_t most_steps = 1 << 9;

std::int64_t rows_of(const ForeignNode& n, std::size_t input, std::int64_t most) {
  const Shape& shape = n.in(input).shape();
  if (shape.rank() < 2) n.node.refuse(detail::join("its input ", input, " has the shape ", shape));
  const std::int64_t rows = shape.sizes()[static_cast<std::size_t>(shape.rank()) - 1];
  if (rows > most)
    throw UnimplementedError(detail::join("Node '", n.name(), "' (op: '", n.node.def().op,
                                          "'): Tapestry takes matrices of up to ", most, " rows for it, not of ",
                                          rows));
  return rows;
}

/// The last axis of a shape is repeated behind it, so that a list in that axis tells the rows of a matrix.
Tensor as_rows(const Tensor& list) { return expand_dims(list, -1); }

// ---- Factors --------------------------------------------------------------------------------------------------------

/// Column by column: the largest element is moved up, and the rows below lose what they have in this column.
Tensors read_factors(const ForeignNode& n) {
  const std::int64_t size = rows_of(n, 0, most_steps);
  const auto rank = static_cast<std::size_t>(n.in(0).shape().rank());
  if (n.in(0).shape().sizes()[rank - 2] != size)
    n.node.refuse(detail::join("its matrices have the shape ", n.in(0).shape()));
  const auto* type = n.node.find<TypeCode>("output_idx_type");
  return n.composed([&]() -> Tensors {
    const Tensor rows = arange(size, {.dtype = int64});
    const auto column_of = [&](const Tensor& x, std::int64_t k) {
      Ints begin(rank), count(rank, -1);
      begin.back() = k;
      count.back() = 1;
      return squeeze(slice(x, begin, count), -1);
    };
    const auto row_of = [&](const Tensor& x, std::int64_t k) {
      Ints begin(rank), count(rank, -1);
      begin[rank - 2] = k;
      count[rank - 2] = 1;
      return slice(x, begin, count);
    };
    Tensor x = n.in(0), order = broadcast_like(rows, column_of(stop_gradient(x), 0).cast(int64));
    for (std::int64_t k = 0; k + 1 < size; ++k) {
      const Tensor column = column_of(stop_gradient(x), k);
      const Tensor pivot = expand_dims(argmax(where(rows >= k, abs(column), -1), -1), -1);
      const Tensor moved = where(equal(rows, k), pivot, where(equal(rows, pivot), k, rows));
      order = take_along_axis(order, moved, -1);
      x = take_along_axis(x, broadcast_like(as_rows(moved), x.cast(int64)), -2);
      const Tensor factors = where(rows > k, column_of(x, k), 0) / column_of(row_of(x, k), k);
      const Tensor rest = x - as_rows(factors) * where(rows > k, row_of(x, k), 0);
      x = where(as_rows(rows > k) & equal(rows, k), as_rows(factors), rest);
    }
    return {x, order.cast(type ? dtype_of(*type) : int32)};
  });
}

Specs specs_of_factors(const NodeReader& reader, const Tensors& inputs) {
  const auto* type = reader.find<TypeCode>("output_idx_type");
  Shape order = inputs[0].shape();
  if (order.rank() > 0) order.erase(order.rank() - 1);
  return {{inputs[0].dtype(), inputs[0].shape()}, {type ? dtype_of(*type) : int32, order}};
}

// ---- Diagonals ------------------------------------------------------------------------------------------------------

/// The matrix whose rows have elements of lists beside the diagonal: list i those that are `offsets[i]` behind it.
Tensor from_diagonals(const std::vector<Tensor>& lists, const std::vector<std::int64_t>& offsets, std::int64_t size) {
  const Tensor rows = arange(size, {.dtype = int64}), ahead = rows - as_rows(rows);
  Tensor matrix;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const Tensor part = where(equal(ahead, offsets[i]), as_rows(lists[i]), 0);
    matrix = bool(matrix) ? Tensor(matrix + part) : part;
  }
  return matrix;
}

/// The rows of the last but one axis.
std::vector<Tensor> rows_in(const Tensor& x) { return unstack(x, -2); }

/// The diagonals above, on and below the main one, each as long as the matrix has rows.
Tensors read_tridiagonal_solve(const ForeignNode& n) {
  const std::int64_t size = rows_of(n, 0, most_blocks);
  const Shape& shape = n.in(0).shape();
  if (shape.sizes()[static_cast<std::size_t>(shape.rank()) - 2] != 3)
    n.node.refuse(detail::join("its diagonals have the shape ", shape));
  return n.composed([&] { return solve(from_diagonals(rows_in(n.in(0)), {1, 0, -1}, size), n.in(1)); });
}

Tensors read_tridiagonal_product(const ForeignNode& n) {
  const std::int64_t size = rows_of(n, 1, most_numbers);
  if (n.in(3).shape().rank() < 2) n.node.refuse(detail::join("its matrix has the shape ", n.in(3).shape()));
  return n.composed([&] {
    const Tensor rows = as_rows(arange(size, {.dtype = int64}));
    const auto part = [&](std::size_t input) { return as_rows(squeeze(n.in(input), -2)); };
    const Tensor above = where(rows + 1 < size, part(0) * roll(n.in(3), -1, -2), 0),
                 below = where(rows > 0, part(2) * roll(n.in(3), 1, -2), 0);
    return above + part(1) * n.in(3) + below;
  });
}

/// Diagonals from the main one on: down from the first row, or up from the last.
Tensors read_banded_solve(const ForeignNode& n) {
  const std::int64_t size = rows_of(n, 0, most_blocks);
  const bool lower = n.node.attr_or<bool>("lower", true);
  const auto count = n.in(0).shape().sizes()[static_cast<std::size_t>(n.in(0).shape().rank()) - 2];
  if (count < 1 || count > size) n.node.refuse(detail::join("it has ", count, " diagonals for ", size, " rows"));
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  std::iota(offsets.begin(), offsets.end(), std::int64_t{0});
  for (std::int64_t& each : offsets) each = lower ? -each : count - 1 - each;
  return n.composed([&] {
    const Tensor matrix = from_diagonals(rows_in(n.in(0)), offsets, size);
    return triangular_solve(matrix, n.in(1), {.lower = lower, .adjoint = n.node.attr_or<bool>("adjoint", false)});
  });
}

}  // namespace

ForeignOps foreign_systems() {
  return {
      {.name = "BandedTriangularSolve",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_banded_solve},
      {.name = "Lu", .inputs = 1, .lacks_sizes = lacks_any_size, .specs = specs_of_factors, .read = read_factors},
      {.name = "TridiagonalMatMul",
       .inputs = 4,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(3)},
       .read = read_tridiagonal_product},
      {.name = "TridiagonalSolve",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_tridiagonal_solve},
  };
}

}  // namespace tapestry::io
