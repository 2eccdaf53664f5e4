#include "graph/rendezvous.hpp"

#include <utility>

namespace tapestry::detail {

void Rendezvous::reset() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, tensor] : sent_) tensor = Tensor();
  aborted_ = false;
}

void Rendezvous::send(std::string_view key, const Tensor& tensor) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = sent_.find(key);
    if (found == sent_.end()) {
      sent_.emplace(key, tensor);
    } else {
      found->second = tensor;
    }
  }
  changed_.notify_all();
}

Tensor Rendezvous::receive(std::string_view key, const Deadline* deadline) {
  std::unique_lock lock(mutex_);
  auto found = sent_.end();
  const auto is_over = [&] {
    found = sent_.find(key);
    return aborted_ || (found != sent_.end() && bool(found->second));
  };
  if (!deadline) {
    changed_.wait(lock, is_over);
  } else if (!changed_.wait_until(lock, deadline->end(), is_over)) {
    deadline->fail(join("another device has not sent '", key, "'"));
  }
  if (aborted_) throw RendezvousAborted();
  return std::exchange(found->second, Tensor());
}

void Rendezvous::abort() {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
}

}  // namespace tapestry::detail
