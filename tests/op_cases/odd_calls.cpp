#include "op_cases/odd_calls.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dispatch/recorder.hpp"
#include "fuzz/dice.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {

Ints OddNumbers::list(std::size_t from, std::int64_t count) const {
  const std::size_t size = static_cast<std::size_t>(count % 5 + 5) % 5;
  Ints numbers;
  for (std::size_t i = 0; i < size; ++i) numbers.push_back(whole.at(from + i));
  return numbers;
}

namespace {

using Function = std::function<Tensors(const Tensors&)>;
using CallOfNumbers = std::function<Tensors(const Tensors&, const OddNumbers&)>;

// ---- What is drawn ----------------------------------------------------------------------------------------------------

OddNumbers odd_numbers(Dice& dice) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max(), least = std::numeric_limits<std::int64_t>::min();
  constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  constexpr std::int64_t small[]{0, 1, 1, 2, 2, 3, -1, -1, -2};
  // Sizes of these are either small or more than there is memory for.
  constexpr std::int64_t large[]{-3,
                                 -9,
                                 4,
                                 7,
                                 8,
                                 255,
                                 1 << 12,
                                 (std::int64_t{1} << 36) + 1,
                                 1 - (std::int64_t{1} << 36),
                                 std::int64_t{1} << 40,
                                 std::int64_t{1} << 62,
                                 -(std::int64_t{1} << 62),
                                 most,
                                 most - 1,
                                 least,
                                 least + 1};
  constexpr double usual[]{0, 0.5, 1, 2, -1, 1e-3}, odd[]{-0.0, infinite, -infinite, nan, 1e300, -1e300, 1e-320, 3e9};
  constexpr std::size_t rarities[]{6, 20, 1000};
  const std::size_t rarity = dice.of(rarities);
  OddNumbers numbers;
  for (int i = 0; i < 16; ++i) numbers.whole.push_back(dice.one_in(rarity) ? dice.of(large) : dice.of(small));
  for (int i = 0; i < 4; ++i) numbers.real.push_back(dice.one_in(rarity) ? dice.of(odd) : dice.of(usual));
  return numbers;
}

Tensor odd_values(const Shape& shape, DType dtype, Dice& dice) {
  constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double special[]{0, -0.0, infinite, -infinite, nan, 1e-42, 1, -1, 6e4, 3e38},
      large[]{1e18, -1e18, 46341, -2147483648.0, 65504, 300, -1};
  const std::size_t kind = dice.below(5);
  Elements elements;
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    double element = kind == 0   ? static_cast<double>(dice.below(200)) / 100
                     : kind == 1 ? static_cast<double>(dice.below(7)) - 3
                     : kind == 2 ? static_cast<double>(dice.below(3))
                     : kind == 3 ? dice.of(special)
                                 : dice.of(large);
    if (dtype == int32) element = std::min(element, 46341.0);  // the index of no tensor that is too large
    elements.push_back(element);
  }
  return tensor(elements, shape).cast(dtype);
}

/// The tensor, or a view of its shape that is not row-major, or repeats what it has.
Tensor odd_layout(const Tensor& x, Dice& dice) {
  switch (dice.below(5)) {
    case 0:
      return flip(flip(x).contiguous());
    case 1:
      return transpose(transpose(x).contiguous());
    case 2:
      return x.size() == 0 || x.rank() == 0 ? x : broadcast_to(x(range(0, 1)), x.shape());
    default:
      return x;
  }
}

Shape odd_shape(Dice& dice) {
  constexpr std::int64_t sizes[]{0, 1, 1, 2, 2, 3, 3, 4};
  constexpr int ranks[]{0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8};
  Shape shape;
  for (int rank = dice.of(ranks); rank > 0; --rank) shape.push_back(dice.of(sizes));
  return shape;
}

/// A shape that fits the other one, or nearly does.
Shape near_to(const Shape& shape, Dice& dice) {
  Shape near;
  for (const std::int64_t size : shape) {
    const std::int64_t others[]{0, 1, size + 1};
    if (!dice.one_in(12)) near.push_back(dice.one_in(6) ? dice.of(others) : size);
  }
  if (dice.one_in(8) && near.rank() < Shape::max_rank) near.push_back(1);
  return near;
}

