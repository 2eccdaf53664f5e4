#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "autodiff/variable_cell.hpp"
#include "core/hash_index.hpp"
#include "dispatch/recorder.hpp"
#include "graph/arena_pool.hpp"
#include "graph/budget.hpp"
#include "graph/file_nodes.hpp"
#include "graph/names.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::detail {

/// An operation of a graph.
class Node : public Call {
 public:
  Node(GraphState& owner, std::size_t number, Call&& call) : Call(std::move(call)), graph(&owner), index(number) {}

  GraphState* graph;
  std::size_t index;  ///< its position in the graph, after all that it needs
  std::vector<Node*> control_inputs;
  std::string device;                    ///< the one that was asked for; "" for none
  std::string colocation;                ///< the name of the node on whose device it runs; "" for none
  std::shared_ptr<const Op> overridden;  ///< the op with the gradient that `gradients` uses; nullptr for its own
};

/// What a node has beside its call. It comes from the scopes that the user has opened, or from the node that it
/// replaces.
struct NodeOptions {
  std::string scope{};                     ///< precedes its name: "outer/inner/"
  bool name_is_taken = false;              ///< the call has its full name, which was taken before
  std::vector<Node*> control_inputs{};     ///< of its graph; those that are inputs, too, are left out
  std::string device{};                    ///< as in Node
  std::string colocation{};                ///< as in Node
  std::shared_ptr<const Op> overridden{};  ///< as in Node
  std::optional<Device> outputs_on{};      ///< in a plan; by default that of `device_of`
};

/// What a graph knows of a Variable that it uses.
struct GraphVariable {
  Variable variable;
  std::string name;             ///< of the handle's node
  Tensor handle{};              ///< the resource that reads and assignments start from
  Tensor value{};               ///< the output of the current read; empty if there is none
  Node* initializer = nullptr;  ///< the assignment of the initial value, for a Variable made in the graph
  Tensor initial_value{};
  Node* last_assign = nullptr;       ///< in program order
  std::vector<Node*> reads_since{};  ///< the reads after `last_assign`
};

bool contains(const std::vector<Variable>& list, const Variable& variable);

/// What a function of a graph, while it is traced, uses of its surroundings. In the function's graph, placeholders
/// stand for these tensors and for the values of Variables.
struct Captures {
  struct Capture {
    Tensor tensor;                     ///< of the surroundings; empty for a Variable
    std::optional<Variable> variable;  ///< whose value is read in the surroundings
    Tensor inside;                     ///< the placeholder
    /// Whether the function reads the Variable itself, since it changes it: then only gradients go to the placeholder.
    bool reads_itself = false;
  };

  /// What the function uses already; nullptr for nothing.
  const Capture* find(const Tensor& tensor, const Variable* variable) const;
  /// The placeholder for a tensor or a Variable, or for the gradient of a Variable that the function changes.
  Tensor inside_of(GraphState& function, const Tensor& tensor, const Variable* variable, Where where);
  /// Notes that the function changes a Variable, so that it must read the Variable itself.
  void note_change(const Variable& variable);
  bool is_changed(const Variable& variable) const;

  const GraphState* outer = nullptr;  ///< the graph around the function, if there is one
  bool is_recorded = false;           ///< whether a tape may ask for the gradient of an eager tensor
  std::vector<Capture> list{};
  std::vector<Variable> changed{};  ///< by the function, as far as is known; so it reads them itself
  std::vector<Variable> found{};    ///< to change while it was traced
};

/// What the handles of a Graph share: its nodes, in an order in which they could run.
class TAPESTRY_API GraphState final : public Sink, public std::enable_shared_from_this<GraphState> {
 public:
  enum class Order {
    data,     ///< a graph built by hand: only data and control edges order its nodes
    program,  ///< a trace: nodes that read or change Variables, or draw random numbers, run in program order
  };
  explicit GraphState(Order order = Order::data) : order_(order) {}
  Order order() const { return order_; }
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;
  ~GraphState() override;

  // ---- Sink ----
  void add(Call& call) override;
  const Op& capture_op() const override;
  Tensor read(const Variable& variable, Where where) override;
  Tensor known_value(const Variable& variable) const override;
  Tensor assign(const Variable& variable, Assign kind, const Tensor& value, Where where) override;
  void declare(const Variable& variable, const Tensor& initial_value, Where where) override;

