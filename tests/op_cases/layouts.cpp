#include "op_cases/layouts.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Random decisions. Only the engine's own numbers are the same everywhere.
class Dice {
 public:
  explicit Dice(std::mt19937& generator) : generator_(generator) {}
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(generator_()) % n; }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(list.size())))];
  }

 private:
  std::mt19937& generator_;
};

/// A way to lay elements out in memory: a view of a larger row-major array, made by ops, so that the same view can be
/// made of a symbolic tensor.
class Layout {
 public:
  /// Of tensors of that shape: the axes in any order, forwards or backwards, with gaps between their elements, or
  /// repeating one element.
  Layout(const Shape& shape, std::mt19937& generator);

  /// The array's shape.
  const Shape& base() const { return base_; }
  /// The view of the array.
  Tensor view(Tensor base) const;
  /// The place in the array of each element of the view, in row-major order.
  std::vector<std::size_t> places() const;

 private:
  Shape shape_, base_;
  Ints order_;         ///< the view's axes, and then those that only make gaps, as axes of the base
  Ints begin_, size_;  ///< the part of each that is seen
  Ints gaps_;          ///< the axes that are then taken away
  Ints backwards_;     ///< the axes that run backwards
};

Layout::Layout(const Shape& shape, std::mt19937& generator) : shape_(shape) {
  Dice dice(generator);
  const int rank = shape.rank(), kind = static_cast<int>(dice.below(5));  // 0: as it is; 1: with many repetitions
  Ints sizes, places;
  for (int i = 0; i < rank; ++i) {
    const bool repeats = kind > 0 && dice.one_in(kind == 1 ? 2 : 5);
    const std::int64_t size = repeats ? 1 : shape.sizes()[static_cast<std::size_t>(i)],
                       before = kind > 0 && dice.one_in(5) ? 1 : 0;
    begin_.push_back(before);
    size_.push_back(size);
    sizes.push_back(before + size + (kind > 0 && dice.one_in(5) ? 1 : 0));
    if (kind > 0 && dice.one_in(4)) backwards_.push_back(i);
  }
  if (kind > 0 && rank < Shape::max_rank && dice.one_in(4)) {
    gaps_.push_back(rank);
    begin_.push_back(dice.below(2));
    size_.push_back(1);
    sizes.push_back(2);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) places.push_back(static_cast<std::int64_t>(i));
  for (std::size_t i = sizes.size(); kind > 0 && i-- > 1;)
    if (dice.one_in(2))
      std::swap(places[i], places[static_cast<std::size_t>(dice.below(static_cast<std::int64_t>(i)))]);
  order_ = Ints(sizes.size());
  for (std::size_t i = 0; i < places.size(); ++i) {
    base_.push_back(sizes[static_cast<std::size_t>(places[i])]);
    order_[static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i);
  }
}

Tensor Layout::view(Tensor base) const {
  Tensor x = slice(transpose(base, order_), begin_, size_);
  if (!gaps_.empty()) x = squeeze(x, Axes(std::vector<std::int64_t>(gaps_.begin(), gaps_.end())));
  if (!backwards_.empty()) x = flip(x, Axes(std::vector<std::int64_t>(backwards_.begin(), backwards_.end())));
  return broadcast_to(x, shape_);
}

std::vector<std::size_t> Layout::places() const {
  const auto axes = order_.size();
  std::vector<std::int64_t> stride(axes);
  std::int64_t next = 1;
  for (std::size_t i = axes; i-- > 0; next *= base_[static_cast<int>(i)]) stride[i] = next;
  std::vector<std::size_t> places;
  for (std::int64_t i = 0; i < shape_.size(); ++i) {
    std::int64_t rest = i, place = 0;
    for (std::size_t axis = axes; axis-- > 0;) {
      std::int64_t index = 0;
      if (static_cast<int>(axis) < shape_.rank()) {
        const std::int64_t all = shape_[static_cast<int>(axis)];
        index = size_[axis] == all ? rest % all : 0;
        rest /= all;
        if (std::find(backwards_.begin(), backwards_.end(), static_cast<std::int64_t>(axis)) != backwards_.end())
          index = size_[axis] - 1 - index;
      }
      place += (begin_[axis] + index) * stride[static_cast<std::size_t>(order_[axis])];
    }
    places.push_back(static_cast<std::size_t>(place));
  }
  return places;
}

