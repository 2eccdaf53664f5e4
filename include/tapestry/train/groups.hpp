#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// Several optimizers that make one step together, each for its Variables: other rates, or no weight decay for some.
///
///     tp::train::AdamWOptimizer decayed(0.001), plain(0.001, {.weight_decay = 0});
///     tp::train::ParameterGroups groups({{&decayed, weights}, {&plain, biases}});
///     groups.minimize([&] { return loss(); });
///
/// The optimizers are used, not copied, and must outlive the groups.
class TAPESTRY_API ParameterGroups {
 public:
  /// An optimizer and what it updates.
  using Group = std::pair<Optimizer*, std::vector<Variable>>;

  /// Throws InvalidArgumentError for no groups, a group without a Variable or without an optimizer, an optimizer that
  /// comes twice, and a Variable that is in two groups.
  /// @{
  explicit ParameterGroups(std::vector<Group> groups, Where where = Where::here());
  ParameterGroups(std::initializer_list<Group> groups, Where where = Where::here())
      : ParameterGroups(std::vector<Group>(groups), where) {}
  /// @}

  /// One step in an eager program or a trace; returns the loss, as it was before the step. `global_step` counts once.
  /// Throws InvalidArgumentError when the loss depends on none of the Variables of some group; then nothing has
  /// changed.
  Tensor minimize(const Optimizer::Loss& loss, const ApplyOptions& options = {}, Where where = Where::here());
  /// A step with gradients of `variables()`, in their order. Groups of which all gradients are empty make no step.
  /// Throws what the optimizers throw.
  void apply_gradients(const TensorList& gradients, const ApplyOptions& options = {}, Where where = Where::here());

  /// The Variables of all groups, one group after the other.
  std::vector<Variable> variables() const;

  /// The states of the optimizers, for checkpoints: "0.iterations", "0.hidden.weight.m", "1.iterations", ...
  StateDict state_dict() const;
  /// Throws InvalidArgumentError when the state is not that of as many optimizers of these kinds; then nothing has
  /// changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  std::vector<Group> groups_;
};

/// @}

}  // namespace tapestry::train
