// Makes programs by chance, and runs each step as it is made, to see what it gives.

#include <algorithm>
#include <map>
#include <numeric>

#include "fuzz/programs.hpp"

namespace tapestry::test::programs {
namespace {

/// Beyond it a step is left out.
constexpr std::int64_t most_elements = 100'000;

const Production& drawn(Dice& dice) {
  static const int total = std::accumulate(productions().begin(), productions().end(), 0,
                                           [](int sum, const Production& each) { return sum + each.weight; });
  auto left = static_cast<int>(dice.below(static_cast<std::size_t>(total)));
  for (const Production& each : productions()) {
    left -= each.weight;
    if (left < 0) return each;
  }
  return productions().front();
}

/// Leaves out the steps that the last one does not need; `operands` values come before the first step. What has an
/// effect stays.
void remove_unused(std::vector<Step>& steps, std::size_t operands, bool with_effects) {
  if (steps.empty()) return;
  std::vector<bool> used(operands + steps.size(), false);
  used.back() = true;
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (!with_effects && steps[i].production->name == "assign") used[operands + i] = true;
    if (used[operands + i])
      for (const std::size_t operand : steps[i].operands) used[operand] = true;
  }
  std::vector<std::size_t> number(used.size());
  std::size_t next = operands;
  std::iota(number.begin(), number.begin() + static_cast<std::ptrdiff_t>(operands), std::size_t{0});
  std::vector<Step> kept;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!used[operands + i]) continue;
    for (std::size_t& operand : steps[i].operands) operand = number[operand];
    number[operands + i] = next++;
    kept.push_back(std::move(steps[i]));
  }
  steps = std::move(kept);
}

}  // namespace

DType Generator::some_dtype() {
  static constexpr DType types[] = {float32, float32, float32, float32, float64, float64,
                                    int32,   int64,   uint8,   boolean, float16, bfloat16};
  return types[dice.below(std::size(types))];
}

std::optional<std::size_t> Generator::value_where(const Values& values,
                                                  const std::function<bool(const Tensor&)>& suits) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (suits(values[i])) found.push_back(i);
  if (found.empty()) return {};
  // What was made last is taken most often: chains get long.
  return dice.chance(40) ? found.back() : dice.one_of(found);
}

std::size_t Generator::prepend(Step step, Values& values) {
  Machine machine(variables_);
  values.push_back(machine.run(step, values));
  steps_->push_back(std::move(step));
  return values.size() - 1;
}

void Generator::add_steps(std::vector<Step>& steps, Values& values, std::size_t length) {
  std::vector<Step>* const outside = std::exchange(steps_, &steps);
  const std::size_t operands = values.size() - steps.size();
  for (std::size_t tries = 0; steps.size() < length && tries < 10 * length; ++tries) {
    const std::size_t before = values.size();
    try {
      const Production& production = drawn(dice);
      std::optional<Step> step = production.make(*this, values);
      if (!step) continue;
      step->production = &production;
      Machine machine(variables_);
      const random::State random_before = random::state();
      try {
        values.push_back(machine.run(*step, values));
      } catch (const Error&) {
        // A program may end with what is refused.
        if (depth > 0 || !dice.chance(3)) throw;
        steps.push_back(std::move(*step));
        break;
      }
      step->draws |= random::state() != random_before;
      steps.push_back(std::move(*step));
      if (values.back().size() > most_elements) throw InvalidArgumentError("too large");
    } catch (const Error&) {
      values.resize(before);
      steps.resize(before - operands);
    }
    steps_ = &steps;
  }
  steps_ = outside;
}

std::vector<Step> Generator::body(Values values, std::size_t length, bool float_result) {
  std::vector<Step> steps;
  const std::size_t operands = values.size();
  add_steps(steps, values, length);
  while (float_result && !steps.empty() && !is_floating(values.back().dtype())) {
    steps.pop_back();
    values.pop_back();
  }
  remove_unused(steps, operands, false);
  return steps;
}

