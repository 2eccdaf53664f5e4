#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// All ops with indices work in two steps. The first turns indices into 64-bit positions; it reports an index out of
// range, whose position is 0. The second reads slices from the positions, or adds slices there.

/// A contiguous array of integers.
struct Indices {
  const void* data;
  bool wide;           ///< int64, not int32
  std::int64_t count;  ///< positions that the indices give
};

/// positions[i] = indices[i]. Here and below *refused is lowered to the first i with an index outside the axis.
void resolve(Stream stream, Indices indices, std::int64_t size, std::int64_t* positions, unsigned long long* refused);

inline constexpr int max_depth = 8;
struct Coordinates {
  std::int64_t size[max_depth];  ///< sizes of the leading axes
  int depth;                     ///< number of indices of one position
};
/// positions[i] = the row-major position of the i-th `depth` indices.
void resolve_coordinates(Stream stream, Indices indices, const Coordinates& coordinates, std::int64_t* positions,
                         unsigned long long* refused);

/// Writes positions of elements in an array [outer, size, inner]: indices [outer, length, inner] index its middle axis.
void resolve_along(Stream stream, Indices indices, std::int64_t length, std::int64_t inner, std::int64_t size,
                   std::int64_t* positions, unsigned long long* refused);

/// An array [outer, size, inner] with slices of `inner` elements.
struct Slices {
  std::int64_t outer, size, inner;
};
/// y[o, j, :] = x[o, positions[j], :] for j < count, for elements of 1, 2, 4 or 8 bytes; 0 for the position -1.
void gather_slices(Stream stream, std::int64_t element_bytes, Slices slices, const std::int64_t* positions,
                   std::int64_t count, const void* x, void* y);

/// y[positions[j], :] = rows[j, :] for j < count, with rows of `inner` elements of 1, 2, 4 or 8 bytes; the positions
/// are all different, but for those that are -1, whose rows are left out.
void put_slices(Stream stream, std::int64_t element_bytes, std::int64_t inner, const std::int64_t* positions,
                std::int64_t count, const void* rows, void* y);

/// y[o, r, :] = the sum of updates[o, order[i], :] for all i with sorted[i] == r, in the order of i; "any" for bool.
void add_slices(Stream stream, Type type, Slices slices, const std::uint64_t* sorted, const std::uint32_t* order,
                std::int64_t count, const void* updates, void* y);

/// Adds up the rows of `values`, of `inner` elements of a float type, that have the same key. The first key of each run
/// of equal keys gets the sum, in the order of the run, and its position; the others get the position -1. All do when
/// *refused tells of a refused index: then nothing may be changed.
void sum_runs(Stream stream, Type type, std::int64_t inner, const std::uint64_t* sorted, const std::uint32_t* order,
              std::int64_t count, const void* values, const unsigned long long* refused, std::int64_t* positions,
              void* sums);

}  // namespace tapestry::gpu
