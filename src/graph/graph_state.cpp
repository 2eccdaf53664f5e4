#include "graph/graph_state.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "autodiff/flag_reads.hpp"
#include "autodiff/with_gradient_to.hpp"
#include "backend/program.hpp"
#include "backend/views.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "core/thread_object.hpp"
#include "dispatch/declaration.hpp"
#include "graph/infer_specs.hpp"
#include "graph/passes/passes.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

/// Ties a symbolic tensor to its node. The graph owns the node, which holds the tensor, so the tensor must not own the
/// graph.
struct NodeOrigin final : Origin {
  NodeOrigin(std::weak_ptr<GraphState> owner, Node& producer, std::int32_t index)
      : graph(std::move(owner)), node(&producer), output(index) {}

  std::shared_ptr<GraphState> lock() const {
    std::shared_ptr<GraphState> held = graph.lock();
    if (!held) throw FailedPreconditionError("The graph of this tensor does not exist any more");
    return held;
  }
  Sink& sink() override { return *lock(); }
  Tensor tensor() const override {
    const std::shared_ptr<GraphState> held = lock();
    return node->output(output);
  }
  std::string describe() const override {
    const std::shared_ptr<GraphState> held = graph.lock();
    return held ? detail::describe(tensor()) : "a tensor of a graph that does not exist any more";
  }

  std::weak_ptr<GraphState> graph;
  Node* node;
  std::int32_t output;
};

const NodeOrigin* origin_of(const Tensor& tensor) {
  return tensor.is_symbolic() ? static_cast<const NodeOrigin*>(tensor.impl().origin.get()) : nullptr;
}

/// Throws when an elementwise op lacks operands: the passes of a plan read them all.
void require_operands(const Call& call) {
  if (!call.op().forward.is_elementwise()) return;
  const int count = operands_of(call.op().forward.elementwise(call).function);
  static_cast<void>(call.input(static_cast<std::size_t>(count - 1)));
}

/// Throws when the inputs of a call belong to several graphs.
void require_one_graph(const Call& call) {
  const Tensor* first = nullptr;
  for (const Tensor& input : call.inputs()) {
    if (!origin_of(input)) continue;
    if (first && origin_of(input)->node->graph != origin_of(*first)->node->graph)
      throw InvalidArgumentError(join(describe(input), " must be from the same graph as ", describe(*first), "."));
    first = &input;
  }
}

/// The op with another gradient, which may look at all inputs and outputs.
std::shared_ptr<const Op> with_gradient(const Op& op, const Gradient& gradient) {
  Op copy = op;
  copy.gradient = gradient;
  copy.needs = Needs{};
  return std::make_shared<const Op>(std::move(copy));
}

/// A tensor of the dtype and shape of one whose memory has been released; it has a single zero in memory.
Tensor stand_in(const Tensor& released) { return view_broadcast(make_scalar(0, released.dtype()), released.shape()); }

}  // namespace

Device device_of(const Call& call) {
  const AttrValue* device = call.attrs().find("device");
  if (device && std::holds_alternative<Device>(*device)) return std::get<Device>(*device);
  return call.inputs().empty() ? cpu() : call.input(0).device();
}

Endpoint endpoint_of(const Tensor& tensor) {
  const NodeOrigin* origin = origin_of(tensor);
  return origin ? Endpoint{origin->node, origin->output} : Endpoint{};
}

Node& producer_of(const Tensor& tensor) {
  Node* node = endpoint_of(tensor).node;
  if (!node) throw InternalError("An eager tensor has no node");
  return *node;
}

std::shared_ptr<GraphState> graph_of(const Tensor& tensor) {
  const NodeOrigin* origin = origin_of(tensor);
  if (!origin) throw FailedPreconditionError("An eager tensor belongs to no graph");
  return origin->lock();
}

Operation operation_of(Node& node) { return Operation(node, node.graph->shared_from_this()); }

std::string describe(const Tensor& symbolic) {
  return join("Tensor(\"", symbolic.name(), "\", shape=", symbolic.shape(), ", dtype=", to_string(symbolic.dtype()),
              ")");
}

Scopes& scopes() { return thread_object<Scopes>(); }

namespace {

struct OpenScope {
  const std::type_info* kind;
  void* scope;
};

/// Those of this thread, of all kinds, in the order in which they were opened.
std::vector<OpenScope>& open_scopes() { return thread_object<std::vector<OpenScope>>(); }

}  // namespace

