#include "backend/cuda/multiplier.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "backend/matmul_precision.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {

/// The types of a product's matrices and of its sums, and cuBLASLt's compute type.
struct Arithmetic {
  cudaDataType_t type, sum;
  cublasComputeType_t compute;
};

namespace {

void check_cublas(cublasStatus_t status, std::string_view what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw InternalError(detail::join("cuBLASLt: ", what, " failed: ", cublas_lt().status_string(status)));
}

/// The largest power of two up to 256 that divides an address: the alignment that cuBLASLt may rely on.
std::uint32_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return address == 0 ? 256 : static_cast<std::uint32_t>(std::min<std::uintptr_t>(256, address & (~address + 1)));
}

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;

Arithmetic arithmetic_of(DType dtype) {
  if (dtype == float64) return {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
  if (is_half(dtype)) return {dtype == float16 ? CUDA_R_16F : CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
  switch (current_matmul_precision()) {
    case MatmulPrecision::highest:
      break;
    case MatmulPrecision::high:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case MatmulPrecision::medium:
      return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16BF};
  }
  return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
}

cublasLtEpilogue_t number_of(const Epilogue& epilogue) {
  switch (epilogue.function) {
    case Epilogue::Function::none:
      break;
    case Epilogue::Function::relu:
      return epilogue.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Epilogue::Function::gelu_tanh:
      return epilogue.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  return epilogue.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

/// A product as cuBLASLt describes it. cuBLASLt is column-major: it sees a row-major matrix as its transpose. So it
/// computes y^T = op(b)^T op(a)^T, and b is the first operand.
class Multiplier::Description {
 public:
  Description(const Product& product, const Arithmetic& arithmetic, const Epilogue& epilogue)
      : arithmetic_(arithmetic), epilogue_(number_of(epilogue)) {
    check_cublas(cublas_lt().desc_create(&desc_, arithmetic.compute, arithmetic.sum), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (epilogue_ != CUBLASLT_EPILOGUE_DEFAULT) set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_);
    if (epilogue.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue.bias);
    first_ = layout(product.b, product.n, product.k, product.count);
    second_ = layout(product.a, product.k, product.m, product.count);
    result_ = layout(product.y, product.n, product.m, product.count);
  }
  ~Description() {
    const CublasLt& lt = cublas_lt();
    for (cublasLtMatrixLayout_t each : {first_, second_, result_})
      if (each) lt.layout_destroy(each);
    if (desc_) lt.desc_destroy(desc_);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;

  const Arithmetic& arithmetic() const { return arithmetic_; }
  cublasLtEpilogue_t epilogue() const { return epilogue_; }
  cublasLtMatmulDesc_t desc() const { return desc_; }
  cublasLtMatrixLayout_t first() const { return first_; }
  cublasLtMatrixLayout_t second() const { return second_; }
  cublasLtMatrixLayout_t result() const { return result_; }

 private:
  void set(cublasLtMatmulDescAttributes_t which, const auto& value) {
    check_cublas(cublas_lt().desc_set(desc_, which, &value, sizeof value), "describing a product");
  }

  /// The column-major layout of a matrix that is `rows` times `columns` after its op.
  cublasLtMatrixLayout_t layout(const Product::Matrix& matrix, std::int64_t rows, std::int64_t columns,
                                std::int64_t count) const {
    const CublasLt& lt = cublas_lt();
    if (matrix.transposed) std::swap(rows, columns);
    cublasLtMatrixLayout_t layout = nullptr;
    check_cublas(lt.layout_create(&layout, arithmetic_.type, rows, columns, matrix.row), "describing a matrix");
    const auto batch = static_cast<std::int32_t>(count);
    check_cublas(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), "describing a batch");
    check_cublas(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch, sizeof matrix.batch),
                 "describing a batch");
    return layout;
  }

  Arithmetic arithmetic_;
  cublasLtEpilogue_t epilogue_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
};

Multiplier::Multiplier(Context& gpu) : gpu_(gpu), workspace_(gpu.memory().allocate(workspace_bytes)) {
  check_cublas(cublas_lt().create(&handle_), "starting");
}

void Multiplier::multiply(const Product& product, DType dtype, bool accumulate) {
  if (!start(product, Description(product, arithmetic_of(dtype), {}), accumulate))
    throw InternalError("cuBLASLt: there is no algorithm for a product");
}

bool Multiplier::multiply(const Product& product, DType dtype, const Epilogue& epilogue) {
  return start(product, Description(product, arithmetic_of(dtype), epilogue), false);
}

bool Multiplier::start(const Product& product, const Description& description, bool accumulate) {
  // A product may start several kernels that share the workspace; the lock keeps those of two threads apart.
  const std::lock_guard lock(mutex_);
  const Algorithm& algorithm = algorithm_for(product, description);
  if (!algorithm) return false;
  const bool wide = description.arithmetic().sum == CUDA_R_64F;
  const double factors[] = {1, accumulate ? 1.0 : 0.0};
  const float narrow_factors[] = {1, accumulate ? 1.0F : 0.0F};
  const void* alpha = wide ? static_cast<const void*>(&factors[0]) : &narrow_factors[0];
  const void* beta = wide ? static_cast<const void*>(&factors[1]) : &narrow_factors[1];
  check_cublas(
      cublas_lt().matmul(handle_, description.desc(), alpha, product.b.data, description.first(), product.a.data,
                         description.second(), beta, product.y.data, description.result(), product.y.data,
                         description.result(), &*algorithm, workspace_, workspace_bytes, gpu_.stream()),
      "a product");
  gpu_.started("gemm");
  return true;
}

const Multiplier::Algorithm& Multiplier::algorithm_for(const Product& p, const Description& description) {
  const Key key = {p.m,
                   p.n,
                   p.k,
                   p.count,
                   p.a.row,
                   p.b.row,
                   p.y.row,
                   p.a.batch,
                   p.b.batch,
                   p.y.batch,
                   p.a.transposed,
                   p.b.transposed,
                   description.arithmetic().type,
                   description.arithmetic().compute,
                   description.epilogue(),
                   alignment(p.a.data),
                   alignment(p.b.data),
                   alignment(p.y.data)};
  if (const auto found = chosen_.find(key); found != chosen_.end()) return found->second;
  return chosen_[key] = choose(p, description);
}

Multiplier::Algorithm Multiplier::choose(const Product& product, const Description& description) {
  const CublasLt& lt = cublas_lt();
  cublasLtMatmulPreference_t created = nullptr;
  check_cublas(lt.preference_create(&created), "choosing an algorithm");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, decltype(lt.preference_destroy)> preference(
      created, lt.preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t which, auto value) {
    check_cublas(lt.preference_set(created, which, &value, sizeof value), "choosing an algorithm");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace_bytes});
  // If a sum is split, its partial sums are added before they are rounded to a half type.
  if (description.arithmetic().type != description.arithmetic().sum)
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(product.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(product.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(product.y.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(product.y.data));
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  const cublasStatus_t status = lt.heuristic(handle_, description.desc(), description.first(), description.second(),
                                             description.result(), description.result(), created, 1, &result, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return {};
  check_cublas(status, "choosing an algorithm");
  return result.algo;
}

}  // namespace tapestry::gpu
