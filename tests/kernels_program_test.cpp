// Programs run block by block against the same programs run op by op: equal bits for every function, element type,
// layout and number of threads.

#include <vector>

#include <doctest/doctest.h>

#include "program_cases.hpp"
#include "toy_backend.hpp"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

/// Whether the blocks give the bits of the single ops, with any number of threads.
bool agrees(const Program& program, const List& inputs, const Shape& shape) {
  const List expected = outputs_of(program, shape);
  cpu_backend().Backend::program(program, inputs, expected);
  const int before = num_threads();
  bool same = true;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const List found = outputs_of(program, shape);
    cpu_backend().program(program, inputs, found);
    for (std::size_t i = 0; i < found.size(); ++i) same = same && same_bits(found[i], expected[i]);
  }
  set_num_threads(before);
  return same;
}

void check_function(const ElementFunction& f) {
  for (const DType dtype : dtypes_and_halves) {
    const DType result = result_of(f, dtype);
    if (result == DType::unknown) continue;
    CAPTURE(to_string(f));
    CAPTURE(to_string(dtype));
    for (const std::int64_t n : {1, 77, 5000}) CHECK(agrees(single(f, result), operands_for(f, dtype, {n}), {n}));
    List scalars = operands_for(f, dtype, {});
    CHECK(agrees(single(f, result), scalars, {300}));
  }
}

}  // namespace

TEST_CASE("every function gives in a program the bits that it gives alone") {
  for (const Unary f : functions<Unary>()) check_function(f);
  for (const Binary f : functions<Binary>()) check_function(f);
  for (const Ternary f : functions<Ternary>()) check_function(f);
  for (const DType from : dtypes_and_halves)
    for (const DType to : dtypes_and_halves) {
      CAPTURE(to_string(from) + " to " + to_string(to));
      CHECK(agrees(single(Convert{}, to), {random_tensor(from, {1500})}, {1500}));
      CHECK(agrees(single(Convert{}, to), {random_tensor(from, {})}, {1500}));
    }
}

TEST_CASE("inputs are broadcast and may have any layout") {
  for_each_layout([](const List& inputs, const Shape& shape) {
    CAPTURE(to_string(shape));
    CHECK(agrees(sample(), inputs, shape));
  });
}

TEST_CASE("results that do not fit the caches are written past them") {
  const Shape shape{9, 1000, 1001};
  CHECK(agrees(sample(),
               {random_tensor(float32, shape), random_tensor(float32, {1000, 1}, 2), random_tensor(float32, {1001}, 3),
                random_tensor(float32, {}, 4)},
               shape));
}

TEST_CASE("programs of all sizes, types and registers") {
  for_each_random_program(200, [](const Program& program, const List& inputs, const Shape& shape) {
    CAPTURE(to_string(program));
    REQUIRE(program.operands() <= Program::max_operands);
    CHECK(agrees(program, inputs, shape));
  });
}

TEST_CASE("a device without a kernel of its own runs a program op by op") {
  const Device toy = tapestry::test::toy_device();
  const Shape shape{6, 50};
  List inputs, there;
  for (unsigned i = 0; i < 4; ++i) inputs.push_back(random_tensor(float32, i == 2 ? Shape{50} : shape, i));
  for (const Tensor& input : inputs) there.push_back(input.to(toy));
  const List expected = outputs_of(sample(), shape), found = outputs_of(sample(), shape, toy);
  cpu_backend().program(sample(), inputs, expected);
  const std::int64_t before = tapestry::test::toy_backend().kernels();
  backend_of(toy).program(sample(), there, found);
  CHECK(tapestry::test::toy_backend().kernels() == before + 6);
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i].to(cpu()), expected[i]));
}

TEST_CASE("a program as text") {
  CHECK(to_string(sample()) ==
        "r0 = multiply(x0, x1); y0 = tanh(r0); r1 = less(y0, x2); r0 = select(r1, x3, r0); y1 = convert(r0); "
        "y2 = logical_not(r1)");
}
