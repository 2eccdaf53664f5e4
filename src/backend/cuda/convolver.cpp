#include "backend/cuda/convolver.hpp"

#include <optional>

#include "backend/cuda/windows.hpp"
#include "backend/matmul_precision.hpp"
#include "core/make_tensor.hpp"
#include "tapestry/error.hpp"

namespace tapestry::gpu {
namespace {

constexpr std::size_t most_workspace = std::size_t{256} << 20;

void check_cudnn(const Cudnn& library, int status, std::string_view what) {
  if (status != cudnn_success)
    throw InternalError(detail::join("cuDNN: ", what, " failed: ", library.status_string(status),
                                     ". TAPESTRY_CUDNN=0 does without it"));
}

using Descriptor = std::unique_ptr<CudnnDescription, int (*)(CudnnDescriptor)>;

/// A new descriptor, filled by set(descriptor, numbers...).
template <class... Numbers>
Descriptor described(const Cudnn& library, int (*create)(CudnnDescriptor*), int (*destroy)(CudnnDescriptor),
                     int (*set)(CudnnDescriptor, Numbers...), std::type_identity_t<Numbers>... numbers) {
  CudnnDescriptor created = nullptr;
  check_cudnn(library, create(&created), "describing a convolution");
  Descriptor descriptor(created, destroy);
  check_cudnn(library, set(created, numbers...), "describing a convolution");
  return descriptor;
}

int type_for(DType dtype) { return dtype == float16 ? cudnn_half : dtype == bfloat16 ? cudnn_bfloat16 : cudnn_float; }

/// Tensor cores multiply half types exactly, but round float32 to TF32 first, which MatmulPrecision::highest excludes.
int math_for(DType dtype) {
  if (is_half(dtype)) return cudnn_tensor_math;
  return current_matmul_precision() == MatmulPrecision::highest ? cudnn_fma_math : cudnn_default_math;
}

Descriptor images(const Cudnn& library, int type, std::int64_t batch, std::int64_t height, std::int64_t width,
                  std::int64_t channels) {
  return described(library, library.create_tensor, library.destroy_tensor, library.set_tensor, cudnn_nhwc, type,
                   static_cast<int>(batch), static_cast<int>(channels), static_cast<int>(height),
                   static_cast<int>(width));
}

Descriptor filters(const Cudnn& library, int type, const Windows& w, std::int64_t out) {
  return described(library, library.create_filter, library.destroy_filter, library.set_filter, type, cudnn_nhwc,
                   static_cast<int>(out), static_cast<int>(w.group_channels()), static_cast<int>(w.window_height),
                   static_cast<int>(w.window_width));
}

Descriptor convolution(const Cudnn& library, const Windows& w, int math) {
  Descriptor descriptor =
      described(library, library.create_convolution, library.destroy_convolution, library.set_convolution,
                static_cast<int>(w.pad_top), static_cast<int>(w.pad_left), static_cast<int>(w.stride_y),
                static_cast<int>(w.stride_x), static_cast<int>(w.dilation_y), static_cast<int>(w.dilation_x),
                cudnn_cross_correlation, cudnn_float);
  check_cudnn(library, library.set_groups(descriptor.get(), static_cast<int>(w.groups)), "describing a convolution");
  check_cudnn(library, library.set_math(descriptor.get(), math), "describing a convolution");
  return descriptor;
}

const CudnnConvolution& functions_for(const Cudnn& library, Convolver::Kind kind) {
  return kind == Convolver::Kind::forward          ? library.forward
         : kind == Convolver::Kind::input_gradient ? library.input_gradient
                                                   : library.filter_gradient;
}

}  // namespace

class Convolver::Plan {
 public:
  Plan(const Cudnn& library, CudnnHandle handle, Kind kind, const Windows& w, std::int64_t out, int type, int math)
      : library_(library),
        handle_(handle),
        functions_(functions_for(library, kind)),
        convolution_(convolution(library, w, math)),
        x_(images(library, type, w.batch, w.height, w.width, w.channels)),
        filter_(filters(library, type, w, out)),
        y_(images(library, type, w.batch, w.rows, w.columns, out)),
        first_(kind == Kind::input_gradient ? filter_.get() : x_.get()),
        second_(kind == Kind::forward ? filter_.get() : y_.get()),
        result_(kind == Kind::forward          ? y_.get()
                : kind == Kind::input_gradient ? x_.get()
                                               : filter_.get()) {
    choose();
  }

