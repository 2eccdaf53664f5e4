#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

namespace tapestry::detail {

/// The room that a block takes: a multiple of 64 bytes, and some even for nothing.
constexpr std::size_t room_for(std::size_t bytes) { return bytes == 0 ? 64 : (bytes + 63) / 64 * 64; }

/// Lays out buffers that live for a while in one piece of memory: gives each an offset, and the room of a block that
/// has been released to later ones. Best fit, neighbours merged; n buffers take n log n steps.
class ArenaLayout {
 public:
  /// The offset of a block of that many bytes, a multiple of 64. Throws ResourceExhaustedError beyond 2^63 - 1.
  std::size_t allocate(std::size_t bytes);
  void release(std::size_t offset, std::size_t bytes);
  /// Bytes that the whole needs.
  std::size_t size() const { return end_; }

 private:
  void take(std::map<std::size_t, std::size_t>::iterator block);

  std::map<std::size_t, std::size_t> free_;          ///< by offset: the size
  std::multimap<std::size_t, std::size_t> by_size_;  ///< by size: the offset
  std::size_t end_ = 0;
};

/// A buffer that is used from one step to another, both included.
struct ArenaBuffer {
  std::size_t bytes, first_step, last_step;
  std::size_t offset = 0;
};
/// Gives each buffer an offset at which no other lies while it is used; returns the bytes of the whole.
std::size_t lay_out(std::span<ArenaBuffer> buffers);

}  // namespace tapestry::detail
