#include "distributed/background.hpp"

#include <algorithm>

namespace tapestry::detail {

Background::Background(CommunicatorRef own) : state_(std::make_shared<State>()) {
  state_->own = std::move(own);
  thread_ = std::thread([state = state_] { work(state); });
}

Background::~Background() {
  bool is_idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    is_idle = state_->queue.empty();
  }
  state_->changed.notify_all();
  const bool wakes = state_->own->leave();
  if (is_idle || wakes) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Background::work(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->changed.wait(lock, [&] { return state->stop || !state->queue.empty(); });
    if (state->stop) return;
    const std::shared_ptr<Job> job = state->queue.front();
    lock.unlock();
    try {
      state->own->run(job->exchange);
    } catch (...) {
      job->error = std::current_exception();
    }
    lock.lock();
    job->exchange.input = Tensor();
    job->done = true;
    state->queue.erase(state->queue.begin());
    state->changed.notify_all();
  }
}

void Background::start(std::int64_t slot, Exchange exchange) {
  const auto job = std::make_shared<Job>(Job{.slot = slot, .exchange = std::move(exchange)});
  {
    const std::lock_guard lock(state_->mutex);
    state_->queue.push_back(job);
    std::erase_if(kept_, [&](const auto& each) { return each->slot == slot; });
    kept_.push_back(job);
  }
  state_->changed.notify_all();
}

Tensor Background::wait(std::int64_t slot) {
  std::unique_lock lock(state_->mutex);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& each) { return each->slot == slot; });
  if (found == kept_.end()) throw FailedPreconditionError("The reduction that is waited for has not been started");
  const std::shared_ptr<Job> job = *found;
  kept_.erase(found);
  state_->changed.wait(lock, [&] { return job->done; });
  if (job->error) std::rethrow_exception(job->error);
  return job->exchange.output;
}

}  // namespace tapestry::detail
