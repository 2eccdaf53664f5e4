// Every op and its gradient on operands in any layout on a CUDA device, against row-major copies of them.

#include <doctest/doctest.h>

#include "environment.hpp"
#include "op_cases/layouts.hpp"

namespace tapestry::test {

TEST_SUITE("CUDA device") {
  TEST_CASE("no layout of operands makes a difference") {
    const LayoutSearch search = search_layouts(cuda(0), seed_of_cases(2), number_of_cases(200));
    MESSAGE(search.ran, " cases ran, ", search.refused, " were refused, ", search.traced, " ran as a plan, too");
    for (const std::string& each : search.differences) FAIL_CHECK(each);
    CHECK(search.ran > search.refused);
  }
}

}  // namespace tapestry::test
