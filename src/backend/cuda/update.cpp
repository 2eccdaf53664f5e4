#include "backend/cuda/kernels/update.hpp"

#include <algorithm>

#include "backend/cuda/cuda_backend.hpp"

namespace tapestry::gpu {

static_assert(static_cast<int>(UpdateKind::adagrad) == static_cast<int>(Update::adagrad) &&
              static_cast<int>(UpdateKind::adam) == static_cast<int>(Update::adam));

void CudaBackend::update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
                         const Tensor& variable) {
  if (is_half(variable.dtype())) return Backend::update(f, numbers, gradient, slots, variable);
  if (numbers.size() > max_update_numbers)
    throw InternalError("An update with more numbers than its kernel has room for");
  if (variable.size() == 0) return;
  UpdateNumbers p;
  const auto* data = static_cast<const double*>(numbers.impl().data);
  if (numbers.device().is_cpu()) {
    std::copy_n(data, numbers.size(), p.p);
  } else {
    p.on_device = data;
    p.count = static_cast<int>(numbers.size());
  }
  const auto slot = [&](std::size_t i) { return i < slots.size() ? slots[i].impl().data : nullptr; };
  Context& gpu = context();
  gpu::update(gpu.stream(), static_cast<UpdateKind>(f), type_of(variable), p, variable.impl().data,
              gradient.impl().data, slot(0), slot(1), variable.size());
  gpu.started("update");
}

}  // namespace tapestry::gpu
