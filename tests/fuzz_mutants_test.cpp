// Damaged files of each kind, by a fixed seed; tools/fuzz reads many more under sanitizers.

#include <doctest/doctest.h>

#include "fuzz/mutants.hpp"

namespace tapestry::test::fuzz_mutants_test {

TEST_CASE("damaged files are refused or make sense") {
  for (const auto& row : all_mutants()) {
    const Mutants& mutants = row.first;
    const std::uint64_t cases = row.second;
    std::uint64_t accepted = 0;
    for (std::uint64_t i = 0; i < cases; ++i) {
      Dice dice(2, i);
      const std::string bytes = mutants.make(dice);
      INFO(mutants.name, ", seed 2, case ", i);
      CHECK_NOTHROW(accepted += mutants.use(bytes, dice));
    }
    CHECK(accepted > cases / 20);  // else the damage is of a kind that every reader sees at once
  }
}

TEST_CASE("the same dice give the same file") {
  for (const auto& row : all_mutants()) {
    const Mutants& mutants = row.first;
    CAPTURE(mutants.name);
    for (std::uint64_t i = 0; i < 20; ++i) {
      Dice dice(3, i), same(3, i);
      CHECK(mutants.make(dice) == mutants.make(same));
    }
  }
}

}  // namespace tapestry::test::fuzz_mutants_test
