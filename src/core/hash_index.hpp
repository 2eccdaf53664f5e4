#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace tapestry::detail {

/// Finds positions in a list by the hash of what stands there. A search mostly reads one line of memory, where a map of
/// the standard library reads one for each element of a bucket.
class HashIndex {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  static std::uint32_t hash(std::string_view text) {
    const std::size_t all = std::hash<std::string_view>()(text);
    return static_cast<std::uint32_t>(all ^ (all >> 32));
  }

  std::size_t size() const { return used_; }

  /// The position with this hash of which `is(position)` is true, or `none`.
  template <class Is>
  std::uint32_t find(std::uint32_t hash, Is is) const {
    const std::size_t slot = slot_of(hash, is);
    return slot == slots_.size() ? none : slots_[slot].position;
  }

  /// Adds a position that is not there.
  void add(std::uint32_t hash, std::uint32_t position) {
    if (2 * (used_ + 1) > slots_.size()) resize(used_ + 1);
    put({hash, position});
    ++used_;
  }

  template <class Is>
  void erase(std::uint32_t hash, Is is) {
    std::size_t hole = slot_of(hash, is);
    if (hole == slots_.size()) return;
    --used_;
    // What was put behind the hole, because other slots were full, moves up.
    for (std::size_t next = after(hole); slots_[next].position != none; next = after(next)) {
      const std::size_t due = start(slots_[next].hash);
      if (((next - due) & mask()) < ((next - hole) & mask())) continue;
      slots_[hole] = slots_[next];
      hole = next;
    }
    slots_[hole].position = none;
  }

  /// Makes room for so many positions.
  void reserve(std::size_t positions) {
    if (2 * positions > slots_.size()) resize(positions);
  }

 private:
  struct Slot {
    std::uint32_t hash = 0;
    std::uint32_t position = none;
  };

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t start(std::uint32_t hash) const { return hash & mask(); }
  std::size_t after(std::size_t slot) const { return (slot + 1) & mask(); }

  template <class Is>
  std::size_t slot_of(std::uint32_t hash, Is is) const {
    if (slots_.empty()) return 0;
    for (std::size_t i = start(hash); slots_[i].position != none; i = after(i))
      if (slots_[i].hash == hash && is(slots_[i].position)) return i;
    return slots_.size();
  }

  void put(Slot slot) {
    std::size_t i = start(slot.hash);
    while (slots_[i].position != none) i = after(i);
    slots_[i] = slot;
  }

  void resize(std::size_t positions) {
    std::size_t size = 16;
    while (size < 2 * positions) size *= 2;
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (const Slot& each : old)
      if (each.position != none) put(each);
  }

  std::vector<Slot> slots_;  ///< as many as a power of 2; at least half of them are free
  std::size_t used_ = 0;
};

}  // namespace tapestry::detail
