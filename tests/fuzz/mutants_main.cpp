// Reads and uses damaged files, one after the other, under a sanitizer: each within so much time and memory.

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

#include <sys/time.h>
#include <unistd.h>

#include "fuzz/mutants.hpp"
#include "sanitizers.hpp"
#include "tapestry/error.hpp"

// Of the sanitizers' runtime; absent without one.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::weak]] int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t),
                                                            void (*)(const volatile void*));
[[gnu::weak]] std::size_t __sanitizer_get_allocated_size(const volatile void*);
[[gnu::weak]] void __sanitizer_set_death_callback(void (*)());
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

using tapestry::test::Dice;
using tapestry::test::Mutants;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t most_bytes = std::int64_t{256} << 20;
/// Of all threads; a case that computes too long. The thread sanitizer makes everything some ten times as slow.
constexpr int most_cpu_seconds = tapestry::test::thread_sanitizer ? 20 : 2;
constexpr int most_wall_seconds = 60;  ///< a case that waits for ever, on a machine that others use, too

std::string current;   ///< the file that is being read
std::string findings;  ///< where a bad one is kept
std::uint64_t current_case = 0;
std::atomic<std::int64_t> live_bytes{0}, peak_bytes{0};

void keep_current() {
  std::ofstream(findings, std::ios::binary).write(current.data(), static_cast<std::streamsize>(current.size()));
  std::fprintf(stderr, "FINDING in case %llu, kept in %s\n", static_cast<unsigned long long>(current_case),
               findings.c_str());
}

[[noreturn]] void die(const char* reason) {
  std::fprintf(stderr, "%s\n", reason);
  std::abort();  // a sanitizer's stack trace, and the death callback
}

void on_signal(int number) {
  die(number == SIGPROF ? "the case takes too many seconds of computing" : "the case takes more than 60 s");
}

void on_malloc(const volatile void*, std::size_t size) {
  const std::int64_t now = live_bytes += static_cast<std::int64_t>(size);
  if (now > peak_bytes) peak_bytes = now;
  if (now > most_bytes) {
    live_bytes = 0;
    std::fprintf(stderr, "an allocation of %zu bytes\n", size);
    die("the case takes more than 256 MiB");
  }
}
void on_free(const volatile void* pointer) {
  if (pointer) live_bytes -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(pointer));
}

void limit_time() {
  const auto set = [](int timer, int seconds) {
    const itimerval value{{0, 0}, {seconds, 0}};
    setitimer(static_cast<__itimer_which_t>(timer), &value, nullptr);
  };
  set(ITIMER_PROF, most_cpu_seconds);
  set(ITIMER_REAL, most_wall_seconds);
}

int usage() {
  std::cerr << "usage: fuzz_mutants KIND [--cases N] [--seconds N] [--seed N] [--first N] [--findings FOLDER]\n"
               "KIND is one of";
  for (const auto& [each, count] : tapestry::test::all_mutants()) std::cerr << ' ' << each.name;
  std::cerr << ".\nStops at the first finding; --first N --cases 1 repeats case N.\n";
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc % 2 != 0) return usage();
  std::uint64_t cases = UINT64_MAX, seconds = UINT64_MAX, seed = 1, first = 0;
  std::string folder = ".";
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const auto number = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--cases") {
      cases = number;
    } else if (option == "--seconds") {
      seconds = number;
    } else if (option == "--seed") {
      seed = number;
    } else if (option == "--first") {
      first = number;
    } else if (option == "--findings") {
      folder = argv[i + 1];
    } else {
      return usage();
    }
  }
  Mutants mutants;
  for (const auto& [each, count] : tapestry::test::all_mutants())
    if (each.name == argv[1]) mutants = each;
  if (!mutants.make) return usage();

  std::signal(SIGPROF, on_signal);
  std::signal(SIGALRM, on_signal);
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(keep_current);
  const auto start = Clock::now();
  const auto elapsed = [&] {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - start).count());
  };
  std::uint64_t done = 0, accepted = 0;
  double longest = 0;
  for (; done < cases && elapsed() < seconds; ++done) {
    current_case = first + done;
    Dice dice(seed, current_case);
    findings = folder + "/" + mutants.name + "-" + std::to_string(seed) + "-" + std::to_string(current_case);
    current = mutants.make(dice);
    if (done == 0 && __sanitizer_install_malloc_and_free_hooks)
      __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    live_bytes = 0;
    limit_time();
    const auto before = std::clock();
    try {
      accepted += mutants.use(current, dice);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      keep_current();
      return 1;
    }
    longest = std::max(longest, static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC);
  }
  std::printf("%s: %llu cases, %llu accepted, %llu s; at most %.2f s and %.1f MiB for one\n", mutants.name.c_str(),
              static_cast<unsigned long long>(done), static_cast<unsigned long long>(accepted),
              static_cast<unsigned long long>(elapsed()), longest, static_cast<double>(peak_bytes) / (1 << 20));
}