/// An argument of a row: its elements, and how they lie.
struct Argument {
  DType dtype;
  Shape shape;
  Layout layout;
  Elements base;  ///< the elements of the array of which the argument is a view

  Tensor array(const Device& device) const { return tensor(base, layout.base()).cast(dtype).to(device); }
  Tensor row_major(const Device& device) const {
    Elements elements;
    for (const std::size_t place : layout.places()) elements.push_back(base[place]);
    return tensor(elements, shape).cast(dtype).to(device);
  }
};

/// What lies where nobody should read.
double poison(DType dtype, std::size_t i) {
  if (dtype == boolean) return static_cast<double>(i % 2);
  if (dtype == uint8) return 77;
  return is_floating(dtype) && i % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : 777;
}

/// `elements`, repeated from the start where there are too few, in a random layout of that shape.
Argument lay_out(const Elements& elements, DType dtype, const Shape& shape, std::mt19937& generator) {
  Argument argument{dtype, shape, Layout(shape, generator), {}};
  for (std::int64_t i = 0; i < argument.layout.base().size(); ++i)
    argument.base.push_back(poison(dtype, static_cast<std::size_t>(i)));
  std::size_t i = 0;
  for (const std::size_t place : argument.layout.places())
    argument.base[place] = elements.empty() ? 1 : elements[i++ % elements.size()];
  return argument;
}

/// Leaves 777 and NaN in the memory that the next tensors of up to so many floats get.
void soil(const Device& device, std::int64_t most) {
  Inputs held;
  for (std::int64_t floats = 1; floats <= most; floats += std::max<std::int64_t>(8, floats / 8))
    for (const float trash : {777.0F, std::numeric_limits<float>::quiet_NaN(), 777.0F})
      held.push_back(full({floats}, trash, {.device = device}));
}

/// The sizes of the arguments after some of those that occur have been replaced by others, wherever they occur, so that
/// most of the functions still take them; some have further axes in front.
std::vector<Shape> other_sizes(const Inputs& inputs, Dice& dice) {
  static const std::vector<std::int64_t> sizes{0, 1, 1, 1, 2, 3, 5, 9}, large{17, 33, 65, 130, 300};
  std::map<std::int64_t, std::int64_t> replaced;
  const bool keeps = dice.one_in(3), ones = dice.one_in(4);
  Shape front;
  for (std::int64_t more = dice.one_in(6) ? 1 + dice.below(3) : 0; more > 0; --more)
    front.push_back(dice.one_of(sizes));
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) {
    const bool has_front = input.rank() + front.rank() <= Shape::max_rank && (inputs.size() == 1 || !dice.one_in(4));
    Shape shape = has_front ? front : Shape();
    for (const std::int64_t size : input.shape()) {
      const auto [place, is_new] = replaced.try_emplace(size, size);
      if (is_new && !keeps && dice.one_in(2)) place->second = dice.one_of(dice.one_in(12) ? large : sizes);
      shape.push_back(ones && dice.one_in(4) ? 1 : place->second);
    }
    shapes.push_back(shape);
  }
  return shapes;
}

/// Whether a row takes a moment with arguments of such shapes, and no product of numbers in it gets so large that the
/// order decides whether it is infinite.
bool are_small(const OpCase& row, const std::vector<Shape>& shapes) {
  if (row.name.starts_with("reduce_prod") && shapes[0].size() > 24) return false;
  double work = 1;
  for (const Shape& shape : shapes) {
    double elements = 1;
    for (const std::int64_t size : shape) elements *= static_cast<double>(std::max<std::int64_t>(size, 1));
    if (elements > 2e4) return false;
    work *= elements;
  }
  return work < 3e6;
}

