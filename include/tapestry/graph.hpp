#pragma once

#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/op.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// @addtogroup graphs
/// @{

/// How an operation is called, and its arguments that are no tensors.
struct CreateOpOptions {
  std::string name = {};  ///< by default the op's
  Attrs attrs = {};       ///< those that the op asks for
};

/// The names of TensorFlow's collections.
namespace graph_keys {
/// What belongs into a collection says TensorFlow's convention. The steps of optimizers get into `train_op` by
/// themselves, nothing does into the others.
/// @{
inline constexpr std::string_view global_variables = "variables";
inline constexpr std::string_view trainable_variables = "trainable_variables";
inline constexpr std::string_view local_variables = "local_variables";
inline constexpr std::string_view train_op = "train_op";
inline constexpr std::string_view summaries = "summaries";
/// @}
}  // namespace graph_keys

/// What a file says of Variables.
enum class VariableStyle : std::uint8_t {
  resource,   ///< TensorFlow 2's: VarHandleOp, ReadVariableOp; the file's initializers assign the values of now
  reference,  ///< TensorFlow 1's: VariableV2, Assign, Identity; the same
  frozen,     ///< constants with the values of now, and nothing that changes them
};

/// How `Graph::save` writes a graph.
struct SaveOptions {
  VariableStyle variables = VariableStyle::resource;  ///< what Variables become
  bool output_shapes = false;                         ///< write the shapes of all outputs, which TensorBoard shows
};

/// What a graph and its runs may cost. A graph from a file has these limits unless `Graph::load` is told others; one
/// that a program builds has none unless `Graph::set_limits` gives it some. What would exceed a limit throws
/// ResourceExhaustedError, or DeadlineExceededError for the time, which name the limit, the value and the operation,
/// and is not begun.
struct GraphLimits {
  std::int64_t bytes = std::int64_t{8} << 30;  ///< of the memory that a run takes for its tensors, constants included
  std::int64_t elements = std::int64_t{1} << 31;  ///< of a single tensor
  std::int64_t nodes = std::int64_t{1} << 20;     ///< of the graph, and of each graph that is made of it for a run
  std::int64_t time_in_ms = 10 * 60 * 1000;       ///< for loading, and for each run with its planning; from 1 on

  /// No limits.
  static constexpr GraphLimits none() {
    constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
    return {.bytes = any, .elements = any, .nodes = any, .time_in_ms = any};
  }
  /// The same limits.
  friend bool operator==(const GraphLimits&, const GraphLimits&) = default;
};

/// How a graph is drawn.
struct DrawOptions {
  std::string_view rankdir = "LR";  ///< "LR": from left to right; "TB": from top to bottom
};

/// Operations and the tensors between them, made once and run often by a Session. A handle: copies name the same graph,
/// which lives as long as a handle, an Operation or a Session of it. A graph may grow while sessions run it.
///
///     tp::Graph graph;
///     auto scope = graph.as_default();
///     auto x = tp::placeholder(tp::float32, {-1, 2}, "x");
///     auto y = tp::square(x, "y");
class TAPESTRY_API Graph {
 public:
  /// A new, empty graph.
  Graph();
  /// A handle on a graph, for what works on its nodes.
  explicit Graph(std::shared_ptr<detail::GraphState> state) : state_(std::move(state)) {}

  class Scope;
  /// While the scope lives, ops of this thread become operations of this graph: those that read a symbolic tensor or a
  /// Variable, create a tensor, or draw random numbers. What has only values, such as the result of a run, is computed
  /// at once. Scopes nest.
  [[nodiscard]] Scope as_default() const;
  /// The same from now on, until another graph is made the default.
  void make_default() const;

  /// All operations in the order in which they were made, placeholders and Variables included.
  std::vector<Operation> operations() const;
  /// Those in the graph, in the order in which they were made or first used.
  /// @{
  std::vector<Tensor> placeholders() const;
  std::vector<Variable> variables() const;
  /// @}

  /// The operation, or the output "name:0", of that name. Throws LookupError for an unknown name, InvalidArgumentError
  /// for one that cannot be a name, with TensorFlow's texts.
  /// @{
  Operation get_operation_by_name(std::string_view name, Where where = Where::here()) const;
  Tensor get_tensor_by_name(std::string_view name, Where where = Where::here()) const;
  /// @}
  /// Whether there is an operation of that name.
  bool has_operation(std::string_view name) const;

  /// Adds an operation of a registered op. Throws NotFoundError, "Unrecognized Op name X".
  Operation create_op(std::string_view type, const InList& inputs, const CreateOpOptions& options = {}) const;

  /// From now on, adding anything throws FailedPreconditionError.
  void finalize();
  /// Whether `finalize` has been called.
  bool finalized() const;
  /// Grows with every operation.
  std::int64_t version() const;
  /// A name that no operation of the graph has, made of this one: "x", "x_1", "x_2". It is then taken.
  std::string unique_name(std::string_view name) const;

