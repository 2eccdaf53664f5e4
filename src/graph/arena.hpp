#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace tapestry::detail {

/// The bytes that a buffer takes: a multiple of 64, and 64 even if it is empty.
constexpr std::size_t aligned_bytes(std::size_t bytes) { return bytes == 0 ? 64 : (bytes + 63) / 64 * 64; }

/// Lays out buffers of limited lifetimes in one arena: gives each an offset, and reuses the memory of released ones. It
/// takes the best fit and merges neighbouring free blocks; n buffers take O(n log n) time.
class ArenaLayout {
 public:
  /// The offset, a multiple of 64, of a new buffer of that many bytes. Throws ResourceExhaustedError if the arena would
  /// have more than 2^63 - 1 bytes.
  std::size_t allocate(std::size_t bytes);
  void release(std::size_t offset, std::size_t bytes);
  /// The bytes of the arena.
  std::size_t size() const { return end_; }

 private:
  using BySize = std::multimap<std::size_t, std::size_t>;
  using Free = std::map<std::size_t, BySize::iterator>;
  void add(std::size_t offset, std::size_t size) { free_.emplace(offset, by_size_.emplace(size, offset)); }
  void take(Free::iterator block);

  BySize by_size_;  ///< free blocks: the offset by size
  Free free_;       ///< the same: the element of `by_size_` by offset
  std::size_t end_ = 0;
};

/// A buffer that is used from one step to another, both included.
struct ArenaBuffer {
  std::size_t bytes, first_step, last_step;
  std::size_t offset = 0;
};
/// Gives each buffer an offset, so that buffers used at the same time do not overlap; returns the bytes of the arena.
std::size_t lay_out(std::span<ArenaBuffer> buffers);

}  // namespace tapestry::detail