/// A tensor of a graph that the call does not belong to, or that is gone.
Tensor foreign(bool is_alive) {
  static const Graph kept;
  const Graph gone;
  const auto scope = (is_alive ? kept : gone).as_default();
  return placeholder(float32, {2, 3});
}

/// An argument, and whether a trace takes it as an input.
struct Argument {
  Tensor value;
  bool is_traced = true;
};

/// So many arguments, like those of a row as far as there are some.
std::vector<Argument> odd_arguments(int count, const Tensors& like, Dice& dice) {
  constexpr DType dtypes[]{float32, float64, float16, bfloat16, int32, int64, uint8, boolean};
  std::vector<Argument> arguments;
  Shape last = odd_shape(dice);
  DType dtype = dice.of(dtypes);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (dice.one_in(150)) {
      arguments.push_back({dice.one_in(2) ? Tensor() : foreign(dice.one_in(2)), false});
      continue;
    }
    if (dice.one_in(5)) dtype = dice.of(dtypes);
    Tensor x;
    if (i < like.size()) {
      x = dice.one_in(3) ? like[i].cast(dtype) : like[i];
      if (dice.one_in(3)) x = odd_values(near_to(x.shape(), dice), x.dtype(), dice);
    } else {
      const Shape shape = dice.one_in(4) ? odd_shape(dice) : near_to(last, dice);
      const bool is_index = dice.one_in(6);
      x = odd_values(shape, !is_index ? dtype : dice.one_in(2) ? int32 : int64, dice);
    }
    last = x.shape();
    arguments.push_back({odd_layout(x, dice)});
  }
  return arguments;
}

// ---- What becomes of it -----------------------------------------------------------------------------------------------

struct Outcome {
  Tensors results;
  std::string error, op;
  Where where;
  bool is_ours = true;  ///< an error is an Error, and not one of a bug

  bool refuses() const { return !error.empty(); }
  bool says(std::string_view text) const { return error.find(text) != std::string::npos; }
};

Outcome outcome_of(const std::function<Tensors()>& f) {
  Outcome outcome;
  random::seed(3);
  try {
    outcome.results = f();
  } catch (const Error& error) {
    outcome = {{}, error.what(), error.op(), error.where(), error.code() != Code::internal};
  } catch (const std::out_of_range& error) {  // the row takes one of fewer tensors than it thinks there are
    outcome = {{}, error.what(), "at", Where::here()};
  } catch (const std::exception& error) {
    outcome = {{}, error.what(), "", {}, false};
  }
  return outcome;
}

/// The results of f, and their gradients by the arguments of a float type.
Tensors with_gradients(const Function& f, const Tensors& arguments) {
  GradientTape tape;
  std::vector<Tensor> sources, targets;
  for (const Tensor& each : arguments) {
    if (!each || !is_floating(each.dtype())) continue;
    tape.watch(each);
    sources.push_back(each);
  }
  Tensors results = f(arguments);
  for (const Tensor& each : results)
    if (bool(each) && is_floating(each.dtype())) targets.push_back(each);
  if (sources.empty() || targets.empty()) return results;
  for (const Tensor& each : tape.gradient(targets, sources, {.unconnected = Unconnected::zero}))
    results.push_back(each);
  return results;
}

std::string print(const Tensors& tensors) {
  std::string text;
  for (const Tensor& each : tensors) {
    text += each ? detail::join(to_string(each.dtype()), each.shape()) : "None";
    if (bool(each) && !each.is_symbolic() && each.size() < 1000)
      for (const double element : each.to_vector<double>())
        if (text.size() < 600) text += detail::join(" ", element);
    text += "; ";
  }
  return text;
}

/// How far results may be apart where the layout of operands decides in which order sums are taken.
struct Tolerance {
  double part = 0;     ///< of the largest number
  double largest = 1;  ///< among the operands
};
Tolerance tolerance_of(const Tensors& inputs) {
  Tolerance tolerance{1e-9};
  bool is_row_major = true;
  for (const Tensor& each : inputs) {
    is_row_major = is_row_major && each.is_contiguous();
    if (each.dtype() != float64) tolerance.part = std::max(tolerance.part, is_half(each.dtype()) ? 0.1 : 1e-4);
    for (const double element : each.to_vector<double>())
      if (std::isfinite(element)) tolerance.largest = std::max(tolerance.largest, std::abs(element));
  }
  if (is_row_major) tolerance.part = 0;
  return tolerance;
}

