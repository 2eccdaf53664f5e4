// Temporary arguments, which an op releases and in whose memory it may compute.

#include <set>

#include <doctest/doctest.h>

#include "call_collector.hpp"
#include "dispatch/tape_limits.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::temporaries_test {
namespace {

/// A call of each elementwise op of the table, for all dtypes of inputs that occur there.
std::vector<Call> elementwise_calls() {
  std::vector<Call> found;
  std::set<std::string> seen;
  for (const OpCase& row : op_cases()) {
    CallCollector here;
    row.f(row.inputs);
    for (Call& call : here.calls) {
      if (!call.op().forward || !call.op().forward.is_elementwise()) continue;
      std::string key = call.type();
      for (const Tensor& input : call.inputs()) key += ' ' + to_string(input.dtype());
      if (seen.insert(key).second) found.push_back(std::move(call));
    }
  }
  return found;
}

/// The same elements in memory of their own. A tape records it.
Tensor copy(const Tensor& x) { return where(ones_like(x).cast(boolean), x, x); }

/// The call's output, computed from copies of its inputs of which some are temporaries, and its gradients.
struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
  bool in_place = false;  ///< whether the output has the memory of a temporary
};
template <class IsTemporary>
Outcome outcome(const Call& call, IsTemporary is_temporary) {
  const Tensors& inputs = call.inputs();
  GradientTape tape;
  std::vector<Tensor> sources;
  for (const Tensor& input : inputs)
    if (is_floating(input.dtype())) sources.push_back(input);
  tape.watch(sources);
  std::vector<Tensor> copies;
  std::vector<const void*> memory;
  for (const Tensor& input : inputs) {
    copies.push_back(copy(input));
    memory.push_back(copies.back().impl().data);
  }
  const auto in = [&](std::size_t i) { return is_temporary(i) ? In(std::move(copies[i])) : In(copies[i]); };
  Outcome result;
  switch (inputs.size()) {
    case 1:
      result.y = apply(call.op(), {in(0)}, call.attrs());
      break;
    case 2:
      result.y = apply(call.op(), {in(0), in(1)}, call.attrs());
      break;
    case 3:
      result.y = apply(call.op(), {in(0), in(1), in(2)}, call.attrs());
      break;
    default:
      FAIL("an op of ", inputs.size(), " inputs");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    CHECK(bool(copies[i]) != is_temporary(i));
    result.in_place |= is_temporary(i) && memory[i] == result.y.impl().data;
  }
  if (is_floating(result.y.dtype()) && !sources.empty())
    result.gradients = tape.gradient(result.y, sources, {.unconnected = Unconnected::zero});
  return result;
}

}  // namespace

TEST_CASE("elementwise ops give the same bits and gradients when they overwrite temporaries") {
  const std::size_t strip_above = std::exchange(strip_above_bytes, 0);
  int calls = 0, in_place = 0;
  for (const Call& call : elementwise_calls()) {
    CAPTURE(call.type());
    const Outcome expected = outcome(call, [](std::size_t) { return false; });
    const std::size_t count = call.inputs().size();
    for (std::size_t given = 0; given <= count; ++given) {  // one of the inputs, or all
      CAPTURE(given);
      const Outcome actual = outcome(call, [&](std::size_t i) { return i == given || given == count; });
      CHECK(same_bits(actual.y, expected.y));
      REQUIRE(actual.gradients.size() == expected.gradients.size());
      for (std::size_t i = 0; i < actual.gradients.size(); ++i)
        CHECK(same_bits(actual.gradients[i], expected.gradients[i]));
      in_place += static_cast<int>(actual.in_place);
    }
    ++calls;
  }
  strip_above_bytes = strip_above;
  MESSAGE(calls, " calls, ", in_place, " in place");
  CHECK(calls > 60);
  CHECK(in_place > 40);
}

TEST_CASE("an op overwrites a temporary beside an operand in another layout") {
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{{7, 5}, {300, 517}, {3, 2000}})
    for (const DType dtype : {float32, float16, int64}) {
      const auto numbers = [dtype = dtype](std::int64_t size) { return (arange(size) / 7 + 1.0).cast(dtype); };
      const Tensor x = reshape(numbers(rows * columns), {rows, columns});
      const std::vector<Tensor> others{transpose(reshape(numbers(rows * columns), {columns, rows})),
                                       reshape(numbers(2 * rows * columns), {rows, 2 * columns})(all, range(0, {}, 2)),
                                       flip(x, {0, 1}),
                                       numbers(columns),
                                       reshape(numbers(rows), {rows, 1}),
                                       broadcast_to(numbers(columns), {rows, columns})};
      for (const Tensor& other : others) {
        CAPTURE(other.shape());
        CHECK(same_bits(other - copy(x), other - x));
        CHECK(same_bits(copy(x) - other, x - other));
        CHECK(same_bits(where(other > x, copy(x), other), where(other > x, x, other)));
        CHECK(same_bits(clip(other, 2, copy(x)), clip(other, 2, x)));
      }
    }
}

TEST_CASE("a temporary lives no longer than the op that takes it") {
  const Tensor x = ones({1 << 18});
  const auto peak = [&](auto&& f) {
    trim_memory();
    reset_peak_memory();
    const std::int64_t before = memory_stats().in_use;
    f();
    return static_cast<double>(memory_stats().peak - before) / (sizeof(float) << 18);
  };
  const auto chain = [&] { return tanh(1.5 * x + 0.25) * sigmoid(x) + exp(-x * x); };
  CHECK(peak(chain) < 3.1);
  CHECK(peak([&] {
          GradientTape tape;
          tape.watch(x);
          const Tensor y = reduce_sum(chain());
          tape.gradient(y, x);
        }) < 6.1);
}

TEST_CASE("a tensor that is moved into an op is empty afterwards, unless the op refuses it") {
  Tensor x = ones({2, 3});
  const Tensor same = x;
  CHECK(same_bits(exp(std::move(x)), exp(same)));
  CHECK_FALSE(bool(x));  // NOLINT(bugprone-use-after-move)

  Tensor y = ones({2, 3});
  TAPESTRY_REFUSED(InvalidArgumentError, "Incompatible shapes", std::move(y) + ones({4, 5}));
  check_values(y, {1, 1, 1, 1, 1, 1});  // NOLINT(bugprone-use-after-move)

  // What else uses the elements keeps them.
  Tensor z = ones({4});
  const Tensor view = z(range(0, 2));
  const Tensor negated = -std::move(z);
  check_values(view, {1, 1});
  Tensor twice = full({2}, 3.0);
  check_values(std::move(twice) * twice, {9, 9});  // NOLINT(bugprone-use-after-move)
}

}  // namespace tapestry::test::temporaries_test