  bool is_possible() const { return algorithm_.has_value(); }
  std::size_t workspace() const { return workspace_; }

  /// Returns false if cuDNN cannot compute it after all. `is_possible` is false from then on.
  bool run(const void* first, const void* second, void* workspace, void* result) {
    if (!algorithm_) return false;
    const float alpha = 1, beta = 0;
    const int status = functions_.run(handle_, &alpha, first_, first, second_, second, convolution_.get(), *algorithm_,
                                      workspace, workspace_, &beta, result_, result);
    if (is_unsupported(status)) {
      algorithm_.reset();
      return false;
    }
    check_cudnn(library_, status, "a convolution");
    return true;
  }

 private:
  /// Chooses the fastest algorithm that gives the same bits every time and needs at most `most_workspace` bytes. cuDNN
  /// lists the fastest first.
  void choose() {
    std::array<CudnnAlgorithm, 16> found{};
    int count = 0;
    const int status =
        functions_.choose(handle_, first_, second_, convolution_.get(), result_, found.size(), &count, found.data());
    if (is_unsupported(status)) return;
    check_cudnn(library_, status, "choosing an algorithm");
    for (int i = 0; i < count && !algorithm_; ++i) {
      const CudnnAlgorithm& each = found[i];
      if (each.status != cudnn_success || each.determinism != cudnn_deterministic) continue;
      // The workspace is asked for again: the list may give it for another math type than the descriptor's.
      const bool is_supported = functions_.workspace(handle_, first_, second_, convolution_.get(), result_, each.number,
                                                     &workspace_) == cudnn_success;
      if (is_supported && workspace_ <= most_workspace) algorithm_ = each.number;
    }
  }

  const Cudnn& library_;
  CudnnHandle handle_;
  const CudnnConvolution& functions_;
  Descriptor convolution_, x_, filter_, y_;
  CudnnDescriptor first_, second_, result_;
  std::optional<int> algorithm_;
  std::size_t workspace_ = 0;
};

Convolver::Convolver(Context& gpu) : gpu_(gpu), library_(cudnn()) {
  if (!library_) return;
  const int status = library_->create(&handle_);
  if (status == cudnn_success) return;
  disable_cudnn(detail::join("cuDNN does not start: ", library_->status_string(status)));
  library_ = nullptr;
}

Convolver::Plan* Convolver::plan(Kind kind, const Windows& w, std::int64_t out, DType dtype) {
  if (!library_ || !is_for_cudnn(w, out, dtype)) return nullptr;
  const int math = math_for(dtype);
  // Here cuDNN's one algorithm that repeats its bits keeps few multiprocessors busy: a product with patches is faster.
  if (kind == Kind::filter_gradient && math == cudnn_fma_math && w.groups == 1) return nullptr;
  const int type = type_for(dtype);
  const Key key = {static_cast<std::int64_t>(kind),
                   type,
                   math,
                   out,
                   w.batch,
                   w.height,
                   w.width,
                   w.channels,
                   w.rows,
                   w.columns,
                   w.window_height,
                   w.window_width,
                   w.stride_y,
                   w.stride_x,
                   w.dilation_y,
                   w.dilation_x,
                   w.pad_top,
                   w.pad_left,
                   w.groups};
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Plan>& plan = plans_[key];
  if (!plan) plan = std::make_unique<Plan>(*library_, handle_, kind, w, out, type, math);
  return plan->is_possible() ? plan.get() : nullptr;
}

bool Convolver::run(Plan& plan, const Tensor& first, const Tensor& second, const Tensor& result) {
  const std::lock_guard lock(mutex_);
  check_cudnn(*library_, library_->set_stream(handle_, gpu_.stream()), "choosing a stream");
  const Tensor workspace =
      detail::make_tensor(uint8, {static_cast<std::int64_t>(plan.workspace())}, cuda(gpu_.index()));
  if (!plan.run(first.impl().data, second.impl().data, workspace.impl().data, result.impl().data)) return false;
  gpu_.started("a convolution by cuDNN");
  return true;
}

}  // namespace tapestry::gpu
