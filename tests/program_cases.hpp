#pragma once

// Programs of elementwise functions, with operands in every layout, to be run in two ways.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <random>

#include "backend/program.hpp"
#include "kernels_support.hpp"
#include "tapestry/error.hpp"

namespace tapestry::testing {

using List = std::vector<Tensor>;

/// Equal bits, but that of two NaNs an addition may give either.
inline bool same_results(const Tensor& a, const Tensor& b) {
  if (same_bits(a, b)) return true;
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || !is_floating(a.dtype())) return false;
  bool same = true;
  detail::visit_dtype(a.dtype(), [&]<class T>() {
    const auto *x = static_cast<const T*>(a.impl().data), *y = static_cast<const T*>(b.impl().data);
    same = std::equal(x, x + a.size(), y, [](T u, T v) {
      using Bits = std::array<std::byte, sizeof(T)>;
      return std::bit_cast<Bits>(u) == std::bit_cast<Bits>(v) ||
             (std::isnan(static_cast<double>(u)) && std::isnan(static_cast<double>(v)));
    });
  });
  return same;
}

/// Room for a program's outputs.
inline List outputs_of(const Program& program, const Shape& shape, Device device = cpu()) {
  List outputs(static_cast<std::size_t>(program.outputs));
  for (const Program::Instruction& each : program.instructions)
    if (!program.is_register(each.result))
      outputs[each.result - static_cast<std::size_t>(program.inputs)] = detail::make_tensor(each.dtype, shape, device);
  return outputs;
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
inline DType result_of(const ElementFunction& f, DType operand) {
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
inline Program single(const ElementFunction& f, DType result) {
  const int inputs = operands_of(f);
  Program::Instruction instruction{f, {}, static_cast<std::uint8_t>(inputs), result, 0.25};
  for (int i = 0; i < inputs; ++i) instruction.operands[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
  return {.instructions = {instruction}, .inputs = inputs, .outputs = 1};
}

/// Operands for f that no integer division objects to.
inline List operands_for(const ElementFunction& f, DType dtype, const Shape& shape) {
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

/// r0 = x0 * x1; y0 = tanh(r0); r1 = y0 < x2; r0 = select(r1, x3, r0); y1 = convert(r0); y2 = r1
inline Program sample() {
  Program program{.instructions = {}, .inputs = 4, .outputs = 3, .registers = 2};
  constexpr std::uint8_t y0 = 4, y1 = 5, y2 = 6, r0 = 7, r1 = 8;
  program.instructions = {{Binary::multiply, {0, 1}, r0, float32, 0}, {Unary::tanh, {r0}, y0, float32, 0},
                          {Binary::less, {y0, 2}, r1, boolean, 0},    {Ternary::select, {r1, 3, r0}, r0, float32, 0},
                          {Convert{}, {r0}, y1, float64, 0},          {Unary::logical_not, {r1}, y2, boolean, 0}};
  return program;
}

/// Calls use(inputs, shape) for operands of `sample()` that are broadcast in all ways and have all layouts.
template <class Use>
void for_each_layout(const Use& use) {
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
      const auto choice = [&](std::size_t step) { return choices[(i * step + step - 1) % choices.size()]; };
      use(List{choices[i], full, choice(3), choice(5)}, shape);
      use(List{full, choice(7), choices[i], choice(2)}, shape);
    }
  }
}

/// Calls use(program, inputs, shape) for programs of all sizes, types and registers.
template <class Use>
void for_each_random_program(int rounds, const Use& use) {
  std::mt19937 generator(1);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(generator()) % n; };
  for (int round = 0; round < rounds; ++round) {
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
    use(program, values, shape);
  }
}

}  // namespace tapestry::testing
