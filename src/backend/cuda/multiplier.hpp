#pragma once

#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "backend/cuda/context.hpp"
#include "backend/cuda/epilogues.hpp"
#include "backend/cuda/libraries.hpp"
#include "backend/cuda/products.hpp"

namespace tapestry::gpu {

/// cuBLASLt on one device: its handle, its workspace, and the algorithms that it has chosen so far. Products of float32
/// are as exact as `set_matmul_precision` says; those of float16 and bfloat16 are summed in float32 and rounded once.
class Multiplier {
 public:
  explicit Multiplier(Context& gpu);
  /// y = op(a) op(b), or y += op(a) op(b) if `accumulate`. Float types.
  void multiply(const Product& product, DType dtype, bool accumulate = false);
  /// y = epilogue(op(a) op(b)). Returns false, and does nothing, if cuBLASLt has no algorithm for that.
  bool multiply(const Product& product, DType dtype, const Epilogue& epilogue);

 private:
  class Description;
  using Key = std::array<std::int64_t, 18>;
  using Algorithm = std::optional<cublasLtMatmulAlgo_t>;
  bool start(const Product& product, const Description& description, bool accumulate);
  const Algorithm& algorithm_for(const Product& product, const Description& description);
  Algorithm choose(const Product& product, const Description& description);

  Context& gpu_;
  void* workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, Algorithm> chosen_;
};

}  // namespace tapestry::gpu
