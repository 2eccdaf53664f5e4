#include "distributed/rpc/step_table.hpp"

#include <algorithm>
#include <future>

#include "tapestry/error.hpp"

namespace tapestry::detail {

StepTable::Step& StepTable::at(std::int64_t step, Ended& given_up) {
  // A master that has vanished removes no steps.
  constexpr std::size_t most_steps = 10'000;
  const auto [found, is_new] = steps_.try_emplace(step);
  if (!is_new) return found->second;
  order_.push_back(step);
  if (order_.size() > most_steps) {
    if (auto oldest = steps_.extract(order_.front()); !oldest.empty()) {
      given_up.error = std::make_exception_ptr(AbortedError("The step was given up: too many are open"));
      end_waits(oldest.mapped(), given_up);
    }
    order_.pop_front();
  }
  return found->second;
}

void StepTable::end_waits(Step& step, Ended& ended) {
  for (auto& [key, wait] : step.waiting) ended.arrivals.push_back(std::move(wait->arrival));
  waits_ -= step.waiting.size();
  step.waiting.clear();
}

void StepTable::send(std::int64_t step, const std::string& key, const Tensor& value) {
  Ended given_up;
  Arrival waiting;
  {
    const std::lock_guard lock(mutex_);
    Step& to = at(step, given_up);
    if (to.error) std::rethrow_exception(to.error);
    const auto found = to.waiting.find(key);
    if (found == to.waiting.end()) {
      to.sent.insert_or_assign(key, value);
      return;
    }
    waiting = std::move(found->second->arrival);
    to.waiting.erase(found);
    --waits_;
  }
  waiting(value, nullptr);
}

void StepTable::receive(std::int64_t step, const std::string& key, const std::stop_token& stop, Arrival arrival) {
  // A client that asks for ever more must not take all memory.
  constexpr std::size_t most_waits = 4096;
  Ended given_up;
  const auto wait = std::make_shared<Wait>();
  Tensor value;
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    Step& from = at(step, given_up);
    if (const auto found = from.sent.find(key); found != from.sent.end()) {
      value = std::move(found->second);
      from.sent.erase(found);
    } else if (from.error) {
      error = from.error;
    } else if (waits_ >= most_waits) {
      error = std::make_exception_ptr(
          ResourceExhaustedError(join(waits_, " calls wait for tensors of steps, which are the most that may")));
    } else {
      wait->arrival = std::move(arrival);
      from.waiting.emplace(key, wait);
      ++waits_;
    }
  }
  if (bool(value) || error) return arrival(std::move(value), error);
  wait->leave.emplace(stop, [this, step, weak = std::weak_ptr(wait)] {
    if (const auto waiting = weak.lock()) leave(step, waiting);
  });
}

void StepTable::leave(std::int64_t step, const std::shared_ptr<Wait>& wait) {
  Arrival arrival;
  {
    const std::lock_guard lock(mutex_);
    const auto known = steps_.find(step);
    if (known == steps_.end()) return;
    Step& from = known->second;
    const auto found =
        std::find_if(from.waiting.begin(), from.waiting.end(), [&](const auto& each) { return each.second == wait; });
    if (found == from.waiting.end()) return;
    arrival = std::move(wait->arrival);
    from.waiting.erase(found);
    --waits_;
    // A call that comes after the end of its step would make it known for ever.
    if (from.waiting.empty() && from.sent.empty() && !from.error) {
      steps_.erase(known);
      std::erase(order_, step);
    }
  }
  arrival(Tensor(), std::make_exception_ptr(CancelledError("The call was cancelled")));
}

Tensor StepTable::receive(std::int64_t step, const std::string& key, const std::stop_token& stop) {
  const auto arrived = std::make_shared<std::promise<Tensor>>();  // which the other thread may hold longer
  receive(step, key, stop, [arrived](Tensor value, const std::exception_ptr& error) {
    error ? arrived->set_exception(error) : arrived->set_value(std::move(value));
  });
  return arrived->get_future().get();
}

void StepTable::abort(std::int64_t step, const std::exception_ptr& error) {
  Ended given_up, ended{.error = error};
  const std::lock_guard lock(mutex_);
  Step& failed = at(step, given_up);
  if (!failed.error) failed.error = error;
  ended.error = failed.error;
  failed.sent.clear();
  end_waits(failed, ended);
}

void StepTable::remove(std::int64_t step) {
  Ended ended{.error = std::make_exception_ptr(AbortedError("The step has ended"))};
  const std::lock_guard lock(mutex_);
  auto over = steps_.extract(step);
  if (over.empty()) return;
  if (over.mapped().error) ended.error = over.mapped().error;
  end_waits(over.mapped(), ended);
  std::erase(order_, step);
}

void StepTable::clear(const std::exception_ptr& error) {
  Ended ended{.error = error};
  const std::lock_guard lock(mutex_);
  for (auto& [number, step] : steps_) end_waits(step, ended);
  steps_.clear();
  order_.clear();
}

}  // namespace tapestry::detail
