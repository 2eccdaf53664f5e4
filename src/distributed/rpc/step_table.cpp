#include "distributed/rpc/step_table.hpp"

#include "tapestry/error.hpp"

namespace tapestry::detail {

std::shared_ptr<StepTable::Step> StepTable::at(std::int64_t step) {
  // A master that has vanished removes no steps.
  constexpr std::size_t most_steps = 10'000;
  std::shared_ptr<Step>& found = steps_[step];
  if (found) return found;
  found = std::make_shared<Step>();
  std::shared_ptr<Step> made = found;
  order_.push_back(step);
  if (order_.size() > most_steps) {
    if (const auto oldest = steps_.extract(order_.front()); !oldest.empty())
      oldest.mapped()->error = std::make_exception_ptr(AbortedError("The step was given up: too many are open"));
    order_.pop_front();
    changed_.notify_all();
  }
  return made;
}

void StepTable::send(std::int64_t step, const std::string& key, const Tensor& value) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Step> to = at(step);
  if (to->error) std::rethrow_exception(to->error);
  to->sent.insert_or_assign(key, value);
  changed_.notify_all();
}

Tensor StepTable::receive(std::int64_t step, const std::string& key, const std::stop_token& stop) {
  // Each wait takes a thread.
  constexpr std::size_t most_waits = 4096;
  std::unique_lock lock(mutex_);
  if (waits_ >= most_waits)
    throw ResourceExhaustedError(join(waits_, " calls wait for tensors of steps, which are the most that may"));
  const std::shared_ptr<Step> from = at(step);
  ++from->waiting, ++waits_;
  auto found = from->sent.end();
  changed_.wait(lock, stop, [&] {
    found = from->sent.find(key);
    return from->error || found != from->sent.end();
  });
  --from->waiting, --waits_;
  if (found != from->sent.end()) {
    Tensor value = std::move(found->second);
    from->sent.erase(found);
    return value;
  }
  if (from->error) std::rethrow_exception(from->error);
  // A call that comes after the end of its step would make it known for ever.
  const auto known = steps_.find(step);
  if (from->waiting == 0 && from->sent.empty() && known != steps_.end() && known->second == from) {
    steps_.erase(known);
    std::erase(order_, step);
  }
  throw CancelledError("The call was cancelled");
}

void StepTable::abort(std::int64_t step, const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Step> failed = at(step);
  if (!failed->error) failed->error = error;
  failed->sent.clear();
  changed_.notify_all();
}

void StepTable::remove(std::int64_t step) {
  const std::lock_guard lock(mutex_);
  const auto ended = steps_.extract(step);
  if (ended.empty()) return;
  if (!ended.mapped()->error) ended.mapped()->error = std::make_exception_ptr(AbortedError("The step has ended"));
  std::erase(order_, step);
  changed_.notify_all();
}

void StepTable::clear(const std::exception_ptr& error) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, step] : steps_) step->error = error;
  steps_.clear();
  order_.clear();
  changed_.notify_all();
}

}  // namespace tapestry::detail
