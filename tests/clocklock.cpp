// The thread sanitizers of g++ 12 and clang 14 do not see pthread_mutex_clocklock, with which std::timed_mutex waits,
// and take what follows for faults. In programs that are built with one this stands in its place: they see the other
// function.

#include <ctime>

#include <pthread.h>

extern "C" int clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* end) noexcept
    __asm__("pthread_mutex_clocklock");

int clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* end) noexcept {
  timespec there{}, here{};
  clock_gettime(clock, &there);
  clock_gettime(CLOCK_REALTIME, &here);
  constexpr long second = 1'000'000'000;
  timespec until{.tv_sec = here.tv_sec + end->tv_sec - there.tv_sec,
                 .tv_nsec = here.tv_nsec + end->tv_nsec - there.tv_nsec};
  for (; until.tv_nsec < 0; until.tv_nsec += second) --until.tv_sec;
  for (; until.tv_nsec >= second; until.tv_nsec -= second) ++until.tv_sec;
  return pthread_mutex_timedlock(mutex, &until);
}
