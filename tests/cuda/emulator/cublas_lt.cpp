// cuBLASLt by plain loops: products of matrices that lie by columns. It refuses what the library refuses, or would read
// as something else than was meant.

#include <algorithm>
#include <cmath>
#include <cstring>

#include <cublasLt.h>

#include "cuda_runtime.h"
#include "emulator.hpp"
#include "rounding.hpp"
#include "tapestry/float16.hpp"

using tapestry::bfloat16_t;
using tapestry::float16_t;

struct cublasLtContext {};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t operation_a = CUBLAS_OP_N, operation_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int32_t count = 1;
  std::int64_t batch = 0;
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
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
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, c, d;

  bool transposed_a() const { return desc.operation_a == CUBLAS_OP_T; }
  bool transposed_b() const { return desc.operation_b == CUBLAS_OP_T; }
  std::int64_t m() const { return transposed_a() ? a.columns : a.rows; }
  std::int64_t k() const { return transposed_a() ? a.rows : a.columns; }
  std::int64_t n() const { return transposed_b() ? b.rows : b.columns; }
};

std::uint32_t bytes_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

/// Whether sums so computed are for matrices of that type.
bool computes(cublasComputeType_t compute, cudaDataType_t type) {
  if (compute == CUBLAS_COMPUTE_64F) return type == CUDA_R_64F;
  return compute == CUBLAS_COMPUTE_32F ? type != CUDA_R_64F : type == CUDA_R_32F;
}

bool fits(const Operands& o) {
  const cudaDataType_t type = o.d.type, sum = type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F;
  if (!computes(o.desc.compute, type)) return false;
  for (const auto* each : {&o.a, &o.b, &o.c, &o.d}) {
    if (each->type != type || each->count != o.d.count || each->ld < each->rows) return false;
    if (each->rows < 1 || each->columns < 1 || each->count < 1) return false;
  }
  // One behind the other, or side by side in the columns of a larger matrix.
  const bool apart = o.d.count == 1 || o.d.batch >= o.d.ld * (o.d.columns - 1) + o.d.rows ||
                     (o.d.batch >= o.d.rows && o.d.batch * (o.d.count - 1) + o.d.rows <= o.d.ld);
  return o.desc.scale == sum && apart && (o.transposed_b() ? o.b.columns : o.b.rows) == o.k() && o.d.rows == o.m() &&
         o.d.columns == o.n() && o.c.rows == o.m() && o.c.columns == o.n();
}

/// Epilogues are not for float64, and GELU here for as many rows as fill vectors; the library has rules of its own.
bool has_epilogue(const Operands& o) {
  const bool gelu = (o.desc.epilogue & CUBLASLT_EPILOGUE_GELU) != 0;
  return o.desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT || (o.d.type != CUDA_R_64F && !(gelu && o.d.rows % 4 != 0));
}

/// The sizes for which an algorithm was chosen.
std::uint64_t shape_of(const Operands& o) {
  std::uint64_t sum =
      static_cast<std::uint64_t>(o.transposed_a() + 2 * o.transposed_b() + 4 * o.desc.compute + 1024 * o.desc.epilogue);
  for (const auto* each : {&o.a, &o.b, &o.c, &o.d})
    for (const std::int64_t number :
         {std::int64_t{each->type}, each->rows, each->columns, each->ld, std::int64_t{each->count}, each->batch})
      sum = sum * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(number);
  return sum;
}

