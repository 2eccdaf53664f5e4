#pragma once

#include <cerrno>
#include <csignal>

#include <semaphore.h>

namespace tapestry::detail {

/// SIGTERM and SIGINT, by which a user ends a server. They may come before `wait` is called, and in any thread: those
/// of a library such as OpenBLAS start before `main`, so that no mask of `main` is theirs.
class EndSignal {
 public:
  /// From here on the signals end the waiting, and not the process.
  EndSignal() {
    sem_init(&came, 0, 0);
    struct sigaction action {};
    action.sa_handler = [](int) { sem_post(&came); };
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
  }
  void wait() {
    while (sem_wait(&came) != 0 && errno == EINTR) {
    }
  }

 private:
  static inline sem_t came{};
};

}  // namespace tapestry::detail
