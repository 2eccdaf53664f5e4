#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// Batches of matrices without gaps, by rows, of a float type; a block computes one matrix at a time. *refused is
// lowered to the number of the first matrix that has no result.

/// The lower triangle of a [n, n] becomes its Cholesky factor, the upper one 0. Refused: a pivot that is not positive.
void cholesky(Stream stream, Type type, std::int64_t batch, std::int64_t n, void* a, unsigned long long* refused);

/// a [n, n], which is destroyed, times the result is b [n, columns], whose place it takes. Refused: a singular a.
void solve(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t columns, void* a, void* b,
           unsigned long long* refused);
/// The same for a lower triangle l, or for its transpose (`adjoint`).
void solve_triangular(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t columns, bool adjoint,
                      const void* l, void* b, unsigned long long* refused);

/// Identity matrices [n, n].
void identity(Stream stream, Type type, std::int64_t batch, std::int64_t n, void* y);

/// Singular value decompositions of matrices by columns: `columns` [n, length], n <= length, becomes the left vectors,
/// right [n, n] gets the right ones in its rows, and values [n] falls from the largest.
/// Matrices with an infinity or NaN have NaN everywhere. Refused: what has not converged.
void decompose(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t length, void* columns,
               void* right, void* values, unsigned long long* refused);

}  // namespace tapestry::gpu