bool nearly_same(const Tensor& a, const Tensor& b, const Tolerance& tolerance) {
  const Elements x = a.to_vector<double>(), y = b.to_vector<double>();
  double scale = tolerance.largest * tolerance.largest;  // many rows of the table square what they test
  for (const double each : y)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  if (scale > 1e37) return true;  // some order of a sum leaves the range of float32
  for (std::size_t k = 0; k < x.size(); ++k) {
    if (x[k] == y[k] || (std::isnan(x[k]) && std::isnan(y[k]))) continue;
    if (!(std::abs(x[k] - y[k]) <= tolerance.part * scale)) return false;
  }
  return true;
}

bool same(const Tensors& a, const Tensors& b, const Tolerance& tolerance) {
  constexpr std::int64_t many = 1'000'000;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Tensor& x, const Tensor& y) {
    if (x.dtype() != y.dtype() || x.shape() != y.shape()) return false;
    return x.size() > many || same_bits(x, y) ||
           (tolerance.part > 0 && is_floating(x.dtype()) && nearly_same(x, y, tolerance));
  });
}

// ---- The search -------------------------------------------------------------------------------------------------------

/// Whether a traced call may do something else than the eager one, as documented.
/// `lacks`: it may need a size or a rank that it does not know.
bool may_differ(const Outcome& eager, const Outcome& traced, bool lacks) {
  // A graph takes segments in any order and leaves negative ones out.
  if (eager.says("segment ids are not increasing") || eager.says("] is negative") || eager.says("= -")) return true;
  // An axis that turns out to be empty.
  if (eager.says("cannot be divided into") || eager.says("x must not be empty")) return true;
  // It does not know that there is a gradient, either.
  return lacks && !eager.refuses() && (traced.refuses() || traced.results.size() < eager.results.size());
}

class Search {
 public:
  void run(const std::string& name, int count, const Tensors& like, const CallOfNumbers& f, Dice& dice);
  void begin(std::string number) { call_ = std::move(number); }
  OddSearch found;

 private:
  void check(const Outcome& outcome, const std::string& how);
  void check_gradients(const Outcome& value, const Outcome& eager, const Tensors& arguments);
  void fault(const std::string& text) { found.faults.push_back(call_ + " " + text); }

  std::string call_;
};

/// What holds after each attempt.
void Search::check(const Outcome& outcome, const std::string& how) {
  if (open_sink() || !recorders().empty()) fault(how + "left a graph or a tape open");
  if (!outcome.refuses()) return;
  if (!outcome.is_ours) fault(how + "failed: " + outcome.error);
  // Rows of the table ask empty tensors for their devices, and call an op without their line.
  if (outcome.says("An empty Tensor was used") || outcome.op == "GRUSequence" || outcome.op == "LSTMSequence") return;
  const std::string_view file = outcome.where.file ? outcome.where.file : "";
  if (file.find("tests/") == std::string_view::npos) fault(how + "no line of the caller: " + outcome.error);
  // The caller makes shapes and orders of norms, and asks for sizes, and a plan gets its memory for all of its ops.
  for (const std::string_view text : {"Dimension -", "is too large", "norm: 'ord'", "The size of a", "of the shape []",
                                      "OOM when", "The run takes", "does not exist any more"})
    if (outcome.says(text)) return;
  if (outcome.op.empty()) fault(how + "no op: " + outcome.error);
}

void Search::check_gradients(const Outcome& value, const Outcome& eager, const Tensors& arguments) {
  if (value.refuses() != eager.refuses() && !eager.says("not invertible") && !eager.says("OOM when") &&
      !eager.says("does not exist any more"))
    fault("value '" + value.error + "', gradient '" + eager.error + "'");
  if (eager.results.size() <= value.results.size()) return;
  std::size_t i = value.results.size();
  for (const Tensor& each : arguments) {
    if (!each || !is_floating(each.dtype())) continue;
    if (each.is_symbolic()) return;
    if (eager.results[i].dtype() != each.dtype() || eager.results[i].shape() != each.shape())
      fault("a gradient of another shape or type: " + print({eager.results[i]}));
    ++i;
  }
}

