#include "tapestry/graph.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "core/deferred.hpp"
#include "core/thread_object.hpp"
#include "dispatch/declaration.hpp"
#include "graph/graph_state.hpp"
#include "graph/specialize.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/detail/function.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {

using detail::GraphState;
using detail::Node;
using detail::node_of;
using detail::operation_of;

namespace {

/// The implicit graph of this thread.
std::shared_ptr<GraphState>& implicit_graph() {
  struct Implicit {
    std::shared_ptr<GraphState> graph;
  };
  auto& graph = detail::thread_object<Implicit>().graph;
  if (!graph) graph = std::make_shared<GraphState>();
  return graph;
}

/// Adds a node of an op without inputs to the default graph.
Node& add_leaf(const Op& op, Attrs attrs, std::string_view name, Where where) {
  const std::shared_ptr<GraphState> graph = default_graph().state();
  const std::lock_guard lock(graph->mutex());
  return detail::locating({}, where, [&]() -> Node& {
    Call call(op, {}, std::move(attrs), where, name);
    const Specs specs = op.infer(call);
    return graph->add_in_scopes(std::move(call), specs);
  });
}

/// Splits "x:0" into the name and the number of the output, which is -1 if it is missing or malformed.
std::pair<std::string_view, std::int64_t> split_tensor_name(std::string_view name) {
  const std::size_t colon = name.rfind(':');
  if (colon == std::string_view::npos) return {name, -1};
  std::int64_t index = -1;
  const std::string_view digits = name.substr(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const bool good = error == std::errc() && end == digits.data() + digits.size() && index >= 0;
  return {name.substr(0, colon), good ? index : -1};
}

}  // namespace

// ---- Operation, and the members of Tensor that need a graph -----------------------------------------------------------

const Call& Operation::call() const {
  if (!call_) throw FailedPreconditionError("An empty Operation was used");
  return *call_;
}

namespace {

const Tensor& at(const Tensors& list, std::size_t i, const Operation& operation, std::string_view what) {
  if (i >= list.size())
    throw InvalidArgumentError(
        detail::join("Operation '", operation.name(), "' has ", list.size(), " ", what, "s, there is no number ", i));
  return list[i];
}

}  // namespace

const Tensor& Operation::input(std::size_t i) const { return at(inputs(), i, *this, "input"); }
const Tensor& Operation::output(std::size_t i) const { return at(outputs(), i, *this, "output"); }

std::vector<Operation> Operation::control_inputs() const {
  std::vector<Operation> list;
  if (graph_)
    for (Node* node : node_of(*this).control_inputs) list.push_back(operation_of(*node));
  return list;
}

std::string Operation::device() const { return graph_ ? node_of(*this).device : std::string(); }

Graph Operation::graph() const {
  if (!graph_) throw FailedPreconditionError(detail::join("Operation '", name(), "' is in no graph"));
  return Graph(graph_);
}

Operation Tensor::op() const {
  const detail::Endpoint end = detail::endpoint_of(*this);
  return end.node ? Operation(*end.node, detail::graph_of(*this)) : Operation();
}

std::string Tensor::name() const {
  const Operation operation = op();
  return operation ? detail::join(operation.name(), ":", detail::endpoint_of(*this).output) : std::string();
}

std::vector<Operation> Tensor::consumers() const {
  std::vector<Operation> list;
  if (!op()) return list;
  const std::shared_ptr<GraphState> graph = detail::graph_of(*this);
  const std::lock_guard lock(graph->mutex());
  for (std::size_t i = 0; i < graph->size(); ++i) {
    const Tensors& inputs = graph->node(i).inputs();
    if (std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& input) { return input.is(*this); }))
      list.push_back(operation_of(graph->node(i)));
  }
  return list;
}

namespace {

/// The node of that name in the graph, or in the file that the graph was read from.
Node* node_named(const GraphState& graph, std::string_view name) {
  Node* node = graph.file ? graph.file->find(name) : nullptr;
  return node ? node : graph.find(name);
}

/// Throws UnimplementedError for a node that Tapestry lacks: how many outputs it has, nobody knows.
void require_read(const GraphState& graph, const Node* node, Where where) {
  if (!node || !detail::why_unread(*node)) return;
  std::vector<char> needed(graph.size());
  needed[node->index] = 1;
  detail::locating({}, where, [&] { detail::require_read(graph, needed); });
}

}  // namespace

