#pragma once

#include "backend/cuda/kernels/kernel.hpp"
#include "backend/functors.hpp"

namespace tapestry::gpu {

/// The values of Update, whose header is too large for kernel files.
enum class UpdateKind : std::uint8_t {
#define TAPESTRY_NAME(name, slots, statements) name,
  TAPESTRY_UPDATES(TAPESTRY_NAME)
#undef TAPESTRY_NAME
};

inline constexpr int max_update_numbers = 8;
/// The numbers of an update: those in `p`, or `count` numbers in device memory.
struct UpdateNumbers {
  double p[max_update_numbers] = {};
  const double* on_device = nullptr;
  int count = 0;
};

/// One step of an optimizer on n elements of a float type; s and t are its slots, null where it has none.
void update(Stream stream, UpdateKind kind, Type type, const UpdateNumbers& numbers, void* variable,
            const void* gradient, void* s, void* t, std::int64_t n);

}  // namespace tapestry::gpu
