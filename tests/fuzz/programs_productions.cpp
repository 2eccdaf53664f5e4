// What programs are made of.

#include <algorithm>
#include <utility>

#include "fuzz/programs.hpp"

namespace tapestry::test::programs {
namespace {

bool any_value(const Tensor&) { return true; }
bool has_axes(const Tensor& x) { return x.rank() > 0; }

/// A number of the step that stands for a choice of one in `count`.
std::size_t choice(const Step& step, std::size_t i, std::size_t count) {
  return static_cast<std::size_t>(step.numbers[i]) % count;
}
std::int64_t some_axis(Generator& g, const Tensor& x) { return g.dice.between(-x.rank(), x.rank() - 1); }
Ints from(const Step& step, std::size_t first) {
  return Ints(step.numbers.begin() + static_cast<std::ptrdiff_t>(first), step.numbers.end());
}
Shape shape_from(const Step& step, std::size_t first) { return Shape(from(step, first)); }
void append_some_shape(Generator& g, std::vector<std::int64_t>& numbers) {
  const std::int64_t rank = g.dice.between(0, 3);
  for (std::int64_t i = 0; i < rank; ++i) numbers.push_back(g.dice.between(g.dice.chance(5) ? 0 : 1, 4));
}

/// A production of one operand for which `suits` is true, with the numbers that `numbers` thinks out for it.
Production of_one(std::string_view name, int weight, bool (*suits)(const Tensor&),
                  std::vector<std::int64_t> (*numbers)(Generator&, const Tensor&),
                  Tensor (*run)(const Step&, const Tensor&)) {
  return {name, weight,
          [=](Generator& g, Values& values) -> Made {
            const auto operand = g.value_where(values, suits);
            if (!operand) return {};
            return Step{.operands = {*operand}, .numbers = numbers(g, values[*operand]), .dtype = g.some_dtype()};
          },
          [=](Machine&, const Step& step, const Values& x) { return run(step, x[0]); }};
}

// ---- Rows of the op table, and arguments that fit them ------------------------------------------------------------

Step sample(Generator& g, const OpCase& row, std::size_t argument) {
  const DType dtype = row.inputs[argument].dtype();
  return {.production = &production("sample"),
          .row = &row,
          .numbers = {static_cast<std::int64_t>(argument)},
          .dtype = is_floating(dtype) && g.dice.chance(80) ? g.some_dtype() : dtype};
}

/// The elements of a float tensor, over and over, in a shape of known sizes.
Step fit(std::size_t operand, const Tensor& x, const Shape& shape) {
  Step step{.production = &production("fit"), .operands = {operand}, .numbers = {x.size()}};
  for (const std::int64_t size : shape.to_vector()) step.numbers.push_back(size);
  return step;
}

bool broadcast_together(const Tensor& a, const Tensor& b) {
  try {
    return broadcast_shapes(a.shape(), b.shape()).rank() >= 0;
  } catch (const Error&) {
    return false;
  }
}

std::size_t argument(Generator& g, Values& values, const OpCase& row, std::size_t i,
                     const std::vector<std::size_t>& chosen) {
  const Tensor& wanted = row.inputs[i];
  const bool wants_float = is_float(wanted);
  std::optional<std::size_t> found;
  const auto same_kind = [&](const Tensor& x) { return wants_float ? is_float(x) : x.dtype() == wanted.dtype(); };
  if (g.dice.chance(50))
    found = g.value_where(values, [&](const Tensor& x) { return same_kind(x) && x.shape() == wanted.shape(); });
  if (!found && i > 0 && g.dice.chance(60))
    found = g.value_where(values,
                          [&](const Tensor& x) { return same_kind(x) && broadcast_together(x, values[chosen[0]]); });
  if (!found && g.dice.chance(40)) found = g.value_where(values, same_kind);
  if (!found && g.dice.chance(5)) found = g.value_where(values, any_value);
  if (found) return *found;
  if (wants_float && wanted.size() > 0 && g.dice.chance(60)) {
    const auto other = g.value_where(values, [](const Tensor& x) { return is_float(x) && x.size() > 0; });
    if (other) return g.prepend(fit(*other, values[*other], wanted.shape()), values);
  }
  return g.prepend(sample(g, row, i), values);
}

Made make_row(Generator& g, Values& values) {
  const OpCase& row = g.dice.one_of(rows());
  Step step{.row = &row};
  for (std::size_t i = 0; i < row.inputs.size(); ++i)
    step.operands.push_back(argument(g, values, row, i, step.operands));
  return step;
}

Tensor run_row(Machine&, const Step& step, const Values& x) {
  try {
    return step.row->f(x);
  } catch (const std::out_of_range&) {
    throw OutOfRangeError("There are fewer parts than the row of the table takes");
  }
}

// Constants are in row-major order, which a file gives them, too: sums and products of other layouts may round
// otherwise.

Tensor run_sample(Machine&, const Step& step, const Values&) {
  return step.row->inputs[static_cast<std::size_t>(step.numbers[0])].cast(step.dtype);
}

Tensor run_fit(Machine&, const Step& step, const Values& x) {
  const Shape shape = shape_from(step, 1);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < shape.size(); ++i) places.push_back(i % step.numbers[0]);
  return reshape(gather(reshape(x[0], {-1}), tensor(places), 0), shape);
}

// ---- Values ---------------------------------------------------------------------------------------------------------

Made make_constant(Generator& g, Values&) {
  Step step{.numbers = {g.dice.between(0, 1000), g.dice.between(0, 2)}, .dtype = g.some_dtype()};
  append_some_shape(g, step.numbers);
  return step;
}
Tensor run_constant(Machine&, const Step& step, const Values&) {
  Data data{.dtype = step.dtype,
            .numbers = static_cast<Numbers>(step.numbers[1]),
            .seed = static_cast<unsigned>(step.numbers[0])};
  std::vector<Size> sizes;
  for (const std::int64_t size : from(step, 2)) {
    data.axes.push_back(sizes.size());
    sizes.push_back({size, size, false});
  }
  return make(data, sizes, false);
}

Tensor run_number(const Step& step, const Tensor& x) {
  const double number = static_cast<double>(step.numbers[1]) / 2;
  const std::int64_t whole = step.numbers[1];
  switch (choice(step, 0, 10)) {
    case 0:
      return x * number;
    case 1:
      return x + number;
    case 2:
      return x - number;
    case 3:
      return number / x;
    case 4:
      return x / number;
    case 5:
      return number - x;
    case 6:
      return x * whole;
    case 7:
      return power(x, number);
    case 8:
      return maximum(x, number);
    default:
      return x - whole;
  }
}

Tensor run_random(Machine& m, const Step& step, const Values& x) {
  const Shape shape = shape_from(step, 1);
  const DType dtype = is_floating(step.dtype) ? step.dtype : float32;
  switch (choice(step, 0, 8)) {
    case 0:
      return m.observe(random::uniform(shape, {.low = -1, .high = 2, .dtype = dtype}));
    case 1:
      return m.observe(random::normal(shape, {.dtype = dtype}));
    case 2:
      return m.observe(random::randint(-3, 4, shape));
    case 3:
      return m.observe(random::bernoulli(shape, 0.3, {.dtype = dtype}));
    case 4:
      return m.observe(random::truncated_normal(shape, {.dtype = dtype}));
    case 5:
      return m.observe(random::shuffle(x[0]));
    case 6:
      return m.observe(random::bernoulli_like(x[0], 0.7));
    default:
      return m.observe(dropout(x[0], 0.4));
  }
}
Made make_random(Generator& g, Values& values) {
  Step step{.numbers = {g.dice.between(0, 7)}, .dtype = g.some_dtype()};
  const auto operand = g.value_where(values, step.numbers[0] == 5 ? has_axes : is_float);
  if (!operand) return {};
  step.operands = {*operand};
  append_some_shape(g, step.numbers);
  return step;
}

// ---- Shapes ---------------------------------------------------------------------------------------------------------

std::vector<std::int64_t> permutation(Generator& g, const Tensor& x) {
  std::vector<std::int64_t> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  for (std::size_t i = axes.size(); i > 1; --i) std::swap(axes[i - 1], axes[g.dice.below(i)]);
  return axes;
}
/// Where a part of x begins along each axis, and after that its sizes.
std::vector<std::int64_t> part(Generator& g, const Tensor& x) {
  const auto rank = static_cast<std::size_t>(x.rank());
  const std::vector<std::int64_t> whole = x.shape().to_vector();
  std::vector<std::int64_t> found(2 * rank);
  for (std::size_t i = 0; i < rank; ++i) {
    found[i] = g.dice.between(0, g.dice.chance(60) ? 0 : whole[i]);
    found[rank + i] = g.dice.chance(50) ? -1 : g.dice.between(0, whole[i] - found[i]);
  }
  return found;
}
std::vector<std::int64_t> steps_along(Generator& g, const Tensor& x) {
  const std::int64_t most =
      std::max<std::int64_t>(1, std::max(x.shape().to_vector().front(), x.shape().to_vector().back()));
  return {g.dice.between(0, 1), g.dice.between(-most, most), g.dice.between(-most, most),
          g.dice.chance(50) ? 1 : g.dice.between(-3, 2), g.dice.between(0, 3)};
}
Tensor run_steps(const Step& step, const Tensor& x) {
  const std::int64_t by = step.numbers[3] == 0 ? -1 : step.numbers[3];
  const auto open = step.numbers[4];
  const RangeIndex places = range((open & 1) != 0 ? std::nullopt : std::optional(step.numbers[1]),
                                  (open & 2) != 0 ? std::nullopt : std::optional(step.numbers[2]), by);
  return step.numbers[0] == 0 ? x(places) : x(ellipsis, places);
}
std::vector<std::int64_t> wider(Generator& g, const Tensor& x) {
  std::vector<std::int64_t> sizes;
  if (x.rank() < Shape::max_rank && g.dice.chance(50)) sizes.push_back(g.dice.between(1, 3));
  for (const std::int64_t size : x.shape().to_vector())
    sizes.push_back(size == 1 && g.dice.chance(60) ? g.dice.between(0, 4) : -1);
  return sizes;
}
/// Some sizes whose product divides the number of elements, and one that is not told.
std::vector<std::int64_t> another_shape(Generator& g, const Tensor& x) {
  std::vector<std::int64_t> sizes;
  std::int64_t rest = std::max<std::int64_t>(x.size(), 1);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t size = g.dice.between(1, 4);
    if (rest % size != 0 || g.dice.chance(30)) continue;
    sizes.push_back(size);
    rest /= size;
  }
  sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(g.dice.below(sizes.size() + 1)), -1);
  return sizes;
}