// ---- Graph --------------------------------------------------------------------------------------------------------------

Graph::Graph() : state_(std::make_shared<GraphState>()) {}

void Graph::make_default() const {
  detail::scopes() = detail::Scopes(state_);
  open_sink() = state_.get();
}

Graph::Scope Graph::as_default() const { return Scope(*this); }

std::vector<Operation> Graph::operations() const {
  const std::lock_guard lock(state_->mutex());
  std::vector<Operation> list;
  for (std::size_t i = 0; i < state_->size(); ++i) list.emplace_back(state_->node(i), state_);
  return list;
}

std::vector<Tensor> Graph::placeholders() const {
  const std::lock_guard lock(state_->mutex());
  std::vector<Tensor> list;
  for (std::size_t i = 0; i < state_->size(); ++i)
    if (&state_->node(i).op() == &placeholder_op) list.push_back(state_->node(i).output());
  return list;
}

std::vector<Variable> Graph::variables() const {
  const std::lock_guard lock(state_->mutex());
  std::vector<Variable> list;
  for (const detail::GraphVariable& each : state_->variables()) list.push_back(each.variable);
  return list;
}

bool Graph::has_operation(std::string_view name) const {
  const std::lock_guard lock(state_->mutex());
  return state_->find(name) || (state_->file && state_->file->has(name));
}

Operation Graph::get_operation_by_name(std::string_view name, Where where) const {
  const std::lock_guard lock(state_->mutex());
  if (Node* node = node_named(*state_, name)) return Operation(*node, state_);
  if (name.find(':') != std::string_view::npos)
    throw InvalidArgumentError(detail::join("The name '", name, "' appears to refer to a Tensor, not a Operation."),
                               where);
  throw LookupError(detail::join("The name '", name, "' refers to an Operation not in the graph."), where);
}

Tensor Graph::get_tensor_by_name(std::string_view name, Where where) const {
  const std::lock_guard lock(state_->mutex());
  const auto [operation, index] = split_tensor_name(name);
  if (index < 0) {
    if (node_named(*state_, name))
      throw InvalidArgumentError(
          detail::join("The name '", name,
                       "' refers to an Operation, not a Tensor. Tensor names must be of the form "
                       "\"<op_name>:<output_index>\"."),
          where);
    throw InvalidArgumentError(detail::join("The name '", name,
                                            "' looks like an (invalid) Operation name, not a Tensor. Tensor names must "
                                            "be of the form \"<op_name>:<output_index>\"."),
                               where);
  }
  const std::string refers =
      detail::join("The name '", name, "' refers to a Tensor which does not exist. The operation, '", operation, "', ");
  const Tensors* outputs = state_->file ? state_->file->outputs(operation, static_cast<std::size_t>(index)) : nullptr;
  const Node* node = outputs ? nullptr : state_->find(operation);
  if (node) outputs = &node->outputs();
  if (!outputs) throw LookupError(refers + "does not exist in the graph.", where);
  if (static_cast<std::size_t>(index) >= outputs->size()) {
    require_read(*state_, node_named(*state_, operation), where);
    throw LookupError(detail::join(refers, "exists but only has ", outputs->size(), " outputs."), where);
  }
  if (!(*outputs)[index])
    throw InvalidArgumentError(
        detail::join("The name '", name,
                     "' refers to what a loop does with a Variable, a list or a counter, not to a Tensor."),
        where);
  return (*outputs)[index];
}

Operation Graph::create_op(std::string_view type, const InList& inputs, const CreateOpOptions& options) const {
  Call call = named_call(type, inputs, options.attrs, options.name);
  const std::lock_guard lock(state_->mutex());
  const Tensors outputs = add_call(*state_, std::move(call));
  return outputs.empty() ? operation_of(state_->node(state_->size() - 1)) : outputs[0].op();
}

void Graph::finalize() { state_->finalize(); }
bool Graph::finalized() const { return state_->finalized(); }

std::int64_t Graph::version() const {
  const std::lock_guard lock(state_->mutex());
  return state_->size();
}

