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

#include "tapestry/detail/function.hpp"
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

/// Gradients, each with its Variable.
using GradientsAndVariables = std::vector<std::pair<Tensor, Variable>>;

/// What else happens in a step.
struct ApplyOptions {
  /// A scalar of a number type. It is increased by 1 after the updates.
  std::optional<Variable> global_step = {};
  /// A bool scalar. If it is false, the step is not made, and nothing changes. If it is empty, the step is always made.
  Tensor only_if = {};
};

/// The base class of all optimizers, which change Variables so that a loss decreases.
///
///     tp::train::AdamOptimizer opt(0.001);
///     for (int i = 0; i < 1000; ++i) opt.minimize([&] { return loss(); });
///
/// The state that an optimizer keeps for a Variable is in slots: Variables of the same shape, which are created when
/// the Variable is first updated. An optimizer keeps the Variables alive for which it has slots. It belongs to one
/// thread at a time.
///
/// An optimizer of one's own derives from this class, and computes in `updated` what a step makes of a Variable. This
/// class adds minimizing, slots, checkpoints, traces and graphs. A row-sparse gradient comes as a whole:
///
///     class Lion final : public tp::train::Optimizer {
///      public:
///       explicit Lion(const tp::train::LearningRate& rate) : Optimizer("Lion", rate, {{"m"}}) {}
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
  /// A function without arguments that reads the Variables, computes the loss, and returns it as a Tensor.
  class Loss : public std::function<Tensor()> {
   public:
    /// From a function, usually a lambda.
    template <class F>
    requires(!std::convertible_to<const F&, Tensor>)
        Loss(F f, Where where = Where::here())  // NOLINT(google-explicit-constructor): it stands for it
        : std::function<Tensor()>(checked(std::move(f), where)) {}

   private:
    template <class F>
    static std::function<Tensor()> checked(F f, Where where) {
      constexpr bool good = std::is_invocable_r_v<Tensor, F&>;
      static_assert(good, "A loss is a function without arguments that returns a tp::Tensor.");
      if constexpr (good) {
        tapestry::detail::require_function(f, "minimize", where);
        return f;
      } else {
        return {};
      }
    }
  };

  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Computes the loss and its gradients, applies them, and returns the loss before the update. Without Variables, it
  /// uses all trainable ones that the loss reads. Throws InvalidArgumentError when there are no Variables, or when the
  /// loss depends on none of them.
  /// @{
  Tensor minimize(const Loss& loss, const ApplyOptions& options = {}, Where where = Where::here());
  Tensor minimize(const Loss& loss, const std::vector<Variable>& variables, const ApplyOptions& options = {},
                  Where where = Where::here());
  Tensor minimize(const Loss& loss, std::initializer_list<Variable> variables, const ApplyOptions& options = {},
                  Where where = Where::here()) {
    return minimize(loss, std::vector<Variable>(variables), options, where);
  }
  /// @}
  /// Does not compile: the argument is not a list of Variables.
  template <class T>
  requires(!std::convertible_to<const T&, std::vector<Variable>> && !std::convertible_to<const T&, ApplyOptions>) Tensor
      minimize(const Loss& loss, const T&) {
    constexpr bool good = std::convertible_to<const T&, std::vector<Variable>>;
    static_assert(good, "minimize takes a std::vector or braced list of tp::Variables, such as net.parameters().");
    return minimize(loss);
  }

  /// The gradients of the loss (of the sum of its elements, if it has several), each with its Variable. A gradient is
  /// empty if the loss does not depend on the Variable. Without Variables, it uses all trainable ones that the loss
  /// reads, in the order of their first reads. A Variable in the list is watched even if it is not trainable.
  /// @{
  GradientsAndVariables compute_gradients(const Loss& loss, Where where = Where::here());
  GradientsAndVariables compute_gradients(const Loss& loss, const std::vector<Variable>& variables,
                                          Where where = Where::here());
  /// @}

  /// The same for a loss in a graph: adds the operations that compute the gradients and make a step, and returns the
  /// operation that must be run for a step. Without Variables, it uses all trainable ones of the graph. Throws
  /// InvalidArgumentError for an eager loss, whose history is not known.
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
  /// The first half of this: adds the operations that compute the gradients.
  GradientsAndVariables compute_gradients(const Tensor& loss, const std::vector<Variable>& variables = {},
                                          Where where = Where::here());

  /// Makes one step. Pairs with an empty gradient are skipped. A Variable that is given twice is updated twice, one
  /// after the other, as in TensorFlow. Throws InvalidArgumentError when no pair has a gradient, when a gradient does
  /// not have its Variable's dtype, shape and device, and when the learning rate is not a number >= 0; then nothing has
  /// changed.
  ///
  /// Symbolic gradients, and any gradients in the scope of a graph, become part of the graph: the step is made when the
  /// returned operation runs. For eager gradients the returned handle is empty.
  Operation apply_gradients(const GradientsAndVariables& gradients, const ApplyOptions& options = {},
                            Where where = Where::here());
  /// The same with the gradients in one list and their Variables in another of the same length.
  Operation apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                            const ApplyOptions& options = {}, Where where = Where::here());

  /// The name, such as "Adam", which is the name scope of the optimizer's operations in a graph.
  const std::string& name() const { return name_; }
  /// The number of steps that have been made.
  std::int64_t iterations() const;
  /// The learning rate of the next step.
  double learning_rate() const { return rule_->learning_rate(iterations()); }
  /// Sets the learning rate of all steps from the next one on, including those in graphs.
  void set_learning_rate(const LearningRate& rate) { rule_->learning_rate = rate; }

  /// A slot of a Variable: `opt.get_slot(w, "momentum")`. Throws NotFoundError when there is no such slot, or when the
  /// optimizer has not updated the Variable yet.
  Variable get_slot(const Variable& variable, std::string_view slot, Where where = Where::here()) const;
  /// The names of the slots that every Variable has, such as "m", "v".
  std::vector<std::string> get_slot_names() const;
  /// All state of the optimizer: the number of steps, then the slots.
  std::vector<Variable> variables() const;

  /// All state by names, for checkpoints: "iterations", and "w.momentum" for the slot "momentum" of the Variable "w",
  /// or "hidden.weight.momentum" for a module's parameter. The second of several Variables of the name "w", in the
  /// order of their first updates, is called "w#2" here. The learning rate is not part of the state: a schedule is a
  /// function of the number of steps, and belongs to the program.
  StateDict state_dict() const;
  /// Restores the state of an optimizer of the same kind. The slots of a Variable that this optimizer has not updated
  /// yet are kept until its first update, which throws InvalidArgumentError when the Variable has another dtype or
  /// shape. Slots that the state does not have start anew. In states that were saved before modules named their
  /// parameters by paths, "weight" and "weight#2" are matched by the order of first updates. Throws
  /// InvalidArgumentError when "iterations" is missing, and for a tensor that such an optimizer does not have or that
  /// does not fit its Variable; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 protected:
  /// A slot that the optimizer has for each Variable.
  struct Slot {
    std::string name;          ///< the name for `get_slot`
    double initial_value = 0;  ///< the initial value of all elements
  };
  /// The numbers in the formula of an update.
  using Numbers = SmallVector<double, 8>;

  /// Computes the numbers of the formula for one step. The number of the first step is 1.
  using NumbersOf = std::function<Numbers(double learning_rate, std::int64_t step)>;

  /// The arguments of an update besides the gradient: scalars of the Variable's dtype, which are symbolic in a graph.
  struct Step {
    Tensor learning_rate;  ///< the learning rate of this step
    Tensor number;         ///< the number of this step, from 1
  };

  /// For an optimizer of one's own. Throws InvalidArgumentError for a slot without a name or with a dot in its name,
  /// and for two slots of one name.
  Optimizer(std::string name, const LearningRate& learning_rate, std::vector<Slot> slots, Where where = Where::here());
  /// Computes what a step makes of a Variable: its new value, then the new values of its slots, in their order. It must
  /// be made of ops, and must not change anything itself. In a trace it is called once, and becomes part of the graph.
  /// If it throws, the step is not made. If it returns a value of another dtype or shape, the step throws
  /// InvalidArgumentError.
  virtual Tensors updated(const Tensor& value, const Tensor& gradient, const Tensors& slots, const Step& step) const;

  /// For the optimizers of the library. Their formulas are kernels.
  Optimizer(std::string name, Update formula, const LearningRate& learning_rate, std::vector<Slot> slots,
            NumbersOf numbers);

 private:
  /// The data that steps in graphs share with the optimizer.
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
    SmallVector<Variable, 3> variables;  ///< the Variable to update, and its slots
  };
  struct Evaluation {
    Tensor loss;
    GradientsAndVariables gradients;
  };
  friend class DataParallel;
  friend class ParameterGroups;
  /// An eager step that cannot fail any more.
  struct Ready;
  static std::shared_ptr<detail::GraphState> graph_for(const GradientsAndVariables& gradients, const Tensor& condition);
  static void check_step(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where);
  std::optional<Ready> make_ready(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where);
  void make_step(const Ready& ready);
  /// `when_final`: as in GradientOptions.
  static Evaluation evaluate(const Loss& loss, const std::vector<Variable>* variables, Where where,
                             const std::function<void(std::size_t, const Tensor&)>& when_final = {});
  Tensor minimize_all(const Loss& loss, const std::vector<Variable>* variables, const ApplyOptions& options,
                      Where where);
  const std::vector<Variable>& slots_of(const Variable& variable, Where where);
  std::string new_key(const std::string& name) const;
  std::string key_in(const StateDict& state, const std::string& key, const Variable& variable,
                     std::size_t before) const;
  std::vector<std::pair<Variable, Tensor>> composed_values(const std::vector<Job>& jobs, double rate, std::int64_t step,
                                                           Where where) const;
  Tensors checked_update(const Variable& variable, const Tensor& value, const Tensor& gradient, const Tensors& slots,
                         const Step& step, Where where) const;
  Operation add_composed(const Tensor& gradient, const std::vector<Variable>& variables, const Tensor& numbers,
                         const Tensor& only_if, Where where) const;
  Tensor first_value(const State& state, const std::string& waiting_key, const Slot& slot, Where where) const;
  void check_state(const StateDict& state, Where where) const;
  Operation add_to_graph(detail::GraphState& graph, const GradientsAndVariables& gradients, const ApplyOptions& options,
                         Where where);

  std::string name_;
  std::optional<Update> formula_;  ///< nothing when `updated` computes the update
  std::shared_ptr<Rule> rule_;
  std::vector<Slot> slots_;
  Variable iterations_;
  std::vector<State> states_;  ///< in the order of the first updates
  std::unordered_map<const Variable::Cell*, std::size_t> state_of_;
  StateDict waiting_;  ///< the state from `load_state_dict` of Variables that have not been updated yet
};

/// @}

}  // namespace train
}  // namespace tapestry