void scope_begins(const std::type_info& kind, void* scope) { open_scopes().push_back({&kind, scope}); }

void* scope_ends(const std::type_info& kind, void* scope) {
  std::vector<OpenScope>& list = open_scopes();
  const auto found = std::find_if(list.begin(), list.end(), [&](const OpenScope& each) { return each.scope == scope; });
  if (found == list.end()) return nullptr;
  const auto next =
      std::find_if(list.erase(found), list.end(), [&](const OpenScope& each) { return *each.kind == kind; });
  return next == list.end() ? nullptr : next->scope;
}

std::string device_in_scopes(const NewOperation& operation) {
  const Scopes& scope = scopes();
  if (!scope.device_function) return scope.device;
  return merge_device_names(scope.device_function(operation), scope.device);
}

OptionsScope::OptionsScope(const std::shared_ptr<GraphState>& graph, const NodeOptions& options) : open_(Graph(graph)) {
  Scopes& scope = scopes();
  scope.name = options.scope;
  for (Node* node : options.control_inputs) scope.control_inputs.push_back(operation_of(*node));
  scope.device = options.device;
  scope.colocation = options.colocation;
  if (const Op* op = options.overridden.get()) scope.gradients.emplace(op->name, op->gradient);
}

GraphState::~GraphState() = default;

bool contains(const std::vector<Variable>& list, const Variable& variable) {
  return std::any_of(list.begin(), list.end(), [&](const Variable& each) { return each.is(variable); });
}

const Captures::Capture* Captures::find(const Tensor& tensor, const Variable* variable) const {
  const bool reads_itself = variable && is_changed(*variable);
  const auto known = std::find_if(list.begin(), list.end(), [&](const Capture& each) {
    if (variable) return each.variable && each.variable->is(*variable) && each.reads_itself == reads_itself;
    return bool(each.tensor) && each.tensor.is(tensor);
  });
  return known == list.end() ? nullptr : &*known;
}

Tensor Captures::inside_of(GraphState& function, const Tensor& tensor, const Variable* variable, Where where) {
  if (const Capture* const known = find(tensor, variable)) return known->inside;
  const Spec spec = variable ? variable_spec(*variable) : tensor.spec();
  const bool has_name = variable ? is_valid_node_name(variable->name()) : tensor.is_symbolic();
  std::string name = "captured";
  if (has_name) name = variable ? variable->name() + "/read" : endpoint_of(tensor).node->name();
  Call call(placeholder_op, {}, {{"dtype", spec.dtype}, {"shape", spec.shape}}, where, name);
  Capture& capture = list.emplace_back();
  capture.tensor = tensor;
  if (variable) capture.variable = *variable;
  capture.reads_itself = variable && is_changed(*variable);
  capture.inside = function.add_node(std::move(call), {spec}, {}).output();
  return capture.inside;
}

void Captures::note_change(const Variable& variable) {
  if (!is_changed(variable)) changed.push_back(variable);
  if (!contains(found, variable)) found.push_back(variable);
}

bool Captures::is_changed(const Variable& variable) const { return contains(changed, variable); }

void GraphState::rename(Node& node, const std::string& name) {
  if (node.name() == name) return;
  if (!is_valid_node_name(name)) throw InvalidArgumentError(join("'", name, "' is not a valid node name"));
  if (find(name)) throw InvalidArgumentError(join("Node '", name, "' is not unique"));
  names_.take(name);
  forget_name(node);
  if (&node.op() == &var_handle_op)
    variable_entry(node.attr<VariablesRef>("variables")->front(), node.where()).name = name;
  node.set_name(name);
  by_name_.add(HashIndex::hash(name), static_cast<std::uint32_t>(node.index));
}

namespace {

bool uses(const Node& node, const Variable& variable) {
  const AttrValue* variables = node.attrs().find("variables");
  const auto* list = variables ? std::get_if<VariablesRef>(variables) : nullptr;
  return list && std::any_of((*list)->begin(), (*list)->end(), [&](const Variable& each) { return each.is(variable); });
}

bool is_draw(const Node& node) {
  return node.op().stateful && (!node.attrs().find("variables") || node.attrs().find("draws"));
}

}  // namespace

