// Branches and loops in programs: what they choose and how often they run depends on values.

#include <algorithm>
#include <utility>

#include "fuzz/programs.hpp"

namespace tapestry::test::programs {
namespace {

/// The derivatives of higher order of a loop are summed in another order than those of its iterations one by one.
constexpr int most_tapes = 1;

/// A step on one to three values with a first body; the first operand is of a float type. `arguments`: what the body is
/// given for these operands.
Made make_flow(Generator& g, Values& values, bool (*suits)(const Tensor&), Values (*arguments)(const Values& operands),
               bool with_other = false) {
  if (g.depth >= 3 || g.tapes > most_tapes) return {};
  const auto first = g.value_where(values, suits);
  if (!first) return {};
  // It may change Variables, so it is a result, which every way of running computes.
  Step step{.operands = {*first}, .numbers = {g.dice.between(0, 4), g.dice.between(0, 9)}, .draws = true};
  while (step.operands.size() < 3 && g.dice.chance(50)) step.operands.push_back(g.dice.below(values.size()));
  Values operands;
  for (const std::size_t operand : step.operands) operands.push_back(values[operand]);
  ++g.depth;
  step.body = g.body(arguments(operands), 1 + g.dice.below(4), true);
  if (with_other) step.other = g.body(arguments(operands), 1 + g.dice.below(3), true);
  --g.depth;
  if (step.body.empty() || (with_other && step.other.empty())) return {};
  return step;
}

/// A number in the type and shape of x that depends on all elements of a result.
Tensor mean_like(const Tensor& result, const Tensor& x) { return reduce_mean(result).cast(x.dtype()) + zeros_like(x); }

/// Whether the elements of x sum up to more than a bound that a number stands for.
Tensor is_above(const Tensor& x, std::int64_t number) {
  return greater(reduce_sum(x.cast(float64)), static_cast<double>(number) - 2.0);
}

/// What a function is given is copied in row-major order, which decides the order of its sums.
Values dense(const Values& operands) {
  Values copies;
  for (const Tensor& each : operands) copies.push_back(each.contiguous());
  return copies;
}

// ---- Branches ---------------------------------------------------------------------------------------------------------

Made make_branch(Generator& g, Values& values) { return make_flow(g, values, is_float, dense, true); }

Tensor run_branch(Machine& m, const Step& step, const Values& given) {
  const Values x = dense(given);
  const auto result_of = [&](const std::vector<Step>& body) {
    return x[0] * 0.5 + mean_like(m.run_function(body, x), x[0]);
  };
  const Tensor above = is_above(x[0], step.numbers[0]);
  if (step.numbers[1] < 5)
    return cond(
        above, [&] { return result_of(step.body); }, [&] { return result_of(step.other); });
  // 0 to 4, where 2 and more take the last branch.
  return switch_case(
      above.cast(int32) * 4 + is_above(x[0], step.numbers[0] + 1).cast(int32),
      {[&] { return result_of(step.body); }, [&] { return x[0] * 2.0; }, [&] { return result_of(step.other); }});
}

// ---- Loops ------------------------------------------------------------------------------------------------------------

Made make_loop(Generator& g, Values& values) { return make_flow(g, values, is_float, dense); }

/// The loop changes the first operand; the body sees the others around it.
Tensor run_loop(Machine& m, const Step& step, const Values& given) {
  const Values x = dense(given);
  const std::int64_t count = step.numbers[0];
  const bool by_values = step.numbers[1] < 3;
  const auto goes_on = [&](const Tensor& i, const Tensor& s) {
    return by_values ? logical_not(is_above(s, step.numbers[1])) : less(i, count);
  };
  const auto body = [&](const Tensor& i, const Tensor& s) {
    Values operands = x;
    operands[0] = s;
    return std::tuple{i + 1, s * 0.5 + mean_like(m.run_function(step.body, operands), s)};
  };
  return std::get<1>(while_loop(goes_on, body, std::tuple{std::int64_t{0}, x[0]}, {.maximum_iterations = count}));
}

// ---- Sequences --------------------------------------------------------------------------------------------------------

bool has_elements(const Tensor& x) { return is_float(x) && x.rank() > 0 && x.shape()[0] > 0; }

Values with_element(const Values& operands) {
  Values arguments = dense(operands);
  arguments[0] = operands[0](0);
  return arguments;
}
Values with_element_and_sum(const Values& operands) {
  Values arguments = with_element(operands);
  arguments.push_back(reduce_mean(operands[0]));
  return arguments;
}

Made make_scan(Generator& g, Values& values) { return make_flow(g, values, has_elements, with_element_and_sum); }
Made make_map(Generator& g, Values& values) { return make_flow(g, values, has_elements, with_element); }
/// What all examples share cannot be changed.
Made make_vmap(Generator& g, Values& values) {
  const bool outside = std::exchange(g.pure, true);
  Made step = make_map(g, values);
  g.pure = outside;
  return step;
}

/// The outputs, and the last carried value in the shape of an output.
Tensor run_scan(Machine& m, const Step& step, const Values& given) {
  const Values x = dense(given);
  const auto [last, outputs] = scan(
      [&](const Tensor& sum, const Tensor& element) {
        Values operands = x;
        operands[0] = element;
        operands.push_back(sum);
        const Tensor result = m.run_function(step.body, operands);
        return std::pair{sum * 0.5 + mean_like(result, sum), step.numbers[1] < 2 ? element : result};
      },
      reduce_mean(x[0]), x[0], {.reverse = step.numbers[0] % 2 == 1});
  return outputs + last.cast(outputs.dtype());
}

Tensor run_map(Machine& m, const Step& step, const Values& given) {
  const Values x = dense(given);
  return tapestry::map(
      [&](const Tensor& element) {
        Values operands = x;
        operands[0] = element;
        return m.run_function(step.body, operands);
      },
      x[0], {.reverse = step.numbers[0] % 2 == 1});
}

Tensor run_vmap(Machine& m, const Step& step, const Values& given) {
  const Values x = dense(given);
  const auto f = [&](const Tensor& element) {
    Values operands = x;
    operands[0] = element;
    return m.run_function(step.body, operands);
  };
  return vmap(f)(x[0]);
}

}  // namespace

std::vector<Production> flow_productions() {
  return {{"branch", 3, make_branch, run_branch},
          {"loop", 3, make_loop, run_loop},
          {"scan", 2, make_scan, run_scan},
          {"map", 2, make_map, run_map},
          {"vmap", 3, make_vmap, run_vmap}};
}

}  // namespace tapestry::test::programs
