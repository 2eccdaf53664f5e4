#include "graph/arena.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

#include "tapestry/error.hpp"

namespace tapestry::detail {
namespace {

constexpr std::size_t most_bytes = std::numeric_limits<std::int64_t>::max();

}  // namespace

void ArenaLayout::take(std::map<std::size_t, std::size_t>::iterator block) {
  auto [first, last] = by_size_.equal_range(block->second);
  while (first != last && first->second != block->first) ++first;
  by_size_.erase(first);
  free_.erase(block);
}

std::size_t ArenaLayout::allocate(std::size_t bytes) {
  const std::size_t wanted = room_for(bytes);
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
    if (__builtin_add_overflow(offset, wanted, &end_) || end_ > most_bytes)
      throw ResourceExhaustedError("OOM when laying out the memory of a plan: it has more than 2^63 - 1 bytes");
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
  std::size_t size = room_for(bytes);
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

std::size_t lay_out(std::span<ArenaBuffer> buffers) {
  std::vector<ArenaBuffer*> starting, ending;
  for (ArenaBuffer& buffer : buffers) {
    starting.push_back(&buffer);
    ending.push_back(&buffer);
  }
  const auto by = [](std::size_t ArenaBuffer::*step) {
    return [step](const ArenaBuffer* a, const ArenaBuffer* b) { return a->*step < b->*step; };
  };
  std::stable_sort(starting.begin(), starting.end(), by(&ArenaBuffer::first_step));
  std::stable_sort(ending.begin(), ending.end(), by(&ArenaBuffer::last_step));
  ArenaLayout layout;
  auto ended = ending.begin();
  for (ArenaBuffer* buffer : starting) {
    for (; (*ended)->last_step < buffer->first_step; ++ended) layout.release((*ended)->offset, (*ended)->bytes);
    buffer->offset = layout.allocate(buffer->bytes);
  }
  return layout.size();
}

}  // namespace tapestry::detail
