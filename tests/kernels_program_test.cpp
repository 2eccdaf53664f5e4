// Programs run block by block against the same programs run op by op: equal bits for every function, element type,
// layout and number of threads.

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "backend/cpu/compiled_program.hpp"
#include "backend/cpu/levels.hpp"
#include "backend/views.hpp"
#include "environment.hpp"
#include "program_cases.hpp"
#include "toy_backend.hpp"

namespace kernels_program_test {

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
    for (std::size_t i = 0; i < found.size(); ++i) same = same && same_results(found[i], expected[i]);
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

/// The formula of a function in functors.hpp, as text.
std::string formula_of(const ElementFunction& function) {
#define TAPESTRY_TEXT(name, formula) \
  if (function == ElementFunction(Family::name)) return #formula;
  {
    using Family = Unary;
    TAPESTRY_UNARY_FLOAT(TAPESTRY_TEXT)
    TAPESTRY_UNARY_NUMBER(TAPESTRY_TEXT)
  }
  {
    using Family = Binary;
    TAPESTRY_BINARY_NUMBER(TAPESTRY_TEXT)
    TAPESTRY_BINARY_FLOAT(TAPESTRY_TEXT)
  }
#undef TAPESTRY_TEXT
  return {};
}

/// Whether there is machine code for a function: it calls none of libm's, and divides no whole numbers.
bool has_code(const ElementFunction& function, DType dtype) {
  const std::string formula = formula_of(function);
  const auto calls = [&formula](const char* name) {
    return formula.find(std::string("math::") + name + '(') != std::string::npos;
  };
  const auto calls_any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), calls);
  };
  if (calls_any({"sin", "cos", "tan", "floor_mod"})) return false;
  if (is_integer(dtype)) return !calls_any({"floor_divide", "power"});
  return dtype != float64 || !calls_any({"asin", "acos", "atan", "atan2", "sinh", "cosh", "erf", "power"});
}

/// Every function of a type to itself that has machine code for it.
std::vector<ElementFunction> compiled_functions(DType dtype) {
  std::vector<ElementFunction> list;
  const auto add = [&](const auto& functions) {
    for (const auto f : functions)
      if (result_of(f, dtype) == dtype && has_code(f, dtype)) list.push_back(f);
  };
  add(functions<Unary>());
  add(functions<Binary>());
  if (result_of(Ternary::clip, dtype) == dtype) list.emplace_back(Ternary::clip);
  return list;
}

/// r0 = x0 * x1; y0 = tanh(r0); r1 = sigmoid(x2); y1 = r1 + x3; y2 = y0 * r1
Program float_sample() {
  constexpr std::uint8_t y0 = 4, y1 = 5, y2 = 6, r0 = 7, r1 = 8;
  return {.instructions = {{Binary::multiply, {0, 1}, r0, float32, 0},
                           {Unary::tanh, {r0}, y0, float32, 0},
                           {Unary::sigmoid, {2}, r1, float32, 0},
                           {Binary::add, {r1, 3}, y1, float32, 0},
                           {Binary::multiply, {y0, r1}, y2, float32, 0}},
          .inputs = 4,
          .outputs = 3,
          .registers = 2};
}

/// Operands of three inputs: all pairs of numbers at which functions change their ways, and some around them.
List awkward_operands() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> numbers = {0,
                                0.5F,
                                1.5F,
                                2.5F,
                                1,
                                3,
                                10,
                                20,
                                87.5F,
                                88.72283F,
                                88.723F,
                                90,
                                104,
                                105,
                                1e30F,
                                1e-30F,
                                0.7071F,
                                Limits::min(),
                                Limits::max(),
                                Limits::denorm_min(),
                                8388607.5F,
                                Limits::infinity()};
  for (std::size_t i = numbers.size(); i-- > 0;) numbers.push_back(-numbers[i]);
  for (const std::uint32_t pattern : {0x7fc00000U, 0xffc00000U, 0x7fc00001U}) {
    numbers.emplace_back();
    std::memcpy(&numbers.back(), &pattern, sizeof pattern);
  }
  std::vector<float> a, b;
  for (const float x : numbers)
    for (const float y : numbers) {
      a.push_back(x);
      b.push_back(y);
    }
  const Shape shape{static_cast<std::int64_t>(a.size())};
  List operands = {empty(float32, shape), empty(float32, shape), random_tensor(float32, shape)};
  std::memcpy(operands[0].impl().data, a.data(), a.size() * sizeof(float));
  std::memcpy(operands[1].impl().data, b.data(), b.size() * sizeof(float));
  return operands;
}

