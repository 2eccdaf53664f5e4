#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace tapestry::detail {

/// The bytes that a buffer takes: a multiple of 64, and 64 even if it is empty.
constexpr std::size_t room_for(std::size_t bytes) { return bytes == 0 ? 64 : (bytes + 63) / 64 * 64; }

/// Lays out buffers of limited lifetimes in one arena: gives each an offset, and reuses the memory of released ones. It
/// takes the best fit and merges neighbouring free blocks; n buffers usually take O(n log n) time.
class ArenaLayout {
 public:
  /// The offset, a multiple of 64, of a new buffer of that many bytes. Throws ResourceExhaustedError if the arena would
  /// have more than 2^63 - 1 bytes.
  std::size_t allocate(std::size_t bytes);
  void release(std::size_t offset, std::size_t bytes);
  /// The bytes of the arena.
  std::size_t size() const { return end_; }

 private:
  void take(std::map<std::size_t, std::size_t>::iterator block);

  std::map<std::size_t, std::size_t> free_;          ///< free blocks: the size by offset
  std::multimap<std::size_t, std::size_t> by_size_;  ///< the same: the offset by size
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