std::string Graph::unique_name(std::string_view name) const {
  const std::lock_guard lock(state_->mutex());
  return state_->names().unique(detail::scopes().name + std::string(name));
}

void Graph::prevent_feeding(const Tensor& tensor) const {
  const std::lock_guard lock(state_->mutex());
  state_->not_feedable.insert(tensor.id());
}

namespace {

Node& node_in(const Graph& graph, const Operation& operation) {
  if (!operation.graph().is(graph))
    throw InvalidArgumentError(detail::join("Operation ", operation.name(), " is not an element of this graph."));
  return node_of(operation);
}

}  // namespace

void Graph::prevent_fetching(const Operation& operation) const {
  const std::lock_guard lock(state_->mutex());
  state_->not_fetchable.insert(&node_in(*this, operation));
}

bool Graph::is_feedable(const Tensor& tensor) const {
  const std::lock_guard lock(state_->mutex());
  return tensor.dtype() != DType::resource && !state_->not_feedable.contains(tensor.id());
}

bool Graph::is_fetchable(const Operation& operation) const {
  const std::lock_guard lock(state_->mutex());
  return operation.graph().is(*this) && !state_->not_fetchable.contains(&node_of(operation));
}

void Graph::add_to_collection(std::string_view name, const Operation& operation) const {
  const std::lock_guard lock(state_->mutex());
  state_->collections[std::string(name)].operations.push_back(&node_in(*this, operation));
}

void Graph::add_to_collection(std::string_view name, const Tensor& tensor) const {
  const std::lock_guard lock(state_->mutex());
  if (const Operation operation = tensor.op()) add_to_collection(name, operation);
  state_->collections[std::string(name)].tensors.push_back(tensor);
}

namespace {

/// Whether the Variables of a graph belong into the collection, besides what a program adds to it.
bool holds_variables(std::string_view collection) {
  return collection == graph_keys::global_variables || collection == graph_keys::trainable_variables;
}

}  // namespace