/// A program of functions that are compiled: writes every output once, and registers once or twice.
Program random_program(std::mt19937& generator, DType dtype) {
  const std::vector<ElementFunction> choices = compiled_functions(dtype);
  const auto below = [&](std::size_t n) { return generator() % n; };
  const auto count = [&](std::size_t n) { return static_cast<int>(below(n)); };
  Program program{.instructions = {}, .inputs = 1 + count(6), .outputs = 1 + count(3), .registers = count(10)};
  std::vector<std::uint8_t> known, results;
  for (int i = 0; i < program.operands(); ++i)
    (i < program.inputs ? known : results).push_back(static_cast<std::uint8_t>(i));
  for (int i = 0; i < program.registers; i += 2)
    results.push_back(static_cast<std::uint8_t>(program.inputs + program.outputs + i));
  std::shuffle(results.begin(), results.end(), generator);
  for (const std::uint8_t result : results) {
    const ElementFunction& f = choices[below(choices.size())];
    const std::uint8_t a = known[below(known.size())], b = known[below(known.size())], c = known[below(known.size())];
    program.instructions.push_back({f, {a, b, c}, result, dtype, 0.25});
    known.push_back(result);
  }
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
  for_each_layout([](const List& inputs, const Shape& shape) {
    CAPTURE(to_string(shape));
    CHECK(agrees(sample(), inputs, shape));
  });
}

TEST_CASE("results that do not fit the caches are written past them") {
  for (const Shape& shape : {Shape{9, 1000, 1001}, Shape{9'000'000}}) {
    const Shape column = shape.rank() == 1 ? Shape{} : Shape{1000, 1};
    const List inputs = {random_tensor(float32, shape), random_tensor(float32, column, 2),
                         random_tensor(float32, {shape.back()}, 3), random_tensor(float32, {}, 4)};
    CHECK(agrees(sample(), inputs, shape));
    CHECK(agrees(float_sample(), inputs, shape));
  }
}

TEST_CASE("compiled: what has code, and which bits it gives") {
  const bool has_compiler = host::cpu_level() == host::Level::v3 || host::cpu_level() == host::Level::v4;
  const auto check = [&](const ElementFunction& f, DType dtype, const List& operands) {
    const DType result = result_of(f, dtype);
    if (result == DType::unknown) return;
    CAPTURE(to_string(f) + " of " + to_string(dtype));
    const Program program = single(f, result);
    List own(operands.begin(), operands.begin() + operands_of(f));
    if (f == ElementFunction(Ternary::select)) own[0] = random_tensor(boolean, operands[0].shape());
    if (has_compiler) CHECK((host::compiled(program, own, 0) != nullptr) == has_code(f, dtype));
    if (is_integer(dtype) && !has_code(f, dtype)) return;  // the kernels refuse some of these operands
    CHECK(agrees(program, own, operands[0].shape()));
  };
  CHECK(host::may_be_compiled() == has_compiler);
  for (const DType dtype : dtypes_and_halves) {
    List operands = awkward_operands();
    for (Tensor& each : operands) {
      const Tensor converted = empty(dtype, each.shape());
      cpu_backend().copy(each, converted);
      each = converted;
    }
    for (const Unary f : functions<Unary>()) check(f, dtype, operands);
    for (const Binary f : functions<Binary>()) check(f, dtype, operands);
    for (const Ternary f : functions<Ternary>()) check(f, dtype, operands);
    for (const DType to : dtypes_and_halves) {
      CAPTURE(to_string(dtype) + " to " + to_string(to));
      CHECK(agrees(single(Convert{}, to), {operands[0]}, operands[0].shape()));
    }
  }
}

