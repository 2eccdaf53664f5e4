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

void ArenaLayout::take(Free::iterator block) {
  by_size_.erase(block->second);
  free_.erase(block);
}

std::size_t ArenaLayout::allocate(std::size_t bytes) {
  const std::size_t wanted = aligned_bytes(bytes);
  const auto fitting = by_size_.lower_bound(wanted);
  if (fitting == by_size_.end()) {
    // A free block at the end grows.
    std::size_t offset = end_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second->first == end_) {
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
  if (size > wanted) add(offset + wanted, size - wanted);
  return offset;
}

void ArenaLayout::release(std::size_t offset, std::size_t bytes) {
  std::size_t size = aligned_bytes(bytes);
  const auto next = free_.find(offset + size);
  if (next != free_.end()) {
    size += next->second->first;
    take(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second->first == offset) {
      offset = before->first;
      size += before->second->first;
      take(before);
    }
  }
  add(offset, size);
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