Tensor run_like(Machine&, const Step& step, const Values& x) {
  switch (choice(step, 0, 5)) {
    case 0:
      return broadcast_like(x[0], x[1]);
    case 1:
      return reshape_like(x[0], x[1]);
    case 2:
      return sum_like(x[0], x[1]);
    case 3:
      return size_like(x[0], x[1]);
    default:
      return x[0] * ones_like(x[1]);
  }
}
Made make_like(Generator& g, Values& values) {
  return Step{.operands = {g.dice.below(values.size()), g.dice.below(values.size())},
              .numbers = {g.dice.between(0, 4)}};
}

/// Shapes that are made of the sizes of values.
Tensor run_sizes(Machine& m, const Step& step, const Values& x) {
  const Tensor &a = x[0], &b = x[1];
  const Dimension size = a.shape()[step.numbers[1]];
  const Shape shape{size, step.numbers[3], b.shape()[step.numbers[2]]};
  switch (choice(step, 0, 8)) {
    case 0:
      return zeros(shape);
    case 1:
      return ones(a.shape(), {.dtype = float64});
    case 2:
      return full(shape, 1.5);
    case 3:
      return m.observe(random::normal(shape));
    case 4:
      return m.observe(random::uniform(b.shape()));
    case 5:
      return reshape(a, {size, -1});
    case 6:
      return broadcast_to(zeros_like(b(0)), {size, step.numbers[3], b.shape()[0]});
    default:
      return tapestry::size(a, step.numbers[1]);
  }
}
Made make_sizes(Generator& g, Values& values) {
  const auto a = g.value_where(values, has_axes), b = g.value_where(values, has_axes);
  if (!a || !b) return {};
  return Step{
      .operands = {*a, *b},
      .numbers = {g.dice.between(0, 7), some_axis(g, values[*a]), some_axis(g, values[*b]), g.dice.between(0, 3)}};
}

