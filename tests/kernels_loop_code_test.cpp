// Loops in machine code against the same loops run function by function: equal bits for all types, numbers of elements,
// sequences and stacks.

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "backend/cpu/compiled_program.hpp"
#include "backend/loop_program.hpp"
#include "environment.hpp"
#include "program_cases.hpp"

namespace kernels_loop_code_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

using Special = LoopProgram::Special::Kind;

/// A loop with the memory of its operands.
struct Loop {
  LoopProgram program;
  List inputs;  ///< those of sequences have one element for each iteration
  std::int64_t count = 0;
  bool reverse = false;

  bool is_sequence(std::size_t input) const {
    return input >= program.carried && input < program.carried + program.sequences;
  }
  bool is_single(std::size_t input) const { return (program.single >> input & 1) != 0; }
};

struct Results {
  std::int64_t done = 0;
  List carried, stacks;
};

/// Room for the results: copies of the carried values, and stacks that are full of sevens.
Results results_of(const Loop& loop) {
  Results results;
  for (std::size_t i = 0; i < loop.program.carried; ++i)
    results.carried.push_back(cpu_backend().contiguous_copy(loop.inputs[i]));
  return results;
}

DType dtype_of(const LoopProgram& loop, std::uint8_t operand) {
  if (operand < loop.dtypes.size()) return loop.dtypes[operand];
  return loop.program.instructions[operand - loop.dtypes.size()].dtype;
}

List new_stacks(const Loop& loop) {
  List stacks;
  for (std::size_t i = loop.program.carried; i < loop.program.results.size(); ++i) {
    stacks.push_back(empty(dtype_of(loop.program, loop.program.results[i]), {loop.count}));
    cpu_backend().fill(1, stacks.back());
  }
  return stacks;
}

/// An element of a table; an empty handle if it has none of this number.
Tensor looked_up(const Tensor& table, const Tensor& index) {
  const void* const data = index.impl().data;
  const std::int64_t number =
      index.dtype() == int64 ? *static_cast<const std::int64_t*>(data) : *static_cast<const std::int32_t*>(data);
  return number < 0 || number >= table.size() ? Tensor() : detail::make_view(table, {}, {}, number);
}

/// Runs a function. Returns false where it is not defined for an operand.
bool is_run(const Program::Instruction& each, const tapestry::Operands& x, const Tensor& y) {
  try {
    run(cpu_backend(), each.function, x, each.number, y);
  } catch (const InvalidArgumentError&) {
    return false;
  }
  return true;
}

/// Function by function, up to the iteration in which one of them throws.
Results expected_of(const Loop& loop) {
  const LoopProgram& program = loop.program;
  Results results = results_of(loop);
  results.stacks = new_stacks(loop);
  for (; results.done < loop.count; ++results.done) {
    const std::int64_t at = loop.reverse ? loop.count - 1 - results.done : results.done;
    List values = results.carried;
    for (std::size_t i = program.carried; i < loop.inputs.size(); ++i) {
      const Tensor& input = loop.inputs[i];
      values.push_back(loop.is_sequence(i) ? detail::make_view(input, {}, {}, at) : input);
    }
    for (std::size_t n = 0; n < program.program.instructions.size(); ++n) {
      const Program::Instruction& each = program.program.instructions[n];
      if (program.special[n].kind == Special::reduce) {
        values.push_back(empty(each.dtype, {}));
        cpu_backend().reduce(static_cast<ReduceFunction>(program.special[n].number), values[each.operands[0]], 1,
                             values.back());
        continue;
      }
      if (program.special[n].kind == Special::element) {
        values.push_back(detail::make_view(values[each.operands[0]], {}, {}, program.special[n].number));
        continue;
      }
      if (program.special[n].kind == Special::look_up) {
        values.push_back(looked_up(values[each.operands[0]], values[each.operands[1]]));
        if (!values.back()) return results;
        continue;
      }
      const auto operands = static_cast<std::size_t>(operands_of(each.function));
      tapestry::Operands x{};
      Shape shape;
      for (std::size_t i = 0; i < operands; ++i) {
        x[i] = &values[each.operands[i]];
        if (x[i]->size() > shape.size()) shape = x[i]->shape();
      }
      Tensor y = empty(each.dtype, shape);
      if (!is_run(each, x, y)) return results;
      values.push_back(y);
    }
    if (program.condition >= 0 &&
        !*static_cast<const bool*>(values[static_cast<std::size_t>(program.condition)].impl().data))
      return results;
    for (std::size_t i = 0; i < program.results.size(); ++i) {
      const Tensor& value = values[program.results[i]];
      if (i >= program.carried) {
        cpu_backend().copy(value, detail::make_view(results.stacks[i - program.carried], value.shape(), {}, at));
      } else {
        const Tensor next = empty(value.dtype(), results.carried[i].shape());
        cpu_backend().copy(value, next);
        results.carried[i] = next;
      }
    }
  }
  return results;
}

