#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/reductions.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::gpu {
namespace {

ReduceKind kind_of(ReduceFunction f) {
  switch (f) {
    case ReduceFunction::sum:
    case ReduceFunction::mean:
      return ReduceKind::sum;
    case ReduceFunction::prod:
      return ReduceKind::prod;
    case ReduceFunction::max:
    case ReduceFunction::any_true:
      return ReduceKind::max;
    default:
      return ReduceKind::min;
  }
}

/// The result over no elements.
double of_nothing(ReduceFunction f, DType dtype) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (f) {
    case ReduceFunction::sum:
    case ReduceFunction::any_true:
      return 0;
    case ReduceFunction::mean:
      return is_floating(dtype) ? std::numeric_limits<double>::quiet_NaN() : 0;
    case ReduceFunction::max:
      return dtype == boolean ? 0 : -infinity;  // converted to an integer, that is the lowest one
    case ReduceFunction::min:
      return infinity;
    default:
      return 1;
  }
}

void run(Context& gpu, ReduceKind kind, const Reduction& plan, const Tensor& x, const Tensor& y) {
  const std::int64_t bytes = partial_bytes(kind, type_of(x)) * plan.outputs * plan.splits;
  Tensor partial;
  if (plan.splits > 1) partial = detail::make_tensor(uint8, {bytes}, y.device());
  reduce(gpu.stream(), kind, type_of(x), plan, partial ? partial.impl().data : nullptr);
  gpu.started("reduce");
}

}  // namespace

void CudaBackend::reduce(ReduceFunction f, const Tensor& x, std::uint32_t axes, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::reduce(f, x, axes, y);
  if (y.size() == 0) return;
  if (x.size() == 0) return fill(of_nothing(f, x.dtype()), y);
  Context& gpu = context();
  Reduction plan = plan_reduction(View(x), axes);
  plan.y = y.impl().data;
  plan.divisor = f == ReduceFunction::mean ? plan.count : 1;
  run(gpu, kind_of(f), plan, x, y);
}

void CudaBackend::arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::arg_reduce(f, x, axis, y);
  if (y.size() == 0) return;
  Context& gpu = context();
  Reduction plan = plan_reduction(View(x), 1U << axis);
  plan.y = y.impl().data;
  plan.wide = y.dtype() == int64;
  run(gpu, f == ArgReduce::max ? ReduceKind::arg_max : ReduceKind::arg_min, plan, x, y);
}

}  // namespace tapestry::gpu