TEST_CASE("compiled: whole numbers wrap, and products of 64 bits are whole") {
  std::mt19937_64 generator(1);
  for (const DType dtype : {uint8, int32, int64}) {
    CAPTURE(to_string(dtype));
    const Shape shape{4099};
    const auto bits = [&] {
      Tensor x = empty(dtype, shape);
      auto* const bytes = static_cast<std::uint8_t*>(x.impl().data);
      for (std::size_t i = 0; i < static_cast<std::size_t>(x.size()) * size_of(dtype); ++i)
        bytes[i] = static_cast<std::uint8_t>(generator());
      return x;
    };
    for (const ElementFunction f :
         {ElementFunction(Binary::add), ElementFunction(Binary::subtract), ElementFunction(Binary::multiply),
          ElementFunction(Binary::squared_difference), ElementFunction(Binary::less_equal),
          ElementFunction(Unary::negative), ElementFunction(Unary::square), ElementFunction(Unary::abs)}) {
      CAPTURE(to_string(f));
      List operands{bits(), bits()};
      operands.resize(static_cast<std::size_t>(operands_of(f)));
      CHECK(agrees(single(f, result_of(f, dtype)), operands, shape));
    }
    for (const DType to : dtypes_and_halves) {
      CAPTURE(to_string(to));
      CHECK(agrees(single(Convert{}, to), {bits()}, shape));
    }
  }
}

TEST_CASE("compiled: inputs are broadcast and may have any layout") {
  for_each_layout([](const List& inputs, const Shape& shape) {
    CAPTURE(to_string(shape));
    CHECK(agrees(float_sample(), inputs, shape));
  });
}

TEST_CASE("compiled: programs of all sizes, in several threads") {
  const auto check = [](unsigned seed, int& wrong) {
    std::mt19937 generator(seed);
    for (long round = 0; round < test::number_of_cases(150); ++round) {
      const DType dtype = dtypes_and_halves[generator() % dtypes_and_halves.size()];
      const Program program = random_program(generator, dtype);
      const Shape shape =
          std::vector<Shape>{{1024 + static_cast<std::int64_t>(generator() % 3000)}, {33, 40}}[round % 2];
      List inputs;
      for (int i = 0; i < program.inputs; ++i) {
        const Shape own = std::vector<Shape>{shape, {}, {shape.back()}}[generator() % 3];
        inputs.push_back(random_tensor(dtype, own, static_cast<unsigned>(generator())));
      }
      const List expected = outputs_of(program, shape), found = outputs_of(program, shape);
      cpu_backend().Backend::program(program, inputs, expected);
      cpu_backend().program(program, inputs, found);
      for (std::size_t i = 0; i < found.size(); ++i) wrong += !same_results(found[i], expected[i]);
    }
  };
  int wrong[3] = {};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i)
    threads.emplace_back(check, test::seed_of_cases(1) + i / 2, std::ref(wrong[i]));  // two of them the same
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) CHECK(count == 0);
}

#ifdef __linux__
TEST_CASE("compiled: where a process may not make code, the kernels run") {
  // As PR_SET_MDWE and PR_MDWE_REFUSE_EXEC_GAIN of <linux/prctl.h>, since Linux 6.3; a process cannot take it back.
  constexpr int memory_deny_write_execute = 65, refuse_exec_gain = 1;
  enum Outcome { right, wrong, not_supported };
  Program program = single(Unary::leaky_relu, float32);
  program.instructions[0].number = 0.125;  // which no other test has, so that there is no code of it yet
  const List inputs = {random_tensor(float32, {5000})};
  const int before = num_threads();
  set_num_threads(1);
  const pid_t child = fork();
  if (child == 0) {
    if (prctl(memory_deny_write_execute, refuse_exec_gain, 0, 0, 0) != 0) _exit(not_supported);
    const List expected = outputs_of(program, {5000}), found = outputs_of(program, {5000});
    cpu_backend().Backend::program(program, inputs, expected);
    cpu_backend().program(program, inputs, found);
    _exit(same_results(found[0], expected[0]) && host::compiled(program, inputs, 0) == nullptr ? right : wrong);
  }
  set_num_threads(before);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) == not_supported) MESSAGE("this kernel cannot forbid a process to make code");
  CHECK(WEXITSTATUS(status) != wrong);
}
#endif

TEST_CASE("programs of all sizes, types and registers") {
  for_each_random_program(200, [](const Program& program, const List& inputs, const Shape& shape) {
    CAPTURE(to_string(program));
    REQUIRE(program.operands() <= Program::max_operands);
    CHECK(agrees(program, inputs, shape));
  });
}