/// By its code, some iterations at a time.
Results found_by(const LoopCode& code, const Loop& loop, std::int64_t step) {
  Results results = results_of(loop);
  results.stacks = new_stacks(loop);
  while (results.done < loop.count) {
    const std::int64_t at = loop.reverse ? loop.count - 1 - results.done : results.done;
    std::vector<LoopCode::Place> places;
    const auto add = [&](const Tensor& x, bool moves) {
      const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
      places.push_back({static_cast<std::byte*>(x.impl().data) + (moves ? at * bytes : 0),
                        moves ? (loop.reverse ? -bytes : bytes) : 0});
    };
    for (const Tensor& each : results.carried) add(each, false);
    for (std::size_t i = loop.program.carried; i < loop.inputs.size(); ++i) add(loop.inputs[i], loop.is_sequence(i));
    for (const Tensor& each : results.stacks) add(each, true);
    const std::int64_t count = std::min(step, loop.count - results.done), done = code.run(places, count);
    results.done += done;
    if (done < count) break;
  }
  return results;
}

bool agree(const Results& a, const Results& b) {
  return a.done == b.done && std::equal(a.carried.begin(), a.carried.end(), b.carried.begin(), same_results) &&
         std::equal(a.stacks.begin(), a.stacks.end(), b.stacks.begin(), same_results);
}

