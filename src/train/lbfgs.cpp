#include "tapestry/train/lbfgs.hpp"

#include <algorithm>
#include <cmath>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {

using detail::join;

namespace {

double dot(const Tensor& a, const Tensor& b) { return reduce_sum(a * b).item<double>(); }
double largest(const Tensor& x) { return reduce_max(abs(x)).item<double>(); }

std::int64_t elements_of(const std::vector<Variable>& variables) {
  std::int64_t n = 0;
  for (const Variable& each : variables) n += each.shape().size();
  return n;
}

}  // namespace

/// The line search finds a length along the direction at which the loss has fallen enough and its slope is small
/// enough.
class LBFGS::Search {
 public:
  static constexpr double sufficient_decrease = 1e-4, curvature = 0.9;
  static constexpr int most_evaluations = 25;

  /// `at` evaluates the loss at a length.
  Search(Point start, std::function<Point(double)> at) : start_(std::move(start)), at_(std::move(at)) {}

  /// The point that is found; of length 0 when the loss falls nowhere.
  Point run(double first_length) {
    Point before = start_;
    double length = first_length;
    while (used_ < most_evaluations) {
      Point now = evaluate(length);
      if (!has_fallen(now) || (used_ > 1 && now.loss >= before.loss)) return zoom(before, now);
      if (is_flat(now)) return now;
      if (now.slope >= 0) return zoom(now, before);
      before = now;
      length *= 2;
    }
    return before;
  }

 private:
  Point evaluate(double length) {
    ++used_;
    return at_(length);
  }
  bool has_fallen(const Point& p) const {
    return p.loss <= start_.loss + sufficient_decrease * p.length * start_.slope;  // false for a NaN
  }
  bool is_flat(const Point& p) const { return std::abs(p.slope) <= -curvature * start_.slope; }

  /// Searches between `low`, the lowest point so far at which the loss has fallen enough, and `high`. A minimum is
  /// between them.
  Point zoom(Point low, Point high) {
    while (used_ < most_evaluations && std::abs(high.length - low.length) * std::abs(low.slope) > 1e-16) {
      Point now = evaluate(between(low, high));
      if (!has_fallen(now) || now.loss >= low.loss) {
        high = now;
      } else {
        if (is_flat(now)) return now;
        if (now.slope * (high.length - low.length) >= 0) high = low;
        low = now;
      }
    }
    return low;
  }

  /// The minimum of the cubic through both points, at least a tenth of their distance away from each; their middle if
  /// there is none; a tenth of the distance from a if b is not finite.
  static double between(const Point& a, const Point& b) {
    const double width = b.length - a.length, middle = a.length + width / 2;
    if (!std::isfinite(b.loss) || !std::isfinite(b.slope)) return a.length + width / 10;
    const double d = a.slope + b.slope - 3 * (b.loss - a.loss) / width, square = d * d - a.slope * b.slope;
    if (!(square >= 0)) return middle;
    const double root = std::copysign(std::sqrt(square), width);
    const double found = b.length - width * (b.slope + root - d) / (b.slope - a.slope + 2 * root);
    const double margin = std::abs(width) / 10;
    if (!std::isfinite(found)) return middle;
    return std::clamp(found, std::min(a.length, b.length) + margin, std::max(a.length, b.length) - margin);
  }

  Point start_;
  std::function<Point(double)> at_;
  int used_ = 0;
};

LBFGS::LBFGS(std::vector<Variable> variables, const LBFGSOptions& options, Where where)
    : variables_(std::move(variables)), options_(options) {
  require(options.learning_rate > 0 && std::isfinite(options.learning_rate), "learning_rate", options.learning_rate,
          "a finite number > 0", where);
  require(options.max_iterations >= 1, "max_iterations", options.max_iterations, ">= 1", where);
  require(options.max_evaluations >= 1, "max_evaluations", options.max_evaluations, ">= 1", where);
  require_not_negative(options.tolerance_gradient, "tolerance_gradient", where);
  require_not_negative(options.tolerance_change, "tolerance_change", where);
  require(options.history >= 1, "history", options.history, ">= 1", where);
  if (variables_.empty()) throw InvalidArgumentError("No variables to optimize.", where);
  const Variable& first = variables_[0];
  for (const Variable& each : variables_)
    if (!is_floating(each.dtype()) || each.dtype() != first.dtype() || each.device() != first.device())
      throw InvalidArgumentError(
          join("The Variables of LBFGS must be of one float type, on one device; '", first.name(), "' is ",
               to_string(first.dtype()), " on ", to_string(first.device()), " and '", each.name(), "' is ",
               to_string(each.dtype()), " on ", to_string(each.device())),
          where);
}

