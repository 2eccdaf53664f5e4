#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/backend.hpp"
#include "backend/cpu/levels.hpp"

namespace tapestry::host {

inline constexpr int max_update_numbers = 8;

/// One step of an optimizer on n elements: `p` are its numbers, s and t its slots (null where it has none).
using UpdateRow = void (*)(const double* p, std::int64_t number_count, void* variable, const void* gradient, void* s,
                           void* t, std::int64_t n);

inline constexpr int update_count = static_cast<int>(Update::adagrad) + 1;

struct UpdateTable {
  UpdateRow float32_rows[update_count];
  UpdateRow float64_rows[update_count];
};
TAPESTRY_KERNEL_TABLE(UpdateTable, update_table)

}  // namespace tapestry::host