/// A loop of random functions with a counter, which is the first carried value, and a limit of 40 iterations or less.
class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  Loop loop() {
    Loop made;
    LoopProgram& program = made.program;
    program.elements = std::vector<std::int64_t>{1, 1, 2, 3, 4, 5, 8, 16}[below(8)];
    made.count = 1 + static_cast<std::int64_t>(below(40));
    made.reverse = below(2) == 0;
    program.carried = 2 + below(5);
    program.sequences = below(3);
    const std::size_t inputs = program.carried + program.sequences + 1 + below(4);
    for (std::size_t i = 0; i < inputs; ++i) {
      const bool is_limit = i == program.carried + program.sequences;
      const DType dtype = i == 0 || is_limit ? int32 : dtypes_and_halves[below(dtypes_and_halves.size())];
      const bool single = i == 0 || is_limit || made.is_sequence(i) || below(2) == 0;
      if (single) program.single |= std::uint64_t{1} << i;
      const Shape shape = made.is_sequence(i) ? Shape{made.count} : single ? Shape{} : Shape{program.elements};
      made.inputs.push_back(random_tensor(dtype, shape, static_cast<unsigned>(random_())));
      program.dtypes.push_back(dtype);
      values_.push_back({dtype, single});
    }
    for (std::size_t n = below(3); n > 0; --n) {
      const DType dtype = dtypes_and_halves[below(dtypes_and_halves.size())];
      made.inputs.push_back(
          random_tensor(dtype, {1 + static_cast<std::int64_t>(below(40))}, static_cast<unsigned>(random_())));
      program.dtypes.push_back(dtype);
      program.single |= std::uint64_t{1} << values_.size();  // a table that nothing looks up counts as one value
      tables_.push_back({static_cast<std::uint8_t>(values_.size()), made.inputs.back().size()});
      values_.push_back({DType::unknown, false});
    }
    const auto limit = static_cast<std::uint8_t>(program.carried + program.sequences);
    made.inputs[0] = tensor_of(int32, {}, {0});
    made.inputs[limit] = tensor_of(int32, {}, {static_cast<double>(below(50))});
    program.condition = below(8) == 0 ? -1 : add(program, Binary::less, {0, limit}, boolean);
    const std::uint8_t next =
        add(program, Binary::add, {0, add(program, Binary::equal, {0, 0}, boolean, int32)}, int32);
    for (std::size_t n = 1 + below(30); n > 0; --n) add_random(program);
    program.results.push_back(next);
    for (std::size_t i = 1; i < program.carried; ++i)
      program.results.push_back(one_of([&](const Value& each) { return each == values_[i]; }));
    for (std::size_t n = below(3); n > 0; --n)
      program.results.push_back(one_of([](const Value& each) { return each.single; }));
    program.program.inputs = static_cast<int>(made.inputs.size());
    program.program.registers = static_cast<int>(program.program.instructions.size());
    return made;
  }

 private:
  struct Value {
    DType dtype;
    bool single;
    friend bool operator==(const Value&, const Value&) = default;
  };
  struct Table {
    std::uint8_t input;
    std::int64_t size;
  };

  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_()) % n; }
  template <class Is>
  std::uint8_t one_of(Is is) {
    std::vector<std::uint8_t> fitting;
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (is(values_[i])) fitting.push_back(static_cast<std::uint8_t>(i));
    return fitting[fitting.size() - 1 - below(std::min<std::size_t>(fitting.size(), 5))];
  }

  std::uint8_t add(LoopProgram& loop, const ElementFunction& f, std::array<std::uint8_t, 3> operands, DType result) {
    bool single = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(operands_of(f)); ++i)
      single = single && values_[operands[i]].single;
    const auto number = static_cast<std::uint8_t>(values_.size());
    values_.push_back({result, single});
    loop.program.instructions.push_back({f, operands, number, result, 0.25});
    loop.special.push_back({});
    return number;
  }
  /// The same, converted.
  std::uint8_t add(LoopProgram& loop, const ElementFunction& f, std::array<std::uint8_t, 3> operands, DType result,
                   DType to) {
    return add(loop, Convert{}, {add(loop, f, operands, result)}, to);
  }
  /// An element of a table, whose number is the counter as often as not.
  void add_lookup(LoopProgram& loop) {
    const Table& table = tables_[below(tables_.size())];
    const auto is_index = [](const Value& each) { return each.single && (each.dtype == int32 || each.dtype == int64); };
    const std::uint8_t index = below(2) == 0 ? 0 : one_of(is_index);
    const DType dtype = loop.dtypes[table.input];
    const auto number = static_cast<std::uint8_t>(values_.size());
    values_.push_back({dtype, true});
    loop.program.instructions.push_back({Convert{}, {table.input, index}, number, dtype, 0});
    loop.special.push_back({Special::look_up, table.size});
  }
  /// An element of a value of several, or their sum, product, ...
  void add_single(LoopProgram& loop) {
    const auto is_several = [](const Value& each) { return !each.single && each.dtype != DType::unknown; };
    if (loop.elements == 1 || std::none_of(values_.begin(), values_.end(), is_several)) return;
    const std::uint8_t a = one_of(is_several);
    const DType dtype = values_[a].dtype;
    const auto number = static_cast<std::uint8_t>(values_.size());
    const bool reduces = !is_half(dtype) && below(2) == 0;
    constexpr ReduceFunction functions[] = {ReduceFunction::sum, ReduceFunction::mean, ReduceFunction::max,
                                            ReduceFunction::min, ReduceFunction::prod};
    values_.push_back({dtype, true});
    loop.program.instructions.push_back({Convert{}, {a}, number, dtype, 0});
    if (reduces)
      loop.special.push_back({Special::reduce, static_cast<std::int64_t>(functions[below(5)])});
    else
      loop.special.push_back(
          {Special::element, static_cast<std::int64_t>(below(static_cast<std::size_t>(loop.elements)))});
  }
  void add_random(LoopProgram& loop) {
    if (below(8) == 0) return add_single(loop);
    if (!tables_.empty() && below(8) == 0) return add_lookup(loop);
    const std::uint8_t a = one_of([](const Value& each) { return each.dtype != DType::unknown; });
    const DType dtype = values_[a].dtype;
    const std::uint8_t b = one_of([&](const Value& each) { return each.dtype == dtype; });
    const ElementFunction choices[] = {
        Binary::add,     Binary::multiply,   Binary::subtract, Binary::maximum,     Unary::tanh,    Unary::exp,
        Unary::negative, Unary::logical_not, Binary::less,     Binary::equal,       Unary::sigmoid, Ternary::select,
        Binary::divide,  Unary::abs,         Convert{},        Convert{},           Unary::floor,   Binary::minimum,
        Ternary::clip,   Unary::is_finite,   Unary::sin,       Binary::power,       Unary::asin,    Binary::floor_mod,
        Unary::erf,      Binary::atan2,      Unary::sinh,      Binary::floor_divide};
    const ElementFunction f = choices[below(std::size(choices))];
    if (f.index() == 0) {
      add(loop, f, {a}, static_cast<DType>(dtypes_and_halves[below(dtypes_and_halves.size())]));
      return;
    }
    if (f == ElementFunction(Ternary::select)) {
      const auto is_condition = [](const Value& each) { return each.dtype == boolean; };
      if (std::any_of(values_.begin(), values_.end(), is_condition)) add(loop, f, {one_of(is_condition), a, b}, dtype);
      return;
    }
    if (const DType result = result_of(f, dtype); result != DType::unknown) add(loop, f, {a, b, b}, result);
  }

  std::mt19937 random_;
  std::vector<Value> values_;  ///< those of tables have no type
  std::vector<Table> tables_;
};

}  // namespace

