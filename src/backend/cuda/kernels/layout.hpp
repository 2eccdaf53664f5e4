#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// Divides numbers below 2^31 by a fixed divisor. It takes a multiplication and a shift, where an integer division on a
/// GPU takes some twenty instructions. (Granlund and Montgomery, Division by invariant integers using multiplication,
/// 1994.)
struct Divider {
  std::uint32_t divisor = 1, multiplier = 1;
  std::uint32_t shift = 0;

  Divider() = default;
  /// 0 < divisor < 2^31.
  explicit Divider(std::uint32_t number) : divisor(number) {
    while ((std::uint64_t{1} << shift) < number) ++shift;
    multiplier =
        static_cast<std::uint32_t>((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - number) / number + 1);
  }
  TAPESTRY_HD std::uint32_t quotient(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * multiplier) >> 32);
    return (high + n) >> shift;
  }
};

inline constexpr int max_axes = 8;

/// The offsets of the elements of arrays of one shape, in row-major order. There are fewer than 2^31 elements, and
/// those of each array span less than 2^31. A layout of more arrays begins with the bytes of one of fewer.
template <int arrays>
struct LayoutOf {
  int axes = 0;
  Divider size[max_axes];
  std::int32_t stride[arrays][max_axes] = {};  ///< in elements; 0 where an array is broadcast

  /// The offsets of element i from the first element, in the first `operands` arrays.
  template <int operands>
  TAPESTRY_HD void locate(std::uint32_t i, std::int32_t (&offset)[operands]) const {
    for (int k = 0; k < operands; ++k) offset[k] = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
      const std::uint32_t outer = size[axis].quotient(i);
      const auto index = static_cast<std::int32_t>(i - outer * size[axis].divisor);
      for (int k = 0; k < operands; ++k) offset[k] += index * stride[k][axis];
      i = outer;
    }
  }
};

inline constexpr int max_operands = 4;
using Layout = LayoutOf<max_operands>;

}  // namespace tapestry::gpu