  const std::string& scope() const override;
  Tensor map(const Tensor& elements, const std::function<Tensor(const Tensor&)>& f, Where where) override;
  std::string enter_scope(std::string_view name) override;
  void leave_scope(std::string outer) override;

  /// Adds a node. The inputs of the call are tensors of this graph; the outputs get these specs.
  Node& add_node(Call call, const Specs& specs, NodeOptions options);
  /// Adds a node with the options of this thread's scopes.
  Node& add_in_scopes(Call call, const Specs& specs);
  /// The options that this thread's scopes give a new node of an op.
  NodeOptions scope_options(const Op& op);
  /// The tensor itself; for an eager one, the constant of the graph that has its value.
  Tensor captured(const Tensor& tensor, Where where);

  std::size_t size() const { return nodes_.size(); }
  Node& node(std::size_t i) const { return *nodes_[i]; }
  Node* find(std::string_view name) const;
  /// Gives a node the name that a file has for it, even if others differ from it in case only. Throws
  /// InvalidArgumentError for a name that is not valid, or that another node has.
  void rename(Node& node, const std::string& name);
  /// Gives a node more outputs, and the attributes that tell so.
  void extend(Node& node, const Attrs& attrs, const Specs& more);
  /// Takes away the nodes from number `size` on, which nothing may refer to.
  void shrink_to(std::size_t size);
  /// Makes room for so many nodes.
  void reserve(std::size_t nodes);
  GraphVariable& variable_entry(const Variable& variable, Where where);
  const std::vector<GraphVariable>& variables() const { return variables_; }
  NameTable& names() { return names_; }
  /// The nodes that a call of the trace must run for their effect.
  std::vector<Node*> must_run() const;
  /// Whether a node of the trace draws random numbers.
  bool draws() const { return last_random_ != nullptr; }
  /// Whether one of the nodes from number `first` on does.
  bool draws_from(std::size_t first) const;
  /// The nodes that follow belong to another function, which does not wait for the draws of this one.
  void forget_draws() { last_random_ = nullptr; }
  Budget& budget() { return budget_; }
  const Budget& budget() const { return budget_; }

  void finalize(bool value = true) { finalized_ = value; }
  bool finalized() const { return finalized_; }
  void require_open(Where where) const;

  /// Held while the graph changes or is read: sessions may run it while it grows.
  std::recursive_mutex& mutex() const { return mutex_; }

  struct Collection {
    std::vector<Node*> operations;
    Tensors tensors;
  };
  std::map<std::string, Collection, std::less<>> collections;
  std::set<std::int64_t> not_feedable;  ///< tensors, by id
  std::set<const Node*> not_fetchable;
  std::shared_ptr<FileNodes> file;                  ///< that the graph was read from; empty for another graph
  std::unordered_set<std::int64_t> absorbed;        ///< tensors, by id, whose values became attributes when it was read
  std::unordered_set<const Node*> initializes_all;  ///< made by `global_variables_initializer`
  Captures* captures = nullptr;                     ///< while a function is traced into this graph
  bool of_examples = false;                         ///< whether the function is that of a vmap
  /// What stands, in the graph of a traced function, for tensors of the surroundings, by their ids: the gradient of a
  /// `recompute` in it uses them again.
  std::unordered_map<std::int64_t, Tensor> stand_ins{};
  /// Of the plans that are made of this graph. Passes hand it on.
  std::shared_ptr<ArenaPool> arena_pool = std::make_shared<ArenaPool>();

 private:
  void index_names() const;
  std::uint32_t position_of(std::string_view name, std::uint32_t hash) const;
  void forget_name(const Node& node);
  void add_output(Node& node, const Spec& spec, Device device);
  void order_after_program(Node& node);
  void order_after_draws(Node& node);
  std::vector<Node*> scope_controls();
  Tensor captured_in(const std::string& scope, const Tensor& tensor, Where where);
  std::string node_name(const Variable& variable) const;
  GraphVariable& make_entry(const Variable& variable, const std::string& name, const std::string& device, Where where);
  Tensor read_in_function(const Variable& variable, Where where);
  Tensor read_after(const std::vector<Node*>& control_inputs, const Variable& variable, Where where);
  Tensor add_read(const GraphVariable& entry, const std::vector<Node*>& control_inputs, Where where);
  Node& add_assign(const Variable& variable, Assign kind, const Tensor& value, const NodeOptions& options, Where where);