bool is_aligned(const void* data, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

/// An operand as it is multiplied.
double read(cublasComputeType_t compute, float x) {
  return compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? emulator::rounded(x, 10)
         : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? emulator::rounded(x, 7)
                                                   : static_cast<double>(x);
}
double read(cublasComputeType_t, double x) { return x; }

/// An element of row i as it is written. That a NaN goes through relu is our assumption: the library's page says max(x,
/// 0).
template <class T>
float finished(const cublasLtMatmulDescOpaque_t& desc, float x, std::int64_t i) {
  if ((desc.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0) x += static_cast<float>(static_cast<const T*>(desc.bias)[i]);
  if ((desc.epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return x < 0 ? 0 : x;
  if ((desc.epilogue & CUBLASLT_EPILOGUE_GELU) != 0)
    return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
  return x;
}
template <class T>
double finished(const cublasLtMatmulDescOpaque_t&, double x, std::int64_t) {
  return x;
}

/// The type of alpha and beta, and of what is not yet written.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
void multiply(const Operands& o, bool rounds_parts, SumOf<T> alpha, const T* a, const T* b, SumOf<T> beta, const T* c,
              T* d) {
  for (std::int64_t batch = 0; batch < o.d.count; ++batch)
    for (std::int64_t j = 0; j < o.n(); ++j)
      for (std::int64_t i = 0; i < o.m(); ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < o.k(); ++k) {
          sum += read(o.desc.compute, a[batch * o.a.batch + (o.transposed_a() ? k + i * o.a.ld : i + k * o.a.ld)]) *
                 read(o.desc.compute, b[batch * o.b.batch + (o.transposed_b() ? j + k * o.b.ld : k + j * o.b.ld)]);
          if (rounds_parts && k % 32 == 31) sum = static_cast<double>(static_cast<T>(sum));
        }
        auto value = static_cast<SumOf<T>>(static_cast<double>(alpha) * sum);
        if (beta != 0)
          value += beta * static_cast<SumOf<T>>(c[batch * o.c.batch + i + j * o.c.ld]);  // with 0, C is not read
        d[batch * o.d.batch + i + j * o.d.ld] = static_cast<T>(finished<T>(o.desc, value, i));
      }
}

template <class T>
void start(const Operands& o, bool rounds_parts, const void* alpha, const void* a, const void* b, const void* beta,
           const void* c, void* d, void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  const auto by = *static_cast<const SumOf<T>*>(alpha), plus = *static_cast<const SumOf<T>*>(beta);
  emulator::launch("cublasLtMatmul", {1, 1, 0, stream}, [&] {
    return [=] {
      std::memset(workspace, 0xff, std::min<std::size_t>(workspace_bytes, 4096));
      multiply(o, rounds_parts, by, static_cast<const T*>(a), static_cast<const T*>(b), plus, static_cast<const T*>(c),
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
  switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(desc->operation_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(desc->operation_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(desc->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(desc->bias, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
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
  if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return set(preference->reductions, value, bytes);
  return set(preference->alignment[which - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  const Operands asked{*desc, *a, *b, *c, *d};
  if (!fits(asked) || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  for (const std::uint32_t alignment : preference->alignment)
    if (alignment < bytes_of(d->type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!has_epilogue(asked)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = 1;
  results[0] = {};
  results[0].algo.shape = shape_of(asked);
  results[0].algo.workspace = results[0].workspaceSize = preference->workspace;
  // Where that is allowed, a sum is rounded in parts.
  results[0].algo.rounds_parts =
      bytes_of(d->type) == 2 &&
      (preference->reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0;
  std::memcpy(results[0].algo.alignment, preference->alignment, sizeof preference->alignment);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Operands given{*desc, *a_layout, *b_layout, *c_layout, *d_layout};
  if (!handle || !algo || !fits(given)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algo->shape != shape_of(given) || workspace_bytes < algo->workspace || !is_aligned(workspace, 16))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool biased = (desc->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (biased != (desc->bias != nullptr) || !is_aligned(desc->bias, 16)) return CUBLAS_STATUS_INVALID_VALUE;
  const void* matrices[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (!is_aligned(matrices[i], algo->alignment[i])) return CUBLAS_STATUS_INVALID_VALUE;
  const auto start_as = d_layout->type == CUDA_R_64F    ? start<double>
                        : d_layout->type == CUDA_R_16F  ? start<float16_t>
                        : d_layout->type == CUDA_R_16BF ? start<bfloat16_t>
                                                        : start<float>;
  start_as(given, algo->rounds_parts, alpha, a, b, beta, c, d, workspace, workspace_bytes, stream);
  return CUBLAS_STATUS_SUCCESS;
}