bool GraphState::draws_from(std::size_t first) const {
  return std::any_of(nodes_.begin() + static_cast<std::ptrdiff_t>(first), nodes_.end(),
                     [](const auto& node) { return is_draw(*node); });
}

void GraphState::shrink_to(std::size_t size) {
  if (size == nodes_.size()) return;
  const auto is_late = [&](const Node* node) { return node && node->index >= size; };
  const auto is_gone = [&](const Tensor& tensor) { return bool(tensor) && is_late(&producer_of(tensor)); };
  for (std::size_t i = size; i < nodes_.size(); ++i) {
    if (&nodes_[i]->op() != &const_op) continue;
    const auto found = constants_.find(nodes_[i]->attr<Tensor>("value").id());
    if (found != constants_.end() && is_gone(found->second.second)) constants_.erase(found);
  }
  while (!variables_.empty() && is_gone(variables_.back().handle)) {
    variable_index_.erase(variables_.back().variable.cell().get());
    variables_.pop_back();
  }
  for (GraphVariable& each : variables_) {
    for (Tensor* tensor : {&each.value, &each.initial_value})
      if (is_gone(*tensor)) *tensor = Tensor();
    if (is_late(each.initializer)) each.initializer = nullptr;
    std::erase_if(each.reads_since, is_late);
    // An assignment runs after the reads and the assignment before it, which are the last ones again.
    while (is_late(each.last_assign)) {
      const Node& undone = *std::exchange(each.last_assign, nullptr);
      for (Node* before : undone.control_inputs) {
        if (!uses(*before, each.variable)) continue;
        if (&before->op() != &read_variable_op)
          each.last_assign = before;
        else if (!is_late(before))
          each.reads_since.push_back(before);
      }
    }
  }
  std::erase_if(assigns_, is_late);
  std::erase_if(initializes_all, is_late);
  while (is_late(last_random_)) {
    const auto& before = std::exchange(last_random_, nullptr)->control_inputs;
    const auto found = std::find_if(before.begin(), before.end(), [](const Node* each) { return is_draw(*each); });
    if (found != before.end()) last_random_ = *found;
  }
  if (captures) std::erase_if(captures->list, [&](const Captures::Capture& each) { return is_gone(each.inside); });
  for (std::size_t i = size; i < indexed_; ++i) forget_name(*nodes_[i]);
  indexed_ = std::min(indexed_, size);
  nodes_.resize(size);
}

void GraphState::reserve(std::size_t nodes) {
  nodes_.reserve(nodes);
  names_.reserve(nodes);
}

void GraphState::require_open(Where where) const {
  if (finalized_) throw FailedPreconditionError("Graph is finalized and cannot be modified.", where);
}

/// Names are looked up in few of the graphs that passes make, so the index is made when it is asked for.
void GraphState::index_names() const {
  by_name_.reserve(nodes_.size());
  for (; indexed_ < nodes_.size(); ++indexed_) {
    const std::string& name = nodes_[indexed_]->name();
    const std::uint32_t hash = HashIndex::hash(name);
    if (position_of(name, hash) == HashIndex::none) by_name_.add(hash, static_cast<std::uint32_t>(indexed_));
  }
}

std::uint32_t GraphState::position_of(std::string_view name, std::uint32_t hash) const {
  return by_name_.find(hash, [&](std::uint32_t i) { return nodes_[i]->name() == name; });
}

void GraphState::forget_name(const Node& node) {
  by_name_.erase(HashIndex::hash(node.name()), [&](std::uint32_t i) { return i == node.index; });
}

Node* GraphState::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  index_names();
  const std::uint32_t found = position_of(name, HashIndex::hash(name));
  return found == HashIndex::none ? nullptr : nodes_[found].get();
}

Tensor GraphState::captured(const Tensor& tensor, Where where) { return captured_in(scopes().name, tensor, where); }