/// The elements of a row's argument as numbers of the type. Whole ones of the same order, so that sums are exact, for
/// the whole types and, if asked, for floats.
Elements elements_of(const Tensor& input, DType dtype, bool whole) {
  Elements elements = input.to_vector<double>();
  if (!is_floating(input.dtype())) return elements;
  for (double& each : elements) {
    if (whole || !is_floating(dtype)) each = std::round(4 * each);
    if (dtype == uint8 || dtype == boolean) each = std::abs(each);
  }
  return elements;
}

/// How a run went.
struct Outcome {
  Inputs results;     ///< the value and the gradients
  std::string error;  ///< what was said instead
};

/// The row's function of the inputs, and its gradients by those of a float type. `seed`: of the gradients that come in,
/// which lie in a random layout if `laid_out`.
Inputs evaluate(const OpCase& row, const Inputs& inputs, unsigned seed, bool laid_out) {
  GradientTape tape;
  Inputs sources;
  for (const Tensor& input : inputs) {
    if (row.orders == 0 || !is_floating(input.dtype())) continue;
    tape.watch(input);
    sources.push_back(input);
  }
  Inputs results{row.f(inputs)};
  const Tensor& y = results[0];
  if (sources.empty() || !is_floating(y.dtype())) return results;
  std::mt19937 generator(seed);
  Tensor g;
  if (!row.open) {
    const Argument incoming = lay_out({1, -2, 3, 0, 2}, y.dtype(), y.shape(), generator);
    g = laid_out ? incoming.layout.view(incoming.array(y.device())) : incoming.row_major(y.device());
  }
  for (const Tensor& each : tape.gradient(y, sources, {.output_gradients = g, .unconnected = Unconnected::zero}))
    results.push_back(each);
  return results;
}

template <class F>
Outcome outcome_of(const F& f) {
  Outcome outcome;
  random::seed(3);
  try {
    outcome.results = f();
  } catch (const Error& error) {
    outcome.error = error.message();
  } catch (const std::out_of_range& error) {  // the row takes one of fewer tensors than it thinks there are
    outcome.error = error.what();
  }
  return outcome;
}

/// The row as a plan that is fed with the arrays and makes the views itself.
Inputs run_traced(const OpCase& row, const std::vector<Argument>& arguments, unsigned seed, const Device& device) {
  std::vector<TensorSpec> specs;
  Inputs arrays;
  for (const Argument& each : arguments) {
    specs.push_back(spec(each.dtype, each.layout.base()));
    arrays.push_back(each.array(device));
  }
  const auto f = [&](const Inputs& bases) {
    Inputs views;
    for (std::size_t i = 0; i < bases.size(); ++i) views.push_back(arguments[i].layout.view(bases[i]));
    return evaluate(row, views, seed, true);
  };
  const auto place = tapestry::device(device);
  const auto traced = trace(f, specs);
  Session session(traced.graph());
  Feeds feeds;
  for (std::size_t i = 0; i < arrays.size(); ++i) feeds.add(traced.input(i), arrays[i]);
  return session.run(traced.outputs(), feeds);
}

/// The types of the ops that a row and its gradients are made of.
const std::set<std::string>& ops_of(const OpCase& row) {
  static std::map<std::string, std::set<std::string>> known;
  const auto [place, is_new] = known.try_emplace(row.name);
  if (!is_new) return place->second;
  std::vector<TensorSpec> specs;
  for (const Tensor& input : row.inputs) specs.push_back(spec(input.dtype(), input.shape()));
  const auto traced = trace([&](const Inputs& inputs) { return evaluate(row, inputs, 1, false); }, specs);
  for (const Operation& operation : traced.graph().operations()) place->second.insert(operation.type());
  return place->second;
}