// ---- Variables ------------------------------------------------------------------------------------------------------

Made make_read(Generator& g, Values&) {
  if (g.variables() == 0) return {};
  return Step{.numbers = {static_cast<std::int64_t>(g.dice.below(g.variables()))}};
}
Tensor run_read(Machine& m, const Step& step, const Values&) { return m.variable(step.numbers[0]).value(); }

Made make_assign(Generator& g, Values& values) {
  if (g.variables() == 0 || g.pure) return {};
  const std::size_t which = g.dice.below(g.variables());
  const Variable& variable = g.variable(which);
  auto value = g.value_where(
      values, [&](const Tensor& x) { return x.shape() == variable.shape() && x.dtype() == variable.dtype(); });
  if (!value && is_floating(variable.dtype())) {
    const auto other = g.value_where(values, [](const Tensor& x) { return is_float(x) && x.size() > 0; });
    if (other) value = g.prepend(fit(*other, values[*other], variable.shape()), values);
  }
  if (!value) return {};
  return Step{.operands = {*value}, .numbers = {static_cast<std::int64_t>(which), g.dice.between(0, 2)}};
}
Tensor run_assign(Machine& m, const Step& step, const Values& x) {
  Variable variable = m.variable(step.numbers[0]);
  switch (choice(step, 1, 3)) {
    case 0:
      return m.observe(variable.assign(x[0]));
    case 1:
      return m.observe(variable.assign_add(x[0]));
    default:
      return m.observe(variable.assign_sub(x[0]));
  }
}

