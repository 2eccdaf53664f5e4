#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "autodiff/call_list.hpp"
#include "dispatch/composition.hpp"

namespace tapestry {

/// Throws InvalidArgumentError unless `seeds` is empty or has one entry for each target: an empty Tensor, or one of the
/// target's dtype and shape, as far as these are known.
void check_seeds(const Tensors& targets, const Tensors& seeds);
/// The gradient with which the walk starts at target i: its seed, or ones, whose node has the given name.
Tensor first_gradient(const Tensors& targets, const Tensors& seeds, std::size_t i, std::string_view name = {});

/// The gradients of a call's inputs, as those of its composition from these inputs. `arrived`: the gradients of its
/// outputs; empty handles for those that no gradient reaches.
Tensors gradient_of_composition(const Call& call, const Tensors& arrived, const Composition& composition);

/// The backward walk over calls in execution order: it computes the gradients at the source slots from gradients at
/// other slots. Execution order is topological, so the walk is a loop from the last call to the first.
class Backward {
 public:
  /// `slots`: how many there are; `sources`: those of each tensor or Variable whose gradient is wanted, where a
  /// Variable has one for each of its values; `stops`: those that no gradient passes.
  Backward(CallList& calls, std::int32_t slots, const std::vector<Slots>& sources,
           const std::vector<std::int32_t>& stops);

  /// Adds to the gradient at a slot; several paths are summed here and nowhere else.
  void accumulate(std::int32_t slot, Tensor gradient);

  /// Walks over all calls. With `consume`, each call is freed as soon as it has been passed. `passed`, if given, is
  /// called with the number of each call after it.
  void run(bool consume, const std::function<void(std::size_t)>& passed = {});

  /// By slot, the number of the first call that reads it; SIZE_MAX if none does. Once the walk has passed that call,
  /// nothing is added to the slot's gradient any more.
  std::vector<std::size_t> first_readers() const;

  /// The gradient that arrived at a source; empty if none did.
  Tensor gradient(const Slots& source) const;

 private:
  void join_values(const std::vector<Slots>& sources);
  void join_to_source(const RecordedCall& record);
  void join(std::int32_t slot, std::int32_t other);
  /// The slot at which the gradients of this one are added up.
  std::int32_t sum_of(std::int32_t slot) const { return joined_.empty() ? slot : joined_[slot]; }
  bool is_live(std::int32_t slot) const { return slot >= 0 && live_[slot]; }
  bool is_stop(std::int32_t slot) const { return !is_stop_.empty() && is_stop_[slot]; }
  void pass(RecordedCall& record);

  CallList& calls_;
  std::size_t count_;  ///< number of calls when the walk began; a persistent tape also records the walk
  std::vector<Tensor> gradients_;
  std::vector<char> live_;  ///< slots that a source flows into
  std::vector<char> is_source_;
  std::vector<char> is_stop_;         ///< empty if there are no stops
  std::vector<std::int32_t> joined_;  ///< by slot, where its sum is; empty if each has its own
};

}  // namespace tapestry
