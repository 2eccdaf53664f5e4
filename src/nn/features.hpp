#pragma once

#include <cstdint>
#include <string_view>

#include "dispatch/recorder.hpp"
#include "ops/checked_like.hpp"

namespace tapestry::nn {

/// x, whose last axis must have this size; a graph that does not know the size yet compares it when it runs, and one
/// that does not know the rank leaves that to the op. Throws InvalidArgumentError, in which `axes` are the names of the
/// axes before the last one.
inline Tensor with_features(const Tensor& x, std::int64_t features, std::string_view axes = "...") {
  if (!x.shape().has_rank()) return x;
  if (x.rank() >= 1 && x.shape().sizes().back() == features) return x;
  if (x.rank() < 1 || x.shape().back().is_known())
    throw InvalidArgumentError(detail::join("x must be [", axes, ", ", features, "], but its shape is ", x.shape()),
                               CallSiteScope::current());
  Shape shape = x.shape();
  shape.set(x.rank() - 1, features);
  return checked_like(x, shape);
}

}  // namespace tapestry::nn
