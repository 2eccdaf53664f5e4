#include "backend/cpu/kernels/elementwise.hpp"

#include <string_view>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/half.hpp"
#include "backend/cpu/kernels/movement.hpp"
#include "backend/cpu/pieces.hpp"

namespace tapestry::host {

const UnaryTable& unary_kernels() {
  static const UnaryTable& table = TAPESTRY_PICK_LEVEL(unary_table);
  return table;
}
const BinaryTable& binary_kernels() {
  static const BinaryTable& table = TAPESTRY_PICK_LEVEL(binary_table);
  return table;
}
const TernaryTable& ternary_kernels() {
  static const TernaryTable& table = TAPESTRY_PICK_LEVEL(ternary_table);
  return table;
}

namespace {

/// The number of elements of a known shape. Shape::num_elements() would check that it is known, which takes a tenth of
/// a small op.
std::int64_t count(const detail::TensorImpl& x) {
  const int rank = x.shape.rank();
  if (rank == 0) return 1;
  std::int64_t n = x.shape.sizes()[0];
  for (int i = 1; i < rank; ++i) n *= x.shape.sizes()[i];
  return n;
}

[[noreturn]] void throw_undefined(DType dtype) {
  throw InvalidArgumentError(detail::join("This function is not defined for elements of type ", to_string(dtype)));
}

/// The loop of a function for the type in which elements of `dtype` are computed.
template <class Function>
auto kernel(const auto& rows, Function f, DType dtype) {
  const auto row = rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(computed_in(dtype))];
  if (!row) [[unlikely]]
    throw_undefined(dtype);
  return row;
}

/// Whether f is an integer function that has no result for some second operands.
bool is_partial(Binary f, DType dtype) {
  return is_integer(dtype) && (f == Binary::floor_mod || f == Binary::floor_divide || f == Binary::power);
}

void check_partial(Binary f, DType dtype, const void* b, std::int64_t n) {
  const auto type = static_cast<std::size_t>(dtype);
  if (f == Binary::power) {
    if (dtype != uint8 && binary_kernels().contains_negative[type](b, n))
      throw InvalidArgumentError("Integers to negative integer powers are not allowed");
  } else if (binary_kernels().contains_zero[type](b, n)) {
    throw InvalidArgumentError("Integer division by zero");
  }
}

// The general cases are functions of their own, so that the simple ones need no stack frame.

/// Calls `compute`, which need not know half types, for pieces that make up all of y.
template <class Compute>
void by_pieces(const Tensor& y, std::span<const Tensor* const> inputs, const Compute& compute) {
  std::array<DType, max_inputs> types;
  bool half = is_half(y.dtype());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    types[i] = inputs[i]->dtype();
    half = half || is_half(types[i]);
  }
  if (!half) return for_each_piece(y, inputs, compute);
  for_each_piece(y, inputs, [&](const Piece& piece) {
    through_float32(piece, {types.data(), inputs.size()}, y.dtype(), compute);
  });
}

[[gnu::noinline]] void unary_by_pieces(UnaryRow row, const Tensor& x, double alpha, const Tensor& y) {
  const Tensor* inputs[] = {&x};
  const std::size_t size = size_of(computed_in(y.dtype()));
  by_pieces(y, inputs, [&](const Piece& piece) {
    if (piece.step[0] == 1) return row(piece.input[0], piece.y, piece.n, alpha);
    row(piece.input[0], piece.y, 1, alpha);
    movement_kernels().fill(size)(piece.y, piece.y + size, piece.n - 1);
  });
}

[[gnu::noinline]] void binary_by_pieces(Binary f, BinaryRow row, const Tensor& a, const Tensor& b, double alpha,
                                        const Tensor& y) {
  const Tensor* inputs[] = {&a, &b};
  const bool partial = is_partial(f, a.dtype());
  by_pieces(y, inputs, [&](const Piece& piece) {
    if (partial) check_partial(f, a.dtype(), piece.input[1], piece.step[1] == 1 ? piece.n : 1);
    row(piece.input[0], piece.step[0], piece.input[1], piece.step[1], piece.y, piece.n, alpha);
  });
}

}  // namespace

void CpuBackend::fill(double value, const Tensor& y) {
  std::byte element[8];
  const std::size_t size = size_of(y.dtype());
  const MovementTable& kernels = movement_kernels();
  kernels.cast[static_cast<std::size_t>(float64)][static_cast<std::size_t>(y.dtype())](&value, element, 1);
  auto* to = static_cast<std::byte*>(y.impl().data);
  parallel_for(count(y.impl()), 4 * task_elements, [&](std::int64_t begin, std::int64_t end) {
    kernels.fill(size)(element, to + begin * static_cast<std::int64_t>(size), end - begin);
  });
}

void CpuBackend::iota(double start, double step, const Tensor& y) {
  constexpr std::int64_t block = 512;
  const auto size = static_cast<std::int64_t>(size_of(y.dtype()));
  const auto convert = movement_kernels().cast[static_cast<std::size_t>(float64)][static_cast<std::size_t>(y.dtype())];
  auto* to = static_cast<std::byte*>(y.impl().data);
  parallel_for(count(y.impl()), task_elements, [&](std::int64_t begin, std::int64_t end) {
    double numbers[block];
    for (std::int64_t i = begin; i < end; i += block) {
      const std::int64_t n = std::min(block, end - i);
      for (std::int64_t j = 0; j < n; ++j) numbers[j] = start + static_cast<double>(i + j) * step;
      convert(numbers, to + i * size, n);
    }
  });
}

void CpuBackend::unary(Unary f, const Tensor& x, double alpha, const Tensor& y) {
  const detail::TensorImpl &from = x.impl(), &to = y.impl();
  const UnaryRow row = kernel(unary_kernels().rows, f, from.dtype);
  const std::int64_t n = count(to);
  if (from.contiguous && n <= task_elements && !is_half(from.dtype)) [[likely]]
    return row(from.data, to.data, n, alpha);
  unary_by_pieces(row, x, alpha, y);
}

void CpuBackend::binary(Binary f, const Tensor& a, const Tensor& b, double alpha, const Tensor& y) {
  const detail::TensorImpl &left = a.impl(), &right = b.impl(), &to = y.impl();
  const BinaryRow row = kernel(binary_kernels().rows, f, left.dtype);
  const std::int64_t n = count(to);
  if (left.contiguous && right.contiguous && n <= task_elements && !is_partial(f, left.dtype) && !is_half(left.dtype)) {
    // An operand of y's size that broadcasts to y has y's elements in y's order.
    const std::int64_t a_count = count(left), b_count = count(right);
    if ((a_count == n || a_count == 1) && (b_count == n || b_count == 1))
      return row(left.data, a_count == n, right.data, b_count == n, to.data, n, alpha);
  }
  binary_by_pieces(f, row, a, b, alpha, y);
}

void CpuBackend::ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& y) {
  const TernaryRow row = kernel(ternary_kernels().rows, f, y.dtype());
  const Tensor* inputs[] = {&a, &b, &c};
  by_pieces(y, inputs, [&](const Piece& piece) {
    row(piece.input[0], piece.step[0], piece.input[1], piece.step[1], piece.input[2], piece.step[2], piece.y, piece.n);
  });
}

}  // namespace tapestry::host
