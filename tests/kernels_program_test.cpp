// Programs run block by block against the same programs run op by op: equal bits for every function, element type,
// layout and number of threads.

#include <random>
#include <vector>

#include <doctest/doctest.h>

#include "backend/program.hpp"
#include "kernels_support.hpp"
#include "tapestry/error.hpp"
#include "toy_backend.hpp"

using namespace tapestry;
using namespace tapestry::testing;

namespace {

using Instruction = Program::Instruction;
using List = std::vector<Tensor>;

List outputs_of(const Program& program, const Shape& shape, Device device = cpu()) {
  List outputs(static_cast<std::size_t>(program.outputs));
  for (const Instruction& each : program.instructions)
    if (!program.is_register(each.result))
      outputs[each.result - static_cast<std::size_t>(program.inputs)] = detail::make_tensor(each.dtype, shape, device);
  return outputs;
}

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

template <class F>
std::vector<F> functions() {
  std::vector<F> list;
  const F last = [] {
    if constexpr (std::is_same_v<F, Unary>) return Unary::logical_not;
    if constexpr (std::is_same_v<F, Binary>) return Binary::logical_or;
    if constexpr (std::is_same_v<F, Ternary>) return Ternary::select;
  }();
  for (int i = 0; i <= static_cast<int>(last); ++i) list.push_back(static_cast<F>(i));
  return list;
}

/// The type of f's result on operands of a type, found by trying; `unknown` where the type does not have f.
DType result_of(const ElementFunction& f, DType operand) {
  const bool predicate = f.index() == 1 ? std::get<Unary>(f) == Unary::is_nan || std::get<Unary>(f) == Unary::is_finite
                                        : f.index() == 2 && std::get<Binary>(f) >= Binary::equal &&
                                              std::get<Binary>(f) <= Binary::logical_or;
  const DType result = predicate ? boolean : operand;
  const Tensor x = tensor_of(operand, {1}, {1});
  try {
    if (f.index() == 1) cpu_backend().unary(std::get<Unary>(f), x, 0.25, empty(result, {1}));
    if (f.index() == 2) cpu_backend().binary(std::get<Binary>(f), x, x, 0.25, empty(result, {1}));
    if (f.index() == 3) cpu_backend().ternary(std::get<Ternary>(f), x, x, x, empty(result, {1}));
  } catch (const InvalidArgumentError&) {
    return DType::unknown;
  }
  return result;
}

/// y0 = f(x0, x1, x2)
Program single(const ElementFunction& f, DType result) {
  const int inputs = operands_of(f);
  Instruction instruction{f, {}, static_cast<std::uint8_t>(inputs), result, 0.25};
  for (int i = 0; i < inputs; ++i) instruction.operands[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
  return {.instructions = {instruction}, .inputs = inputs, .outputs = 1};
}

/// Operands for f that no integer division objects to.
List operands_for(const ElementFunction& f, DType dtype, const Shape& shape) {
  List list;
  for (int i = 0; i < operands_of(f); ++i) {
    const bool condition = f == ElementFunction(Ternary::select) && i == 0;
    Tensor x = random_tensor(condition ? boolean : dtype, shape, static_cast<unsigned>(i + 1));
    if (i == 1 && is_integer(dtype)) {
      const Tensor one = tensor_of(dtype, {}, {1}), positive = empty(dtype, shape);
      cpu_backend().binary(Binary::maximum, x, one, 0, positive);
      x = positive;
    }
    list.push_back(x);
  }
  return list;
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

/// r0 = x0 * x1; y0 = tanh(r0); r1 = y0 < x2; r0 = select(r1, x3, r0); y1 = convert(r0); y2 = r1
Program sample() {
  Program program{.instructions = {}, .inputs = 4, .outputs = 3, .registers = 2};
  constexpr std::uint8_t y0 = 4, y1 = 5, y2 = 6, r0 = 7, r1 = 8;
  program.instructions = {{Binary::multiply, {0, 1}, r0, float32, 0}, {Unary::tanh, {r0}, y0, float32, 0},
                          {Binary::less, {y0, 2}, r1, boolean, 0},    {Ternary::select, {r1, 3, r0}, r0, float32, 0},
                          {Convert{}, {r0}, y1, float64, 0},          {Unary::logical_not, {r1}, y2, boolean, 0}};
  return program;
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
  const Program program = sample();
  const std::vector<Shape> shapes = {{},
                                     {1},
                                     {0},
                                     {7},
                                     {3, 0, 2},
                                     {1, 1, 1},
                                     {33, 70},
                                     {5, 1000},
                                     {3, 1300},
                                     {700, 3},
                                     {40000},
                                     {20, 64, 65},
                                     {2, 1, 3, 2, 1, 5, 4, 3}};
  for (const Shape& shape : shapes) {
    const Tensor full = random_tensor(float32, shape, 1);
    List choices = {full, twisted(full), random_tensor(float32, {}, 2)};
    for (int axis = 0; axis < shape.rank(); ++axis) {
      Shape one = shape;
      one.set(axis, 1);
      choices.push_back(random_tensor(float32, one, 3));  // a column, or a row, or a plane
      choices.push_back(repeated(full, 1U << axis));      // the same as a view
      Shape inner;
      for (int i = axis; i < shape.rank(); ++i) inner.push_back(shape[i]);
      choices.push_back(random_tensor(float32, inner, 4));
    }
    for (std::size_t i = 0; i < choices.size(); ++i) {
      CAPTURE(to_string(shape));
      CAPTURE(i);
      const auto choice = [&](std::size_t step) { return choices[(i * step + step - 1) % choices.size()]; };
      CHECK(agrees(program, {choices[i], full, choice(3), choice(5)}, shape));
      CHECK(agrees(program, {full, choice(7), choices[i], choice(2)}, shape));
    }
  }
}

TEST_CASE("results that do not fit the caches are written past them") {
  const Shape shape{9, 1000, 1001};
  CHECK(agrees(sample(),
               {random_tensor(float32, shape), random_tensor(float32, {1000, 1}, 2), random_tensor(float32, {1001}, 3),
                random_tensor(float32, {}, 4)},
               shape));
}

TEST_CASE("programs of all sizes, types and registers") {
  std::mt19937 generator(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(generator()) % n; };
  for (int round = 0; round < 200; ++round) {
    const Shape shape = std::vector<Shape>{{1 + static_cast<std::int64_t>(below(3000))}, {17, 40}, {3, 700}}[below(3)];
    const std::size_t inputs = 1 + below(12),
                      count = 1 + below(static_cast<std::size_t>(Program::max_instructions - 12));
    Program program{.instructions = {}, .inputs = static_cast<int>(inputs), .outputs = 1, .registers = 0};
    List values;
    std::vector<std::pair<std::uint8_t, DType>> known;  // operands that have a value
    const bool bytes_only = round % 5 == 0;
    for (std::size_t i = 0; i < inputs; ++i) {
      const DType dtype = bytes_only ? boolean : dtypes_and_halves[below(dtypes_and_halves.size())];
      const Shape own = std::vector<Shape>{shape, {}, {shape.back()}}[below(3)];
      values.push_back(random_tensor(dtype, own, static_cast<unsigned>(generator())));
      known.emplace_back(static_cast<std::uint8_t>(i), dtype);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const auto [a, dtype] = known[below(known.size())];
      auto [b, other] = known[below(known.size())];
      if (other != dtype) b = a;
      const ElementFunction choices[] = {Binary::equal,  Binary::maximum, Unary::negative, Unary::logical_not,
                                         Unary::sigmoid, Binary::add,     Binary::less,    Convert{}};
      ElementFunction f = choices[below(std::size(choices))];
      if (result_of(f, dtype) == DType::unknown) f = Binary::equal;
      DType result = f.index() == 0 ? dtypes_and_halves[below(dtypes_and_halves.size())] : result_of(f, dtype);
      if (bytes_only) {
        result = boolean;
        f = Binary::equal;
      }
      const bool last = i + 1 == count;
      const int place = last ? program.inputs : program.inputs + program.outputs + program.registers++;
      program.instructions.push_back({f, {a, b}, static_cast<std::uint8_t>(place), result, 0});
      known.emplace_back(static_cast<std::uint8_t>(place), result);
    }
    CAPTURE(round);
    CAPTURE(to_string(program));
    REQUIRE(program.operands() <= Program::max_operands);
    CHECK(agrees(program, values, shape));
  }
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
