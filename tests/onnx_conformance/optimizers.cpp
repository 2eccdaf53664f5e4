// ONNX's optimizers take the state and give the next one. R is the rate, T the number of steps made before; then come
// the variables, their gradients and their states, each a list. In all of them norm_coefficient is our weight_decay.

#include <cmath>

#include "onnx_conformance/ops.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/train.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::test::onnx_case {
namespace {

/// One step of an optimizer of ours from the given state.
class Step {
 public:
  /// `slots`: the names of ours, in ONNX's order.
  Step(const Inputs& in, std::vector<std::string> slots)
      : rate(in.at(0).item<double>()),
        before(in.at(1).item<std::int64_t>()),
        in_(in),
        slots_(std::move(slots)),
        count_((in.size() - 2) / (2 + slots_.size())) {}

  double rate;
  std::int64_t before;

  /// Starts from a state in which the slots are ONNX's, each times a factor, and `iterations` steps have been made;
  /// gives the variables, then the slots, divided by their factors again.
  Outputs take(train::Optimizer& optimizer, std::int64_t iterations, const std::vector<double>& factors) const {
    StateDict state{{"iterations", tensor(iterations)}};
    std::vector<Variable> variables;
    std::vector<Tensor> gradients;
    for (std::size_t i = 0; i < count_; ++i) {
      const std::string name = "x" + std::to_string(i);
      variables.emplace_back(in_[2 + i], VariableOptions{.name = name});
      gradients.push_back(in_[2 + count_ + i]);
      for (std::size_t slot = 0; slot < slots_.size(); ++slot)
        state.emplace(name + "." + slots_[slot], in_[2 + (2 + slot) * count_ + i] * factors[slot]);
    }
    optimizer.load_state_dict(state);
    optimizer.apply_gradients(gradients, variables);
    Outputs results(variables.begin(), variables.end());
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      for (const Variable& variable : variables)
        results.push_back(optimizer.get_slot(variable, slots_[slot]) / factors[slot]);
    return results;
  }

 private:
  const Inputs& in_;
  std::vector<std::string> slots_;
  std::size_t count_;
};

/// The rate decays with the steps: a schedule.
Outputs adagrad(const Node& node, const Inputs& in) {
  const Step step(in, {"accumulator"});
  const auto decayed = [rate = step.rate, decay = node.real("decay_factor", 0)](std::int64_t steps) {
    return rate / (1 + static_cast<double>(steps) * decay);
  };
  train::AdagradOptimizer optimizer(
      decayed, {.epsilon = node.real("epsilon", 0), .weight_decay = node.real("norm_coefficient", 0)});
  return step.take(optimizer, step.before, {1});
}

/// ONNX adds epsilon to the root of H before the correction of its bias, ours behind it: that is another epsilon. Its
/// first step, T = 0, corrects nothing, ours, whose number is then 1, does: that is another rate. (The one case that
/// leaves epsilon out holds what 0.01 gives, and not the 1e-6 of ONNX's documentation.)
Outputs adam(const Node& node, const Inputs& in) {
  if (node.real("norm_coefficient_post", 0) != 0) throw Inexpressible{"a decay behind the step that knows no rate"};
  const Step step(in, {"m", "v"});
  const double alpha = node.real("alpha", 0.9), beta = node.real("beta", 0.999);
  const double number = std::max(1.0, static_cast<double>(step.before));
  const double correction = std::sqrt(1 - std::pow(beta, number));
  const double rate = step.before > 0 ? step.rate : step.rate * (1 - alpha) / correction;
  train::AdamOptimizer optimizer(rate, {.beta1 = alpha,
                                        .beta2 = beta,
                                        .epsilon = node.real("epsilon", 0.01) / correction,
                                        .weight_decay = node.real("norm_coefficient", 0)});
  return step.take(optimizer, static_cast<std::int64_t>(number) - 1, {1, 1});
}

/// ONNX has beta, which is 1 in the first step, before the gradient in V; ours is V / beta, for a rate that is beta
/// times as large. Nesterov's step has the gradient outside of V, too, where beta is not.
Outputs momentum(const Node& node, const Inputs& in) {
  const Step step(in, {"momentum"});
  const double given = node.real("beta", 1), beta = step.before > 0 ? given : 1;
  const bool nesterov = node.text("mode", "standard") == "nesterov";
  if (nesterov && beta != 1) throw Inexpressible{"Nesterov's momentum with a beta"};
  train::MomentumOptimizer optimizer(step.rate * beta, node.real("alpha", 0),
                                     {.use_nesterov = nesterov, .weight_decay = node.real("norm_coefficient", 0)});
  return step.take(optimizer, step.before, {1 / beta});
}

}  // namespace

Functions optimizer_functions() { return {{"Adagrad", adagrad}, {"Adam", adam}, {"Momentum", momentum}}; }

}  // namespace tapestry::test::onnx_case
