#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tapestry/graph.hpp"
#include "tapestry/state_dict.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/train/schedules.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

enum class Update : std::uint8_t;

namespace train {

/// @addtogroup optimizers
/// @{

/// Gradients, each with the Variable that it is of.
using GradientsAndVariables = std::vector<std::pair<Tensor, Variable>>;

/// What else happens in a step.
struct ApplyOptions {
  std::optional<Variable> global_step = {};  ///< a scalar of a number type, to which 1 is added after the updates
  Tensor only_if = {};  ///< a bool scalar: where it is false, the step is not made, and nothing changes; empty: always
};

/// Changes Variables so that a loss falls: the part that all optimizers have in common.
///
///     tp::train::AdamOptimizer opt(0.001);
///     for (int i = 0; i < 1000; ++i) opt.minimize([&] { return loss(); });
///
/// What an optimizer remembers of a Variable are its slots, Variables of the same shape, made when it is first updated.
/// An optimizer keeps the Variables alive that it has slots of. It belongs to one thread at a time.
///
/// An optimizer of one's own derives from this class and says in `updated` what a step makes of a Variable; minimizing,
/// slots, checkpoints, traces and graphs come from here:
///
///     class Lion final : public tp::train::Optimizer {
///      public:
///       explicit Lion(tp::train::LearningRate rate) : Optimizer("Lion", std::move(rate), {{"m"}}) {}
///
///      private:
///       tp::Tensors updated(const tp::Tensor& value, const tp::Tensor& g, const tp::Tensors& slots,
///                           const Step& step) const override {
///         const tp::Tensor& m = slots[0];
///         return {value - step.learning_rate * tp::sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g};
///       }
///     };
class TAPESTRY_API Optimizer {
 public:
  /// Computes the loss, and reads the Variables while it does: a function without arguments that returns a Tensor.
  class Loss : public std::function<Tensor()> {
   public:
    /// Of a lambda, mostly.
    template <class F>
    requires(!std::convertible_to<const F&, Tensor>) Loss(F f)  // NOLINT(google-explicit-constructor): it stands for it
        : std::function<Tensor()>(checked(std::move(f))) {}

   private:
    template <class F>
    static std::function<Tensor()> checked(F f) {
      constexpr bool good = std::is_invocable_r_v<Tensor, F&>;
      static_assert(good, "A loss is a function without arguments that returns a tp::Tensor.");
      if constexpr (good) {
        return f;
      } else {
        return {};
      }
    }
  };

  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Computes the loss and its gradients and applies them; returns the loss, as it was before the update. Without
  /// Variables, all trainable ones that the loss reads are meant. Throws InvalidArgumentError when there is nothing to
  /// optimize, or when the loss depends on none of the Variables.
  /// @{
  Tensor minimize(const Loss& loss, const ApplyOptions& options = {}, Where where = Where::here());
  Tensor minimize(const Loss& loss, const std::vector<Variable>& variables, const ApplyOptions& options = {},
                  Where where = Where::here());
  Tensor minimize(const Loss& loss, std::initializer_list<Variable> variables, const ApplyOptions& options = {},
                  Where where = Where::here()) {
    return minimize(loss, std::vector<Variable>(variables), options, where);
  }
  /// @}
  /// Does not compile: what is to be optimized is no list of Variables.
  template <class T>
  requires(!std::convertible_to<const T&, std::vector<Variable>> && !std::convertible_to<const T&, ApplyOptions>) Tensor
      minimize(const Loss& loss, const T&) {
    constexpr bool good = std::convertible_to<const T&, std::vector<Variable>>;
    static_assert(good, "minimize takes a std::vector or braced list of tp::Variables, such as net.parameters().");
    return minimize(loss);
  }

  /// The gradients of the loss (of the sum of its elements, if it has several), each with its Variable; empty where the
  /// loss does not depend on it. Without Variables, of all trainable ones that the loss reads, in the order of their
  /// first reads. A Variable that is named is watched even if it is not trainable.
  /// @{
  GradientsAndVariables compute_gradients(const Loss& loss, Where where = Where::here());
  GradientsAndVariables compute_gradients(const Loss& loss, const std::vector<Variable>& variables,
                                          Where where = Where::here());
  /// @}

  /// The same for a loss in a graph: adds the operations that compute the gradients and make a step, and returns the
  /// one to run. Without Variables, all trainable ones of the graph are meant. An eager loss, which has lost its
  /// history, throws InvalidArgumentError.
  /// @{
  Operation minimize(const Tensor& loss, const std::vector<Variable>& variables = {}, const ApplyOptions& options = {},
                     Where where = Where::here());
  Operation minimize(const Tensor& loss, std::initializer_list<Variable> variables, const ApplyOptions& options = {},
                     Where where = Where::here()) {
    return minimize(loss, std::vector<Variable>(variables), options, where);
  }
  Operation minimize(const Tensor& loss, const ApplyOptions& options, Where where = Where::here()) {
    return minimize(loss, std::vector<Variable>{}, options, where);
  }
  /// @}
  /// The first half of that: adds the operations that compute the gradients.
  GradientsAndVariables compute_gradients(const Tensor& loss, const std::vector<Variable>& variables = {},
                                          Where where = Where::here());

  /// Makes one step. Pairs with an empty gradient are skipped; a Variable that is given twice is updated twice, one
  /// after the other, as in TensorFlow. Throws InvalidArgumentError when no pair has a gradient, when a gradient does
  /// not have its Variable's dtype, shape and device, and when the learning rate is no number >= 0; then nothing has
  /// changed.
  /// Symbolic gradients, and any inside the scope of a graph, become part of the graph: the step is made when the
  /// operation that is returned runs. Of eager ones the returned handle is empty.
  Operation apply_gradients(const GradientsAndVariables& gradients, const ApplyOptions& options = {},
                            Where where = Where::here());
  /// The same with the gradients in one list and their Variables in another of the same length.
  Operation apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                            const ApplyOptions& options = {}, Where where = Where::here());

