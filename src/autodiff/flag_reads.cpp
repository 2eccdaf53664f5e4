#include "autodiff/flag_reads.hpp"

#include <algorithm>

#include "tapestry/detail/flag.hpp"

namespace tapestry {
namespace {

constinit thread_local FlagReads* open_reads = nullptr;

/// How often any flag has changed, and 1, so that no FlagReads has compared before.
std::atomic<std::uint64_t> changes = 1;

}  // namespace

FlagReads::Scope::Scope(FlagReads& reads) : outer_(open_reads) { open_reads = &reads; }
FlagReads::Scope::~Scope() { open_reads = outer_; }

void FlagReads::note_read(const Value& flag) {
  if (open_reads) open_reads->found_.emplace(flag, *flag);
}

void FlagReads::note_set(const Value& flag) {
  if (open_reads) open_reads->found_.emplace(flag, std::nullopt);
}

bool FlagReads::hold() const {
  const std::uint64_t now = changes;
  const bool holds = checked_ == now || std::all_of(found_.begin(), found_.end(), [](const auto& each) {
                       return !each.second || *each.second == *each.first;
                     });
  if (holds) checked_ = now;
  return holds && std::all_of(owners_.begin(), owners_.end(), [](const auto& each) { return each->still_has_them(); });
}

void FlagReads::note_constant(std::int64_t id) {
  if (open_reads) open_reads->constants_.insert(id);
}

void FlagReads::find_owners() {
  if (const auto find = owners_of.load(); find && !constants_.empty()) owners_ = find(constants_);
}

namespace detail {

bool Flag::read() const {
  if (!on_) return false;
  FlagReads::note_read(on_);
  return *on_;
}

void Flag::set(bool on) {
  if (!on_) on_ = std::make_shared<std::atomic<std::uint64_t>>(on);
  FlagReads::note_set(on_);
  if (on_->exchange(on) != static_cast<std::uint64_t>(on)) ++changes;
}

void Count::note() const { FlagReads::note_read(number_); }

void Count::add() {
  FlagReads::note_set(number_);
  ++*number_;
  ++changes;
}

}  // namespace detail
}  // namespace tapestry
