#pragma once

#include <cstdint>

#include "tapestry/detail/config.hpp"

namespace tapestry::data {

/// @addtogroup data
/// @{

/// The part of a data set that one of several workers reads: every `count`-th row or element, from number `index` on.
/// `Communicator::shard` gives that of a rank.
struct Shard {
  std::int64_t count = 1;  ///< the number of workers
  std::int64_t index = 0;  ///< the number of this one, from 0
};

/// @}

}  // namespace tapestry::data