  /// From now on, feeding the tensor, or fetching the operation or one of its outputs, throws InvalidArgumentError.
  /// @{
  void prevent_feeding(const Tensor& tensor) const;
  void prevent_fetching(const Operation& operation) const;
  /// @}
  /// Whether it may be fed, or fetched.
  /// @{
  bool is_feedable(const Tensor& tensor) const;
  bool is_fetchable(const Operation& operation) const;
  /// @}

  /// Puts something into a named list that belongs to the graph; see `graph_keys`.
  /// @{
  void add_to_collection(std::string_view name, const Operation& operation) const;
  void add_to_collection(std::string_view name, const Tensor& tensor) const;
  /// @}
  /// What has been put into the list of that name, operations or tensors, in order.
  /// @{
  std::vector<Operation> get_collection(std::string_view name) const;
  std::vector<Tensor> get_collection_tensors(std::string_view name) const;
  /// @}
  /// The names of the lists, sorted.
  std::vector<std::string> get_all_collection_keys() const;

  /// Writes the graph as TensorFlow's GraphDef: as text when the name ends in ".pbtxt", else in the binary form. The
  /// file appears whole or not at all, and the same graph gives the same bytes. Ops that TensorFlow lacks are written
  /// as several of its own. Throws UnimplementedError, with the op and the line that made it, for what TensorFlow
  /// cannot say, FailedPreconditionError for a Variable without a value, and NotFoundError when the folder does not
  /// exist.
  void save(const std::string& path, const SaveOptions& options = {}, Where where = Where::here()) const;
  /// The bytes of the binary form.
  std::string as_graph_def(const SaveOptions& options = {}, Where where = Where::here()) const;
  /// A graph from a file that `save` or TensorFlow has written; a graph that `save` has written computes the same bits.
  /// Variables get the values of their initializers where those are constants. Throws NotFoundError when there is no
  /// such file, DataLossError when it is damaged, UnimplementedError for ops, with their nodes, that Tapestry lacks,
  /// and InvalidArgumentError for a graph that makes no sense. Sizes, axes and the like that the graph computes from
  /// the shapes of tensors are known when a Session runs it; such nodes have types and shapes as far as the file tells.
  /// The graph keeps the limits, within which it is loaded and run.
  static Graph load(const std::string& path, const GraphLimits& limits = {}, Where where = Where::here());
  /// The same from the bytes of the binary form.
  static Graph from_graph_def(std::string_view bytes, const GraphLimits& limits = {}, Where where = Where::here());

  /// What the graph and its runs may cost.
  GraphLimits limits() const;
  /// Gives the graph other limits, which hold for what is added, and for the plans that are made, from now on. Not
  /// while a session runs it. Throws InvalidArgumentError for a negative one.
  void set_limits(const GraphLimits& limits, Where where = Where::here()) const;

  /// The graph in Graphviz' language, with a cluster for each name scope.
  std::string to_dot(const DrawOptions& options = {}, Where where = Where::here()) const;
  /// The graph as a picture.
  std::string to_svg(const DrawOptions& options = {}, Where where = Where::here()) const;

  /// Whether both handles name the same graph.
  bool is(const Graph& other) const { return state_ == other.state_; }
  /// For what works on the nodes of the graph.
  const std::shared_ptr<detail::GraphState>& state() const { return state_; }

 private:
  std::shared_ptr<detail::GraphState> state_;
};

/// This thread's innermost open graph, or the implicit one that every thread has.
TAPESTRY_API Graph default_graph();
/// Gives this thread a fresh implicit graph. Throws FailedPreconditionError inside a scope.
TAPESTRY_API void reset_default_graph(Where where = Where::here());

/// A tensor that is fed when the graph runs. Without arguments its dtype and shape are those of what is fed. Belongs to
/// the default graph.
/// @{
TAPESTRY_API Tensor placeholder(Where where = Where::here());
TAPESTRY_API Tensor placeholder(DType dtype, const Shape& shape, std::string_view name = {},
                                Where where = Where::here());
// `Place` is a template parameter so that braces behind the dtype can only be a shape.
template <std::same_as<Where> Place = Where>
Tensor placeholder(DType dtype, Place where = Place::here()) {
  return placeholder(dtype, Shape::unknown_rank(), {}, where);
}
/// @}
/// A value that is part of the default graph.
TAPESTRY_API Tensor constant(const Init& value, std::string_view name = {}, Where where = Where::here());
/// An operation that does nothing but wait for its control inputs.
TAPESTRY_API Operation no_op(std::string_view name = {}, Where where = Where::here());
/// An operation that waits for all of these.
TAPESTRY_API Operation group(const std::vector<Operation>& operations, std::string_view name = {},
                             Where where = Where::here());

/// An operation that gives all Variables of the default graph their initial values; named "init".
TAPESTRY_API Operation global_variables_initializer(Where where = Where::here());
/// The same for these Variables.
TAPESTRY_API Operation variables_initializer(const std::vector<Variable>& variables, std::string_view name = "init",
                                             Where where = Where::here());

/// Whether a value was assigned: one made from a symbolic initial value has none before its initializer has run.
TAPESTRY_API bool is_variable_initialized(const Variable& variable);
/// The names of the Variables of the default graph that have no value yet.
TAPESTRY_API std::vector<std::string> report_uninitialized_variables();