Tensor GraphState::captured_in(const std::string& scope, const Tensor& tensor, Where where) {
  if (const NodeOrigin* origin = origin_of(tensor)) {
    if (origin->node->graph == this && !origin->graph.expired()) return tensor;
    for (const GraphState* outer = captures ? captures->outer : nullptr; outer;
         outer = outer->captures ? outer->captures->outer : nullptr)
      if (origin->node->graph == outer) return captures->inside_of(*this, tensor, nullptr, where);
    if (const auto found = stand_ins.find(tensor.id()); found != stand_ins.end()) return found->second;
    throw InvalidArgumentError(join(describe(tensor), " is not an element of this graph."), where);
  }
  if (is_deferred(tensor)) return captured_in(scope, computed(tensor), where);
  if (tensor.is_symbolic())
    throw FailedPreconditionError("A tensor whose memory a tape has let go cannot become part of a graph", where);
  if (captures && captures->is_recorded && is_floating(tensor.dtype()) && !tensor.impl().weak)
    return captures->inside_of(*this, tensor, nullptr, where);
  const auto found = constants_.find(tensor.id());
  if (found != constants_.end()) return found->second.second;
  // A constant depends on nothing, whatever scopes are open.
  Call call(const_op, {}, {{"dtype", tensor.dtype()}, {"value", tensor}}, where, const_op.name);
  const Node& node = add_node(std::move(call), {tensor.spec()}, {.scope = scope});
  constants_.emplace(tensor.id(), std::pair(tensor, node.output()));
  FlagReads::note_constant(tensor.id());
  return node.output();
}

void GraphState::add(Call& call) {
  const std::lock_guard lock(mutex_);
  require_open(call.where());
  if (!captures && stand_ins.empty()) require_one_graph(call);
  require_operands(call);
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    Tensor& input = call.mutable_inputs()[i];
    // An eager tensor whose memory a tape has released still has a shape for the op to read.
    if (input.is_symbolic() && !origin_of(input) && reads_shape_only(call.op(), i)) input = stand_in(input);
    input = captured(input, call.where());
  }
  const Specs specs = infer_specs(call);
  const Node& node = add_in_scopes(call, specs);
  call.mutable_outputs() = node.outputs();
  call.set_name(node.name());
}

const Op& GraphState::capture_op() const { return ops::identity; }

const std::string& GraphState::scope() const { return scopes().name; }

std::string GraphState::enter_scope(std::string_view name) {
  const std::lock_guard lock(mutex_);
  std::string& current = scopes().name;
  return std::exchange(current, names_.unique(current + std::string(name)) + "/");
}

void GraphState::leave_scope(std::string outer) { scopes().name = std::move(outer); }

std::vector<Node*> GraphState::scope_controls() {
  std::vector<Node*> nodes;
  for (const Operation& control : scopes().control_inputs)
    if (Node& node = node_of(control); node.graph == this) nodes.push_back(&node);
  return nodes;
}

NodeOptions GraphState::scope_options(const Op& op) {
  const Scopes& scope = scopes();
  NodeOptions options{
      .scope = scope.name, .control_inputs = scope_controls(), .device = {}, .colocation = scope.colocation};
  options.device = device_in_scopes({.type = op.name});
  if (const auto gradient = scope.gradients.find(op.name); gradient != scope.gradients.end())
    options.overridden = with_gradient(op, gradient->second);
  return options;
}

Node& GraphState::add_in_scopes(Call call, const Specs& specs) {
  NodeOptions options = scope_options(call.op());
  return add_node(std::move(call), specs, std::move(options));
}

Node& GraphState::add_node(Call call, const Specs& specs, NodeOptions options) {
  const std::lock_guard lock(mutex_);
  require_open(call.where());
  const std::string name = options.name_is_taken ? std::string() : options.scope + call.name();
  if (!options.name_is_taken && !is_valid_node_name(name))
    throw InvalidArgumentError(join("'", call.name(), "' is not a valid node name"));
  budget_.take_node(call, specs, nodes_.size());
  if (!options.name_is_taken) call.set_name(names_.unique(name));

  nodes_.push_back(std::make_unique<Node>(*this, nodes_.size(), std::move(call)));
  Node& node = *nodes_.back();
  node.device = std::move(options.device);
  node.colocation = std::move(options.colocation);
  node.overridden = std::move(options.overridden);
  const Device device = options.outputs_on ? *options.outputs_on : device_of(node);
  for (const Spec& spec : specs) add_output(node, spec, device);
  if (!options.control_inputs.empty()) {
    std::unordered_set<const Node*> needed;
    for (const Tensor& input : node.inputs()) needed.insert(endpoint_of(input).node);
    for (Node* other : options.control_inputs)
      if (needed.insert(other).second) node.control_inputs.push_back(other);
  }
  if (order_ == Order::program && node.op().stateful) order_after_program(node);
  return node;
}

