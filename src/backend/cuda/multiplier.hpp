#pragma once

#include <array>
#include <map>
#include <mutex>

#include "backend/cuda/context.hpp"
#include "backend/cuda/libraries.hpp"
#include "backend/cuda/products.hpp"
#include "tapestry/dtype.hpp"

namespace tapestry::gpu {

/// cuBLASLt on one device: its handle, memory that it may use during a product, and what it chose for products before.
class Multiplier {
 public:
  explicit Multiplier(Context& gpu);
  /// y = op(a) op(b), or y += op(a) op(b), of float64 or float32, the latter as exactly as `set_matmul_precision` says.
  void multiply(const Product& product, DType dtype, bool accumulate = false);

 private:
  class Description;
  using Key = std::array<std::int64_t, 17>;
  cublasLtMatmulAlgo_t algorithm_for(const Product& product, const Description& description);
  cublasLtMatmulAlgo_t choose(const Product& product, const Description& description);

  Context& gpu_;
  void* workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, cublasLtMatmulAlgo_t> chosen_;
};

}  // namespace tapestry::gpu
