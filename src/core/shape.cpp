#include "tapestry/shape.hpp"

#include <ostream>

#include "core/lack_refusal.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {
namespace {

[[noreturn]] void refuse_rank(std::size_t rank, Where where = {}) {
  throw LackRefusal(detail::join("A tensor has at most ", Shape::max_rank, " dimensions, but ", rank, " were given"),
                    where);
}

[[noreturn]] void refuse_size(const Shape& shape, Where where = {}) {
  throw InvalidArgumentError(detail::join("Shape ", shape, " is too large: the product of its sizes exceeds 2^63 - 1"),
                             where);
}

/// The product of the known sizes, or -1 when the product of the sizes above 0 does not fit 63 bits. No product of some
/// sizes of a shape that has passed this check can overflow.
std::int64_t product(const Shape& shape) {
  std::int64_t total = 1;
  bool overflow = false, empty = false;
  for (const std::int64_t size : shape.sizes()) {
    if (size > 0) overflow |= __builtin_mul_overflow(total, size, &total);
    empty |= size == 0;
  }
  return overflow ? -1 : empty ? 0 : total;
}

/// The same, where it is easy: the product if all sizes are above 0 and it fits, otherwise 0.
std::int64_t plain_product(std::span<const std::int64_t> sizes) {
  std::int64_t total = 1;
  for (const std::int64_t size : sizes)
    if (size <= 0 || __builtin_mul_overflow(total, size, &total)) return 0;
  return total;
}

}  // namespace

void detail::UnknownSizes::destroy(UnknownSizes* sizes) noexcept { delete sizes; }

void Dimension::refuse() const {
  if (!source_.tensor) throw FailedPreconditionError("This size is not known: it was given as -1", where_);
  throw FailedPreconditionError(
      detail::join("The size of axis ", source_.axis, " of ", source_.tensor->describe(),
                   " is known only when the graph runs, and cannot be used as a C++ number. It may stand in a shape, "
                   "such as zeros({x.shape()[0], 2}); size(x, axis) is the size as a tensor"),
      where_);
}

std::string to_string(const Dimension& size) { return size.is_known() ? std::to_string(std::int64_t{size}) : "?"; }

std::ostream& operator<<(std::ostream& out, const Dimension& size) { return out << to_string(size); }

Shape::Shape(std::span<const std::int64_t> sizes, Where where) {
  if (sizes.size() > max_rank) refuse_rank(sizes.size(), where);
  for (const std::int64_t size : sizes) {
    if (size < -1) throw InvalidArgumentError(detail::join("Dimension ", size, " must be >= 0"), where);
    sizes_[rank_++] = size;
  }
  if (plain_product(this->sizes()) == 0 && product(*this) < 0) refuse_size(*this, where);
}

Shape::Shape(std::initializer_list<Size> sizes, Where where) {
  if (sizes.size() > max_rank) refuse_rank(sizes.size(), where);
  std::array<std::int64_t, max_rank> numbers;
  std::transform(sizes.begin(), sizes.end(), numbers.begin(), [](const Size& size) { return size.size_; });
  *this = Shape(std::span(numbers.data(), sizes.size()), where);
  for (int i = 0; i < rank_; ++i) set(i, sizes.begin()[i]);
}

Shape Shape::unknown_rank() {
  Shape shape;
  shape.rank_ = -1;
  return shape;
}

std::int64_t Shape::num_elements() const {
  const std::int64_t total = has_rank() ? plain_product(sizes()) : 0;
  return total > 0 ? total : is_known() ? product(*this) : -1;
}

std::int64_t Shape::size(Where where) const {
  if (!has_rank()) throw FailedPreconditionError("The number of elements is not known: not even the rank is", where);
  if (const std::int64_t total = plain_product(sizes()); total > 0) return total;
  for (int i = 0; i < rank_; ++i)
    if (sizes_[i] < 0) static_cast<void>(std::int64_t{at(i, where)});  // throws
  return product(*this);
}

bool Shape::is_known() const {
  return has_rank() && std::ranges::none_of(sizes(), [](std::int64_t size) { return size < 0; });
}

Dimension Shape::at(int i, Where where) const {
  Dimension size(sizes_[i], where);
  if (!size.is_known()) size.source_ = source(i);
  return size;
}

Dimension Shape::operator[](Axis axis) const {
  if (!has_rank())
    throw FailedPreconditionError("The size of an axis of a tensor whose rank is not known", axis.where_);
  if (axis.axis_ < -rank_ || axis.axis_ >= rank_)
    throw InvalidArgumentError(detail::join("Axis ", axis.axis_, " is out of range of the shape ", *this), axis.where_);
  return at(static_cast<int>(axis.axis_ < 0 ? axis.axis_ + rank_ : axis.axis_), axis.where_);
}

