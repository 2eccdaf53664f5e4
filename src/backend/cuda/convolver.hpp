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

/// cuDNN on one device: its handle, and the algorithms that it has chosen so far. Images are NHWC, and filters OHWI.
/// Sums are float32; products of float32 are as exact as `set_matmul_precision` says.
class Convolver {
 public:
  explicit Convolver(Context& gpu);

  enum class Kind : std::uint8_t { forward, input_gradient, filter_gradient };
  class Plan;
  /// The plan of a convolution with `out` output channels, or of one of its gradients; null where cuDNN is not used or
  /// cannot compute it.
  Plan* plan(Kind kind, const Windows& windows, std::int64_t out, DType dtype);
  /// Runs a plan on contiguous tensors; `Cudnn` names the operands in their order. Returns false, and does nothing, if
  /// cuDNN cannot compute it after all.
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
