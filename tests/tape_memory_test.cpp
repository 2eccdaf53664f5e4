// What a GradientTape keeps alive, and that it holds and frees a million records without recursion.

#include <doctest/doctest.h>
#include <pthread.h>

#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tape_memory_test {

using namespace tapestry;

TEST_CASE("addition and sums keep nothing alive, multiplication keeps both operands") {
  const Tensor a = ones({1000}), b = ones({1000});
  GradientTape tape;
  tape.watch(a);
  tape.watch(b);
  const Tensor sum = reduce_sum(a + b);
  CHECK(tape.size() == 2);
  // A tape does not bother to let go of a few bytes: here the sum's four.
  CHECK(tape.bytes() <= 4);
  const Tensor product = a * b;
  CHECK(tape.bytes() <= 2 * 4000 + 4);
  CHECK(tape.bytes() >= 2 * 4000);
  const Tensor again = product * a;
  CHECK(tape.bytes() <= 3 * 4000 + 4);
  CHECK(tape.bytes() >= 3 * 4000);
}

TEST_CASE("the memory of a tensor that only the tape saw goes with the records") {
  const Tensor x = ones({100000});
  const std::int64_t before = memory_stats().in_use;
  GradientTape tape;
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y * x;
  CHECK(memory_stats().in_use - before >= 10 * 400000);
  Tensor sum = x;
  for (int i = 0; i < 10; ++i) sum = sum + x;
  // The values between are gone: the sum, and nothing but it, was added.
  CHECK(memory_stats().in_use - before < 12 * 400000);
  {
    const Tensor dx = tape.gradient(y, x);
    CHECK(dx.size() == 100000);
  }
  CHECK(tape.size() == 0);
  CHECK(tape.bytes() == 0);
  CHECK(memory_stats().in_use - before < 3 * 400000);
}

TEST_CASE("a tape that gave no gradient frees its records in the end") {
  const Tensor x = ones({100000});
  const std::int64_t before = memory_stats().in_use;
  {
    GradientTape tape({.persistent = true});
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 10; ++i) y = exp(y * 0.0);
    y = tape.gradient(y, x);
    CHECK(memory_stats().in_use > before);
  }
  CHECK(memory_stats().in_use == before);
}

TEST_CASE("a chain of a million ops on a stack of 256 kB") {
  struct Result {
    std::size_t recorded = 0;
    double value = 0, gradient = 0;
    bool freed = false;
  } result;
  const auto work = [](void* out) -> void* {
    auto& found = *static_cast<Result*>(out);
    const Tensor x = tensor<double>(0.5);
    GradientTape tape({.persistent = true});
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 500000; ++i) y = (y + x) * 0.5;  // towards x, whatever it starts from
    found.recorded = tape.size();
    found.value = y.item<double>();
    found.gradient = tape.gradient(y, x).item<double>();
    tape.reset();
    y = Tensor();
    found.freed = tape.size() == 0 && tape.bytes() == 0;
    return nullptr;
  };
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(&thread, &attributes, work, &result) == 0);
  REQUIRE(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&attributes);
  CHECK(result.recorded == 1000000);
  CHECK(result.value == 0.5);
  CHECK(result.gradient == 1);
  CHECK(result.freed);
}

TEST_CASE("a chain of a million ops that a tape consumes or drops without a gradient") {
  const Tensor x = tensor<double>(1.0);
  for (const bool differentiate : {true, false}) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = x;
    for (int i = 0; i < 1000000; ++i) y = negative(y);
    CHECK(tape.size() == 1000000);
    if (differentiate) CHECK(tape.gradient(y, x).item<double>() == 1);
  }
}

}  // namespace tape_memory_test