void GraphState::add_output(Node& node, const Spec& spec, Device device) {
  const Tensor output = make_symbolic(spec.dtype, spec.shape, device);
  const auto number = static_cast<std::int32_t>(node.outputs().size());
  output.impl().origin = Intrusive<Origin>(new NodeOrigin(weak_from_this(), node, number));
  output.impl().shape.set_source(output.impl().origin);
  node.mutable_outputs().push_back(output);
}

void GraphState::extend(Node& node, const Attrs& attrs, const Specs& more) {
  const std::lock_guard lock(mutex_);
  require_open(node.where());
  node.set_attrs(attrs);
  const Device device = device_of(node);
  for (const Spec& spec : more) add_output(node, spec, device);
}

namespace {

void run_after(Node& node, Node* other) {
  if (other && std::find(node.control_inputs.begin(), node.control_inputs.end(), other) == node.control_inputs.end())
    node.control_inputs.push_back(other);
}

}  // namespace

/// All random numbers come from one stream.
void GraphState::order_after_draws(Node& node) { run_after(node, std::exchange(last_random_, &node)); }

void GraphState::order_after_program(Node& node) {
  const AttrValue* variables = node.attrs().find("variables");
  if (!variables || node.attrs().find("draws")) order_after_draws(node);
  if (!variables) return;
  const bool changes = &node.op() != &read_variable_op;
  for (const Variable& variable : *std::get<VariablesRef>(*variables)) {
    GraphVariable& entry = variable_entry(variable, node.where());
    run_after(node, entry.last_assign);
    if (!changes) {
      entry.reads_since.push_back(&node);
      continue;
    }
    for (Node* read : entry.reads_since) run_after(node, read);
    entry.reads_since.clear();
    if (captures) captures->note_change(variable);
    entry.last_assign = &node;
    entry.value = Tensor();
  }
  if (changes) assigns_.push_back(&node);
}

std::vector<Node*> GraphState::must_run() const {
  std::vector<Node*> found = assigns_;
  // A draw that nothing needs still advances the stream, as it does eagerly.
  if (last_random_) found.push_back(last_random_);
  return found;
}

namespace {

std::string device_of_variable(const Variable& variable) {
  return device_in_scopes({.type = var_handle_op.name, .variable = &variable});
}

}  // namespace

GraphVariable& GraphState::variable_entry(const Variable& variable, Where where) {
  const std::lock_guard lock(mutex_);
  const auto found = variable_index_.find(variable.cell().get());
  if (found != variable_index_.end()) return variables_[found->second];
  require_open(where);
  // A function that has traced this cell learns so when a module has another one in its place.
  variable.cell()->replaced.note();
  // Only a function chooses a device for a Variable from outside the graph. A slot is with its Variable.
  const auto owner = variable.cell()->owner.lock();
  std::string device;
  if (const auto its = variable_index_.find(owner.get()); its != variable_index_.end())
    device = producer_of(variables_[its->second].handle).device;
  else if (!owner && scopes().device_function)
    device = device_of_variable(variable);
  return make_entry(variable, names_.unique(node_name(variable)), device, where);
}

/// The name that a Variable from outside the graph should have here.
std::string GraphState::node_name(const Variable& variable) const {
  const std::string& name = variable.name();
  if (!is_valid_node_name(name)) return "Variable";
  if (const auto owner = variable_index_.find(variable.cell()->owner.lock().get()); owner != variable_index_.end())
    return variables_[owner->second].name + name.substr(name.rfind('/'));
  const PathNames* path_names = variable.cell()->path_names;
  return path_names ? path_names->node_name(name) : name;
}

GraphVariable& GraphState::make_entry(const Variable& variable, const std::string& name, const std::string& device,
                                      Where where) {
  variable_index_.emplace(variable.cell().get(), variables_.size());
  variables_.push_back({.variable = variable, .name = name});
  Attrs attrs{{"variables", std::make_shared<const std::vector<Variable>>(1, variable)},
              {"dtype", variable.dtype()},
              {"shape", variable.shape()}};
  variables_.back().handle = add_node(Call(var_handle_op, {}, std::move(attrs), where, name), {{DType::resource, {}}},
                                      {.name_is_taken = true, .device = device})
                                 .output();
  return variables_.back();
}

Tensor GraphState::read(const Variable& variable, Where where) {
  const std::lock_guard lock(mutex_);
  return captures ? read_in_function(variable, where) : read_after(scope_controls(), variable, where);
}