std::vector<Operation> Graph::get_collection(std::string_view name) const {
  const std::lock_guard lock(state_->mutex());
  std::vector<Node*> nodes;
  if (holds_variables(name))
    for (const detail::GraphVariable& each : state_->variables())
      if (name == graph_keys::global_variables || each.variable.trainable())
        nodes.push_back(&detail::producer_of(each.handle));
  if (const auto found = state_->collections.find(name); found != state_->collections.end())
    for (Node* node : found->second.operations)
      if (!holds_variables(name) || std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  std::vector<Operation> list;
  list.reserve(nodes.size());
  for (Node* node : nodes) list.push_back(operation_of(*node));
  return list;
}

std::vector<Tensor> Graph::get_collection_tensors(std::string_view name) const {
  const std::lock_guard lock(state_->mutex());
  const auto found = state_->collections.find(name);
  return found == state_->collections.end() ? std::vector<Tensor>{} : std::vector<Tensor>(found->second.tensors);
}

std::vector<std::string> Graph::get_all_collection_keys() const {
  const std::lock_guard lock(state_->mutex());
  std::set<std::string> keys;
  for (const auto& [key, items] : state_->collections) keys.insert(key);
  for (const detail::GraphVariable& each : state_->variables()) {
    keys.emplace(graph_keys::global_variables);
    if (each.variable.trainable()) keys.emplace(graph_keys::trainable_variables);
  }
  return {keys.begin(), keys.end()};
}

GraphLimits Graph::limits() const {
  const std::lock_guard lock(state_->mutex());
  return state_->budget().limits();
}

void Graph::set_limits(const GraphLimits& limits, Where where) const {
  const std::lock_guard lock(state_->mutex());
  detail::locating({}, where, [&] { state_->budget().set_limits(limits); });
}

Graph default_graph() { return Graph(detail::scopes().graph ? detail::scopes().graph : implicit_graph()); }

void reset_default_graph(Where where) {
  if (open_sink())
    throw FailedPreconditionError(
        "Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting and "
        "create a new graph.",
        where);
  implicit_graph() = std::make_shared<GraphState>();
}

// ---- Leaves and groups --------------------------------------------------------------------------------------------------

Tensor placeholder(Where where) { return placeholder(DType::unknown, where); }
Tensor placeholder(DType dtype, const Shape& shape, std::string_view name, Where where) {
  return add_leaf(placeholder_op, {{"dtype", dtype}, {"shape", shape}}, name, where).output();
}

Tensor constant(const Init& value, std::string_view name, Where where) {
  Tensor tensor = value.tensor({}, where);
  if (detail::is_deferred(tensor)) tensor = detail::computed(tensor);
  if (tensor.is_symbolic()) throw InvalidArgumentError("The value of a constant cannot be a symbolic tensor", where);
  return add_leaf(const_op, {{"dtype", tensor.dtype()}, {"value", tensor}}, name, where).output();
}

Operation no_op(std::string_view name, Where where) { return operation_of(add_leaf(no_op_op, {}, name, where)); }

Operation group(const std::vector<Operation>& operations, std::string_view name, Where where) {
  std::optional<ControlScope> after;
  if (!operations.empty()) after.emplace(operations);  // an empty list would leave the scope around
  return no_op(name.empty() ? "group_deps" : name, where);
}

Operation Variable::initializer() const {
  const std::shared_ptr<GraphState> graph = default_graph().state();
  const std::lock_guard lock(graph->mutex());
  for (const detail::GraphVariable& each : graph->variables())
    if (each.variable.is(*this) && each.initializer) return operation_of(*each.initializer);
  return {};
}

Tensor Variable::initialized_value(Where where) const {
  const Operation assign = initializer();
  if (!assign) return value();
  const ControlScope after(std::vector<Operation>{assign});
  const std::shared_ptr<GraphState> graph = default_graph().state();
  const Tensor handle = graph->variable_entry(*this, where).handle;
  return graph
      ->add_in_scopes(Call(read_variable_op, {handle}, variable_attrs({*this}), where, name() + "/initialized_value"),
                      {variable_spec(*this)})
      .output();
}

Operation global_variables_initializer(Where where) {
  Operation init = variables_initializer(default_graph().variables(), "init", where);
  default_graph().state()->initializes_all.insert(&node_of(init));
  return init;
}

Operation variables_initializer(const std::vector<Variable>& variables, std::string_view name, Where where) {
  const std::shared_ptr<GraphState> graph = default_graph().state();
  const std::lock_guard lock(graph->mutex());
  std::vector<Operation> initializers;
  for (const Variable& variable : variables)
    if (Node* node = graph->variable_entry(variable, where).initializer) initializers.push_back(operation_of(*node));
  return group(initializers, name, where);
}

bool is_variable_initialized(const Variable& variable) { return variable.cell()->is_initialized(); }

std::vector<std::string> report_uninitialized_variables() {
  std::vector<std::string> names;
  for (const Variable& variable : default_graph().variables())
    if (!is_variable_initialized(variable)) names.push_back(variable.name());
  return names;
}

// ---- Scopes ---------------------------------------------------------------------------------------------------------------

struct Graph::Scope::Saved {
  detail::Scopes scopes;
  Sink* sink;
};

Graph::Scope::Scope(const Graph& graph)
    : saved_(new Saved{std::exchange(detail::scopes(), detail::Scopes(graph.state())),
                       std::exchange(open_sink(), graph.state().get())}) {
  detail::scope_begins(this);
}

Graph::Scope::~Scope() {
  const Scope* const inner = detail::scope_ends(this);
  (inner ? inner->saved_->sink : open_sink()) = saved_->sink;
  (inner ? inner->saved_->scopes : detail::scopes()) = std::move(saved_->scopes);
}

NameScope::NameScope(std::string_view name, Where where) : saved_(detail::scopes().name) {
  const bool exact = !name.empty() && name.back() == '/';
  if (exact) name.remove_suffix(1);
  if (!name.empty() && !detail::is_valid_scope_name(name, saved_.empty()))
    throw InvalidArgumentError(detail::join("'", name, "' is not a valid scope name"), where);
  if (exact) {
    name_ = std::string(name) + "/";
  } else if (!name.empty()) {
    name_ = default_graph().unique_name(name) + "/";
  }
  detail::scopes().name = name_;
  detail::scope_begins(this);
}
NameScope::~NameScope() {
  NameScope* const inner = detail::scope_ends(this);
  (inner ? inner->saved_ : detail::scopes().name) = std::move(saved_);
}

ControlInputs::ControlInputs(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors)
    if (const Operation operation = tensor.op()) operations_.push_back(operation);
}