namespace {

/// Whether a program whose output number `output` is reduced gives the bits of the reduction of that output.
bool reduces_alike(const Program& program, const List& inputs, const Shape& shape, std::size_t output, ReduceFunction f,
                   std::uint32_t axes) {
  Shape left;
  for (int i = 0; i < shape.rank(); ++i)
    if ((axes >> i & 1) == 0) left.push_back(shape.sizes()[i]);
  const auto results = [&] {
    List outputs = outputs_of(program, shape);
    outputs[output] = empty(outputs[output].dtype(), left);
    return outputs;
  };
  const Backend::ReducedOutput reduced{.output = output, .function = f, .axes = axes};
  const List expected = results();
  cpu_backend().Backend::program_reduce(program, inputs, shape, reduced, expected);
  const int before = num_threads();
  bool same = true;
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    const List found = results();
    cpu_backend().program_reduce(program, inputs, shape, reduced, found);
    for (std::size_t i = 0; i < found.size(); ++i) same = same && same_results(found[i], expected[i]);
  }
  set_num_threads(before);
  return same;
}

/// y0 = x0 * x1 + x2, of one type
Program multiply_add_of(DType dtype) {
  return {.instructions = {{Binary::multiply, {0, 1}, 4, dtype, 0}, {Binary::add, {4, 2}, 3, dtype, 0}},
          .inputs = 3,
          .outputs = 1,
          .registers = 1};
}

}  // namespace

TEST_CASE("a program whose output is reduced gives the bits of the reduction") {
  for (const Shape& shape :
       {Shape{70000},      Shape{40000, 2},   Shape{2, 40000},   Shape{130, 300},      Shape{1000, 40},
        Shape{40, 1000},   Shape{700, 3, 33}, Shape{3, 300, 50}, Shape{1, 90, 1, 400}, Shape{3, 11, 5, 13, 7, 4},
        Shape{20, 2100},   Shape{2100, 20},   Shape{600, 65},    Shape{17, 256, 8},    Shape{5, 9},
        Shape{0, 4},       Shape{70, 1024},   Shape{9, 4096},    Shape{7, 4160},       Shape{3, 12344},
        Shape{2, 5, 6400}, Shape{35, 1088},   Shape{3, 36928}}) {
    const auto inputs = [&](DType dtype) {
      return List{random_tensor(dtype, shape, 1), random_tensor(dtype, Shape{shape.back()}, 2),
                  random_tensor(dtype, {}, 3)};
    };
    for (std::uint32_t axes = 1; axes < 1U << shape.rank(); ++axes) {
      CAPTURE(to_string(shape));
      CAPTURE(axes);
      if (shape.rank() > 4 && axes % 7 != 3) continue;
      for (const ReduceFunction f : {ReduceFunction::sum, ReduceFunction::max})
        CHECK(reduces_alike(multiply_add_of(float32), inputs(float32), shape, 0, f, axes));
      CHECK(reduces_alike(multiply_add_of(float64), inputs(float64), shape, 0, ReduceFunction::mean, axes));
      if (shape.rank() > 2) continue;
      for (const DType dtype : {uint8, int32, int64})
        CHECK(reduces_alike(multiply_add_of(dtype), inputs(dtype), shape, 0, ReduceFunction::sum, axes));
      CHECK(reduces_alike(multiply_add_of(float32), inputs(float32), shape, 0, ReduceFunction::prod, axes));
      CHECK(reduces_alike(multiply_add_of(float16), inputs(float16), shape, 0, ReduceFunction::min, axes));
      CHECK(reduces_alike(single(Unary::is_finite, boolean), {inputs(float32)[0]}, shape, 0, ReduceFunction::all_true,
                          axes));
      CHECK(reduces_alike(single(Unary::sin, float32), {inputs(float32)[0]}, shape, 0, ReduceFunction::sum, axes));
      // Other outputs are kept.
      List four = inputs(float32);
      four.push_back(random_tensor(float32, shape, 4));
      for (const std::size_t output : {0, 1, 2}) {
        const ReduceFunction f = output == 2 ? ReduceFunction::any_true : ReduceFunction::sum;
        CHECK(reduces_alike(sample(), four, shape, output, f, axes));
      }
    }
  }
  // The sum of nothing but -0 is -0.
  for (const DType dtype : {float32, float64}) {
    const auto filled = [&](const Shape& shape, double value) {
      Tensor tensor = empty(dtype, shape);
      detail::visit_dtype(dtype, [&]<class T>() {
        std::fill_n(detail::mutable_data<T>(tensor), tensor.size(), static_cast<T>(value));
      });
      return tensor;
    };
    for (const Shape& shape : {Shape{40, 1024}, Shape{40, 1000}, Shape{50000}})
      CHECK(reduces_alike(multiply_add_of(dtype), {filled(shape, -0.0), filled({}, 1), filled({}, -0.0)}, shape, 0,
                          ReduceFunction::sum, 1U << (shape.rank() - 1)));
  }
  // Results that are written past the caches, beside one that is not.
  const Shape large{3, 3000, 1001};
  const List four = {random_tensor(float32, large, 1), random_tensor(float32, {1001}, 2),
                     random_tensor(float32, {3000, 1}, 3), random_tensor(float32, {}, 4)};
  for (const std::uint32_t axes : {1U, 4U, 7U})
    for (const std::size_t output : {0, 1}) {
      CHECK(reduces_alike(float_sample(), four, large, output, ReduceFunction::sum, axes));
      CHECK(reduces_alike(sample(), four, large, output, ReduceFunction::sum, axes));
    }
}

