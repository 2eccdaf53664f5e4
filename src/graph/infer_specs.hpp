#pragma once

#include "dispatch/recorder.hpp"

namespace tapestry::detail {

/// The specs that an op infers, as far as the dtypes and ranks of its inputs are known. Throws what `infer` of the op
/// throws, and InvalidArgumentError when the number of results is not known either.
Specs infer_specs(const Call& call);

}  // namespace tapestry::detail