Tensor GraphState::known_value(const Variable& variable) const {
  const std::lock_guard lock(mutex_);
  if (captures && !captures->is_changed(variable)) {
    const Captures::Capture* const capture = captures->find({}, &variable);
    return capture ? capture->inside : Tensor();
  }
  const auto found = variable_index_.find(variable.cell().get());
  return found == variable_index_.end() ? Tensor() : variables_[found->second].value;
}

Tensor GraphState::read_in_function(const Variable& variable, Where where) {
  if (!captures->is_changed(variable)) return captures->inside_of(*this, {}, &variable, where);
  Tensor value = read_after(scope_controls(), variable, where);
  if (!is_floating(value.dtype()) || &producer_of(value).op() != &read_variable_op) return value;
  Tensor result = with_gradient_to(value, captures->inside_of(*this, {}, &variable, where), where);
  if (GraphVariable& entry = variable_entry(variable, where); entry.value.is(value)) entry.value = result;
  return result;
}

Tensor GraphState::read_after(const std::vector<Node*>& control_inputs, const Variable& variable, Where where) {
  const GraphVariable& entry = variable_entry(variable, where);
  // An earlier read does not wait for the control inputs of the scope, such as an assignment.
  if (!control_inputs.empty()) return add_read(entry, control_inputs, where);
  if (entry.value) return entry.value;
  const Tensor value = add_read(entry, {}, where);
  return variable_entry(variable, where).value = value;
}

Tensor GraphState::add_read(const GraphVariable& entry, const std::vector<Node*>& control_inputs, Where where) {
  Call call(read_variable_op, {entry.handle}, variable_attrs({entry.variable}), where, entry.name + "/read");
  return add_node(std::move(call), {variable_spec(entry.variable)}, {.control_inputs = control_inputs}).output();
}

Node& GraphState::add_assign(const Variable& variable, Assign kind, const Tensor& value, const NodeOptions& options,
                             Where where) {
  const GraphVariable entry = variable_entry(variable, where);
  const std::string name = join(entry.name, "/", assign_name(kind));
  Call call(assign_op(kind), {entry.handle, captured_in({}, value, where)}, variable_attrs({variable}), where, name);
  call.op().infer(call);  // throws if the value does not fit
  return add_node(std::move(call), {}, options);
}

Tensor GraphState::assign(const Variable& variable, Assign kind, const Tensor& value, Where where) {
  const std::lock_guard lock(mutex_);
  if (captures) captures->note_change(variable);
  const std::vector<Node*> control_inputs = scope_controls();
  // Readers of files know the initializer by this name, so it is reserved: a Variable from outside the graph gets an
  // initializer only in a file.
  const GraphVariable& entry = variable_entry(variable, where);
  if (!entry.initializer) names_.take(join(entry.name, "/", assign_name(Assign::set)));
  Node& node = add_assign(variable, kind, value, {.control_inputs = control_inputs}, where);
  if (order_ == Order::program) return read_after(control_inputs, variable, where);
  return add_read(variable_entry(variable, where), {&node}, where);
}

void GraphState::declare(const Variable& variable, const Tensor& initial_value, Where where) {
  const std::lock_guard lock(mutex_);
  require_open(where);
  if (order_ == Order::program) {
    if (initial_value.is_symbolic())
      throw InvalidArgumentError(join("The initial value of variable '", variable.name(),
                                      "' would be computed at every call of the traced "
                                      "function; make the Variable outside it"),
                                 where);
    return;
  }
  if (!is_valid_node_name(scopes().name + variable.name()))
    throw InvalidArgumentError(join("'", variable.name(), "' is not a valid node name"), where);
  const std::string name = names_.unique(scopes().name + variable.name());
  variable.cell()->name = name;
  const NodeOptions there{.device = device_of_variable(variable)};
  Tensor value = initial_value;
  if (!value.is_symbolic()) {
    Call constant(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, where, name + "/initial_value");
    value = add_node(std::move(constant), {value.spec()}, there).output();
  }
  make_entry(variable, name, there.device, where);
  Node& initializer = add_assign(variable, Assign::set, value, there, where);
  GraphVariable& entry = variable_entry(variable, where);
  entry.initializer = &initializer;
  entry.initial_value = value;
  read_after({}, variable, where);
}

}  // namespace tapestry::detail
