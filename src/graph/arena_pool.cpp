#include "graph/arena_pool.hpp"

#include <algorithm>
#include <utility>

#include "core/make_tensor.hpp"

namespace tapestry::detail {

Tensor ArenaPool::take(Device device, std::int64_t bytes, const void* last) {
  Tensor too_small;  // freed after the lock, before there is a new one
  {
    const std::lock_guard lock(mutex_);
    const auto rank = [&](const Tensor& block) {
      return block.device() != device ? 0 : block.size() < bytes ? 1 : block.impl().data != last ? 2 : 3;
    };
    const auto best = std::max_element(free_.begin(), free_.end(),
                                       [&](const Tensor& a, const Tensor& b) { return rank(a) < rank(b); });
    const int found = best == free_.end() ? 0 : rank(*best);
    if (found > 0) {
      std::swap(*best, free_.back());
      Tensor block = std::move(free_.back());
      free_.pop_back();
      if (found > 1) return block;
      too_small = std::move(block);
    } else {
      ++blocks_;
      free_.reserve(blocks_);
    }
  }
  too_small = Tensor();
  return make_tensor(uint8, {bytes}, device);
}

void ArenaPool::give_back(Tensor block) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(block));
}

void ArenaPool::add_plan() {
  const std::lock_guard lock(mutex_);
  ++plans_;
}

void ArenaPool::remove_plan() noexcept {
  std::vector<Tensor> unused;  // freed after the lock is released
  const std::lock_guard lock(mutex_);
  if (--plans_ > 0) return;
  unused.swap(free_);
  blocks_ = 0;
}

}  // namespace tapestry::detail
