#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "memory_plugin.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {

/// A channel that delays calls, and loses requests and replies.
class FaultyChannel final : public detail::WaitingChannel {
 public:
  FaultyChannel(std::shared_ptr<detail::Channel> channel, std::uint64_t seed)
      : channel_(std::move(channel)), random_(seed) {}
  FaultyChannel(const FaultyChannel&) = delete;
  FaultyChannel& operator=(const FaultyChannel&) = delete;
  ~FaultyChannel() override { finish(); }

  detail::Reply call(const std::string& method, detail::Pieces request, const detail::CallOptions& options) override {
    std::uint64_t fate = 0;
    {
      const std::lock_guard lock(mutex_);
      fate = random_();
    }
    const bool may_fail = method.ends_with("RunGraph") || method.ends_with("RecvTensor") ||
                          method.ends_with("RegisterGraph") || method.ends_with("CleanupGraph");
    if (fate % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(fate / 4 % 500));
    if (may_fail && fate % 31 == 0) throw UnavailableError("the request was lost");
    detail::Reply reply = channel_->call(method, std::move(request), options);
    if (may_fail && fate % 37 == 0) throw UnavailableError("the reply was lost");
    return reply;
  }

 private:
  std::shared_ptr<detail::Channel> channel_;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

/// The memory transport, which counts the calls of each method, and has faults between tasks if it has a seed.
class CountingTransport final : public detail::Transport {
 public:
  std::shared_ptr<detail::Channel> connect(const std::string& address) override {
    auto channel = detail::memory_transport().connect(address);
    if (seed == 0) return channel;
    return std::make_shared<FaultyChannel>(std::move(channel), seed++);
  }
  std::unique_ptr<detail::Listener> listen(const detail::ListenOptions& options,
                                           detail::RequestHandler handler) override {
    return detail::memory_transport().listen(
        options, [this, handler](std::string_view method, std::string_view request, std::stop_token stop) {
          {
            const std::lock_guard lock(mutex_);
            ++calls_[std::string(method.substr(method.rfind('/') + 1))];
          }
          return handler(method, request, std::move(stop));
        });
  }
  int calls(const std::string& method) {
    const std::lock_guard lock(mutex_);
    return calls_[method];
  }

  std::atomic<std::uint64_t> seed = 0;

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
};

/// Two parameter servers, and two workers or more, over memory.
class Cluster {
 public:
  explicit Cluster(int first_port, const ServerOptions& options = {}, std::uint64_t seed = 0, int workers = 2)
      : options_(options) {
    transport.seed = seed;
    std::vector<std::string> addresses;
    for (int i = 0; i < 2 + workers; ++i) addresses.push_back("localhost:" + std::to_string(first_port + i));
    spec = ClusterSpec({{"ps", {addresses[0], addresses[1]}}, {"worker", {addresses.begin() + 2, addresses.end()}}});
    for (const int task : {0, 1}) start("ps", task);
    for (int task = 0; task < workers; ++task) start("worker", task);
  }
  void start(const std::string& job, int task) {
    ServerOptions own = options_;
    own.job = job, own.task = task;
    servers_[job + std::to_string(task)] = detail::make_master(transport, "memory", spec, own);
  }
  void kill(const std::string& name) {
    servers_.at(name)->stop();
    servers_.erase(name);
  }
  std::string target(const std::string& name = "worker0") const { return servers_.at(name)->target(); }

  CountingTransport transport;
  ClusterSpec spec;

 private:
  ServerOptions options_;
  std::map<std::string, std::shared_ptr<Server::Service>> servers_;
};

}  // namespace tapestry::test
