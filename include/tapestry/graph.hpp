#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/handle.hpp"
#include "tapestry/op.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// The name of an operation, and its arguments that are not tensors.
struct CreateOpOptions {
  std::string name = {};  ///< by default the op's name
  Attrs attrs = {};       ///< the op's attributes
};

/// The names of TensorFlow's collections.
namespace graph_keys {
/// TensorFlow's conventions tell what belongs into each collection. The library adds the steps of optimizers to
/// `train_op`, and the operations that hold the graph's Variables to `variables` and, unless they are not trainable, to
/// `trainable_variables`.
/// @{
inline constexpr std::string_view global_variables = "variables";
inline constexpr std::string_view trainable_variables = "trainable_variables";
inline constexpr std::string_view local_variables = "local_variables";
inline constexpr std::string_view train_op = "train_op";
inline constexpr std::string_view summaries = "summaries";
/// @}
}  // namespace graph_keys

/// How a file represents Variables.
enum class VariableStyle : std::uint8_t {
  /// As in TensorFlow 2: VarHandleOp, ReadVariableOp. The initializers in the file assign the current values.
  resource,
  /// As in TensorFlow 1: VariableV2, Assign, Identity. The initializers in the file assign the current values.
  reference,
  /// As constants with the current values, without the operations that change Variables.
  frozen,
};

/// How `Graph::save` writes a graph.
struct SaveOptions {
  VariableStyle variables = VariableStyle::resource;  ///< how Variables are represented
  bool output_shapes = false;                         ///< whether to write the shapes of all outputs, for TensorBoard
  /// Whether the operation "init" of the file computes the initial values of the Variables as the graph does, so that
  /// random ones are drawn anew. By default it gives them the values of now. A Variable that was made outside the
  /// graph, such as a slot of an optimizer, gets its value of now either way, as do all in the style `frozen`.
  bool computed_initial_values = false;
};

/// Limits for a graph and its runs. A graph from a file has these limits unless `Graph::load` is given others. A graph
/// that a program builds has none unless `Graph::set_limits` sets some. Work that would exceed a limit is not begun: it
/// throws ResourceExhaustedError. What takes too long throws DeadlineExceededError. Both errors name the limit, the
/// value and the operation.
struct GraphLimits {
  /// The memory of a run for its tensors, including constants, in bytes.
  std::int64_t bytes = std::int64_t{8} << 30;
  /// The elements of a single tensor.
  std::int64_t elements = std::int64_t{1} << 31;
  /// The nodes of the graph, and of each graph that is derived from it for a run.
  std::int64_t nodes = std::int64_t{1} << 20;
  /// The time for loading the graph, and for each run with its planning, in milliseconds; at least 1.
  std::int64_t time_in_ms = 10 * 60 * 1000;

  /// No limits.
  static constexpr GraphLimits none() {
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    return {.bytes = any, .elements = any, .nodes = any, .time_in_ms = any};
  }
  /// Whether all limits are equal.
  friend bool operator==(const GraphLimits&, const GraphLimits&) = default;
};

/// How a graph is drawn.
struct DrawOptions {
  std::string_view rankdir = "LR";  ///< "LR": from left to right; "TB": from top to bottom
};

/// A graph of operations and the tensors between them. It is built once, and run many times by a Session. This class is
/// a handle: copies refer to the same graph, which exists as long as there is a handle to it, an Operation of it, or a
/// Session of it. A graph may grow while sessions run it.
///
///     tp::Graph graph;
///     auto scope = graph.as_default();
///     auto x = tp::placeholder(tp::float32, {-1, 2}, "x");
///     auto y = tp::square(x, "y");
class TAPESTRY_API Graph {
 public:
  /// A new, empty graph.
  Graph();
  /// For the library: a handle to an existing graph.
  explicit Graph(std::shared_ptr<detail::GraphState> state) : state_(std::move(state)) {}

  class Scope;
  /// While the scope exists, ops of this thread become operations of this graph if they read a symbolic tensor or a
  /// Variable, create a tensor, or draw random numbers. An op that reads only values, such as the results of a run, is
  /// executed at once. Scopes nest.
  [[nodiscard]] Scope as_default() const;
  /// The same without a scope: it holds until another graph becomes the default.
  void make_default() const;

  /// All operations in the order of their creation, including placeholders and Variables.
  std::vector<Operation> operations() const;
  /// The placeholders or Variables of the graph, in the order of their creation or first use.
  /// @{
  std::vector<Tensor> placeholders() const;
  std::vector<Variable> variables() const;
  /// @}

