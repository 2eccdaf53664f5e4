#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/flow/function.hpp"
#include "tapestry/trace.hpp"

namespace tapestry::detail {

/// A function of the user that is to become a function of a graph.
struct TracedFunction {
  std::string name;
  const FlatFunction& function;
  Specs inputs;
  std::string input_name;         ///< the placeholders are "input_name", "input_name_1", ...
  bool may_lack_outputs = false;  ///< whether an empty Tensor stands for an output that the function does not give
  bool of_examples = false;       ///< whether a vmap applies its nodes to all examples
};

/// The Variables that the functions of a flow op change, and by function the same for the ops in it, in the order in
/// which they were traced.
struct KnownChanges {
  std::vector<Variable> variables{};
  std::vector<std::vector<KnownChanges>> inside{};
};

/// Traces the functions of one flow op in the graph that is open, or else in the graph of a symbolic tensor, or else
/// where ops are executed. What they use of their surroundings becomes operands, which follow the inputs of each
/// function. The value of a Variable is an operand, too, unless one of the functions changes the Variable: then all of
/// them read it themselves, for which they are traced again. What was found of the ops inside then holds again, so that
/// a function in n others is traced n + 2 times at most.
class TAPESTRY_API FunctionTracer {
 public:
  /// `arguments`: unless a graph is open, a symbolic tensor among them tells the graph.
  FunctionTracer(const Tensors& arguments, Where where);

  /// Throws InvalidArgumentError for a function that makes a Variable and changes it after it was read.
  std::vector<GraphFunction> trace(const std::vector<TracedFunction>& functions);
  /// The values of the operands in the surroundings.
  Tensors operands() const;
  /// The same, where Variables are not read.
  const std::vector<Captures::Capture>& captured() const { return operands_; }
  /// Whether a function changes Variables or draws random numbers.
  bool is_stateful() const { return !changed_.empty() || draws_; }
  /// The Variables that the functions change.
  const std::vector<Variable>& changed() const { return changed_; }
  /// The attributes that tell of the functions and of their state.
  std::vector<Attr> attrs(std::vector<GraphFunction> functions) const;
  /// Adds the op to the graph around the functions.
  Tensors add(const Op& op, const Tensors& inputs, const std::vector<Attr>& attrs, std::string_view name) const;

 private:
  std::vector<GraphFunction> trace(const std::vector<TracedFunction>& functions, KnownChanges& known);
  GraphFunction trace(const TracedFunction& function, Captures& captures);
  const Variable* changed_after_capture(const std::vector<Captures>& captures) const;
  void add_operands(std::vector<GraphFunction>& functions, const std::vector<Captures>& captures);

  std::shared_ptr<GraphState> outer_;  ///< an empty graph where ops are executed
  bool is_in_graph_;
  Where where_;
  std::vector<Captures::Capture> operands_;
  std::vector<Variable> changed_;
  bool draws_ = false;
};

/// How a loop over sequences is added to a graph.
struct ScanForm {
  bool reverse = false;            ///< from the last element to the first
  Ints varying = {};               ///< the carried values whose shapes change
  std::vector<Shape> shapes = {};  ///< of those, with -1 for the sizes that change
  std::string name = {};
};
/// Adds a loop over sequences, of which some are symbolic unless a graph is open; otherwise like `flat_scan`.
Tensors scan_symbolically(const FlatFunction& body, const Tensors& carried, const Tensors& sequences,
                          const ScanForm& form, Where where);

}  // namespace tapestry::detail