Tensor LBFGS::flat_values() const {
  std::vector<Tensor> parts;
  for (const Variable& each : variables_) parts.push_back(reshape(each.cell()->load(), {-1}));
  return concat(parts, 0);
}

void LBFGS::set(const Tensor& flat) {
  std::int64_t begin = 0;
  for (const Variable& each : variables_) {
    const std::int64_t end = begin + each.shape().size();
    each.cell()->store(reshape(flat(range(begin, end)), each.shape()).contiguous());
    begin = end;
  }
}

/// The loss, and its gradient with respect to all Variables, [n]. The gradient of a Variable on which the loss does not
/// depend is 0.
std::pair<Tensor, Tensor> LBFGS::evaluate(const Optimizer::Loss& loss, Where where) {
  ++evaluations_;
  GradientTape tape({.watch_accessed_variables = false});
  tape.watch(variables_, where);
  const Tensor value = loss();
  if (!value || value.is_symbolic() || value.size() != 1)
    throw InvalidArgumentError(join("LBFGS needs a loss that is one number and has a value, not ",
                                    !value                ? "an empty Tensor"
                                    : value.is_symbolic() ? "a symbolic one"
                                                          : to_string(value.shape())),
                               where);
  const std::vector<Tensor> found = tape.gradient(TensorList(value, where), variables_);
  if (std::none_of(found.begin(), found.end(), [](const Tensor& each) { return bool{each}; }))
    throw InvalidArgumentError("The loss depends on none of the Variables", where);
  std::vector<Tensor> parts;
  for (std::size_t i = 0; i < found.size(); ++i)
    parts.push_back(reshape(found[i] ? found[i] : zeros_like(variables_[i].cell()->load()), {-1}));
  return {value, concat(parts, 0)};
}

void LBFGS::remember(const Tensor& change, const Tensor& gradient_change) {
  const double product = dot(change, gradient_change);
  // Only pairs with a positive product keep the estimate positive definite. The line search gives such pairs, except
  // for rounding.
  if (!(product > 1e-10 * dot(gradient_change, gradient_change))) return;
  if (pairs_.size() == static_cast<std::size_t>(options_.history)) pairs_.pop_front();
  pairs_.push_back({change, gradient_change, product});
}

/// Minus the estimate of the inverse Hessian times the gradient, by the two-loop recursion over the pairs.
Tensor LBFGS::direction(const Tensor& gradient) const {
  Tensor d = -gradient;
  std::vector<double> factors(pairs_.size());
  for (std::size_t i = pairs_.size(); i-- > 0;) {
    factors[i] = dot(pairs_[i].change, d) / pairs_[i].product;
    d = d - factors[i] * pairs_[i].gradient_change;
  }
  if (!pairs_.empty()) {
    const Pair& last = pairs_.back();
    d = d * (last.product / dot(last.gradient_change, last.gradient_change));
  }
  for (std::size_t i = 0; i < pairs_.size(); ++i) {
    const double factor = dot(pairs_[i].gradient_change, d) / pairs_[i].product;
    d = d + (factors[i] - factor) * pairs_[i].change;
  }
  return d;
}

Tensor LBFGS::minimize(const Optimizer::Loss& loss, Where where) {
  const ExecuteNow now;
  const PauseRecording pause;
  const Tensor before = flat_values();
  const std::deque<Pair> pairs_before = pairs_;
  try {
    const auto [value, gradient] = evaluate(loss, where);
    const auto number = value.item<double>();
    if (!std::isfinite(number) || !std::isfinite(largest(gradient)))
      throw FailedPreconditionError(
          join("The loss is ", number, ", and its gradient may be infinite, where LBFGS ", "starts"), where);
    run(loss, number, gradient, where);
    return value;
  } catch (...) {
    set(before);
    pairs_ = pairs_before;
    throw;
  }
}

