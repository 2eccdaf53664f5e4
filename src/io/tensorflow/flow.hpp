#pragma once

#include "io/tensorflow/graph_def.hpp"

/// Branches and loops of a file: the nodes If, Case and While with the functions that they run.

namespace tapestry::io {

/// The op of a node that stands for an argument of a function.
inline constexpr std::string_view argument_op = "_Arg";

/// A function that a node runs. The calls in it are replaced by the functions' bodies.
struct FunctionBody {
  std::string name{};
  GraphDef graph{};                              ///< each argument is a node `argument_op`
  std::vector<std::string> inputs{}, outputs{};  ///< the names of the arguments' nodes, and of tensors; "" for none
  /// What a FunctionDef declares: the types of the first inputs and outputs.
  std::vector<TypeCode> types{}, output_types{};
  std::vector<std::string> operations{};  ///< the nodes that run for their effect
};

/// The gradient that a SavedModel has for an IdentityN, as `tf.custom_gradient` writes it. The first outputs of the
/// node are the results of the user's function; the others are its arguments and the Variables that it reads.
struct FileGradient {
  /// Takes the gradients of the node's outputs, and what follows their values among the node's inputs.
  FunctionBody function{};
  std::size_t values = 0;     ///< the number of the node's outputs
  std::vector<bool> given{};  ///< by output: whether the function returns the gradient of its value
  std::string problem{};      ///< why there is no function; "" if there is one
};

/// The hint of an IdentityN of ours with such a gradient: the numbers of the inputs that the gradient takes.
inline constexpr std::string_view hint_captured = "_tapestry_captured";

/// What a branch or a loop runs. The numbers of a loop's variables are those in the file.
struct TAPESTRY_API Flow {
  std::vector<FunctionBody> functions{};  ///< the branches, or [body, condition]
  bool is_loop = false;
  bool is_raised = false;  ///< its functions' nodes were nodes of the graph around, whose names they have

  // Of a loop, after `find_sequences`:
  std::vector<std::size_t> carried{}, operands{};
  std::vector<std::size_t> passed_on{};  ///< those that never change
  std::vector<std::size_t> counters{};   ///< those that count the iterations
  std::vector<std::size_t> popped{};     ///< lists from whose end each iteration takes an element
  struct Sequence {
    std::size_t variable = 0;  ///< a list, or the tensor of its elements
    std::string element{};     ///< the node of the body that has its element
  };
  std::vector<Sequence> sequences{};
  struct Stacked {
    std::size_t variable = 0;  ///< a list
    std::string element{};     ///< the tensor of the body that each iteration appends
    bool is_full = true;       ///< the list has as many elements as the loop has iterations
    bool grows = false;        ///< it gets longer where the loop has more iterations
    bool extends = false;      ///< these come after the elements that the list has before the loop
    std::string origin{};      ///< the node that makes the list empty; "" if none is found
    bool appends = false;      ///< the first iteration gives the first element, in whatever order the loop has them
  };
  std::vector<Stacked> stacked{};
  struct Last {
    std::size_t variable = 0;  ///< a list of one element
    std::size_t carried = 0;   ///< the loop variable that becomes this element
  };
  std::vector<Last> lasts{};
  bool has_condition = true;     ///< or else one iteration for each element of the sequences, or
  std::int64_t iterations = -1;  ///< this number of iterations, if there are no sequences
  std::string count_key{};       ///< what tells the number of iterations; "" if only the loop does
  bool reverse = false;

  /// The numbers of the loop variables that our loop needs: carried values, sequences, operands.
  std::vector<std::size_t> used_variables() const;
};

/// The hint of the nodes that are written for a loop: of the loop itself, and of those that have the outputs of ours.
inline constexpr std::string_view hint_loop = "_tapestry_loop";
/// The hint of a loop that was written for one of ours: how many loop variables, after the first two, ours has.
inline constexpr std::string_view hint_carried = "_tapestry_carried";
/// The hint of the loop variables that are lists of elements of different shapes. The next one has their sizes.
inline constexpr std::string_view hint_ragged = "_tapestry_ragged";
/// The hint of a While that stands for a loop of TensorFlow 1 that cannot be read: why.
inline constexpr std::string_view hint_unread = "_tapestry_unread";
/// Of a Merge that has become the output of a condition: the number of the input that it takes on each side.
inline constexpr std::string_view value_index = "_value_index";
/// The hints of a loop that is to be recomputed, and of an output that a function does not give.
inline constexpr std::string_view hint_recompute = "_tapestry_recompute", hint_absent = "_tapestry_absent";

/// Whether the op runs functions: If, Case, While and their stateless forms.
TAPESTRY_API bool is_flow_op(std::string_view op);
TAPESTRY_API bool is_loop_op(std::string_view op);

/// Whether a node stands for outputs of other nodes, as what Tapestry writes for a loop does. The hint means nothing at
/// other ops.
TAPESTRY_API bool is_result_of_loop(const NodeDef& node);

/// Whether a node changes a Variable, so that a function runs it whether or not something depends on it.
TAPESTRY_API bool has_effect(const NodeDef& node);

/// Finds in a loop of the graph what our loops have and TensorFlow's express by other loop variables: operands, which
/// are never changed; sequences, which are lists that are read at the counter of the iterations; stacked outputs, which
/// are lists that are written there. Does the same for the loops in the functions.
TAPESTRY_API void find_sequences(GraphDef& graph);

}  // namespace tapestry::io