// ---- Functions of the program ---------------------------------------------------------------------------------------

/// A function of one to three values, some of them of a float type.
Made make_function(Generator& g, Values& values, bool pure) {
  if (g.depth >= 3) return {};
  Step step{.numbers = {g.dice.between(0, 5), g.dice.between(0, 1), g.dice.between(0, 4)}};
  const auto first = g.value_where(values, is_float);
  if (!first) return {};
  step.operands = {*first};
  while (step.operands.size() < 3 && g.dice.chance(50)) step.operands.push_back(g.dice.below(values.size()));
  Values arguments;
  for (const std::size_t operand : step.operands) arguments.push_back(values[operand]);
  const bool outside = std::exchange(g.pure, g.pure || pure);
  ++g.depth;
  step.body = g.body(arguments, 1 + g.dice.below(4), true);
  --g.depth;
  g.pure = outside;
  if (step.body.empty()) return {};
  return step;
}
Made make_tape(Generator& g, Values& values) {
  ++g.tapes;
  Made step = make_function(g, values, false);
  --g.tapes;
  return step;
}
Made make_pure(Generator& g, Values& values) { return make_function(g, values, true); }

Values float_ones(const Values& x) {
  Values found;
  std::copy_if(x.begin(), x.end(), std::back_inserter(found), is_float);
  return found;
}

/// The gradient by one of the operands. All are compared.
Tensor run_tape(Machine& m, const Step& step, const Values& x) {
  Values arguments;
  for (const Tensor& each : x) arguments.push_back(identity(each));
  const Values sources = float_ones(arguments);
  if (sources.empty()) throw InvalidArgumentError("A tape without a source");
  GradientTape tape;
  for (const Tensor& source : sources) tape.watch(source);
  Tensor value = m.observe(m.run(step.body, arguments));
  // What nothing needs is not refused in a trace: with this seed, which may not fit, the value depends on a source.
  const bool is_seeded = step.numbers[2] == 0 && is_float(value);
  if (is_seeded) value = value + (reduce_mean(sources[0]) * 0).cast(value.dtype());
  const bool by_graph =
      m.place() == Machine::Place::graph && step.numbers[1] != 0 &&
      std::all_of(sources.begin(), sources.end(), [](const Tensor& source) { return source.is_symbolic(); });
  // Where the first operand has another shape than the value, it is refused as the value's gradient. Sums of a gradient
  // add up in the order of its memory, which a graph need not keep.
  const Tensor seed = is_seeded              ? x[0].contiguous().cast(value.dtype())
                      : step.numbers[2] == 1 ? reduce_mean(x[0].contiguous()).cast(value.dtype()) + ones_like(value)
                                             : Tensor();
  const GradientOptions options{.output_gradients = seed, .unconnected = Unconnected::zero, .stop_gradients = sources};
  const Values gradients = by_graph && value.is_symbolic() ? tapestry::gradients(value, sources, options)
                                                           : tape.gradient(value, sources, options);
  for (const Tensor& each : gradients) m.observe(each);
  return gradients[choice(step, 0, gradients.size())];
}

Tensor run_recompute(Machine& m, const Step& step, const Values& x) {
  return detail::recompute(
      [&m, &step](const Tensors& operands) -> Tensors { return {m.run_quietly(step.body, operands)}; },
      Tensors(x.begin(), x.end()), Where::here())[0];
}

