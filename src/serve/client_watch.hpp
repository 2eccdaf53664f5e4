#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

namespace tapestry::serve {

/// Watches the clients whose requests are read or answered. A thread looks at them ten times a second, and sleeps while
/// there are none.
///
/// * A request that takes too long to arrive, also byte by byte, has its connection shut down.
/// * A client that breaks its connection while its request is being answered has gone. One whose sending side is closed
///   may have gone, or have said all and wait: TCP does not tell. Its request has `patience` to end.
class ClientWatch {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ClientWatch(std::chrono::milliseconds patience = std::chrono::seconds(1)) : patience_(patience) {}
  ClientWatch(const ClientWatch&) = delete;
  ClientWatch& operator=(const ClientWatch&) = delete;
  ~ClientWatch();

 private:
  struct Client {
    int socket;
    std::optional<Clock::time_point> read_until{};  ///< nothing: the request is there, and is being answered
    std::stop_source gone{std::nostopstate};
    std::optional<Clock::time_point> closed{};  ///< since when nothing more can come
  };

 public:
  /// A client, whose socket must stay open meanwhile.
  class Watched {
   public:
    /// A request is being read.
    Watched(ClientWatch& watch, int socket, Clock::time_point read_until);
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;
    ~Watched();
    void read_until(Clock::time_point time);
    /// The request is being answered from now on. A stop is requested when the client has gone.
    std::stop_token answer();

   private:
    ClientWatch& watch_;
    std::list<Client>::iterator client_;
  };

 private:
  void look();
  /// Both are called with the lock held. Returns the clients that have gone.
  std::list<std::stop_source> find_gone();
  void shut_down_late();

  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Client> clients_;
  bool stop_ = false;
  std::thread looker_;  ///< from the first request on
};

}  // namespace tapestry::serve