void Generator::choose_inputs() {
  const std::int64_t large = dice.chance(8) ? 60 : 1;
  const auto add_size = [&](std::int64_t first) {
    const std::int64_t other =
        dice.chance(10) ? dice.between(0, 1) : first + dice.between(1, 3) * (dice.chance(50) ? 1 : first);
    program_.sizes.push_back({first, other, dice.chance(50)});
    return program_.sizes.size() - 1;
  };
  if (dice.chance(60)) {
    // Those of a row of the table, which comes first. What has the same size there has the same size here.
    const OpCase& row = dice.one_of(rows());
    const DType dtype = dice.chance(50) ? float64 : some_dtype();
    std::map<std::int64_t, std::size_t> known;
    Step step{.production = &production("row"), .row = &row};
    for (const Tensor& example : row.inputs) {
      Data data{.dtype = is_floating(example.dtype()) && is_floating(dtype) ? dtype : example.dtype()};
      for (const std::int64_t size : example.shape().to_vector()) {
        if (!known.contains(size) || dice.chance(5)) known[size] = add_size(size);
        data.axes.push_back(known[size]);
      }
      if (example.size() > 0 && example.dtype() != boolean) {
        const std::vector<double> values = example.to_vector<double>();
        data.low = *std::min_element(values.begin(), values.end());
        data.high = *std::max_element(values.begin(), values.end());
      }
      step.operands.push_back(program_.inputs.size());
      program_.inputs.push_back(data);
    }
    if (dice.chance(70) && !row.inputs.empty()) program_.steps.push_back(step);
  }
  for (int i = 0; i < 3; ++i) add_size(dice.chance(8) ? 0 : dice.between(1, 5) * (i == 0 ? large : 1));
  const std::size_t wanted = program_.inputs.size() + (program_.inputs.empty() ? 1 : 0) + dice.below(3);
  while (program_.inputs.size() < wanted) {
    Data data{.dtype = some_dtype()};
    const std::int64_t rank = dice.chance(6) ? dice.between(5, 8) : dice.between(0, 4);
    std::int64_t elements = 1;
    for (std::int64_t i = 0; i < rank; ++i) {
      const std::size_t axis = dice.below(program_.sizes.size());
      const Size& size = program_.sizes[axis];
      if (elements * std::max(size.first, size.second) > most_elements / 4) continue;
      elements *= std::max<std::int64_t>(1, std::max(size.first, size.second));
      data.axes.push_back(axis);
    }
    program_.inputs.push_back(data);
  }
  for (Data& data : program_.inputs) {
    data.seed = static_cast<unsigned>(dice.below(100'000));
    if (dice.chance(50)) data.layout = static_cast<Layout>(dice.below(layouts));
    if (dice.chance(20)) data.numbers = static_cast<Numbers>(dice.below(3));
  }
}

Program Generator::program() {
  choose_inputs();
  for (std::size_t i = dice.below(3); i > 0; --i) {
    Data data{.dtype = dice.chance(80) ? float32 : some_dtype(), .seed = static_cast<unsigned>(dice.below(1000))};
    for (std::size_t rank = dice.below(3); rank > 0; --rank) data.axes.push_back(dice.below(program_.sizes.size()));
    program_.variables.push_back(data);
    variables_.emplace_back(make(data, program_.sizes, false), VariableOptions{.name = "v"});
  }
  Values values;
  for (const Data& data : program_.inputs) values.push_back(make(data, program_.sizes, false));
  random::seed(program_.seed);
  for (Step& first : program_.steps) {
    const random::State random_before = random::state();
    // Where it is refused, that is the program.
    try {
      values.push_back(Machine(variables_).run(first, values));
      first.draws = random::state() != random_before;
    } catch (const Error&) {
      program_.fetched = {true};
      return std::move(program_);
    }
  }
  add_steps(program_.steps, values, 1 + dice.below(dice.chance(30) ? 20 : 8));
  for (std::size_t i = 0; i < program_.steps.size(); ++i) program_.fetched.push_back(dice.chance(30));
  if (!program_.fetched.empty()) program_.fetched.back() = true;
  return std::move(program_);
}

}  // namespace tapestry::test::programs