namespace {

/// An output among other elements: the middle of the rows of a larger tensor, whose axes may be exchanged.
class WithGaps {
 public:
  WithGaps(DType dtype, const Shape& shape, bool transposed) : transposed_(transposed) {
    const Shape turned = in_rows(empty(dtype, shape)).shape();
    Shape larger;
    for (int i = 0; i < turned.rank(); ++i) larger.push_back(turned.sizes()[i] + (i + 1 == turned.rank() ? 5 : 0));
    all_ = random_tensor(dtype, larger, 9);
    expected_ = cpu_backend().contiguous_copy(all_);
    width_ = turned.back();
  }
  Tensor output() const { return in_rows(middle_of(all_)); }
  /// Whether the elements are these, and nothing around them has changed.
  bool holds(const Tensor& elements) const {
    cpu_backend().copy(in_rows(elements), middle_of(expected_));
    return same_results(all_, expected_);
  }

 private:
  Tensor in_rows(const Tensor& x) const { return transposed_ ? view_transposed(x) : x; }
  Tensor middle_of(const Tensor& x) const { return view_part(x, x.rank() - 1, 2, width_); }

  bool transposed_;
  std::int64_t width_ = 0;
  Tensor all_, expected_;
};

}  // namespace

TEST_CASE("outputs may have gaps between their elements") {
  const auto check = [](const Program& program, const List& inputs, const Shape& shape, unsigned which) {
    const List expected = outputs_of(program, shape);
    cpu_backend().Backend::program(program, inputs, expected);
    const int before = num_threads();
    for (const int threads : {0, 1, 3}) {
      if (threads > 0) set_num_threads(threads);
      List found = outputs_of(program, shape);
      std::vector<std::pair<std::size_t, WithGaps>> with_gaps;
      for (std::size_t i = 0; i < found.size(); ++i) {
        if ((which >> i & 1) == 0) continue;
        with_gaps.emplace_back(i, WithGaps(found[i].dtype(), shape, (which >> (i + 3) & 1) != 0));
        found[i] = with_gaps.back().second.output();
      }
      threads > 0 ? cpu_backend().program(program, inputs, found)
                  : cpu_backend().Backend::program(program, inputs, found);
      for (const auto& [i, output] : with_gaps) CHECK(output.holds(expected[i]));
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_results(found[i], expected[i]));
    }
    set_num_threads(before);
  };
  for (const Shape& shape : {Shape{5, 7}, Shape{1, 90}, Shape{32, 256}, Shape{40, 1000}, Shape{3, 700, 33},
                             Shape{2, 300, 5}, Shape{70, 4, 64}, Shape{3, 9000}, Shape{2000, 3}, Shape{0, 4}}) {
    CAPTURE(to_string(shape));
    List inputs;
    for (unsigned i = 0; i < 4; ++i) inputs.push_back(random_tensor(float32, i == 2 ? Shape{shape.back()} : shape, i));
    for (unsigned which = 1; which < 64; which += 3) {
      CAPTURE(which);
      check(sample(), inputs, shape, which);
      check(float_sample(), inputs, shape, which);
    }
    // Rows of inputs and outputs that a block takes in place.
    inputs[1] = WithGaps(float32, shape, false).output();
    inputs[3] = WithGaps(float32, shape, true).output();
    check(float_sample(), inputs, shape, 5);
    check(float_sample(), inputs, shape, 0);
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

}  // namespace kernels_program_test