  /// The operation "name", or the output "name:0". Throws LookupError for an unknown name, and InvalidArgumentError for
  /// one that cannot be a name, with TensorFlow's texts.
  /// @{
  Operation get_operation_by_name(std::string_view name, Where where = Where::here()) const;
  Tensor get_tensor_by_name(std::string_view name, Where where = Where::here()) const;
  /// @}
  /// Whether there is an operation of that name.
  bool has_operation(std::string_view name) const;

  /// Adds an operation of a registered op, as `apply_op` does, but even if no input is symbolic. Throws the errors of
  /// `apply_op`.
  Operation create_op(std::string_view type, const InList& inputs, const CreateOpOptions& options = {}) const;

  /// Forbids changes: from now on, adding anything throws FailedPreconditionError.
  void finalize();
  /// Whether `finalize` has been called.
  bool finalized() const;
  /// A number that grows with every operation that is added.
  std::int64_t version() const;
  /// Reserves a name that no operation of the graph has: "x", or "x_1", "x_2", ... if "x" is taken.
  std::string unique_name(std::string_view name) const;

  /// Forbid feeds or fetches: from now on, feeding the tensor, or fetching the operation or one of its outputs, throws
  /// InvalidArgumentError.
  /// @{
  void prevent_feeding(const Tensor& tensor) const;
  void prevent_fetching(const Operation& operation) const;
  /// @}
  /// Whether the tensor may be fed, or the operation fetched.
  /// @{
  bool is_feedable(const Tensor& tensor) const;
  bool is_fetchable(const Operation& operation) const;
  /// @}

  /// Adds an operation or a tensor to a named list of the graph, a collection; see `graph_keys`. Throws
  /// InvalidArgumentError for what is in another graph.
  /// @{
  void add_to_collection(std::string_view name, const Operation& operation) const;
  void add_to_collection(std::string_view name, const Tensor& tensor) const;
  /// @}
  /// The operations of a collection, among them those of its tensors, or the tensors only, in the order in which they
  /// were added.
  /// @{
  std::vector<Operation> get_collection(std::string_view name) const;
  std::vector<Tensor> get_collection_tensors(std::string_view name) const;
  /// @}
  /// The names of the collections, sorted.
  std::vector<std::string> get_all_collection_keys() const;

  /// Writes the graph as TensorFlow's GraphDef: as text if the name ends in ".pbtxt", otherwise in the binary form. The
  /// file is written completely or not at all, and equal graphs give equal bytes. An op that TensorFlow lacks is
  /// written as several of TensorFlow's ops. Throws UnimplementedError, with the op and the line that created it, for
  /// what TensorFlow cannot express, FailedPreconditionError for a Variable without a value, and NotFoundError when the
  /// folder does not exist.
  void save(const std::string& path, const SaveOptions& options = {}, Where where = Where::here()) const;
  /// The graph as the bytes of the binary form.
  std::string as_graph_def(const SaveOptions& options = {}, Where where = Where::here()) const;
  /// Reads a graph from a file that `save` or TensorFlow has written. A graph from `save` computes the same bits as
  /// before. Variables get the values of their initializers if these are constants. Throws NotFoundError when there is
  /// no such file, DataLossError when it is damaged, UnimplementedError for ops that Tapestry lacks (with their nodes),
  /// and InvalidArgumentError for an inconsistent graph.
  ///
  /// Some graphs compute sizes, axes and the like from the shapes of tensors. These become known when a Session runs
  /// the graph; until then, the nodes that depend on them have only the types and shapes that follow from the file. The
  /// graph is loaded within the limits, and keeps them.
  static Graph load(const std::string& path, const GraphLimits& limits = {}, Where where = Where::here());
  /// Reads a graph from the bytes of the binary form.
  static Graph from_graph_def(std::string_view bytes, const GraphLimits& limits = {}, Where where = Where::here());

  /// The limits of the graph and its runs.
  GraphLimits limits() const;
  /// Sets other limits for the graph. They apply to operations that are added, and to plans that are made, from now on.
  /// No session may be running the graph meanwhile. Throws InvalidArgumentError for a negative limit, or for a time
  /// below 1 ms.
  void set_limits(const GraphLimits& limits, Where where = Where::here()) const;

  /// The graph in the language of Graphviz, with a cluster for each name scope.
  std::string to_dot(const DrawOptions& options = {}, Where where = Where::here()) const;
  /// The graph as an SVG picture.
  std::string to_svg(const DrawOptions& options = {}, Where where = Where::here()) const;

  /// Whether both are handles to the same graph.
  bool is(const Graph& other) const { return state_ == other.state_; }
  /// For the library: the graph behind the handle.
  const std::shared_ptr<detail::GraphState>& state() const { return state_; }

 private:
  detail::Handle<detail::GraphState> state_;
};

