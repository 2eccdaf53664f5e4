#include "autodiff/call_list.hpp"

namespace tapestry {

std::int32_t SlotTable::insert(std::int64_t id) {
  if (static_cast<std::size_t>(slots_) * 2 >= table_.size()) grow();
  for (std::size_t i = home(id);; i = (i + 1) & mask_) {
    if (table_[i].id == id) return table_[i].slot;
    if (table_[i].id == 0) {
      table_[i] = {id, slots_};
      return slots_++;
    }
  }
}

void SlotTable::grow() {
  std::vector<Item> old(std::max<std::size_t>(64, table_.size() * 2));
  old.swap(table_);
  mask_ = table_.size() - 1;
  for (const Item& item : old) {
    if (item.id == 0) continue;
    std::size_t i = home(item.id);
    while (table_[i].id != 0) i = (i + 1) & mask_;
    table_[i] = item;
  }
}

void SlotTable::clear() {
  table_.clear();
  mask_ = 0;
  slots_ = 0;
}

RecordedCall& CallList::emplace_back(Call&& call, Slots&& inputs) {
  if (size_ == chunks_.size() * chunk_size) chunks_.push_back(std::make_unique_for_overwrite<Chunk>());
  void* const place = chunks_[size_ / chunk_size]->at(size_ % chunk_size);
  ++size_;
  return *::new (place) RecordedCall{std::move(call), std::move(inputs), {}};
}

void CallList::pop_back() {
  --size_;
  std::destroy_at(chunks_[size_ / chunk_size]->at(size_ % chunk_size));
  // One empty chunk stays, for a list that grows and shrinks around its border.
  if (size_ % chunk_size == 0 && chunks_.size() > size_ / chunk_size + 1) chunks_.pop_back();
}

}  // namespace tapestry
