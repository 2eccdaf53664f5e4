// Runs random programs in all ways; prints the first that gives different results, as short as possible, and fails.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "fuzz/programs.hpp"

namespace {

using namespace tapestry::test::programs;

constexpr const char* usage =
    "usage: programs [--seed N] [--cases N] [--seconds N] [--all] [--print]\n"
    "  --seed N     program number N is the first (1)\n"
    "  --cases N    how many programs (1000)\n"
    "  --seconds N  ends after so many seconds; 0: never (0)\n"
    "  --all        goes on after a difference\n"
    "  --print      prints each program before it runs\n";

/// For the message of a crash.
volatile std::sig_atomic_t current_program;

extern "C" void crashed(int signal) {
  std::fprintf(stderr, "signal %d in program %ld: --seed %ld --cases 1 --print\n", signal,
               static_cast<long>(current_program), static_cast<long>(current_program));
  std::_Exit(1);
}

void report(const Program& program, const Difference& first) {
  std::cout << "Program " << program.seed << " differs: " << first.where << "\n  " << first.what << '\n';
  // The same way to run it, and no error where values differed.
  const auto kind = [](const Difference& each) {
    return each.where + (each.what.find("refused") == std::string::npos ? "" : ", refused");
  };
  const Program small = shrunk(program, [&](const Program& each) {
    const auto found = difference(each);
    return found && kind(*found) == kind(first);
  });
  const auto left = difference(small);
  std::cout << to_string(small) << "// " << left->where << ": " << left->what << "\n" << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  unsigned long seed = 1, cases = 1000, seconds = 0;
  bool all = false, print = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    unsigned long* const number = argument == "--seed"      ? &seed
                                  : argument == "--cases"   ? &cases
                                  : argument == "--seconds" ? &seconds
                                                            : nullptr;
    if (argument == "--all") {
      all = true;
    } else if (argument == "--print") {
      print = true;
    } else if (number && i + 1 < argc) {
      *number = std::stoul(argv[++i]);
    } else {
      std::cerr << usage;
      return argument == "--help" ? 0 : 2;
    }
  }
  for (const int signal : {SIGSEGV, SIGFPE, SIGABRT, SIGILL, SIGBUS}) std::signal(signal, crashed);

  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::size_t failed = 0, done = 0;
  for (; done < cases && (seconds == 0 || std::chrono::steady_clock::now() < end); ++done) {
    const unsigned long number = seed + done;
    current_program = static_cast<std::sig_atomic_t>(number);
    const Program program = Generator(number).program();
    if (print) std::cout << to_string(program) << std::endl;
    const auto found = difference(program);
    if (!found) continue;
    report(program, *found);
    ++failed;
    if (!all) break;
  }
  const Statistics& counted = statistics();
  std::cout << done << " programs, " << failed << " with a difference; of " << counted.programs << " runs with "
            << counted.steps << " steps " << counted.refused << " were refused, " << counted.unknown
            << " had unknown sizes, of which " << counted.size_needed << " used one as a number; "
            << counted.not_written << " could not be written" << std::endl;
  return failed == 0 ? 0 : 1;
}