/// This thread's innermost open graph, or the implicit one that every thread has.
TAPESTRY_API Graph default_graph();
/// Gives this thread a new implicit graph. Throws FailedPreconditionError inside a scope.
TAPESTRY_API void reset_default_graph(Where where = Where::here());

/// A tensor of the default graph that is fed when the graph runs. Without arguments, it has the dtype and shape of the
/// value that is fed.
/// @{
TAPESTRY_API Tensor placeholder(Where where = Where::here());
TAPESTRY_API Tensor placeholder(DType dtype, const Shape& shape, std::string_view name = {},
                                Where where = Where::here());
// `Place` is a template parameter so that braces after the dtype can only be a shape.
template <std::same_as<Where> Place = Where>
Tensor placeholder(DType dtype, Place where = Place::here()) {
  return placeholder(dtype, Shape::unknown_rank(), {}, where);
}
/// @}
/// A constant in the default graph. Throws InvalidArgumentError for a symbolic tensor.
TAPESTRY_API Tensor constant(const Init& value, std::string_view name = {}, Where where = Where::here());
/// An operation that only waits for its control inputs.
TAPESTRY_API Operation no_op(std::string_view name = {}, Where where = Where::here());
/// An operation that only waits for the given operations.
TAPESTRY_API Operation group(const std::vector<Operation>& operations, std::string_view name = {},
                             Where where = Where::here());

/// An operation, named "init", that assigns their initial values to all Variables of the default graph.
TAPESTRY_API Operation global_variables_initializer(Where where = Where::here());
/// The same for the given Variables.
TAPESTRY_API Operation variables_initializer(const std::vector<Variable>& variables, std::string_view name = "init",
                                             Where where = Where::here());

/// Whether the Variable has a value. With a symbolic initial value it has none before its initializer has run.
TAPESTRY_API bool is_variable_initialized(const Variable& variable);
/// The names of the Variables of the default graph that have no value yet.
TAPESTRY_API std::vector<std::string> report_uninitialized_variables();

/// Adds operations, in the name scope "gradients", that compute the gradient of the sum of the targets' elements with
/// respect to each source. The gradient of an unconnected source is an empty Tensor, unless the options ask for zeros.
/// Throws LookupError when an op on the way has no gradient, and FailedPreconditionError for an eager target.
///
/// For one Tensor or Variable, or for a list or container of them, the result is a std::vector. For several arguments
/// it has the form of `GradientTape::gradient`.
/// @{
TAPESTRY_API std::vector<Tensor> gradients(const TensorList& targets, const std::vector<Source>& sources,
                                           const GradientOptions& options = {});
inline std::vector<Tensor> gradients(const TensorList& targets, std::initializer_list<Source> sources,
                                     const GradientOptions& options = {}) {
  return gradients(targets, std::vector<Source>(sources), options);
}
template <class T>
std::vector<Tensor> gradients(const TensorList& targets, const T& source, const GradientOptions& options = {}) {
  if constexpr (detail::are_sources<T>()) return gradients(targets, detail::all_sources(source), options);
  return {};
}
template <class First, class Second, class... Rest>
auto gradients(const TensorList& targets, const First& first, const Second& second, const Rest&... rest) {
  if constexpr (detail::are_sources<First, Second, Rest...>())
    return detail::in_form_of(gradients(targets, detail::all_sources(first, second, rest...)), first, second, rest...);
}
/// @}

// ---- Scopes: each one applies, while it exists, to the operations that this thread adds to graphs -------------------

/// The result of `Graph::as_default`.
class TAPESTRY_API Graph::Scope {
 public:
  /// Makes the graph the default of this thread.
  explicit Scope(const Graph& graph);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

/// The result of `name_scope`.
class TAPESTRY_API NameScope {
 public:
  /// The same as `name_scope`.
  NameScope(std::string_view name, Where where);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  /// The prefix of names in this scope, such as "outer/inner/".
  const std::string& name() const { return name_; }

 private:
  std::string name_, saved_;
};
/// Opens a scope in which names of operations become "scope/name". If the name of the scope is taken, it becomes
/// "scope_1". A name that ends in '/' re-enters exactly that scope, and an empty name leaves all scopes. Throws
/// InvalidArgumentError, "'%' is not a valid scope name".
[[nodiscard]] inline NameScope name_scope(std::string_view name, Where where = Where::here()) {
  return NameScope(name, where);
}

/// A list of operations, or of tensors, which stand for their operations. Eager tensors are ignored.
class TAPESTRY_API ControlInputs {
 public:
  /// An empty list, which leaves all scopes.
  ControlInputs() = default;
  /// A list of operations, or a list of tensors.
  /// @{
  ControlInputs(std::initializer_list<Operation> operations) : operations_(operations) {}
  ControlInputs(const std::vector<Operation>& operations) : operations_(operations) {}  // NOLINT
  ControlInputs(std::initializer_list<Tensor> tensors) : ControlInputs(std::vector<Tensor>(tensors)) {}
  ControlInputs(const std::vector<Tensor>& tensors);  // NOLINT(google-explicit-constructor)
  /// @}