/// Whether the row adds or multiplies many numbers up. The layout of its operands decides in which order, and so
/// decides the last bit. On other devices than the CPU it does so for convolutions, too, whose library goes by
/// alignment, and for batches, whose normalization is made of sums.
bool adds_up(const OpCase& row, const Device& device) {
  static const std::set<std::string> sums{"Sum",    "SumLike",       "Mean",        "Prod",
                                          "MatMul", "BatchMatMulV2", "GRUSequence", "LSTMSequence"},
      elsewhere{"Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "BatchNormTraining"};
  return std::any_of(ops_of(row).begin(), ops_of(row).end(), [&](const std::string& type) {
    return sums.contains(type) || (!device.is_cpu() && elsewhere.contains(type));
  });
}

/// How far results may be apart where sums of a type are rounded, as a part of the largest element. What follows may
/// make that larger: where all elements are equal, what a normalization divides by is small, and what it divides is
/// rounding, which the gradient of its scale adds up over all rows.
double rounding(DType dtype) {
  return dtype == float64 ? 1e-11 : dtype == float32 ? 1e-2 : dtype == float16 ? 0x1p-8 : 0x1p-5;
}

bool same(const Tensor& a, const Tensor& b, double tolerance) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Elements x = a.to_vector<double>(), y = b.to_vector<double>();
  double scale = 1;
  for (const double each : y)
    if (std::isfinite(each)) scale = std::max(scale, std::abs(each));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool equal = x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i]);
    if (equal || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!is_floating(a.dtype()) || !(std::abs(x[i] - y[i]) <= tolerance * scale)) return false;
  }
  return true;
}

/// What is different, or nothing.
std::string difference(const Outcome& found, const Outcome& expected, double tolerance) {
  if (found.error != expected.error) return "'" + found.error + "' instead of '" + expected.error + "'";
  for (std::size_t i = 0; i < expected.results.size(); ++i)
    if (!same(found.results[i], expected.results[i], tolerance)) {
      std::string text = i == 0 ? "the value: " : "gradient " + std::to_string(i - 1) + ": ";
      for (const Tensor* each : {&found.results[i], &expected.results[i]}) {
        text += to_string(each->dtype()) + to_string(each->shape()) + " ";
        for (const double element : each->to_vector<double>())
          if (text.size() < 400) text += std::to_string(element) + " ";
      }
      return text;
    }
  return {};
}

std::string describe(const OpCase& row, const Inputs& inputs) {
  std::string text = row.name + "(";
  for (const Tensor& input : inputs) {
    text += to_string(input.dtype()) + to_string(input.shape()) + " strides ";
    for (const std::int64_t stride : input.strides()) text += std::to_string(stride) + " ";
  }
  return text + ")";
}