/// With a gradient that is not the function's own.
Tensor run_custom_gradient(Machine& m, const Step& step, const Values& x) {
  return detail::custom_gradient(
      [&m, &step](const Tensors& operands) {
        return CustomGradient{m.run_quietly(step.body, operands), [operands](const Tensor& g) {
                                Tensors found;
                                for (const Tensor& each : operands)
                                  found.push_back(is_float(each) ? each * reduce_mean(g).cast(each.dtype()) : Tensor());
                                return found;
                              }};
      },
      Tensors(x.begin(), x.end()), Where::here());
}

}  // namespace

const OpCases& rows() {
  static const OpCases& table = *new OpCases(op_cases());
  return table;
}

const std::vector<Production>& productions() {
  static const auto& list = *new std::vector<Production>([] {
    std::vector<Production> all = flow_productions(), composites = composite_productions();
    all.insert(all.end(), composites.begin(), composites.end());
    const std::vector<Production> others{
        {"row", 60, make_row, run_row},
        {"sample", 0, {}, run_sample},
        {"fit", 0, {}, run_fit},
        {"constant", 4, make_constant, run_constant},
        of_one(
            "number", 8, any_value,
            [](Generator& g, const Tensor&) {
              return std::vector{g.dice.between(0, 9), g.dice.between(-4, 4)};
            },
            run_number),
        of_one(
            "cast", 6, any_value, [](Generator&, const Tensor&) { return std::vector<std::int64_t>{}; },
            [](const Step& step, const Tensor& x) { return x.cast(step.dtype); }),
        of_one(
            "layout", 5, has_axes,
            [](Generator& g, const Tensor&) { return std::vector{g.dice.between(1, layouts - 1)}; },
            [](const Step& step, const Tensor& x) { return laid_out(x, static_cast<Layout>(step.numbers[0])); }),
        of_one("transpose", 5, has_axes, permutation,
               [](const Step& step, const Tensor& x) { return transpose(x, from(step, 0)); }),
        of_one("slice", 5, has_axes, part,
               [](const Step& step, const Tensor& x) {
                 const std::ptrdiff_t rank = std::ssize(step.numbers) / 2;
                 return slice(x, Ints(step.numbers.begin(), step.numbers.begin() + rank),
                              Ints(step.numbers.begin() + rank, step.numbers.end()));
               }),
        of_one("steps", 4, has_axes, steps_along, run_steps),
        of_one(
            "expand_dims", 4, any_value,
            [](Generator& g, const Tensor& x) { return std::vector{g.dice.between(-x.rank() - 1, x.rank())}; },
            [](const Step& step, const Tensor& x) { return expand_dims(x, step.numbers[0]); }),
        of_one(
            "squeeze", 3, [](const Tensor& x) { return x.rank() > 0 && x.size() == x.shape().to_vector().back(); },
            [](Generator& g, const Tensor& x) { return std::vector{some_axis(g, x)}; },
            [](const Step& step, const Tensor& x) { return squeeze(x, step.numbers[0]); }),
        of_one(
            "flip", 3, has_axes, [](Generator& g, const Tensor& x) { return std::vector{some_axis(g, x)}; },
            [](const Step& step, const Tensor& x) { return flip(x, step.numbers[0]); }),
        of_one("broadcast_to", 4, any_value, wider,
               [](const Step& step, const Tensor& x) { return broadcast_to(x, shape_from(step, 0)); }),
        of_one("reshape", 5, any_value, another_shape,
               [](const Step& step, const Tensor& x) { return reshape(x, shape_from(step, 0)); }),
        {"like", 5, make_like, run_like},
        {"sizes", 6, make_sizes, run_sizes},
        {"random", 4, make_random, run_random},
        {"read", 6, make_read, run_read},
        {"assign", 5, make_assign, run_assign},
        {"tape", 10, make_tape, run_tape},
        {"recompute", 3, make_pure, run_recompute},
        {"custom_gradient", 3, make_pure, run_custom_gradient},
    };
    all.insert(all.begin(), others.begin(), others.end());
    return all;
  }());
  return list;
}

const Production& production(std::string_view name) {
  for (const Production& each : productions())
    if (each.name == name) return each;
  throw NotFoundError(detail::join("There is no production '", name, "'"));
}

}  // namespace tapestry::test::programs