TEST_CASE("loops in machine code give the bits of their functions") {
  long compiled = 0;
  for (unsigned seed = 0; seed < static_cast<unsigned>(tapestry::test::number_of_cases(400)); ++seed) {
    CAPTURE(seed);
    const Loop loop = Generator(seed + tapestry::test::seed_of_cases(1)).loop();
    const auto code = cpu_backend().loop_code(loop.program);
    if (!code) continue;  // conversions that round twice, and eight-byte elements of which there are too many
    ++compiled;
    CAPTURE(to_string(loop.program.program));
    const Results expected = expected_of(loop);
    for (const std::int64_t step : {1, 3, 1000}) CHECK(agree(found_by(*code, loop, step), expected));
  }
  if (host::may_be_compiled()) CHECK(compiled > 100);
}

TEST_CASE("every function of every type has code in a loop") {
  if (!host::may_be_compiled()) return;
  const auto check = [](const ElementFunction& f, DType dtype, DType result, std::int64_t elements) {
    Loop loop;
    loop.count = 3;
    LoopProgram& program = loop.program;
    program.elements = elements;
    loop.inputs = operands_for(f, dtype, {elements});
    loop.inputs.insert(loop.inputs.begin(), random_tensor(result, {elements}, 5));
    program.carried = loop.inputs.size();
    for (const Tensor& each : loop.inputs) program.dtypes.push_back(each.dtype());
    const auto number = static_cast<std::uint8_t>(loop.inputs.size());
    program.program.inputs = number;
    program.program.registers = 1;
    program.special.resize(1);
    program.program.instructions.push_back({f, {1, 2, 3}, number, result, 0.25});
    program.results.push_back(number);
    for (std::uint8_t i = 1; i < number; ++i) program.results.push_back(i);
    CAPTURE(to_string(program.program));
    const auto code = cpu_backend().loop_code(program);
    REQUIRE(code);
    CHECK(agree(found_by(*code, loop, 2), expected_of(loop)));
  };
  for (const DType dtype : dtypes_and_halves)
    for (const std::int64_t elements : {1, 3, 4}) {
      CAPTURE(dtype);
      CAPTURE(elements);
      const auto check_all = [&](const auto& list) {
        for (const auto f : list)
          if (const DType result = result_of(f, dtype); result != DType::unknown) check(f, dtype, result, elements);
      };
      check_all(functions<Unary>());
      check_all(functions<Binary>());
      check_all(functions<Ternary>());
    }
}

TEST_CASE("a loop with more values than there are registers") {
  if (!host::may_be_compiled()) return;
  // v[i] = v[i + 1] * x + v[i], from all old values
  constexpr std::size_t values = 45;
  Loop loop;
  loop.count = 50;
  LoopProgram& program = loop.program;
  program.elements = 4;
  program.carried = values;
  for (std::size_t i = 0; i <= values; ++i) {
    program.dtypes.push_back(float32);
    loop.inputs.push_back(random_tensor(float32, {4}, static_cast<unsigned>(i)));
    cpu_backend().unary(Unary::sigmoid, loop.inputs.back(), 0, loop.inputs.back());
  }
  program.program.inputs = values + 1;
  for (std::size_t i = 0; i < values; ++i) {
    const auto number = static_cast<std::uint8_t>(values + 1 + 2 * i), a = static_cast<std::uint8_t>(i),
               b = static_cast<std::uint8_t>((i + 1) % values);
    program.program.instructions.push_back({Binary::multiply, {b, values}, number, float32, 0});
    const auto sum = static_cast<std::uint8_t>(number + 1);
    program.program.instructions.push_back({Binary::add, {number, a}, sum, float32, 0});
    program.results.push_back(sum);
  }
  program.program.registers = 2 * static_cast<int>(values);
  program.special.resize(2 * values);
  const auto code = cpu_backend().loop_code(program);
  REQUIRE(code);
  CHECK(agree(found_by(*code, loop, 7), expected_of(loop)));
  // Every value moves on by one place.
  for (std::size_t i = 0; i < values; ++i) program.results[i] = static_cast<std::uint8_t>((i + 1) % values);
  const auto moving = cpu_backend().loop_code(program);
  REQUIRE(moving);
  CHECK(agree(found_by(*moving, loop, 7), expected_of(loop)));
}

}  // namespace kernels_loop_code_test
