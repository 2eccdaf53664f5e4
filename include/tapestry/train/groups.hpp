#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {

/// @addtogroup optimizers
/// @{

/// Several optimizers that make one step together, each for its own Variables, for example with different learning
/// rates, or without weight decay for some.
///
///     tp::train::AdamWOptimizer decayed(0.001), plain(0.001, {.weight_decay = 0});
///     tp::train::ParameterGroups groups({{&decayed, weights}, {&plain, biases}});
///     groups.minimize([&] { return loss(); });
///
/// The optimizers are not copied, and must outlive the groups.
class TAPESTRY_API ParameterGroups {
 public:
  /// An optimizer and the Variables that it updates.
  using Group = std::pair<Optimizer*, std::vector<Variable>>;

  /// Throws InvalidArgumentError for an empty list, a group without a Variable or without an optimizer, an optimizer
  /// that is used twice, and a Variable that is in two groups.
  /// @{
  explicit ParameterGroups(std::vector<Group> groups, Where where = Where::here());
  ParameterGroups(std::initializer_list<Group> groups, Where where = Where::here())
      : ParameterGroups(std::vector<Group>(groups), where) {}
  /// @}

  /// A move copies, so that what was moved from can still be used.
  /// @{
  ParameterGroups(const ParameterGroups&) = default;
  ParameterGroups& operator=(const ParameterGroups&) = default;
  ~ParameterGroups() = default;
  /// @}

  /// Makes one step, in eager code or in a trace, and returns the loss before the step. `global_step` counts once.
  /// Variables that are frozen by now stay as they are.
  /// Throws InvalidArgumentError when the loss depends on no Variable of some group; then nothing has changed.
  Tensor minimize(const Optimizer::Loss& loss, const ApplyOptions& options = {}, Where where = Where::here());
  /// Makes a step with the gradients of `variables()`, in their order. A group whose gradients are all empty makes no
  /// step. Throws what the optimizers throw; then nothing has changed in any group.
  void apply_gradients(const TensorList& gradients, const ApplyOptions& options = {}, Where where = Where::here());

  /// The Variables of all groups, one group after the other.
  std::vector<Variable> variables() const;

  /// The states of the optimizers, for checkpoints: "0.iterations", "0.hidden.weight.m", "1.iterations", ...
  StateDict state_dict() const;
  /// Restores such a state. Throws InvalidArgumentError unless the state is that of as many optimizers of the same
  /// kinds; then nothing has changed.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 private:
  friend class AnyOptimizer;
  friend class DataParallel;
  std::vector<Variable> trained() const;
  void check_gradients(const GradientsAndVariables& gradients, Where where) const;
  GradientsAndVariables compute_gradients(const Optimizer::Loss& loss, Where where);
  Operation apply(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where);

  std::vector<Group> groups_;
};

/// What makes a step: an Optimizer or ParameterGroups, which must outlive it.
class TAPESTRY_API AnyOptimizer {
 public:
  /// Arguments of this type are written as the one or the other.
  /// @{
  AnyOptimizer(Optimizer& optimizer) : optimizer_(&optimizer) {}  // NOLINT(google-explicit-constructor)
  AnyOptimizer(ParameterGroups& groups) : groups_(&groups) {}     // NOLINT(google-explicit-constructor)
  /// @}

  /// For the library: the gradients of a loss, by default those of all Variables that the loss reads, or of the groups.
  GradientsAndVariables compute_gradients(const Optimizer::Loss& loss, const std::vector<Variable>& variables,
                                          Where where) const;
  /// For the library: makes a step. Throws InvalidArgumentError for a Variable that is in no group.
  Operation apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                            const ApplyOptions& options, Where where) const;

 private:
  friend class DataParallel;
  std::vector<Optimizer*> all() const;

  Optimizer* optimizer_ = nullptr;
  ParameterGroups* groups_ = nullptr;
};

/// @}

}  // namespace tapestry::train
