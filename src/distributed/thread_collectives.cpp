#include "distributed/thread_collectives.hpp"

#include <algorithm>
#include <cstring>

#include "backend/backend.hpp"
#include "backend/views.hpp"

namespace tapestry::detail {
namespace {

std::byte* bytes_at(const Tensor& tensor, std::int64_t element) {
  return static_cast<std::byte*>(tensor.impl().data) + static_cast<std::size_t>(element) * size_of(tensor.dtype());
}

void copy_elements(const Tensor& from, std::int64_t first, const Tensor& to, std::int64_t place, std::int64_t count) {
  const std::byte* source = bytes_at(from, first);
  std::byte* target = bytes_at(to, place);
  if (count > 0 && source != target) std::memcpy(target, source, static_cast<std::size_t>(count) * size_of(to.dtype()));
}

Binary function_of(Reduce reduce, DType dtype) {
  const bool is_bool = dtype == boolean;
  switch (reduce) {
    case Reduce::min:
      return is_bool ? Binary::logical_and : Binary::minimum;
    case Reduce::max:
      return is_bool ? Binary::logical_or : Binary::maximum;
    case Reduce::product:
      return is_bool ? Binary::logical_and : Binary::multiply;
    default:
      return Binary::add;
  }
}

}  // namespace

ThreadGroup::ThreadGroup(std::shared_ptr<ThreadJob> job, std::vector<int> members)
    : job_(std::move(job)),
      members_(std::move(members)),
      left_(members_.size()),
      is_calling_(members_.size()),
      posts_(members_.size()),
      colors_(members_.size()) {}

ThreadGroup::OneCall::OneCall(ThreadGroup& group, int rank, std::string_view name, Where where)
    : is_calling_(group.is_calling_[rank]) {
  if (is_calling_ != 0)
    throw FailedPreconditionError(
        join("Two threads use one Communicator at the same time: ", name, " is called while another call of rank ",
             rank, " waits for the other ranks. A thread gets its own by `split`"),
        where);
  is_calling_ = 1;
}

/// How a rank of this group has ended; "" while it runs.
const std::string& ThreadGroup::end_of(std::size_t rank) const {
  static const std::string& left = *new std::string("has left the communicator");
  const std::string& end = job_->ended[members_[rank]];
  return end.empty() && left_[rank] ? left : end;
}

void ThreadGroup::require_all_there() const {
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (const std::string& end = end_of(i); !end.empty()) throw AbortedError(join("Rank ", i, " ", end));
}

/// Waits until all ranks are here. The last one calls the function. If a rank ends before it comes, and `may_abort`,
/// the others throw.
void ThreadGroup::meet(Lock& lock, const std::function<void()>& when_all_are_there, bool may_abort) {
  const std::uint64_t meeting = meetings_;
  if (++waiting_ == size()) {
    waiting_ = 0;
    when_all_are_there();
    ++meetings_;
    job_->changed.notify_all();
    return;
  }
  while (meetings_ == meeting) {
    if (may_abort) {
      try {
        require_all_there();
      } catch (...) {
        --waiting_;
        throw;
      }
    }
    job_->changed.wait(lock);
  }
}

/// Finds out whether all ranks call the same.
void ThreadGroup::compare_calls() {
  refusal_.clear();
  failure_.clear();
  const auto is_by_device = [](const Exchange* each) { return each->by_device; };
  const auto other = std::find_if_not(posts_.begin(), posts_.end(), is_by_device);
  by_device_ = static_cast<int>(std::count_if(posts_.begin(), posts_.end(), is_by_device));
  not_by_device_ = other == posts_.end() ? -1 : static_cast<int>(other - posts_.begin());
  const std::uint64_t first = posts_[0]->signature();
  if (std::all_of(posts_.begin(), posts_.end(), [&](const Exchange* each) { return each->signature() == first; }))
    return;
  std::vector<std::string> calls;
  for (const Exchange* each : posts_) calls.push_back(to_string(*each));
  refusal_ = unequal(calls);
}

// Each rank throws an error of its own: on its way, ops add to it where they were called.
void ThreadGroup::require_agreement() const {
  if (!refusal_.empty()) throw InvalidArgumentError(refusal_);
}

/// Waits for all ranks' calls, and throws unless they fit together.
void ThreadGroup::meet_calls(Lock& lock, int rank, const Exchange& exchange) {
  require_all_there();
  posts_[rank] = &exchange;
  meet(
      lock, [&] { compare_calls(); }, true);
  require_agreement();
}

int ThreadGroup::agree(int rank, const Exchange& exchange) {
  Lock lock(job_->mutex);
  const OneCall one(*this, rank, exchange.name, exchange.where);
  meet_calls(lock, rank, exchange);
  return not_by_device_;
}

void ThreadGroup::run(int rank, const Exchange& exchange) {
  Lock lock(job_->mutex);
  const OneCall one(*this, rank, exchange.name, exchange.where);
  do meet_calls(lock, rank, exchange);
  while (by_device_ > 0);
  if (exchange.kind == Exchange::Kind::barrier) return;
  lock.unlock();
  std::string failure;
  try {
    work(rank, exchange);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  lock.lock();
  if (!failure.empty()) failure_ = join("Rank ", rank, " has failed: ", failure);
  // No rank ends between the two meetings, and none may go on while others read its memory.
  meet(
      lock, [] {}, false);
  if (!failure_.empty()) throw AbortedError(failure_);
}

/// This rank's share: where all need all results, each rank reduces a range of the elements for all.
void ThreadGroup::work(int rank, const Exchange& exchange) const {
  const std::int64_t count = exchange.input ? static_cast<std::int64_t>(exchange.input.size()) : 0;
  const auto reduce_into = [&](std::int64_t begin, std::int64_t length, const Tensor& to) {
    Backend& backend = backend_of(cpu());
    const Binary f = function_of(exchange.reduce, exchange.input.dtype());
    if (members_.size() == 1) return copy_elements(exchange.input, begin, to, 0, length);
    Tensor sum = view_as(posts_[0]->input, {length}, begin);
    for (std::size_t i = 1; i < posts_.size(); ++i) {
      backend.binary(f, sum, view_as(posts_[i]->input, {length}, begin), 0, to);
      sum = to;
    }
  };
  switch (exchange.kind) {
    case Exchange::Kind::all_reduce: {
      // Ranges are whole cache lines.
      const std::int64_t share = (count / size() + 63) / 64 * 64, begin = std::min(count, rank * share);
      const std::int64_t length = (rank + 1 == size() ? count : std::min(count, begin + share)) - begin;
      if (length == 0) return;
      const Tensor own = view_as(exchange.output, {length}, begin);
      reduce_into(begin, length, own);
      for (const Exchange* each : posts_) copy_elements(own, 0, each->output, begin, length);
      return;
    }
    case Exchange::Kind::broadcast:
      return copy_elements(posts_[exchange.root]->input, 0, exchange.output, 0, count);
    case Exchange::Kind::all_gather:
      for (std::size_t i = 0; i < posts_.size(); ++i)
        copy_elements(posts_[i]->input, 0, exchange.output, static_cast<std::int64_t>(i) * count, count);
      return;
    case Exchange::Kind::reduce_scatter: {
      const std::int64_t length = count / size();
      if (length > 0) reduce_into(rank * length, length, view_as(exchange.output, {length}));
      return;
    }
    default:
      return;
  }
}

std::pair<std::shared_ptr<ThreadGroup>, int> ThreadGroup::place_of(const std::shared_ptr<ThreadGroup>& group,
                                                                   int rank) const {
  const auto own = std::find(group->members_.begin(), group->members_.end(), members_[rank]);
  return {group, static_cast<int>(own - group->members_.begin())};
}

std::pair<std::shared_ptr<ThreadGroup>, int> ThreadGroup::split(int rank, int color, Where where) {
  const Exchange exchange{.kind = Exchange::Kind::split, .name = "split", .where = where};
  Lock lock(job_->mutex);
  const OneCall one(*this, rank, exchange.name, where);
  require_all_there();
  posts_[rank] = &exchange;
  colors_[rank] = color;
  const auto make_parts = [&] {
    compare_calls();
    parts_.assign(members_.size(), nullptr);
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (parts_[i]) continue;
      std::vector<int> members;
      for (std::size_t k = i; k < members_.size(); ++k)
        if (colors_[k] == colors_[i]) members.push_back(members_[k]);
      const auto part = std::make_shared<ThreadGroup>(job_, std::move(members));
      for (std::size_t k = i; k < members_.size(); ++k)
        if (colors_[k] == colors_[i]) parts_[k] = part;
    }
  };
  meet(lock, make_parts, true);
  require_agreement();
  auto place = place_of(parts_[rank], rank);
  meet(
      lock, [&] { parts_.clear(); }, false);
  return place;
}

std::pair<std::shared_ptr<ThreadGroup>, int> ThreadGroup::shrink(int rank) {
  Lock lock(job_->mutex);
  ++shrinking_;
  job_->changed.notify_all();
  const auto are_all_here = [&] {
    int ended = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) ended += end_of(i).empty() ? 0 : 1;
    return bool(survivors_) || shrinking_ + ended == size();
  };
  job_->changed.wait(lock, are_all_here);
  if (!survivors_) {
    std::vector<int> members;
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (end_of(i).empty()) members.push_back(members_[i]);
    survivors_ = std::make_shared<ThreadGroup>(job_, std::move(members));
    job_->changed.notify_all();
  }
  auto place = place_of(survivors_, rank);
  if (--shrinking_ == 0) survivors_ = nullptr;
  return place;
}

void ThreadGroup::leave(int rank) {
  const std::lock_guard lock(job_->mutex);
  left_[rank] = 1;
  job_->changed.notify_all();
}

ThreadCollectives::ThreadCollectives(std::shared_ptr<ThreadGroup> group, int its_rank, int its_local_rank)
    : Collectives(its_rank, group->size(), its_local_rank), group_(std::move(group)) {}

CommunicatorRef ThreadCollectives::split(int color, Where where) {
  auto [group, place] = group_->split(rank, color, where);
  return std::make_shared<ThreadCollectives>(group, place, place);
}

CommunicatorRef ThreadCollectives::shrink(Where) {
  auto [group, place] = group_->shrink(rank);
  return std::make_shared<ThreadCollectives>(group, place, place);
}

bool ThreadCollectives::leave() {
  group_->leave(rank);
  return true;
}

}  // namespace tapestry::detail
