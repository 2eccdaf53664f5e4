#pragma once

#include "graph/flow/function.hpp"

namespace tapestry::detail {

// The ops that run functions of a graph, by the names of TensorFlow. A stateful form is for functions that change
// Variables (which are in the attribute "variables") or draw random numbers (attribute "draws").
//
// "If" and "Case" have the inputs [selector, operands...] and one function for each branch, which takes the operands.
// An If has the functions [then, else]; a Case runs its last function for an index out of range.
//
// "While" has the inputs [carried..., sequences..., operands...] and the outputs [carried..., stacked...]. Its
// functions are [body, condition], or [body] for one iteration for each element of the sequences along axis 0. The body
// takes the carried values, an element of each sequence and the operands, and returns the new carried values and an
// element of each stacked output. The condition takes the carried values and the operands. TensorFlow has no sequences
// and stacked outputs; in its files, they are lists of tensors among the carried values.
//
// The elements of a stack may differ in shape if its number, among the stacked outputs, is in the attribute
// "ragged_stacks". The stack then has zeros behind the smaller ones, and the next output, which the body does not give,
// is their sizes: int64[iterations, rank]. "ragged_sequences" has the numbers of the sequences that are such stacks.
// The next sequence is the sizes, which the body ignores. Users' loops have neither; their gradients do, if a loop in
// the loop draws random numbers as often as a condition says.
//
// The gradient of a While that recomputes is a While with the attribute "replayed": the number of its first operands
// that are the state in which the forward loop began. Its functions are [body, forward body]. Its sequences are those
// of the forward loop, then others. `ReplayingRunner` runs it; files have its composition.

TAPESTRY_API const Op& if_op(bool stateful);
TAPESTRY_API const Op& case_op(bool stateful);
TAPESTRY_API const Op& while_op(bool stateful);

/// Whether an op runs functions of a graph; whether it is While, or If.
/// @{
TAPESTRY_API bool is_flow(const Op& op);
TAPESTRY_API bool is_while(const Op& op);
TAPESTRY_API bool is_if(const Op& op);
/// @}
/// Whether a tensor is a result that not every branch gives, or not every branch in it; or the gradient of one.
bool may_be_absent(const Tensor& tensor);
/// Whether a tensor may be such a result, or a stack of them: of elements that may all be absent, so that it does not
/// tell their shape.
TAPESTRY_API bool may_lack_elements(const Tensor& tensor);
/// Whether a While computes the states of another loop again.
TAPESTRY_API bool is_replayed(const Call& call);
/// The gradients of the inputs of a branch or loop.
/// @{
Tensors if_gradient(const Call& call, const Tensors& arrived);
Tensors while_gradient(const Call& call, const Tensors& arrived);
/// @}
/// The outputs of such a While by loops that formats of files have. The inputs are symbolic.
Tensors compose_replay(const Call& call);

inline const std::vector<GraphFunction>& functions_of(const Call& call) {
  return *call.attr<FunctionsRef>("functions");
}
inline FunctionsRef functions_ref(std::vector<GraphFunction> functions) {
  return std::make_shared<const std::vector<GraphFunction>>(std::move(functions));
}
/// The attributes with other functions.
Attrs with_functions(const Attrs& attrs, std::vector<GraphFunction> functions);
/// The attributes of a branch or loop for these inputs, of which some were not known when its functions were traced.
Attrs attrs_like(const Call& call, const Tensors& inputs);
/// Gives a node further outputs: these tensors, one list for each of its functions, of equal length. `ragged_stacks`:
/// all that a While has then.
TAPESTRY_API void add_outputs(Node& node, const std::vector<Tensors>& more, const Ints& ragged_stacks = {});

/// The parts of a While.
struct TAPESTRY_API WhileParts {
  explicit WhileParts(const Call& call);

  std::size_t carried, sequences;  ///< the numbers of these inputs; the others are operands
  const GraphFunction& body;
  const GraphFunction* condition;  ///< nullptr for none
  bool reverse;                    ///< from the last element of the sequences to the first
  std::int64_t maximum;            ///< of iterations; -1 for none

  /// The specs of the body's inputs for these inputs of the call.
  Specs body_specs(const Tensors& inputs) const;
  /// Whether a shape of a carried value may change from iteration to iteration.
  bool may_vary(std::size_t carried_value) const;
  /// Whether elements of a stacked output, or of a sequence, differ in shape. Both are counted from 0.
  bool is_ragged_stack(std::size_t stack) const;
  bool is_ragged_sequence(std::size_t sequence) const;
  /// The size of a ragged sequence's elements along an axis as the body tells it; -1 where it does not.
  std::int64_t size_of_element(std::size_t input, const Tensor& element, int axis) const;
  /// The inputs of the body whose shapes differ from iteration to iteration.
  Tensors varying_inputs() const;

  Ints varying{};  ///< the carried values whose shapes may change
  Ints ragged_stacks{}, ragged_sequences{};
};

/// Throws InvalidArgumentError unless a loop variable that entered an iteration like `given` may leave it like `next`.
/// `is_scan`: whether it is a loop over sequences, to which no program can allow other shapes.
TAPESTRY_API void require_loop_variable(const std::string& name, const Spec& given, const Spec& next,
                                        bool is_scan = false);

/// Whether some sizes of a tensor of a graph depend on values, and not only on the sizes that are fed. `known`: tensors
/// on the way to it whose sizes do.
TAPESTRY_API bool depends_on_values(const Tensor& tensor, const Tensors& known = {});

}  // namespace tapestry::detail
