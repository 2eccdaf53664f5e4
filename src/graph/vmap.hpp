#pragma once

#include "tapestry/trace.hpp"

namespace tapestry::detail {

/// What a function gives for each of the directions [n, ...], stacked. Unlike in a `vmap`, the function draws random
/// numbers once, for all directions together: they are those at which it is differentiated.
Tensor map_directions(const FlatFunction& function, const Tensor& directions, Where where);

}  // namespace tapestry::detail