Dimension Shape::Iterator::operator*() const { return shape_->at(axis_, {}); }

std::vector<std::int64_t> Shape::to_vector(Where where) const {
  static_cast<void>(size(where));  // throws where a size is unknown
  return {sizes().begin(), sizes().end()};
}

detail::UnknownSize Shape::source(int i) const {
  if (!unknown_ || sizes_[i] >= 0) return {};
  return unknown_->axes[i];
}

/// The sources of the unknown sizes, to be changed. They are copied first if another shape shares them.
detail::UnknownSizes& Shape::own_unknown() {
  if (!unknown_ || unknown_->references.is_shared()) {
    detail::Intrusive<detail::UnknownSizes> own(new detail::UnknownSizes);
    if (unknown_) own->axes = unknown_->axes;
    unknown_ = std::move(own);
  }
  return *unknown_;
}

void Shape::set_source(const detail::Intrusive<detail::Origin>& tensor) {
  for (int i = 0; i < rank_; ++i)
    if (sizes_[i] < 0) own_unknown().axes[i] = {tensor, i};
}

void Shape::require(int i, int most) const {
  if (!has_rank()) throw FailedPreconditionError("A shape of unknown rank has no dimensions that could be changed");
  if (i < 0 || i > most) throw InvalidArgumentError(detail::join("There is no dimension ", i, " in the shape ", *this));
}

void Shape::set(int i, const Size& size) {
  require(i, rank_ - 1);
  if (size.size_ < -1) throw InvalidArgumentError(detail::join("Dimension ", size.size_, " must be >= 0"));
  sizes_[i] = size.size_;
  if (size.source_.tensor || unknown_) own_unknown().axes[i] = size.source_;
}

void Shape::push_back(const Size& size) {
  require(rank_, rank_);
  if (rank_ == max_rank) refuse_rank(max_rank + 1);
  ++rank_;
  try {
    set(rank_ - 1, size);
  } catch (...) {
    --rank_;
    throw;
  }
}

void Shape::insert(int i, const Size& size) {
  require(i, rank_);
  push_back(size);
  const auto rotate = [&](auto& list) {
    std::rotate(list.begin() + i, list.begin() + rank_ - 1, list.begin() + rank_);
  };
  rotate(sizes_);
  if (unknown_) rotate(own_unknown().axes);
}

void Shape::erase(int i) {
  require(i, rank_ - 1);
  const auto remove = [&](auto& list) { std::copy(list.begin() + i + 1, list.begin() + rank_, list.begin() + i); };
  remove(sizes_);
  if (unknown_) remove(own_unknown().axes);
  --rank_;
}

std::string to_string(const Shape& shape) {
  if (!shape.has_rank()) return "<unknown>";
  std::string text = "[";
  for (const std::int64_t size : shape.sizes()) {
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
    if (shape.sizes()[i] >= 0 && shape.sizes()[i] != known.sizes()[i]) return false;
  return true;
}

bool agree(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank()) return true;
  return std::ranges::equal(a.sizes(), b.sizes(),
                            [](std::int64_t x, std::int64_t y) { return x == y || x < 0 || y < 0; });
}

int normalize_axis(std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw InvalidArgumentError(
        detail::join("Expected dimension in the range [", -rank, ", ", rank, "), but got ", axis));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  if (!a.has_rank() || !b.has_rank()) return Shape::unknown_rank();
  if (a == b && a.is_known()) return a;
  const bool a_longer = a.rank() >= b.rank();
  const Shape& longer = a_longer ? a : b;
  const Shape& shorter = a_longer ? b : a;
  Shape out(longer.sizes());  // without sources: an unknown size of one operand need not be the size of the result
  const int offset = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer.sizes()[offset + i], y = shorter.sizes()[i];
    if (x == y || y == 1) continue;
    if (x == 1) {
      out.set(offset + i, y);
    } else if (x < 0) {
      out.set(offset + i, y);
    } else if (y >= 0) {
      throw InvalidArgumentError(detail::join("Incompatible shapes: ", a, " vs. ", b));
    }
  }
  return Shape(out.sizes());
}

std::array<std::int64_t, Shape::max_rank> row_major_strides(const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> strides;
  std::int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    // Sizes that were set one by one have not been checked for an overflow.
    if (i > 0 && __builtin_mul_overflow(stride, shape.sizes()[i], &stride)) refuse_size(shape);
  }
  return strides;
}

}  // namespace tapestry
