#pragma once

#include <cstdint>

namespace tapestry::host {

/// Makes OpenBLAS use only the calling thread and the kernels that suit the processor. Call it before any call into
/// BLAS or LAPACK; only the first call does something.
void prepare_blas();

/// c[m, n] = op(a) op(b), or c += op(a) op(b) if `accumulate`, of row-major matrices. It runs in this thread, after
/// `prepare_blas`. The sizes are positive; a leading dimension is the distance between stored rows. T is float or
/// double.
template <class T>
void gemm_block(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc);

}  // namespace tapestry::host