void LBFGS::run(const Optimizer::Loss& loss, double value, Tensor gradient, Where where) {
  const std::int64_t last_evaluation = evaluations_ + options_.max_evaluations - 1;
  for (int i = 0; i < options_.max_iterations && largest(gradient) > options_.tolerance_gradient; ++i) {
    Tensor d = direction(gradient);
    double slope = dot(gradient, d);
    if (!(slope < 0)) {
      pairs_.clear();
      d = -gradient;
      slope = dot(gradient, d);
    }
    // Without pairs the scale of the direction is not known: the 1-norm of the first trial step is at most the learning
    // rate.
    const double length =
        options_.learning_rate * (pairs_.empty() ? std::min(1.0, 1 / reduce_sum(abs(gradient)).item<double>()) : 1.0);
    const Tensor here = flat_values();
    const auto at = [&](double t) -> Point {
      set(here + t * d);
      const auto [there, slope_there] = evaluate(loss, where);
      return {t, there.item<double>(), dot(slope_there, d), slope_there};
    };
    const Point found = Search({0, value, slope, gradient}, at).run(length);
    set(found.length > 0 ? here + found.length * d : here);
    if (!(found.length > 0)) {
      pairs_.clear();
      return;
    }
    ++iterations_;
    const Tensor change = found.length * d;
    const double fallen = value - found.loss;
    remember(change, found.gradient - gradient);
    value = found.loss;
    gradient = found.gradient;
    if (std::max(fallen, largest(change)) <= options_.tolerance_change || evaluations_ >= last_evaluation) return;
  }
}

StateDict LBFGS::state_dict() const {
  const ExecuteNow now;
  const PauseRecording pause;
  const std::int64_t n = elements_of(variables_);
  std::vector<Tensor> changes, gradient_changes;
  for (const Pair& each : pairs_) {
    changes.push_back(each.change);
    gradient_changes.push_back(each.gradient_change);
  }
  const Tensor none = zeros({0, n}, {variables_[0].dtype(), variables_[0].device()});
  return {{"iterations", tensor(iterations_)},
          {"evaluations", tensor(evaluations_)},
          {"changes", pairs_.empty() ? none : stack(changes)},
          {"gradient_changes", pairs_.empty() ? none : stack(gradient_changes)}};
}

void LBFGS::load_state_dict(const StateDict& state, Where where) {
  const ExecuteNow now;
  const PauseRecording pause;
  const auto entry = [&](const char* name, DType dtype, int rank) {
    const auto found = state.find(name);
    if (found == state.end() || !found->second || found->second.dtype() != dtype || found->second.rank() != rank)
      throw InvalidArgumentError(join("The state of LBFGS needs '", name, "', ", to_string(dtype), " of rank ", rank),
                                 where);
    return found->second;
  };
  const DType dtype = variables_[0].dtype();
  const Device device = variables_[0].device();
  const Tensor changes = entry("changes", dtype, 2), gradient_changes = entry("gradient_changes", dtype, 2);
  const auto iterations = entry("iterations", int64, 0).item<std::int64_t>();
  const auto evaluations = entry("evaluations", int64, 0).item<std::int64_t>();
  const std::int64_t n = elements_of(variables_);
  if (state.size() != 4 || changes.shape() != gradient_changes.shape() || changes.shape()[1] != n)
    throw InvalidArgumentError(join("The state of LBFGS has changes ", changes.shape(), " and ",
                                    gradient_changes.shape(), "; the Variables have ", n, " elements"),
                               where);
  std::deque<Pair> pairs;
  for (std::int64_t i = 0; i < changes.shape()[0]; ++i) {
    const Tensor change = changes(i).to(device), gradient_change = gradient_changes(i).to(device);
    const double product = dot(change, gradient_change);
    require(product > 0, join("The product of the changes ", i, " in the state of LBFGS"), product, "> 0", where);
    pairs.push_back({change, gradient_change, product});
  }
  pairs_ = std::move(pairs);
  iterations_ = iterations;
  evaluations_ = evaluations;
}

}  // namespace tapestry::train
