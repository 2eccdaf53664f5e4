#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "backend/cuda/context.hpp"
#include "backend/cuda/cudnn.hpp"
#include "backend/cuda/kernels/images.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::gpu {

/// cuDNN on one device: its handle, and what it chose for convolutions before. Images are NHWC, filters OHWI,
/// sums float32, and products of float32 as exact as `set_matmul_precision` says.
class Convolver {
 public:
  explicit Convolver(Context& gpu);

  enum class Kind : std::uint8_t { forward, input_gradient, filter_gradient };
  class Plan;
  /// How a convolution with so many output channels is computed, or a gradient of it; null where cuDNN is not used or
  /// cannot do it.
  Plan* plan(Kind kind, const Windows& windows, std::int64_t out, DType dtype);
  /// Computes it of two operands in the order of `Cudnn`, all of them without gaps. False, and nothing is done, if
  /// cuDNN cannot do it after all.
  bool run(Plan& plan, const Tensor& first, const Tensor& second, const Tensor& result);

 private:
  using Key = std::array<std::int64_t, 19>;

  Context& gpu_;
  const Cudnn* library_;  ///< null where it is not used
  CudnnHandle handle_ = nullptr;
  std::mutex mutex_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace tapestry::gpu
