// cuBLASLt by plain loops: products of matrices that lie by columns. It refuses what the library refuses, or would read
// as something else than was meant.

#include <algorithm>
#include <cstring>

#include <cublasLt.h>

#include "cuda_runtime.h"
#include "emulator.hpp"

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int32_t count = 1;
  std::int64_t batch = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

namespace {

template <class T>
cublasStatus_t set(T& member, const void* value, std::size_t bytes) {
  if (bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&member, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

struct Operands {
  cublasLtMatrixLayoutOpaque_t a, b, c, d;
  bool transposed_a, transposed_b;

  std::int64_t m() const { return transposed_a ? a.columns : a.rows; }
  std::int64_t k() const { return transposed_a ? a.rows : a.columns; }
  std::int64_t n() const { return transposed_b ? b.rows : b.columns; }
};

bool fits(const cublasLtMatmulDescOpaque_t& desc, const Operands& o) {
  const bool wide = desc.compute == CUBLAS_COMPUTE_64F;
  const cudaDataType_t type = wide ? CUDA_R_64F : CUDA_R_32F;
  for (const auto* each : {&o.a, &o.b, &o.c, &o.d}) {
    if (each->type != type || each->count != o.d.count || each->ld < each->rows) return false;
    if (each->rows < 1 || each->columns < 1 || each->count < 1) return false;
  }
  // One behind the other, or side by side in the columns of a larger matrix.
  const bool apart = o.d.count == 1 || o.d.batch >= o.d.ld * (o.d.columns - 1) + o.d.rows ||
                     (o.d.batch >= o.d.rows && o.d.batch * (o.d.count - 1) + o.d.rows <= o.d.ld);
  return desc.scale == type && apart && (o.transposed_b ? o.b.columns : o.b.rows) == o.k() && o.d.rows == o.m() &&
         o.d.columns == o.n() && o.c.rows == o.m() && o.c.columns == o.n();
}

/// The sizes for which an algorithm was chosen.
std::uint64_t shape_of(const Operands& o) {
  std::uint64_t sum = o.transposed_a + 2 * o.transposed_b;
  for (const auto* each : {&o.a, &o.b, &o.c, &o.d})
    for (const std::int64_t number :
         {std::int64_t{each->type}, each->rows, each->columns, each->ld, std::int64_t{each->count}, each->batch})
      sum = sum * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(number);
  return sum;
}

bool is_aligned(const void* data, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

template <class T>
void multiply(const Operands& o, T alpha, const T* a, const T* b, T beta, const T* c, T* d) {
  for (std::int64_t batch = 0; batch < o.d.count; ++batch)
    for (std::int64_t j = 0; j < o.n(); ++j)
      for (std::int64_t i = 0; i < o.m(); ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < o.k(); ++k)
          sum += static_cast<double>(a[batch * o.a.batch + (o.transposed_a ? k + i * o.a.ld : i + k * o.a.ld)]) *
                 static_cast<double>(b[batch * o.b.batch + (o.transposed_b ? j + k * o.b.ld : k + j * o.b.ld)]);
        T& to = d[batch * o.d.batch + i + j * o.d.ld];
        to = static_cast<T>(static_cast<double>(alpha) * sum);
        if (beta != T(0)) to += beta * c[batch * o.c.batch + i + j * o.c.ld];  // with 0, C is not read
      }
}

template <class T>
void start(const Operands& o, const void* alpha, const void* a, const void* b, const void* beta, const void* c, void* d,
           void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const T by = *static_cast<const T*>(alpha), plus = *static_cast<const T*>(beta);
  emulator::launch("cublasLtMatmul", {1, 1, 0, stream}, [&] {
    return [=] {
      std::memset(workspace, 0xff, std::min<std::size_t>(workspace_bytes, 4096));
      multiply(o, by, static_cast<const T*>(a), static_cast<const T*>(b), plus, static_cast<const T*>(c),
               static_cast<T*>(d));
    };
  });
}

}  // namespace

const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED      ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : status == CUBLAS_STATUS_INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                    : "CUBLAS_STATUS_SUCCESS";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  // It allocates memory.
  if (emulator::refuse_while_capturing("to make a handle of cuBLASLt") != cudaSuccess)
    return CUBLAS_STATUS_EXECUTION_FAILED;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute, cudaDataType_t scale) {
  *desc = new cublasLtMatmulDescOpaque_t{compute, scale};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t which,
                                              const void* value, std::size_t bytes) {
  return set(which == CUBLASLT_MATMUL_DESC_TRANSA ? desc->operation_a : desc->operation_b, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  *layout =
      new cublasLtMatrixLayoutOpaque_t{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which,
                                                const void* value, std::size_t bytes) {
  return which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? set(layout->count, value, bytes)
                                                     : set(layout->batch, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void* value,
                                                    std::size_t bytes) {
  if (which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) return set(preference->workspace, value, bytes);
  return set(preference->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int asked, cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  const Operands operands{*a, *b, *c, *d, desc->operation_a == CUBLAS_OP_T, desc->operation_b == CUBLAS_OP_T};
  if (!fits(*desc, operands) || asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  for (const std::uint32_t alignment : preference->alignment)
    if (alignment < (d->type == CUDA_R_64F ? 8 : 4)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = 1;
  results[0] = {};
  results[0].algo.shape = shape_of(operands);
  results[0].algo.workspace = results[0].workspaceSize = preference->workspace;
  std::memcpy(results[0].algo.alignment, preference->alignment, sizeof preference->alignment);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Operands operands{
      *a_layout, *b_layout, *c_layout, *d_layout, desc->operation_a == CUBLAS_OP_T, desc->operation_b == CUBLAS_OP_T};
  if (!handle || !algo || !fits(*desc, operands)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algo->shape != shape_of(operands) || workspace_bytes < algo->workspace || !is_aligned(workspace, 16))
    return CUBLAS_STATUS_INVALID_VALUE;
  const void* matrices[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (!is_aligned(matrices[i], algo->alignment[i])) return CUBLAS_STATUS_INVALID_VALUE;
  (d_layout->type == CUDA_R_64F ? start<double> : start<float>)(operands, alpha, a, b, beta, c, d, workspace,
                                                                workspace_bytes, stream);
  return CUBLAS_STATUS_SUCCESS;
}
