#include "backend/cuda/products.hpp"

#include <algorithm>

namespace tapestry::gpu {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The distance of neighbours along an axis; that of an axis with one element does not matter.
std::int64_t stride(const View& x, int axis, std::int64_t otherwise) {
  return x.shape.sizes()[axis] == 1 ? otherwise : x.stride[at(axis)];
}

/// Rows without gaps inside, which do not overlap.
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

/// Batch axes, joined where all three matrices go on without a gap.
struct Axis {
  std::int64_t size;
  std::array<std::int64_t, 3> stride;
};

std::vector<Axis> batch_axes(const std::array<const View*, 3>& views) {
  const View& y = *views[2];
  std::vector<Axis> axes;
  for (int i = 0; i < y.shape.rank() - 2; ++i) {
    if (y.shape.sizes()[i] == 1) continue;
    Axis axis{y.shape.sizes()[i], {}};
    for (std::size_t k = 0; k < 3; ++k) {
      const int j = i - y.shape.rank() + views[k]->shape.rank();
      if (j >= 0 && views[k]->shape.sizes()[j] != 1) axis.stride[k] = views[k]->stride[at(j)];
    }
    const auto joins = [&](const Axis& outer) {
      return std::equal(axis.stride.begin(), axis.stride.end(), outer.stride.begin(),
                        [&](std::int64_t inner, std::int64_t whole) { return whole == inner * axis.size; });
    };
    if (!axes.empty() && joins(axes.back())) {
      axes.back() = {axes.back().size * axis.size, axis.stride};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

void visit(const Product& product, std::span<const Axis> axes, std::int64_t element_bytes,
           const std::function<void(const Product&)>& body) {
  if (axes.empty()) return body(product);
  Product next = product;
  if (axes.size() == 1) {
    next.count = axes[0].size;
    next.a.batch = axes[0].stride[0];
    next.b.batch = axes[0].stride[1];
    next.y.batch = axes[0].stride[2];
    return body(next);
  }
  for (std::int64_t i = 0; i < axes[0].size; ++i) {
    visit(next, axes.subspan(1), element_bytes, body);
    std::size_t k = 0;
    for (Product::Matrix* matrix : {&next.a, &next.b, &next.y})
      matrix->data = static_cast<std::byte*>(matrix->data) + axes[0].stride[k++] * element_bytes;
  }
}

}  // namespace

bool is_readable(const View& x) {
  const int row = x.shape.rank() - 2, column = row + 1;
  for (int i = 0; i < row; ++i)
    if (stride(x, i, 0) < 0) return false;
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
  // A y of one row or column is stored by rows all the same.
  product.y.row = product.n;
  visit(product, batch_axes({&a, &b, &y}), y.element_bytes, body);
}

}  // namespace tapestry::gpu
