#include "tapestry/shape.hpp"

#include <ostream>

#include "tapestry/error.hpp"

namespace tapestry {
namespace {

[[noreturn]] void refuse_rank(std::size_t rank, Where where = {}) {
  throw InvalidArgumentError(
      detail::join("A tensor has at most ", Shape::max_rank, " dimensions, but ", rank, " were given"), where);
}

[[noreturn]] void refuse_size(const Shape& shape, Where where = {}) {
  throw InvalidArgumentError(detail::join("Shape ", shape, " is too large: the product of its sizes exceeds 2^63 - 1"),
                             where);
}

/// Product of the known sizes, or -1 when that of those above 0 does not fit 63 bits: nobody who multiplies some of
/// them needs to look for an overflow.
std::int64_t product(const Shape& shape) {
  std::int64_t total = 1;
  bool overflow = false, empty = false;
  for (const std::int64_t size : shape) {
    if (size > 0) overflow |= __builtin_mul_overflow(total, size, &total);
    empty |= size == 0;
  }
  return overflow ? -1 : empty ? 0 : total;
}

}  // namespace

Shape::Shape(std::span<const std::int64_t> sizes, Where where) {
  if (sizes.size() > max_rank) refuse_rank(sizes.size(), where);
  for (const std::int64_t size : sizes) {
    if (size < -1) throw InvalidArgumentError(detail::join("Dimension ", size, " must be >= 0"), where);
    sizes_[static_cast<std::size_t>(rank_++)] = size;
  }
  if (product(*this) < 0) refuse_size(*this, where);
}

Shape Shape::unknown_rank() {
  Shape shape;
  shape.rank_ = -1;
  return shape;
}

std::int64_t Shape::size() const { return is_known() ? product(*this) : -1; }

bool Shape::is_known() const {
  return has_rank() && std::none_of(begin(), end(), [](std::int64_t size) { return size < 0; });
}

std::int64_t Shape::dim(std::int64_t axis) const { return (*this)[normalize_axis(axis, rank_)]; }

void Shape::push_back(std::int64_t size) {
  if (rank_ == max_rank) refuse_rank(max_rank + 1);
  sizes_[static_cast<std::size_t>(rank_++)] = size;
}

void Shape::insert(int i, std::int64_t size) {
  push_back(size);
  std::rotate(sizes_.begin() + i, sizes_.begin() + rank_ - 1, sizes_.begin() + rank_);
}

void Shape::erase(int i) {
  std::copy(begin() + i + 1, end(), sizes_.begin() + i);
  --rank_;
}

std::string to_string(const Shape& shape) {
  if (!shape.has_rank()) return "<unknown>";
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += size < 0 ? "?" : std::to_string(size);
  }
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << to_string(shape); }

bool can_be(const Shape& shape, const Shape& known) {
  if (!shape.has_rank()) return true;
  if (shape.rank() != known.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (shape[i] >= 0 && shape[i] != known[i]) return false;
  return true;
}

bool agree(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank()) return true;
  return a.rank() == b.rank() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](std::int64_t x, std::int64_t y) { return x == y || x < 0 || y < 0; });
}

int normalize_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw InvalidArgumentError(
        detail::join("Expected dimension in the range [", -rank, ", ", rank, "), but got ", axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  if (a == b) return a;
  const bool a_longer = a.rank() >= b.rank();
  const Shape& longer = a_longer ? a : b;
  const Shape& shorter = a_longer ? b : a;
  Shape out = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[offset + i], y = shorter[i];
    if (x == y || y == 1) continue;
    if (x == 1) {
      out.set(offset + i, y);
    } else if (x < 0) {
      out.set(offset + i, y);
    } else if (y >= 0) {
      throw InvalidArgumentError(detail::join("Incompatible shapes: ", a, " vs. ", b));
    }
  }
  return Shape(std::span<const std::int64_t>(out));
}

std::array<std::int64_t, Shape::max_rank> row_major_strides(const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> strides;
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = stride;
    // Sizes that were set one by one nobody has multiplied before.
    if (i > 0 && __builtin_mul_overflow(stride, shape[i], &stride)) refuse_size(shape);
  }
  return strides;
}

}  // namespace tapestry
