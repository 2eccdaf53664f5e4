#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// Batches of contiguous, row-major matrices of a float type. Except in `solve_triangular` and `identity`, a block
// computes one matrix at a time. *refused is lowered to the number of the first matrix that has no result.

/// The lower triangle of a [n, n] becomes its Cholesky factor, the upper one 0. Refuses a pivot that is not positive.
void cholesky(Stream stream, Type type, std::int64_t batch, std::int64_t n, void* a, unsigned long long* refused);

/// Solves a x = b for a [n, n] and b [n, columns]. x overwrites b, and a is destroyed. Refuses a singular a.
void solve(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t columns, void* a, void* b,
           unsigned long long* refused);
/// Solves l x = b for a lower triangle l, or l^T x = b if `adjoint`. x overwrites b. Refuses a singular l.
void solve_triangular(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t columns, bool adjoint,
                      const void* l, void* b, unsigned long long* refused);

/// Writes identity matrices [n, n].
void identity(Stream stream, Type type, std::int64_t batch, std::int64_t n, void* y);

/// Singular value decompositions of column-major matrices: `columns` [n, length], n <= length, becomes the left
/// vectors, the rows of right [n, n] the right ones, and values [n] the singular values, the largest first. A matrix
/// with an infinity or NaN gets NaN everywhere. Refuses a matrix that has not converged.
void decompose(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t length, void* columns,
               void* right, void* values, unsigned long long* refused);

}  // namespace tapestry::gpu
