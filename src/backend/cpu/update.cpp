#include "backend/cpu/kernels/update.hpp"

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"

namespace tapestry::host {
namespace {

const UpdateTable& kernels() {
  static const UpdateTable& table = TAPESTRY_PICK_LEVEL(update_table);
  return table;
}

/// An update reads and writes up to seven streams, so it is worth a second thread early.
constexpr std::int64_t task_elements = 8192;

}  // namespace

void CpuBackend::update(Update f, const Tensor& numbers, const Tensor& gradient, std::span<const Tensor> slots,
                        const Tensor& variable) {
  if (is_half(variable.dtype())) return Backend::update(f, numbers, gradient, slots, variable);
  if (numbers.size() > max_update_numbers)
    throw InternalError("An update with more numbers than its kernel has room for");
  const bool wide = variable.dtype() == float64;
  const UpdateRow row = (wide ? kernels().float64_rows : kernels().float32_rows)[static_cast<std::size_t>(f)];
  const std::int64_t size = wide ? 8 : 4;
  const auto at = [size](const Tensor& x, std::int64_t i) { return static_cast<std::byte*>(x.impl().data) + i * size; };
  parallel_for(variable.size(), task_elements, [&](std::int64_t begin, std::int64_t end) {
    row(static_cast<const double*>(numbers.impl().data), numbers.size(), at(variable, begin), at(gradient, begin),
        !slots.empty() ? at(slots[0], begin) : nullptr, slots.size() > 1 ? at(slots[1], begin) : nullptr, end - begin);
  });
}

}  // namespace tapestry::host