/// Products whose sizes make a plan join them with what follows, a gradient that is broadcast, and windows whose
/// padding makes them possible around an image of nothing.
OpCases more_rows() {
  OpCases rows{
      {.name = "product with bias and activation",
       .inputs = {numbers({64, 3}, -1, 1, 1), numbers({3, 72}, -1, 1, 2), numbers({72}, -1, 1, 3)},
       .f = [](const Inputs& x) { return relu(matmul(x[0], x[1]) + x[2]); }},
      {.name = "product of transposed matrices, and what follows",
       .inputs = {numbers({3, 64}, -1, 1, 1), numbers({65, 3}, -1, 1, 2), numbers({64, 1}, -1, 1, 3)},
       .f =
           [](const Inputs& x) {
             return square(matmul(x[0], x[1], {.transpose_a = true, .transpose_b = true}) - x[2]) * 2.0;
           }},
      {.name = "mean of a batch of products",
       .inputs = {numbers({16, 6, 4}, -1, 1, 1), numbers({4, 7}, -1, 1, 2)},
       .f = [](const Inputs& x) { return reduce_mean(matmul(x[0], x[1])); }},
      {.name = "batches on both sides",
       .inputs = {numbers({8, 6, 2, 4}, -1, 1, 1), numbers({6, 4, 3}, -1, 1, 2)},
       .f = [](const Inputs& x) { return matmul(x[0], x[1]); }},
      {.name = "convolution with padding",
       .inputs = {numbers({2, 4, 6, 3}, -1, 1, 1), numbers({2, 2, 3, 5}, -1, 1, 2)},
       .f = [](const Inputs& x) { return conv2d(x[0], x[1], {.padding = 1}); }},
      {.name = "greatest of windows with padding",
       .inputs = {numbers({2, 4, 6, 3}, -1, 1, 1)},
       .f = [](const Inputs& x) { return max_pool2d(x[0], {.window = 2, .strides = Size2d(1), .padding = 1}); }},
      {.name = "mean of windows with padding",
       .inputs = {numbers({2, 4, 6, 3}, -1, 1, 1)},
       .f = [](const Inputs& x) { return avg_pool2d(x[0], {.window = 3, .strides = Size2d(2), .padding = 1}); }},
  };
  for (OpCase row : OpCases(rows)) {
    row.name += ", without gradients";
    row.orders = 0;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

LayoutSearch search_layouts(const Device& device, unsigned seed, long cases) {
  OpCases rows = op_cases();
  for (const OpCase& row : more_rows())
    for (int i = 0; i < 6; ++i) rows.push_back(row);
  const std::vector<DType> types{float64, float32, float64, float32, float16, bfloat16, int32, int64, uint8, boolean};
  std::mt19937 generator(seed);
  Dice dice(generator);
  LayoutSearch search;
  soil(device, 65536);  // also large blocks, which then go from one case to the next
  for (long i = 0; i < cases && search.differences.size() < 10; ++i) {
    const OpCase& row = dice.one_of(rows);
    const DType dtype = dice.one_of(types);
    const bool whole = dice.one_in(2), may_trace = row.name.starts_with("product") || dice.one_in(20);
    // An emulated device takes a second to compile a plan's programs.
    const bool is_traced = may_trace && (device.is_cpu() || dice.one_in(10));
    const std::vector<Shape> shapes = other_sizes(row.inputs, dice);
    if (!are_small(row, shapes)) continue;
    std::vector<Argument> arguments;
    for (std::size_t k = 0; k < shapes.size(); ++k) {
      const Tensor& input = row.inputs[k];
      const DType type = is_floating(input.dtype())                 ? dtype
                         : input.dtype() == int64 && dice.one_in(3) ? int32
                                                                    : input.dtype();
      arguments.push_back(lay_out(elements_of(input, type, whole), type, shapes[k], generator));
    }
    Inputs views, copies;
    for (const Argument& each : arguments) {
      views.push_back(each.layout.view(each.array(device)));
      copies.push_back(each.row_major(device));
    }
    const unsigned incoming = static_cast<unsigned>(generator());
    const Outcome expected = outcome_of([&] { return evaluate(row, copies, incoming, false); });
    soil(device, 512);
    const Outcome found = outcome_of([&] { return evaluate(row, views, incoming, true); });
    (expected.error.empty() ? search.ran : search.refused) += 1;
    const double tolerance = !adds_up(row, device) ? 0 : rounding(is_floating(dtype) ? dtype : float32);
    const auto compare = [&](const Outcome& outcome, const std::string& how) {
      const std::string text = difference(outcome, expected, tolerance);
      if (!text.empty())
        search.differences.push_back(how + " case " + std::to_string(i) + ", " + describe(row, views) + ": " + text);
    };
    compare(found, "eager");
    if (is_traced && expected.error.empty()) {
      ++search.traced;
      soil(device, 512);
      compare(outcome_of([&] { return run_traced(row, arguments, incoming, device); }), "traced");
    }
  }
  return search;
}

}  // namespace tapestry::test