/// Adds the operations that compute the gradient of the sum of the targets' elements with respect to each source, under
/// the name scope "gradients". An unconnected source gives an empty Tensor, unless the options ask for zeros. Throws
/// LookupError for an op without a gradient on the way, and FailedPreconditionError for an eager target.
///
/// Of one Tensor or Variable, a list or a container it gives a std::vector; of several arguments what
/// `GradientTape::gradient` gives.
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

// ---- Scopes: each holds while the object lives, for the operations that this thread adds to graphs ------------------

/// What `Graph::as_default` returns.
class TAPESTRY_API Graph::Scope {
 public:
  /// Opens the graph.
  explicit Scope(const Graph& graph);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  struct Saved;
  std::unique_ptr<Saved> saved_;
};

/// What `name_scope` returns.
class TAPESTRY_API NameScope {
 public:
  /// As `name_scope`.
  NameScope(std::string_view name, Where where);
  ~NameScope();
  NameScope(const NameScope&) = delete;
  NameScope& operator=(const NameScope&) = delete;
  /// "outer/inner/"
  const std::string& name() const { return name_; }

 private:
  std::string name_, saved_;
};
/// Names become "scope/name". A scope of a name that is taken becomes "scope_1"; a name that ends in '/' re-enters that
/// very scope, and an empty one leaves all scopes. Throws InvalidArgumentError, "'%' is not a valid scope name".
[[nodiscard]] inline NameScope name_scope(std::string_view name, Where where = Where::here()) {
  return NameScope(name, where);
}

/// Operations, or the operations of tensors; what is eager does not count.
class TAPESTRY_API ControlInputs {
 public:
  /// None: leaves all scopes.
  ControlInputs() = default;
  /// A list of one kind.
  /// @{
  ControlInputs(std::initializer_list<Operation> operations) : operations_(operations) {}
  ControlInputs(const std::vector<Operation>& operations) : operations_(operations) {}  // NOLINT
  ControlInputs(std::initializer_list<Tensor> tensors) : ControlInputs(std::vector<Tensor>(tensors)) {}
  ControlInputs(const std::vector<Tensor>& tensors);  // NOLINT(google-explicit-constructor)
  /// @}

  /// What has to run before.
  const std::vector<Operation>& operations() const { return operations_; }

 private:
  std::vector<Operation> operations_;
};

/// What `control_dependencies` returns.
class TAPESTRY_API ControlScope {
 public:
  /// As `control_dependencies`.
  explicit ControlScope(const ControlInputs& inputs);
  ~ControlScope();
  ControlScope(const ControlScope&) = delete;
  ControlScope& operator=(const ControlScope&) = delete;

 private:
  std::vector<Operation> saved_;
};
/// New operations run after these, too. Scopes add up; an empty list leaves all of them.
[[nodiscard]] inline ControlScope control_dependencies(const ControlInputs& inputs) { return ControlScope(inputs); }

/// What `device` returns.
class TAPESTRY_API DeviceScope {
 public:
  /// As `device`.
  DeviceScope(std::string_view name, Where where);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// New operations of a graph ask for that device: "/device:GPU:0", "/job:ps". Outside of graphs ops run there: their
/// inputs are moved, and what they make, and new Variables, lie there; `.to` goes where it says. What a function does
/// that is traced in the scope is in it. Scopes merge, the inner one's parts win. Throws InvalidArgumentError for what
/// is no name of a device.
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

/// What `colocate_with` returns.
class TAPESTRY_API ColocationScope {
 public:
  /// As `colocate_with`.
  explicit ColocationScope(const Operation& operation);
  ~ColocationScope();
  ColocationScope(const ColocationScope&) = delete;
  ColocationScope& operator=(const ColocationScope&) = delete;

 private:
  std::string colocation_, device_;  ///< of the scopes around it
};
/// New operations run where this one runs, whatever device scopes are around them. Files say it as TensorFlow does, by
/// `_class`. What is eager asks for nothing.
/// @{
[[nodiscard]] inline ColocationScope colocate_with(const Operation& operation) { return ColocationScope(operation); }
[[nodiscard]] inline ColocationScope colocate_with(const Tensor& tensor) { return ColocationScope(tensor.op()); }
/// @}

/// What `gradient_override_map` returns.
class TAPESTRY_API GradientOverrides {
 public:
  /// As `gradient_override_map`.
  GradientOverrides(const std::map<std::string, Gradient>& gradients, Where where);
  ~GradientOverrides();
  GradientOverrides(const GradientOverrides&) = delete;
  GradientOverrides& operator=(const GradientOverrides&) = delete;

 private:
  std::map<std::string, Gradient> saved_;
};
/// `gradients` takes these functions for new operations of the named types, such as "Relu", instead of what is
/// registered for the op. Scopes add up, the inner one wins. Throws NotFoundError, "Unrecognized Op name X".
[[nodiscard]] inline GradientOverrides gradient_override_map(const std::map<std::string, Gradient>& gradients,
                                                             Where where = Where::here()) {
  return GradientOverrides(gradients, where);
}

/// @}

}  // namespace tapestry
