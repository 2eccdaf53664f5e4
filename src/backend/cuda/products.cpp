#include "backend/cuda/products.hpp"

#include <algorithm>

#include "backend/strided_loop.hpp"

namespace tapestry::gpu {
namespace {

/// The stride of an axis, or `otherwise` for an axis of one element, whose stride does not matter.
std::int64_t stride(const View& x, int axis, std::int64_t otherwise) {
  return x.shape.sizes()[axis] == 1 ? otherwise : x.stride[axis];
}

/// Whether the rows have no gaps inside and do not overlap.
bool is_by_rows(const View& x, int row_axis, int column_axis) {
  const std::int64_t columns = x.shape.sizes()[column_axis];
  return stride(x, column_axis, 1) == 1 && stride(x, row_axis, columns) >= columns;
}

Product::Matrix matrix(const View& x, bool transpose) {
  const int row = x.shape.rank() - 2, column = row + 1;
  Product::Matrix result;
  result.data = x.data;
  const bool by_rows = is_by_rows(x, row, column);
  result.row = by_rows ? stride(x, row, std::max<std::int64_t>(1, x.shape.sizes()[column]))
                       : stride(x, column, std::max<std::int64_t>(1, x.shape.sizes()[row]));
  result.transposed = transpose == by_rows;
  return result;
}

/// A loop over the batch of a, b and y.
using BatchLoop = StridedLoop<3>;

BatchLoop batch_loop(const View& a, const View& b, const View& y) {
  BatchLoop loop(y.shape);
  for (const View* each : {&a, &b, &y}) loop.add(each->shape, each->stride);
  loop.axes -= 2;  // the matrices
  loop.join_axes();
  return loop;
}

/// Calls `body` for the products along the axes from `axis` on. The innermost axis becomes the batch of each product.
void visit(const Product& product, const BatchLoop& loop, int axis, std::int64_t element_bytes,
           const std::function<void(const Product&)>& body) {
  if (axis == loop.axes) return body(product);
  const auto& [size, stride] = loop.axis[axis];
  Product next = product;
  if (axis == loop.axes - 1) {
    next.count = size;
    next.a.batch = stride[0];
    next.b.batch = stride[1];
    next.y.batch = stride[2];
    return body(next);
  }
  for (std::int64_t i = 0; i < size; ++i) {
    visit(next, loop, axis + 1, element_bytes, body);
    std::size_t k = 0;
    for (Product::Matrix* matrix : {&next.a, &next.b, &next.y})
      matrix->data = static_cast<std::byte*>(matrix->data) + stride[k++] * element_bytes;
  }
}

}  // namespace

bool is_readable(const View& x) {
  const int row = x.shape.rank() - 2, column = row + 1;
  std::int64_t next = 0;  // the stride of an axis that one call computes together with those behind it
  for (int i = row - 1; i >= 0; --i) {
    const std::int64_t step = stride(x, i, next);
    if (step < 0 || (next != 0 && step != 0 && step != next)) return false;
    next = step * x.shape.sizes()[i];
  }
  return is_by_rows(x, row, column) || is_by_rows(x, column, row);
}

void for_each_product(const View& a, const View& b, bool transpose_a, bool transpose_b, const View& y,
                      const std::function<void(const Product&)>& body) {
  Product product;
  const int rank = y.shape.rank();
  product.m = y.shape.sizes()[rank - 2];
  product.n = y.shape.sizes()[rank - 1];
  product.k = a.shape.sizes()[a.shape.rank() - (transpose_a ? 2 : 1)];
  product.a = matrix(a, transpose_a);
  product.b = matrix(b, transpose_b);
  product.y = matrix(y, false);
  // y is contiguous, also if it has only one row or column.
  product.y.row = product.n;
  visit(product, batch_loop(a, b, y), 0, y.element_bytes, body);
}

}  // namespace tapestry::gpu
