// CUDA's libraries are opened when they are needed. They need neither driver nor GPU to be opened.

#include "backend/cuda/libraries.hpp"

#include <doctest/doctest.h>

#include "expect.hpp"

namespace tapestry::test {
namespace {

TEST_SUITE("CUDA libraries") {
  TEST_CASE("a library that is not there is an error that names it") {
    const auto error = caught<NotFoundError>([] { gpu::open_library("no_such_library", "7"); });
    CHECK(error.message().starts_with("CUDA's library libno_such_library.so.7 cannot be opened: "));
    CHECK_THROWS_AS(gpu::function_of(gpu::open_library("m", "6"), "no_such_function"), NotFoundError);
  }

  TEST_CASE("cuBLASLt has all the functions, and describes a product") {
    try {
      gpu::open_library("cublasLt", std::to_string(CUBLAS_VER_MAJOR));
    } catch (const NotFoundError& error) {
      MESSAGE("skipped: " << error.what());
      return;
    }
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
}

}  // namespace
}  // namespace tapestry::test
