#pragma once

#include <cstdint>

namespace tapestry::host {

/// To be called before any call into BLAS or LAPACK, as often as one likes: keeps OpenBLAS to the calling thread and to
/// the kernels that suit the processor.
void prepare_blas();

/// c[m, n] = op(a) op(b), row-major, or added to c where asked; in this thread, after `prepare_blas`. The sizes are
/// positive; a leading dimension is the distance between rows as they are stored. T: float or double.
template <class T>
void gemm_block(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc);

}  // namespace tapestry::host