ControlScope::ControlScope(const ControlInputs& inputs) : saved_(detail::scopes().control_inputs) {
  std::vector<Operation>& now = detail::scopes().control_inputs;
  if (inputs.operations().empty()) now.clear();
  for (const Operation& operation : inputs.operations())
    if (operation) now.push_back(operation);
  detail::scope_begins(this);
}
ControlScope::~ControlScope() {
  ControlScope* const inner = detail::scope_ends(this);
  (inner ? inner->saved_ : detail::scopes().control_inputs) = std::move(saved_);
}

struct DeviceScope::State final : DeviceRequest {
  std::string outer;
  DeviceFunction outer_function;
  DeviceRequest* outer_request = nullptr;
  std::string asked;
  std::optional<std::optional<Device>> found;  ///< looked for when the first op asks

  std::optional<Device> place(std::string_view op) override {
    if (!found) found = detail::device_asked_for(asked, soft_device_placement(), op);
    return *found;
  }
};

DeviceScope::DeviceScope(std::string_view name, Where where) : state_(new State) {
  state_->outer_function = detail::scopes().device_function;
  detail::locating({}, where, [&] { state_->asked = detail::merge_device_names(detail::scopes().device, name); });
  state_->outer = std::exchange(detail::scopes().device, state_->asked);
  state_->outer_request = std::exchange(device_request(), state_.get());
  detail::scope_begins(this);
}

DeviceScope::DeviceScope(DeviceFunction choose, Where where) : state_(new State) {
  detail::require_function(choose, "device", where);
  detail::Scopes& scopes = detail::scopes();
  state_->outer_request = device_request();
  state_->outer = std::exchange(scopes.device, "");
  state_->outer_function = std::exchange(
      scopes.device_function,
      [outer = state_->outer, outside = scopes.device_function, own = std::move(choose)](const NewOperation& each) {
        const std::string around = outside ? detail::merge_device_names(outside(each), outer) : outer;
        return detail::merge_device_names(around, own(each));
      });
  detail::scope_begins(this);
}

DeviceScope::~DeviceScope() {
  const DeviceScope* const inner = detail::scope_ends(this);
  (inner ? inner->state_->outer_request : device_request()) = state_->outer_request;
  (inner ? inner->state_->outer_function : detail::scopes().device_function) = std::move(state_->outer_function);
  (inner ? inner->state_->outer : detail::scopes().device) = std::move(state_->outer);
}

ColocationScope::ColocationScope(const Operation& operation)
    : colocation_(detail::scopes().colocation),
      device_(detail::scopes().device),
      device_function_(detail::scopes().device_function) {
  detail::scope_begins(this);
  const bool is_eager = operation && !operation.outputs().empty() && !detail::endpoint_of(operation.output()).node;
  if (!operation || is_eager) return;
  const Node& node = node_of(operation);
  detail::scopes().colocation = node.colocation.empty() ? node.name() : node.colocation;
  detail::scopes().device = node.device;
  detail::scopes().device_function = {};
}
ColocationScope::~ColocationScope() {
  ColocationScope* const inner = detail::scope_ends(this);
  (inner ? inner->colocation_ : detail::scopes().colocation) = std::move(colocation_);
  (inner ? inner->device_ : detail::scopes().device) = std::move(device_);
  (inner ? inner->device_function_ : detail::scopes().device_function) = std::move(device_function_);
}

GradientOverrides::GradientOverrides(const std::map<std::string, Gradient>& gradients, Where where)
    : saved_(detail::scopes().gradients) {
  for (const auto& [name, gradient] : gradients) registered_op(name, where);
  for (const auto& [name, gradient] : gradients) detail::scopes().gradients.insert_or_assign(name, gradient);
  detail::scope_begins(this);
}
GradientOverrides::~GradientOverrides() {
  GradientOverrides* const inner = detail::scope_ends(this);
  (inner ? inner->saved_ : detail::scopes().gradients) = std::move(saved_);
}

}  // namespace tapestry
