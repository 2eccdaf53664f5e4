// What a user may give a function by mistake, drawn at random: the same result everywhere, or an error.

#include "op_cases/odd_calls.hpp"

#include <doctest/doctest.h>

#include "environment.hpp"

namespace tapestry::test::odd_calls_test {

TEST_CASE("odd calls give the same everywhere, or errors that name the op and the line") {
  const OddSearch search = search_odd_calls(seed_of_cases(1), number_of_cases(4000));
  MESSAGE(search.ran, " calls ran, ", search.refused, " were refused, ", search.traced, " traces ran, too");
  for (const std::string& each : search.faults) FAIL_CHECK(each);
  CHECK(search.ran * 4 > search.refused);
  CHECK(search.refused * 4 > search.ran);
}

}  // namespace tapestry::test::odd_calls_test
