#pragma once

#include <cstdint>
#include <optional>

#include "backend/backend.hpp"
#include "tapestry/op.hpp"

namespace tapestry::ops {

/// What a reduction computes of its input.
struct Reduction {
  ReduceFunction function;
  std::uint32_t axes;  ///< bit i says that axis i is reduced
};
/// The reduction that a call is; nothing for other ops.
std::optional<Reduction> reduction_of(const Call& call);

}  // namespace tapestry::ops
