#include "serve/client_watch.hpp"

#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace tapestry::serve {

ClientWatch::~ClientWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (looker_.joinable()) looker_.join();
}

ClientWatch::Watched::Watched(ClientWatch& watch, int socket, Clock::time_point read_until) : watch_(watch) {
  const std::lock_guard lock(watch.mutex_);
  client_ = watch.clients_.insert(watch.clients_.end(), Client{.socket = socket, .read_until = read_until});
  if (!watch.looker_.joinable()) watch.looker_ = std::thread([&watch] { watch.look(); });
  if (watch.clients_.size() == 1) watch.changed_.notify_all();
}

ClientWatch::Watched::~Watched() {
  const std::lock_guard lock(watch_.mutex_);
  watch_.clients_.erase(client_);
}

void ClientWatch::Watched::read_until(Clock::time_point time) {
  const std::lock_guard lock(watch_.mutex_);
  client_->read_until = time;
}

std::stop_token ClientWatch::Watched::answer() {
  std::stop_source gone;
  const std::lock_guard lock(watch_.mutex_);
  client_->read_until.reset();
  client_->gone = gone;
  return gone.get_token();
}

void ClientWatch::look() {
  constexpr std::chrono::milliseconds interval(100);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !clients_.empty(); });
    changed_.wait_for(lock, interval, [this] { return stop_; });
    if (stop_) return;
    shut_down_late();
    std::list<std::stop_source> gone = find_gone();
    lock.unlock();
    for (std::stop_source& each : gone) each.request_stop();
    lock.lock();
  }
}

void ClientWatch::shut_down_late() {
  const Clock::time_point now = Clock::now();
  for (const Client& each : clients_)
    if (each.read_until && now > *each.read_until) ::shutdown(each.socket, SHUT_RDWR);
}

std::list<std::stop_source> ClientWatch::find_gone() {
  std::vector<pollfd> asked;  // a negative number is passed over
  for (const Client& each : clients_)
    asked.push_back({.fd = each.read_until ? -1 : each.socket, .events = POLLRDHUP, .revents = 0});
  std::list<std::stop_source> gone;
  if (asked.empty() || ::poll(asked.data(), asked.size(), 0) <= 0) return gone;
  const Clock::time_point now = Clock::now();
  auto answer = asked.begin();
  for (Client& each : clients_) {
    const int events = (answer++)->revents;
    if (events == 0) continue;
    if (!each.closed) each.closed = now;
    if ((events & (POLLERR | POLLHUP)) != 0 || now - *each.closed >= patience_) gone.push_back(each.gone);
  }
  return gone;
}

}  // namespace tapestry::serve
