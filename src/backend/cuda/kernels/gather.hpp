#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// All ops that go by indices work in two steps: the indices become positions (64-bit, and a position of 0 in place of
// an index out of range, whose number is told), and slices are read from there or added there.

/// Whole numbers without gaps.
struct Indices {
  const void* data;
  bool wide;           ///< int64, not int32
  std::int64_t count;  ///< results
};

/// positions[i] = indices[i]. Here and below *refused is lowered to the first i with an index outside the axis.
void resolve(Stream stream, Indices indices, std::int64_t size, std::int64_t* positions, unsigned long long* refused);

inline constexpr int max_depth = 8;
struct Coordinates {
  std::int64_t size[max_depth];  ///< of the leading axes
  int depth;                     ///< indices of one position
};
/// The row-major positions of `depth` indices each.
void resolve_coordinates(Stream stream, Indices indices, const Coordinates& coordinates, std::int64_t* positions,
                         unsigned long long* refused);

/// Of indices [outer, length, inner] along the middle axis of an array [outer, size, inner]: the element's position.
void resolve_along(Stream stream, Indices indices, std::int64_t length, std::int64_t inner, std::int64_t size,
                   std::int64_t* positions, unsigned long long* refused);

/// Arrays [outer, size, inner], of which slices of `inner` elements are taken.
struct Slices {
  std::int64_t outer, size, inner;
};
/// y[o, j, :] = x[o, positions[j], :] for j < count, for elements of 1, 2, 4 or 8 bytes.
void gather_slices(Stream stream, std::int64_t element_bytes, Slices slices, const std::int64_t* positions,
                   std::int64_t count, const void* x, void* y);

/// y[o, r, :] = the sum of updates[o, order[i], :] for all i with sorted[i] == r, in the order of i; true is the sum of
/// bools of which one is true.
void add_slices(Stream stream, Type type, Slices slices, const std::uint64_t* sorted, const std::uint32_t* order,
                std::int64_t count, const void* updates, void* y);

}  // namespace tapestry::gpu
