#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "graph/flow/function.hpp"

namespace tapestry::detail {

// The gradients of ops that run functions of a graph. The gradient of a function is added to the function's own graph.
// What it needs of the forward pass, its residuals, become further outputs of the forward op: a branch returns them,
// and a loop stacks them.

inline constexpr std::size_t npos = static_cast<std::size_t>(-1);

/// The number of a tensor in a list, in which handles may be empty; or `npos`.
std::size_t find_in(const Tensors& list, const Tensor& wanted);
/// The sum of no gradients. It is -0, because only -0 + x is x for every x, 0 included.
Tensor no_sum(const Tensor& like);
/// The forward op of a call: the node of its outputs.
Node& forward_node(const Call& call);
/// Tells the tapes that record the gradient, for a derivative of higher order, of all outputs of the forward node.
void tell_of_outputs(const Node& node);

/// The gradient of one function of a flow op, while it is added to the function's graph.
class FunctionGradient {
 public:
  explicit FunctionGradient(const GraphFunction& function);
  ~FunctionGradient();
  FunctionGradient(const FunctionGradient&) = delete;
  FunctionGradient& operator=(const FunctionGradient&) = delete;

  /// Whether this thread adds such a gradient, so that the op whose gradient is asked for is in a function.
  static bool is_open();

  /// A placeholder for a gradient like this tensor, which is absent where the tensor is.
  static Tensor gradient_like(const Tensor& tensor);

  /// The inputs that a gradient may reach from these outputs.
  std::vector<char> reached(const Tensors& outputs) const;

  /// The gradients of the inputs whose numbers are `wanted`; empty where no gradient flows. `outputs`: tensors of the
  /// graph; `gradients`: theirs.
  std::vector<Tensor> of(const Tensors& outputs, const Tensors& gradients, const std::vector<std::size_t>& wanted);

  /// What the results need of the forward pass.
  struct Needs {
    std::vector<char> inputs;  ///< by the function's input: whether it is needed
    Tensors residuals{};       ///< other tensors of the forward pass
    bool is_stateful = false;  ///< whether the gradient itself meets other ranks
  };
  /// `recompute(node)`: whether to compute a forward node again, rather than to keep its outputs.
  Needs needs_of(const Tensors& results, const std::function<bool(const Node&)>& recompute) const;

 private:
  const GraphFunction& function_;
  const RecordFunction pause_{};
  Graph::Scope open_;
  std::lock_guard<std::recursive_mutex> lock_;
  std::size_t forward_;  ///< the number of nodes of the forward pass
};

}  // namespace tapestry::detail
