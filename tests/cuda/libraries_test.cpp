// CUDA's libraries are opened when they are needed. They need neither driver nor GPU to be opened.

#include "backend/cuda/libraries.hpp"

#include <cstddef>
#include <type_traits>

#include <doctest/doctest.h>

#include "backend/cuda/cudnn.hpp"
#include "backend/cuda/nccl.hpp"
#include "expect.hpp"
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#endif

namespace tapestry::test {
namespace {

// What cudnn.hpp and nccl.hpp declare is what the libraries' own headers do.

template <class T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;
template <class A, class B>
constexpr bool is_passed_alike = sizeof(A) == sizeof(B) &&
                                 ((std::is_pointer_v<A> && std::is_pointer_v<B>) || (is_number<A> && is_number<B>) ||
                                  (std::is_class_v<A> && std::is_class_v<B>));

template <class Result, class... Arguments, class OtherResult, class... OtherArguments>
constexpr bool is_called_alike(Result (*)(Arguments...), OtherResult (*)(OtherArguments...)) {
  if constexpr (sizeof...(Arguments) != sizeof...(OtherArguments)) {
    return false;
  } else {
    return is_passed_alike<Result, OtherResult> && (is_passed_alike<Arguments, OtherArguments> && ...);
  }
}

#if __has_include(<nccl.h>)
#define TAPESTRY_CALLED_ALIKE(member, name) \
  static_assert(is_called_alike(decltype(gpu::Nccl{}.member)(nullptr), decltype (&(name))(nullptr)));
TAPESTRY_NCCL(TAPESTRY_CALLED_ALIKE)
#undef TAPESTRY_CALLED_ALIKE

static_assert(gpu::nccl_success == ncclSuccess && gpu::nccl_in_progress == ncclInProgress && gpu::nccl_sum == ncclSum &&
              gpu::nccl_prod == ncclProd && gpu::nccl_max == ncclMax && gpu::nccl_min == ncclMin &&
              gpu::nccl_uint8 == ncclUint8 && gpu::nccl_int32 == ncclInt32 && gpu::nccl_int64 == ncclInt64 &&
              gpu::nccl_float16 == ncclFloat16 && gpu::nccl_float32 == ncclFloat32 &&
              gpu::nccl_float64 == ncclFloat64 && gpu::nccl_bfloat16 == ncclBfloat16);
static_assert(offsetof(gpu::NcclConfig, magic) == offsetof(ncclConfig_t, magic) &&
              offsetof(gpu::NcclConfig, version) == offsetof(ncclConfig_t, version) &&
              offsetof(gpu::NcclConfig, blocking) == offsetof(ncclConfig_t, blocking) &&
              sizeof(gpu::NcclConfig) <= sizeof(ncclConfig_t));
#endif

#if __has_include(<cudnn.h>)
#define TAPESTRY_CALLED_ALIKE(member, name) \
  static_assert(is_called_alike(decltype(gpu::Cudnn{}.member)(nullptr), decltype (&(name))(nullptr)));
TAPESTRY_CUDNN(TAPESTRY_CALLED_ALIKE)

static_assert(gpu::cudnn_success == CUDNN_STATUS_SUCCESS && gpu::cudnn_float == CUDNN_DATA_FLOAT &&
              gpu::cudnn_half == CUDNN_DATA_HALF && gpu::cudnn_bfloat16 == CUDNN_DATA_BFLOAT16 &&
              gpu::cudnn_tensor_math == CUDNN_TENSOR_OP_MATH && gpu::cudnn_nhwc == CUDNN_TENSOR_NHWC &&
              gpu::cudnn_cross_correlation == CUDNN_CROSS_CORRELATION &&
              gpu::cudnn_deterministic == CUDNN_DETERMINISTIC && gpu::cudnn_default_math == CUDNN_DEFAULT_MATH &&
              gpu::cudnn_fma_math == CUDNN_FMA_MATH);
static_assert(gpu::is_unsupported(CUDNN_STATUS_NOT_SUPPORTED) &&
              gpu::is_unsupported(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT) && !gpu::is_unsupported(CUDNN_STATUS_BAD_PARAM) &&
              !gpu::is_unsupported(CUDNN_STATUS_INTERNAL_ERROR));
static_assert(sizeof(gpu::CudnnAlgorithm) == sizeof(cudnnConvolutionFwdAlgoPerf_t) &&
              sizeof(gpu::CudnnAlgorithm) == sizeof(cudnnConvolutionBwdDataAlgoPerf_t) &&
              sizeof(gpu::CudnnAlgorithm) == sizeof(cudnnConvolutionBwdFilterAlgoPerf_t) &&
              offsetof(gpu::CudnnAlgorithm, status) == offsetof(cudnnConvolutionFwdAlgoPerf_t, status) &&
              offsetof(gpu::CudnnAlgorithm, workspace) == offsetof(cudnnConvolutionFwdAlgoPerf_t, memory) &&
              offsetof(gpu::CudnnAlgorithm, determinism) == offsetof(cudnnConvolutionFwdAlgoPerf_t, determinism) &&
              offsetof(gpu::CudnnAlgorithm, math) == offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));
#endif

/// Whether cuBLASLt is installed; if not, says so.
bool has_cublas_lt() {
  try {
    gpu::open_library("cublasLt", std::to_string(CUBLAS_VER_MAJOR));
    return true;
  } catch (const NotFoundError& error) {
    MESSAGE("skipped: " << error.what());
    return false;
  }
}

TEST_SUITE("CUDA libraries") {
  TEST_CASE("a library that is not there is an error that names it") {
    const auto error = caught<NotFoundError>([] { gpu::open_library("no_such_library", "7"); });
    CHECK(error.message().starts_with("CUDA's library libno_such_library.so.7 cannot be opened: "));
    CHECK_THROWS_AS(gpu::function_of(gpu::open_library("m", "6"), "no_such_function"), NotFoundError);
  }

  TEST_CASE("cuBLASLt has all the functions, and describes a product") {
    if (!has_cublas_lt()) return;
    const gpu::CublasLt& lt = gpu::cublas_lt();
    cublasLtMatmulDesc_t description = nullptr;
    REQUIRE(lt.desc_create(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
    const cublasOperation_t operation = CUBLAS_OP_T;
    CHECK(lt.desc_set(description, CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation) == CUBLAS_STATUS_SUCCESS);
    cublasLtMatrixLayout_t layout = nullptr;
    REQUIRE(lt.layout_create(&layout, CUDA_R_32F, 3, 4, 5) == CUBLAS_STATUS_SUCCESS);
    const std::int64_t batch = 12;
    CHECK(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch, sizeof batch) ==
          CUBLAS_STATUS_SUCCESS);
    CHECK(lt.layout_destroy(layout) == CUBLAS_STATUS_SUCCESS);
    CHECK(lt.desc_destroy(description) == CUBLAS_STATUS_SUCCESS);
    CHECK(std::string(lt.status_string(CUBLAS_STATUS_NOT_SUPPORTED)).find("not supported") != std::string::npos);
  }

  TEST_CASE("cuBLASLt knows the kinds of rounding and the epilogues") {
    if (!has_cublas_lt()) return;
    const gpu::CublasLt& lt = gpu::cublas_lt();
    for (const cublasComputeType_t compute : {CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_16BF}) {
      cublasLtMatmulDesc_t description = nullptr;
      REQUIRE(lt.desc_create(&description, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS);
      for (const cublasLtEpilogue_t epilogue :
           {CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS})
        CHECK(lt.desc_set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) ==
              CUBLAS_STATUS_SUCCESS);
      const void* bias = &description;
      CHECK(lt.desc_set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias) == CUBLAS_STATUS_SUCCESS);
      CHECK(lt.desc_destroy(description) == CUBLAS_STATUS_SUCCESS);
    }
  }

  TEST_CASE("cuDNN has all the functions, and describes a convolution") {
    const gpu::Cudnn* library = gpu::cudnn();
    if (!library) {
      MESSAGE("skipped: " << gpu::convolutions_by());
      return;
    }
    CHECK(gpu::convolutions_by().starts_with("convolutions by cuDNN 9."));
    gpu::CudnnDescriptor tensor = nullptr, filter = nullptr, convolution = nullptr;
    REQUIRE(library->create_tensor(&tensor) == gpu::cudnn_success);
    for (const int type : {gpu::cudnn_half, gpu::cudnn_bfloat16, gpu::cudnn_float})
      CHECK(library->set_tensor(tensor, gpu::cudnn_nhwc, type, 2, 6, 5, 7) == gpu::cudnn_success);
    CHECK(library->set_tensor(tensor, gpu::cudnn_nhwc, gpu::cudnn_float, -1, 6, 5, 7) != gpu::cudnn_success);
    REQUIRE(library->create_filter(&filter) == gpu::cudnn_success);
    CHECK(library->set_filter(filter, gpu::cudnn_float, gpu::cudnn_nhwc, 4, 3, 3, 3) == gpu::cudnn_success);
    REQUIRE(library->create_convolution(&convolution) == gpu::cudnn_success);
    CHECK(library->set_convolution(convolution, 1, 1, 2, 1, 1, 2, gpu::cudnn_cross_correlation, gpu::cudnn_float) ==
          gpu::cudnn_success);
    CHECK(library->set_groups(convolution, 2) == gpu::cudnn_success);
    for (const int math : {gpu::cudnn_fma_math, gpu::cudnn_tensor_math, gpu::cudnn_default_math})
      CHECK(library->set_math(convolution, math) == gpu::cudnn_success);
#if __has_include(<cudnn.h>)
    // The library reads the numbers as they are meant: its own word on the result's shape.
    const auto shape = reinterpret_cast<decltype(&cudnnGetConvolution2dForwardOutputDim)>(gpu::function_of(
        gpu::open_library("cudnn", std::to_string(CUDNN_MAJOR)), "cudnnGetConvolution2dForwardOutputDim"));
    library->set_tensor(tensor, gpu::cudnn_nhwc, gpu::cudnn_float, 2, 6, 5, 7);
    int n = 0, c = 0, h = 0, w = 0;
    CHECK(shape(reinterpret_cast<cudnnConvolutionDescriptor_t>(convolution),
                reinterpret_cast<cudnnTensorDescriptor_t>(tensor), reinterpret_cast<cudnnFilterDescriptor_t>(filter),
                &n, &c, &h, &w) == CUDNN_STATUS_SUCCESS);
    CHECK(std::vector<int>{n, c, h, w} == std::vector<int>{2, 4, 3, 5});
#endif
    CHECK(library->destroy_tensor(tensor) == gpu::cudnn_success);
    CHECK(library->destroy_filter(filter) == gpu::cudnn_success);
    CHECK(library->destroy_convolution(convolution) == gpu::cudnn_success);
  }

  TEST_CASE("NCCL has all the functions") {
    try {
      CHECK(gpu::nccl_name().starts_with("NCCL 2."));
      CHECK(std::string(gpu::nccl().error_string(gpu::nccl_in_progress)).find("progress") != std::string::npos);
    } catch (const NotFoundError& error) {
      MESSAGE("skipped: " << error.what());
    }
  }

  TEST_CASE("what cuDNN does not start with is told") {
    gpu::disable_cudnn("it is too old");
    CHECK(gpu::cudnn() == nullptr);
    CHECK(gpu::convolutions_by() == "convolutions by Tapestry's own kernels: it is too old");
  }
}

}  // namespace
}  // namespace tapestry::test