void Search::run(const std::string& name, int count, const Tensors& like, const CallOfNumbers& f, Dice& dice) {
  const OddNumbers numbers = odd_numbers(dice);
  const std::vector<Argument> arguments = odd_arguments(count, like, dice);
  const bool has_gradients = dice.one_in(2), no_ranks = dice.one_in(8);
  Tensors values, inputs;
  std::vector<TensorSpec> known, open;
  for (const Argument& each : arguments) {
    values.push_back(each.value);
    if (!each.is_traced) continue;
    inputs.push_back(each.value);
    known.push_back(spec(each.value));
    Shape shape;
    for (const std::int64_t size : each.value.shape()) shape.push_back(dice.one_in(2) ? -1 : size);
    open.push_back(spec(each.value.dtype(), no_ranks && dice.one_in(2) ? Shape::unknown_rank() : shape));
  }
  call_ += name + "(" + print(values);
  for (const std::int64_t each : numbers.whole) call_ += " " + std::to_string(each);
  for (const double each : numbers.real) call_ += detail::join(" ", each);
  call_ += has_gradients ? ") with gradients:" : "):";

  const Function plain = [&](const Tensors& x) { return f(x, numbers); };
  const auto call = [&](const Tensors& x) { return has_gradients ? with_gradients(plain, x) : plain(x); };
  const Outcome value = outcome_of([&] { return plain(values); });
  check(value, "");
  if (value.refuses() && name != "permutation and shuffle" && random::state() != random::State{3, 0})
    fault("random numbers were drawn before an error: " + value.error);
  const Outcome eager = has_gradients ? outcome_of([&] { return call(values); }) : value;
  if (has_gradients) {
    check(eager, "");
    check_gradients(value, eager, values);
  }
  (value.refuses() ? found.refused : found.ran) += 1;
  const auto is_foreign = [](const Tensor& each) { return bool(each) && each.is_symbolic(); };
  if (std::any_of(eager.results.begin(), eager.results.end(), is_foreign)) return;

  for (const bool is_open : {false, true}) {
    const std::string how = is_open ? "traced with unknown sizes: " : "traced: ";
    bool is_made = false;
    const Outcome traced = outcome_of([&] {
      const auto step = trace(
          [&](const std::vector<Tensor>& x) {
            Tensors all_values;
            auto next = x.begin();
            for (const Argument& each : arguments) all_values.push_back(each.is_traced ? *next++ : each.value);
            const Tensors results = call(all_values);
            return std::vector<Tensor>(results.begin(), results.end());
          },
          is_open ? open : known);
      is_made = true;
      return Tensors(step(std::vector<Tensor>(inputs.begin(), inputs.end())));
    });
    check(traced, how);
    found.traced += !traced.refuses();
    const bool alike = traced.refuses() ? eager.refuses()
                                        : !eager.refuses() && same(traced.results, eager.results, tolerance_of(inputs));
    if (alike || may_differ(eager, traced, is_open && (!is_made || no_ranks))) continue;
    fault(how + (traced.refuses() ? traced.error : print(traced.results)) + " instead of " +
          (eager.refuses() ? eager.error : print(eager.results)));
  }
}

}  // namespace

OddSearch search_odd_calls(unsigned seed, long cases) {
  const OpCases rows = op_cases();
  const std::vector<OddFunction> functions = odd_functions();
  Search search;
  for (long i = 0; i < cases && search.found.faults.size() < 10; ++i) {
    Dice dice(seed, static_cast<std::uint64_t>(i));
    search.begin(detail::join("seed ", seed, ", case ", i, ": "));
    if (dice.one_in(3)) {
      const OpCase& row = dice.of(rows);
      const auto f = [&row](const Tensors& x, const OddNumbers&) -> Tensors {
        return {row.f(std::vector<Tensor>(x.begin(), x.end()))};
      };
      search.run(row.name, static_cast<int>(row.inputs.size()), Tensors(row.inputs.begin(), row.inputs.end()), f, dice);
    } else {
      const OddFunction& function = dice.of(functions);
      search.run(function.name, function.tensors, {}, function.f, dice);
    }
  }
  return search.found;
}

}  // namespace tapestry::test