  /// The operations in the list.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// The result of `control_dependencies`.
class TAPESTRY_API ControlScope {
 public:
  /// The same as `control_dependencies`.
  explicit ControlScope(const ControlInputs& inputs);
  ~ControlScope();
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

 private:
  std::vector<Operation> saved_;
};
/// Opens a scope in which new operations run after the given ones. Nested scopes add up. An empty list leaves all of
/// them.
[[nodiscard]] inline ControlScope control_dependencies(const ControlInputs& inputs) { return ControlScope(inputs); }

/// What a DeviceFunction is told of an operation that is being added to a graph.
struct NewOperation {
  std::string_view type;               ///< the name of its op, such as "MatMul"
  const Variable* variable = nullptr;  ///< the Variable, if the operation holds one ("VarHandleOp")
};
/// A function that chooses the device of each new operation, such as "/job:ps/task:1"; "" for none.
using DeviceFunction = std::function<std::string(const NewOperation&)>;

/// The result of `device`.
class TAPESTRY_API DeviceScope {
 public:
  /// The same as `device`.
  /// @{
  DeviceScope(std::string_view name, Where where);
  explicit DeviceScope(DeviceFunction choose, Where where = Where::here());
  /// @}
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Opens a scope for a device, such as "/device:GPU:0" or "/job:ps". New operations of a graph ask for the device. Ops
/// that are executed at once run on it: their inputs are moved there, and their results, and new Variables, are stored
/// there; only `.to` keeps its own target. A function that is traced inside the scope belongs to it. Nested scopes
/// merge, and the inner one's components win. Throws InvalidArgumentError for a string that is not a device name.
/// @{
[[nodiscard]] inline DeviceScope device(std::string_view name, Where where = Where::here()) {
  return DeviceScope(name, where);
}
[[nodiscard]] inline DeviceScope device(const char* name, Where where = Where::here()) {
  return DeviceScope(name, where);
}
[[nodiscard]] inline DeviceScope device(Device place, Where where = Where::here()) {
  return DeviceScope(tensorflow_name(place), where);
}
/// @}
/// Opens a scope in which a function chooses the device of each new operation of a graph, also of the Variables that
/// the graph uses for the first time, unless they are an optimizer's slots, which stay with their Variables. What is
/// executed at once is not affected. Scopes inside it merge as those of names do, and win.
[[nodiscard]] inline DeviceScope device(DeviceFunction choose, Where where = Where::here()) {
  return DeviceScope(std::move(choose), where);
}

/// The result of `colocate_with`.
class TAPESTRY_API ColocationScope {
 public:
  /// The same as `colocate_with`.
  explicit ColocationScope(const Operation& operation);
  ~ColocationScope();
  ColocationScope(const ColocationScope&) = delete;
  ColocationScope& operator=(const ColocationScope&) = delete;

 private:
  std::string colocation_, device_;  ///< those of the scopes around this one
  DeviceFunction device_function_;   ///< the same
};
/// Opens a scope in which new operations run on the device of the given operation, regardless of the device scopes
/// around it. Files express this by TensorFlow's attribute `_class`. For an eager tensor the scope has no effect.
/// @{
[[nodiscard]] inline ColocationScope colocate_with(const Operation& operation) { return ColocationScope(operation); }
[[nodiscard]] inline ColocationScope colocate_with(const Tensor& tensor) { return ColocationScope(tensor.op()); }
/// @}

/// The result of `gradient_override_map`.
class TAPESTRY_API GradientOverrides {
 public:
  /// The same as `gradient_override_map`.
  GradientOverrides(const std::map<std::string, Gradient>& gradients, Where where);
  ~GradientOverrides();
  GradientOverrides(const GradientOverrides&) = delete;
  GradientOverrides& operator=(const GradientOverrides&) = delete;

 private:
  std::map<std::string, Gradient> saved_;
};
/// Opens a scope in which new operations of the named types, such as "Relu", get other gradients: `gradients` uses the
/// given functions instead of the registered ones. Nested scopes add up, and the inner one wins. Throws NotFoundError,
/// "Unrecognized Op name X", for an unknown type.
[[nodiscard]] inline GradientOverrides gradient_override_map(const std::map<std::string, Gradient>& gradients,
                                                             Where where = Where::here()) {
  return GradientOverrides(gradients, where);
}

/// @}

}  // namespace tapestry
