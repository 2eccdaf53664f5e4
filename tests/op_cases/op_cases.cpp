#include "op_cases/op_cases.hpp"

#include <random>

#include "tapestry/tape.hpp"

namespace tapestry::test {
namespace {

std::vector<double> draw(const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);  // the standard fixes its numbers, but not those of its distributions
  std::vector<double> uniform(static_cast<std::size_t>(shape.size()));
  for (double& u : uniform) u = (static_cast<double>(engine()) + 0.5) / 4294967296.0;
  return uniform;
}

}  // namespace

Tensor numbers(const Shape& shape, double low, double high, unsigned seed) {
  std::vector<double> values = draw(shape, seed);
  for (double& value : values) value = low + (high - low) * value;
  return tensor(values, shape);
}

Tensor whole_numbers(const Shape& shape, int low, int high, unsigned seed) {
  std::vector<std::int64_t> values;
  for (const double u : draw(shape, seed)) values.push_back(low + static_cast<std::int64_t>(u * (high - low)));
  return tensor(values, shape);
}

Tensor booleans(const Shape& shape, unsigned seed) {
  std::vector<bool> values;
  for (const double u : draw(shape, seed)) values.push_back(u < 0.5);
  return tensor(values, shape);
}

OpCases op_cases() {
  OpCases all_cases;
  for (auto family : {math_cases, reduce_cases, array_cases, linalg_cases, nn_cases, numeric_cases, random_cases,
                      segment_cases, selection_cases}) {
    OpCases rows = family();
    std::move(rows.begin(), rows.end(), std::back_inserter(all_cases));
  }
  return all_cases;
}

std::vector<Tensor> converted(const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& each : inputs) result.push_back(is_floating(each.dtype()) ? each.cast(dtype) : each);
  return result;
}

std::vector<Tensor> value_and_gradients(const OpCase& row, const std::vector<Tensor>& inputs) {
  GradientTape tape;
  std::vector<Tensor> sources;
  for (const Tensor& input : inputs) {
    if (row.orders == 0 || !is_floating(input.dtype())) continue;
    tape.watch(input);
    sources.push_back(input);
  }
  std::vector<Tensor> results{row.f(inputs)};
  if (sources.empty()) return results;
  for (const Tensor& each : tape.gradient(results[0], sources, {.unconnected = Unconnected::zero}))
    results.push_back(each);
  return results;
}

}  // namespace tapestry::test
