// The tensors that programs are given, and how their steps run.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "fuzz/programs.hpp"

namespace tapestry::test::programs {
namespace {

Shape shape_of(const Data& data, const std::vector<Size>& sizes, bool second) {
  Shape shape;
  for (const std::size_t axis : data.axes) {
    const Size& size = sizes[axis];
    shape.push_back(second && size.unknown ? size.second : size.first);
  }
  return shape;
}

/// Some of the numbers replaced by those at which functions have their edges.
Tensor with_special(const Tensor& x, unsigned seed) {
  using Limits = std::numeric_limits<double>;
  const std::vector<double> edges = {
      0, -0.0, 1, -1, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), 1e30, 1e-40, 0.5, -2.5, 65504};
  Dice dice(seed);
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values)
    if (dice.chance(40)) value = dice.one_of(edges);
  return tensor(values, x.shape());
}

bool is_stateful(const Operation& operation) {
  const Op* op = find_op(operation.type());
  return op && op->stateful;
}

}  // namespace

Tensor laid_out(const Tensor& x, Layout layout) {
  if (x.rank() == 0) return x;
  switch (layout) {
    case Layout::dense:
      return x;
    case Layout::transposed:
      return transpose(transpose(x).contiguous());
    case Layout::sliced:
      return concat({x(range(0, 1)), x}, 0)(range(1, std::nullopt));
    case Layout::strided:
      return repeat(x, 2, -1)(ellipsis, range(std::nullopt, std::nullopt, 2));
    case Layout::reversed:
      return flip(flip(x).contiguous());
    case Layout::broadcast:
      return broadcast_like(x(range(0, 1)).contiguous(), x);
  }
  return x;
}

Tensor make(const Data& data, const std::vector<Size>& sizes, bool second) {
  const Shape shape = shape_of(data, sizes, second);
  const unsigned seed = data.seed + (second ? 1U : 0U);
  Tensor x;
  if (data.dtype == boolean) {
    x = booleans(shape, seed);
  } else if (is_floating(data.dtype) && data.numbers != Numbers::whole) {
    x = numbers(shape, data.low, data.high, seed);
    if (data.numbers == Numbers::special) x = with_special(x, seed);
  } else {
    const auto low = static_cast<int>(std::floor(data.dtype == uint8 ? std::max(data.low, 0.0) : data.low));
    x = whole_numbers(shape, low, std::max(low, static_cast<int>(std::ceil(data.high))) + 1, seed);
  }
  return laid_out(x.cast(data.dtype), data.layout);
}

Tensor Machine::observe(const Tensor& value) {
  if (observes_) observed_.push_back(value);
  return value;
}

Tensor Machine::run(const Step& step, const Values& values) {
  Values operands;
  for (const std::size_t operand : step.operands) operands.push_back(values[operand]);
  if (place_ == Place::program_order) return step.production->run(*this, step, operands);
  // What reads or changes a Variable or draws random numbers waits for what did so before it.
  const std::size_t before = default_graph().operations().size();
  const auto after = control_dependencies(last_effects_);
  Tensor value = step.production->run(*this, step, operands);
  std::vector<Operation> effects;
  const std::vector<Operation> operations = default_graph().operations();
  std::copy_if(operations.begin() + static_cast<std::ptrdiff_t>(before), operations.end(), std::back_inserter(effects),
               is_stateful);
  if (!effects.empty()) last_effects_ = effects;
  return value;
}

Tensor Machine::run(const std::vector<Step>& body, const Values& operands) {
  Values values = operands;
  for (const Step& step : body) {
    values.push_back(run(step, values));
    if (everything_ || step.draws) observe(values.back());
  }
  return values.back();
}

Tensor Machine::run_quietly(const std::vector<Step>& body, const Values& operands) {
  const bool outside = std::exchange(observes_, false);
  try {
    Tensor value = run(body, operands);
    observes_ = outside;
    return value;
  } catch (...) {
    observes_ = outside;
    throw;
  }
}

Tensor Machine::run_function(const std::vector<Step>& body, const Values& operands) {
  functions_.push_back(std::make_unique<Machine>(variables_, Place::program_order));
  return functions_.back()->run_quietly(body, operands);
}

Values Machine::run(const Program& program, const Values& inputs) {
  observed_.clear();
  everything_ = program.everything;
  last_effects_.clear();
  steps_done_ = 0;
  Values values = inputs, results;
  for (const Step& step : program.steps) {
    values.push_back(run(step, values));
    if (program.everything || program.fetched[steps_done_] || step.draws) results.push_back(values.back());
    ++steps_done_;
  }
  results.insert(results.end(), observed_.begin(), observed_.end());
  return results;
}

}  // namespace tapestry::test::programs
