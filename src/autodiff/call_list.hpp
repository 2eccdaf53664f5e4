#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// Numbers tensors by their ids, from 0: a hash table with linear probing. Ids of neighbours in time are neighbours, so
/// the identity is the best hash there is.
class SlotTable {
 public:
  static constexpr std::int32_t none = -1;

  std::int32_t find(std::int64_t id) const {
    if (slots_ == 0) return none;
    for (std::size_t i = static_cast<std::size_t>(id) & mask_;; i = (i + 1) & mask_) {
      if (table_[i].id == id) return table_[i].slot;
      if (table_[i].id == 0) return none;
    }
  }
  /// The number of an id, which gets the next one if it has none.
  std::int32_t insert(std::int64_t id);
  std::int32_t size() const { return slots_; }
  void clear();

 private:
  struct Item {
    std::int64_t id = 0;  ///< 0: free; no tensor has this id
    std::int32_t slot = none;
  };
  void grow();

  std::vector<Item> table_;
  std::size_t mask_ = 0;
  std::int32_t slots_ = 0;
};

/// A call and the slots of its tensors.
struct RecordedCall {
  Call call;
  SmallVector<std::int32_t, 2> inputs;  ///< SlotTable::none where nothing watched flows in
  SmallVector<std::int32_t, 1> outputs;
};

/// Calls in execution order, in chunks: none moves when the list grows, so the list may grow while it is walked.
class CallList {
 public:
  std::size_t size() const { return size_; }
  RecordedCall& operator[](std::size_t i) { return *chunks_[i / chunk_size]->at(i % chunk_size); }
  const RecordedCall& operator[](std::size_t i) const { return *chunks_[i / chunk_size]->at(i % chunk_size); }
  void push_back(RecordedCall&& item);
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