  /// "Adam": the name scope of its operations in a graph.
  const std::string& name() const { return name_; }
  /// Number of steps made.
  std::int64_t iterations() const;
  /// The rate of the next step.
  double learning_rate() const { return rule_->learning_rate(iterations()); }
  /// From the next step on; the steps in graphs, too.
  void set_learning_rate(LearningRate rate) { rule_->learning_rate = std::move(rate); }

  /// What the optimizer remembers of a Variable: `opt.get_slot(w, "momentum")`. Throws NotFoundError when it has no
  /// such slot, or has not updated the Variable yet.
  Variable get_slot(const Variable& variable, std::string_view slot, Where where = Where::here()) const;
  /// What it remembers of every Variable: "m", "v".
  std::vector<std::string> get_slot_names() const;
  /// All that the optimizer remembers: the number of steps, then the slots.
  std::vector<Variable> variables() const;

  /// The same by names, for checkpoints: "iterations", and "w.momentum" for the slot "momentum" of the Variable "w", or
  /// "hidden.weight.momentum" of a module's parameter. Of several Variables of one name the second is called "w#2"
  /// here, in the order of their first updates. The learning rate is no state: a schedule is a function of the number
  /// of steps, and belongs to the program.
  StateDict state_dict() const;
  /// Puts the optimizer where another of its kind was when it gave its state. The slots of a Variable that this one has
  /// not updated yet wait for its first update, which throws InvalidArgumentError when the Variable has another dtype
  /// or shape. Slots that the state does not name start anew. In states that were saved before modules named their
  /// parameters by paths, "weight" and "weight#2" are found by the order of first updates. Throws InvalidArgumentError
  /// when "iterations" is missing, a tensor is none that such an optimizer has, or does not fit its Variable; then
  /// nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 protected:
  /// What a formula remembers of a Variable.
  struct Slot {
    std::string name;          ///< for `get_slot`
    double initial_value = 0;  ///< of all elements
  };
  /// The numbers of an update's formula.
  using Numbers = SmallVector<double, 8>;

  /// The formula's numbers for one step; the first is number 1.
  using NumbersOf = std::function<Numbers(double learning_rate, std::int64_t step)>;

  /// What an update knows besides the gradient: scalars of the Variable's dtype, symbolic in a graph.
  struct Step {
    Tensor learning_rate;  ///< of this step
    Tensor number;         ///< of this step, from 1
  };

  /// For an optimizer of one's own. Throws InvalidArgumentError for two slots of one name, or one without a name.
  Optimizer(std::string name, LearningRate learning_rate, std::vector<Slot> slots, Where where = Where::here());
  /// What a step makes of a Variable: its new value, then the new values of its slots, in their order. It is made of
  /// ops, and changes nothing by itself. In a trace it is called once, and becomes part of the graph. Throwing makes
  /// the whole step void, and so does a value of another dtype or shape (InvalidArgumentError).
  virtual Tensors updated(const Tensor& value, const Tensor& gradient, const Tensors& slots, const Step& step) const;

  /// For the optimizers of the library, whose formulas are kernels.
  Optimizer(std::string name, Update formula, LearningRate learning_rate, std::vector<Slot> slots, NumbersOf numbers);

 private:
  /// What the steps that an optimizer has added to graphs need of it.
  struct Rule {
    LearningRate learning_rate;
    NumbersOf numbers;
  };
  struct State {
    Variable variable;
    std::string key;  ///< its name in `state_dict`
    std::vector<Variable> slots;
  };
  struct Job {
    Tensor gradient;
    SmallVector<Variable, 3> variables;  ///< the one to update, and its slots
  };
  struct Evaluation {
    Tensor loss;
    GradientsAndVariables gradients;
  };
  static Evaluation evaluate(const Loss& loss, const std::vector<Variable>* variables, Where where);
  Tensor minimize_all(const Loss& loss, const std::vector<Variable>* variables, const ApplyOptions& options,
                      Where where);
  const std::vector<Variable>& slots_of(const Variable& variable, Where where);
  std::string new_key(const std::string& name) const;
  std::string key_in(const StateDict& state, const std::string& key, const Variable& variable,
                     std::size_t before) const;
  void apply_composed(const std::vector<Job>& jobs, double rate, std::int64_t step, Where where);
  Tensors checked_update(const Variable& variable, const Tensor& value, const Tensor& gradient, const Tensors& slots,
                         const Step& step, Where where) const;
  Operation add_composed(const Tensor& gradient, const std::vector<Variable>& variables, const Tensor& numbers,
                         const Tensor& only_if, Where where) const;
  Tensor first_value(const State& state, const std::string& waiting_key, const Slot& slot, Where where) const;
  void check_state(const StateDict& state, Where where) const;
  Operation add_to_graph(detail::GraphState& graph, const GradientsAndVariables& gradients, const ApplyOptions& options,
                         Where where);

  std::string name_;
  std::optional<Update> formula_;  ///< nothing: `updated` says it
  std::shared_ptr<Rule> rule_;
  std::vector<Slot> slots_;
  Variable iterations_;
  std::vector<State> states_;  ///< in the order of the first updates
  std::unordered_map<const Variable::Cell*, std::size_t> state_of_;
  StateDict waiting_;  ///< given to `load_state_dict`, for Variables that have not come yet
};

/// @}

}  // namespace train
}  // namespace tapestry
