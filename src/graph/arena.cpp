#include "graph/arena.hpp"

#include <iterator>

namespace tapestry::detail {
namespace {

constexpr std::size_t alignment = 64;

std::size_t rounded(std::size_t bytes) {
  return bytes == 0 ? alignment : (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

void ArenaLayout::take(std::map<std::size_t, std::size_t>::iterator block) {
  auto [first, last] = by_size_.equal_range(block->second);
  while (first != last && first->second != block->first) ++first;
  by_size_.erase(first);
  free_.erase(block);
}

std::size_t ArenaLayout::allocate(std::size_t bytes) {
  const std::size_t wanted = rounded(bytes);
  const auto fitting = by_size_.lower_bound(wanted);
  if (fitting == by_size_.end()) {
    // A free block at the end grows.
    std::size_t offset = end_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        take(last);
      }
    }
    end_ = offset + wanted;
    return offset;
  }
  const auto [size, offset] = *fitting;
  take(free_.find(offset));
  if (size > wanted) {
    free_.emplace(offset + wanted, size - wanted);
    by_size_.emplace(size - wanted, offset + wanted);
  }
  return offset;
}

void ArenaLayout::release(std::size_t offset, std::size_t bytes) {
  std::size_t size = rounded(bytes);
  const auto next = free_.find(offset + size);
  if (next != free_.end()) {
    size += next->second;
    take(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      take(before);
    }
  }
  free_.emplace(offset, size);
  by_size_.emplace(size, offset);
}

}  // namespace tapestry::detail