  Order order_;
  std::vector<std::unique_ptr<Node>> nodes_;
  mutable HashIndex by_name_;  ///< the first `indexed_` nodes
  mutable std::size_t indexed_ = 0;
  NameTable names_;
  std::unordered_map<std::int64_t, std::pair<Tensor, Tensor>> constants_;  ///< by id: an eager tensor and its constant
  std::vector<GraphVariable> variables_;
  std::unordered_map<const Variable::Cell*, std::size_t> variable_index_;
  std::vector<Node*> assigns_;   ///< in program order
  Node* last_random_ = nullptr;  ///< the last node that draws random numbers; it runs after the earlier ones
  Budget budget_;
  bool finalized_ = false;
  mutable std::recursive_mutex mutex_;
};

/// The scopes that the user has opened on this thread.
struct Scopes {
  Scopes() = default;
  explicit Scopes(std::shared_ptr<GraphState> open) : graph(std::move(open)) {}

  std::shared_ptr<GraphState> graph;  ///< the open one; empty outside all scopes
  std::string name;                   ///< "outer/inner/"
  std::vector<Operation> control_inputs;
  std::string device;                         ///< of the scopes inside that of `device_function`
  DeviceFunction device_function;             ///< empty for none
  std::string colocation;                     ///< the name of a node
  std::map<std::string, Gradient> gradients;  ///< by the op's name: used instead of the registered ones
};
TAPESTRY_API Scopes& scopes();

/// Scopes of a kind may end in any order: `scope_ends` returns the one that was opened next, if it has not ended yet.
/// It takes over what the scope that ends would restore.
/// @{
void scope_begins(const std::type_info& kind, void* scope);
void* scope_ends(const std::type_info& kind, void* scope);
template <class Scope>
void scope_begins(Scope* scope) {
  scope_begins(typeid(Scope), scope);
}
template <class Scope>
Scope* scope_ends(Scope* scope) {
  return static_cast<Scope*>(scope_ends(typeid(Scope), scope));
}
/// @}

/// The device that the scopes give a new operation.
std::string device_in_scopes(const NewOperation& operation);

/// While it lives, the graph is open in scopes with these options, so that the nodes that public ops add get them.
class TAPESTRY_API OptionsScope {
 public:
  OptionsScope(const std::shared_ptr<GraphState>& graph, const NodeOptions& options);

 private:
  Graph::Scope open_;
};

/// The device of the outputs of a call: that of the attribute "device", else that of the first input, else the CPU.
Device device_of(const Call& call);

/// The node that computes a tensor of a graph, and which of its outputs that is. The node is nullptr for an eager
/// tensor.
struct Endpoint {
  Node* node = nullptr;
  std::int32_t output = 0;
};
TAPESTRY_API Endpoint endpoint_of(const Tensor& tensor);
/// The node of a symbolic tensor.
TAPESTRY_API Node& producer_of(const Tensor& tensor);
/// The graph of a symbolic tensor. Throws FailedPreconditionError when it is gone or the tensor is eager.
std::shared_ptr<GraphState> graph_of(const Tensor& tensor);
inline Node& node_of(const Operation& operation) {
  return const_cast<Node&>(static_cast<const Node&>(operation.call()));
}
TAPESTRY_API Operation operation_of(Node& node);
/// The specs of a node's outputs.
inline Specs specs_of(const Node& node) {
  Specs specs;
  for (const Tensor& output : node.outputs()) specs.push_back(output.spec());
  return specs;
}

/// Whether the dtype or the rank of a tensor is unknown until the feeds are known.
inline bool is_unknown(const Tensor& tensor) { return tensor.dtype() == DType::unknown || !tensor.shape().has_rank(); }

/// The numbers of the inputs whose values a node awaits. Such a node comes from a file, and its attributes depend on
/// values that the graph computes from sizes. Once these are known, the function in its attribute "redo" makes the
/// nodes that replace it. nullptr for any other node.
inline const Ints* awaited_values(const Node& node) { return node.attrs().find<Ints>("awaited_values"); }

/// Why a node of a file was not read; empty when Tapestry lacks its op. nullptr for a node that was read. Such a node
/// can be written again, and its outputs can be fed, but it cannot run.
inline const std::string* why_unread(const Node& node) { return node.attrs().find<std::string>("unread"); }

/// A tensor as messages describe it: `Tensor("x:0", shape=[2], dtype=float32)`.
std::string describe(const Tensor& symbolic);

}  // namespace tapestry::detail
