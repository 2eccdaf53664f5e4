#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// A hash table with linear probing, which numbers tensors from 0 by their ids. Tensors made one after the other have
/// neighbouring ids. Eight of these stay together, in two cache lines, but the groups of eight are scattered: in one
/// long run of entries a search for an absent id would be slow.
class SlotTable {
 public:
  static constexpr std::int32_t none = -1;

  std::int32_t find(std::int64_t id) const {
    if (slots_ == 0) return none;
    for (std::size_t i = home(id);; i = (i + 1) & mask_) {
      if (table_[i].id == id) return table_[i].slot;
      if (table_[i].id == 0) return none;
    }
  }
  /// The slot of an id. A new id gets the next slot.
  std::int32_t insert(std::int64_t id);
  std::int32_t size() const { return slots_; }
  void clear();

 private:
  struct Item {
    std::int64_t id = 0;  ///< 0: free; no tensor has this id
    std::int32_t slot = none;
  };
  std::size_t home(std::int64_t id) const {
    constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;  // Knuth's multiplicative hashing
    const auto bits = static_cast<std::uint64_t>(id);
    return static_cast<std::size_t>(((bits >> 3) * golden_ratio >> 32 << 3) | (bits & 7)) & mask_;
  }
  void grow();

  std::vector<Item> table_;
  std::size_t mask_ = 0;
  std::int32_t slots_ = 0;
};

/// The slots of a few tensors.
using Slots = SmallVector<std::int32_t, 2>;

/// A call and the slots of its tensors.
struct RecordedCall {
  Call call;
  Slots inputs;  ///< SlotTable::none for an input that depends on nothing watched
  Slots outputs;
};

/// Calls in execution order, in chunks. No call moves when the list grows, so the list may grow during a walk.
class CallList {
 public:
  std::size_t size() const { return size_; }
  RecordedCall& operator[](std::size_t i) { return *chunks_[i / chunk_size]->at(i % chunk_size); }
  const RecordedCall& operator[](std::size_t i) const { return *chunks_[i / chunk_size]->at(i % chunk_size); }
  /// Adds a call, whose outputs have no slots yet.
  RecordedCall& emplace_back(Call&& call, Slots&& inputs);
  void pop_back();
  CallList() = default;
  CallList(CallList&& other) noexcept : chunks_(std::move(other.chunks_)), size_(std::exchange(other.size_, 0)) {}
  CallList& operator=(CallList&&) = delete;
  ~CallList() { clear(); }
  void clear() {
    while (size_ > 0) pop_back();
  }

 private:
  static constexpr std::size_t chunk_size = 256;
  struct Chunk {
    alignas(RecordedCall) std::byte bytes[chunk_size * sizeof(RecordedCall)];
    RecordedCall* at(std::size_t i) { return reinterpret_cast<RecordedCall*>(bytes) + i; }
  };

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::size_t size_ = 0;
};

}  // namespace tapestry
