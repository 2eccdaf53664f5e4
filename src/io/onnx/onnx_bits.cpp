// Bits of whole numbers.

#include <limits>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

void require_whole_numbers(const OnnxCall& c) {
  for (std::size_t i = 0; i < c.places(); ++i)
    if (const DType dtype = c.dtype(i); dtype != c.dtype() || (dtype != uint8 && dtype != int32 && dtype != int64))
      c.refuse(detail::join("its input ", i, " is ", to_string(dtype)));
}

Tensor power_of_two(int exponent) { return tensor(std::int64_t{1} << exponent); }

/// In two's complement the highest bit, that of the sign, counts as a negative number.
template <Tensor (*f)(In, In, std::string_view)>
Tensors read_bits(const OnnxCall& c) {
  require_whole_numbers(c);
  const Tensor a = c[0].cast(int64), b = c[1].cast(int64);
  const auto bit = [](const Tensor& x, int i) { return equal(mod(floor_divide(x, power_of_two(i)), 2), 1); };
  Tensor sum = where(f(less(a, 0), less(b, 0), {}), std::numeric_limits<std::int64_t>::min(), std::int64_t{0});
  for (int i = 0; i < (c.dtype() == uint8 ? 8 : 63); ++i)
    sum = sum + where(f(bit(a, i), bit(b, i), {}), power_of_two(i), 0);
  return {sum.cast(c.dtype())};
}

Tensors read_bitwise_not(const OnnxCall& c) {
  require_whole_numbers(c);
  return {c.dtype() == uint8 ? (255 - c[0].cast(int32)).cast(uint8) : -1 - c[0]};
}

/// ONNX has shifts of unsigned numbers only.
Tensors read_bit_shift(const OnnxCall& c) {
  if (c.dtype() != uint8 || c.dtype(1) != uint8)
    c.refuse(detail::join("its inputs are ", to_string(c.dtype()), " and ", to_string(c.dtype(1))));
  const std::string direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") c.refuse(detail::join("its direction is '", direction, "'"));
  const Tensor factor = gather(tensor<std::int32_t>({1, 2, 4, 8, 16, 32, 64, 128, 256}), minimum(c[1].cast(int32), 8));
  const Tensor x = c[0].cast(int32);
  return {(direction == "LEFT" ? mod(x * factor, 256) : floor_divide(x, factor)).cast(uint8)};
}

}  // namespace

OnnxOps onnx_bits() {
  return {
      {"BitShift", 2, 2, read_bit_shift},           {"BitwiseAnd", 2, 2, read_bits<logical_and>},
      {"BitwiseNot", 1, 1, read_bitwise_not},       {"BitwiseOr", 2, 2, read_bits<logical_or>},
      {"BitwiseXor", 2, 2, read_bits<logical_xor>},
  };
}

}  // namespace tapestry::io
