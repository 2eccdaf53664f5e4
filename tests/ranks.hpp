#pragma once

#include <functional>
#include <vector>

#include "tapestry/distributed.hpp"

namespace tapestry::test {

/// What a function gives on each of some ranks that are threads.
template <class T>
std::vector<T> on_ranks(int ranks, const std::function<T(const Communicator&)>& f) {
  std::vector<T> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](const Communicator& world) { results[static_cast<std::size_t>(world.rank())] = f(world); });
  return results;
}

}  // namespace tapestry::test
