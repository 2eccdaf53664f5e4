#include "io/tensorflow/importer.hpp"

#include <algorithm>
#include <array>

#include "core/lack_refusal.hpp"
#include "core/make_tensor.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "io/tensorflow/assertions.hpp"
#include "io/tensorflow/count_up_to.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/gradient_reader.hpp"
#include "io/tensorflow/kept_node.hpp"
#include "io/tensorflow/reader_plugin.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::io {

namespace {

constexpr std::array leaves_and_assignments = std::to_array<std::string_view>(
    {"Const", "Placeholder", "NoOp", "PrintV2", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape",
     "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
     "VarIsInitializedOp", "IsVariableInitialized", "Assert", "CountUpTo", "ResourceCountUpTo"});

/// Why a node that runs functions cannot be read; "" for any other node.
std::string lacking_functions(const NodeDef& def) {
  if (const auto reason = def.attrs.find(hint_unread); reason != def.attrs.end())
    if (const auto* text = std::get_if<std::string>(&reason->second)) return *text;
  if (!is_flow_op(def.op) && !def.op.ends_with("PartitionedCall")) return {};
  std::string names;
  for (const auto& [attr, value] : def.attrs)
    if (names_function(value))
      for (const FunctionName& each :
           functions_named_by(value).empty() ? std::vector{function_named_by(value)} : functions_named_by(value))
        names += detail::join(names.empty() ? "'" : ", '", each.name, "'");
  return detail::join(
      "Node '", def.name, "' (op: '", def.op,
      "') runs functions that its file lacks, or that take lists: ", names.empty() ? "it names none" : names);
}

/// Whether a branch or a loop changes the Variable, by TensorFlow 1's reference, that an input of its node is. An
/// optimizer's op changes its slots, too; a Variable that such an op only reads, it reads when it runs.
bool changes_reference(const Flow& flow, std::size_t input) {
  if (input == 0 && !flow.is_loop) return false;  // the predicate
  const std::size_t argument = flow.is_loop ? input : input - 1;
  return std::any_of(flow.functions.begin(), flow.functions.end(), [&](const FunctionBody& function) {
    if (argument >= function.inputs.size()) return false;
    const std::string& variable = function.inputs[argument];
    const auto& nodes = function.graph.nodes;
    return std::any_of(nodes.begin(), nodes.end(), [&](const NodeDef& node) {
      for (std::size_t i = 0; i < data_inputs(node); ++i)
        if (without_zero(node.inputs[i]) == variable &&
            (node.flow ? changes_reference(*node.flow, i) : takes_reference(node.op)))
          return true;
      return false;
    });
  });
}

}  // namespace

void Importer::run() {
  const auto deadline = state().budget().deadline(0);
  const detail::NodeDeadline until(deadline);
  state().reserve(file_.in_order().size());
  // No helper node gets the name of a node of the file.
  for (const Entry* each : file_.in_order()) state().names().take(each->def->name);
  for (Entry* each : file_.in_order())
    if (each->needed) add(*each);
}

// ---- Adding nodes ----

void Importer::add(Entry& entry) {
  entry.is_read = true;
  const NodeDef& def = *entry.def;
  const NodeReader reader(def, entry.inputs);
  reader.blaming([&] {
    const detail::NodeOptions options{.control_inputs = nodes_before(entry),
                                      .device = detail::merge_device_names("", def.device),
                                      .colocation = colocation_of(def)};
    const detail::OptionsScope scopes(state().shared_from_this(), options);
    const std::size_t first = state().size();
    state().names().release(def.name);  // for the node itself
    const auto keep = [&](const std::string& reason) {
      if (reader.find<std::string>(hint_op)) throw;
      undo(first);
      entry.outputs = keep_unread(entry, reader, reason);
    };
    try {
      entry.outputs = is_known(reader) ? outputs_of(entry) : keep_unread(entry, reader, lacking_functions(def));
    } catch (const UnimplementedError& error) {
      keep(error.message());
    } catch (const LackRefusal& error) {
      keep(detail::join("Node '", def.name, "' (op: '", def.op, "'): ", error.message()));
    }
    // The last node is the operation itself; the others serve it.
    if (state().size() > first) entry.node = &state().node(state().size() - 1);
    give_name(entry, first);
    // Who waits for a node that only stands for another one's outputs, waits for that.
    for (const Tensor& each : entry.outputs)
      if (!entry.node && bool(each)) entry.node = detail::endpoint_of(each).node;
    state().names().take(def.name);
    separate(entry, first);
    if (Node* node = maker_of_first_output(entry, first)) entry.node = node;
    for (std::size_t i = first; i < state().size(); ++i) known_.note(state().node(i));
  });
}

/// Whether a node has these outputs, and perhaps more.
static bool has_outputs(const Node& node, const Tensors& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (i >= node.outputs().size() || !outputs[i].is(node.output(i))) return false;
  return true;
}

Node* Importer::maker_of_first_output(const Entry& entry, std::size_t first) {
  if (entry.outputs.size() < 2 || !entry.outputs[0] || !entry.outputs[0].is_symbolic()) return nullptr;
  Node& maker = detail::producer_of(entry.outputs[0]);
  if (maker.index < first || has_outputs(*entry.node, entry.outputs)) return nullptr;
  for (std::size_t i = first; i < state().size(); ++i)
    if (state().node(i).op().stateful) return nullptr;
  return &maker;
}

void Importer::give_name(const Entry& entry, std::size_t first) {
  const std::string& name = entry.def->name;
  Node* owner = state().find(name);
  if (owner && (owner->index < first || has_outputs(*owner, entry.outputs))) return;
  if (owner) state().rename(*owner, state().names().unique(name));
  owner = entry.node;
  if (owner && !has_outputs(*owner, entry.outputs))
    owner = entry.outputs[0] ? &detail::producer_of(entry.outputs[0]) : nullptr;
  if (owner && owner->index >= first && has_outputs(*owner, entry.outputs)) state().rename(*owner, name);
}

void Importer::add_missing(Entry& wanted) {
  if (wanted.is_read) return;
  std::vector<Entry*> missing, pending{&wanted};
  wanted.is_read = true;
  while (!pending.empty()) {
    missing.push_back(pending.back());
    pending.pop_back();
    for (Entry* each : file_.requirements(*missing.back()))
      if (!std::exchange(each->is_read, true)) pending.push_back(each);
  }
  std::sort(missing.begin(), missing.end(), [](const Entry* a, const Entry* b) { return a->position < b->position; });
  extend([&] {
    for (Entry* each : missing) {
      add(*each);
      for (const Tensor& output : each->outputs)
        if (output) state().absorbed.insert(output.id());
    }
  });
}

void Importer::extend(const std::function<void()>& f) {
  const bool finalized = state().finalized();
  state().finalize(false);
  try {
    f();
  } catch (...) {
    state().finalize(finalized);
    throw;
  }
  state().finalize(finalized);
}

std::vector<std::size_t> Importer::shared_outputs(const Entry& entry, std::size_t first) {
  std::vector<std::size_t> shared;
  if (entry.def->op == argument_op || entry.def->attrs.contains(hint_loop)) return shared;
  const auto is_used_inside = [&](const Tensor& output) {
    for (std::size_t i = first; i < state().size(); ++i)
      for (const Tensor& input : state().node(i).inputs())
        if (input.is(output)) return true;
    return false;
  };
  for (std::size_t k = 0; k < entry.outputs.size(); ++k) {
    const Tensor& output = entry.outputs[k];
    if (!output || !output.is_symbolic() || output.dtype() == DType::resource) continue;
    const auto is_twin = [&](const Tensor& other) { return &other != &output && bool(other) && other.is(output); };
    if (detail::endpoint_of(output).node->index < first ||
        std::any_of(entry.outputs.begin(), entry.outputs.end(), is_twin) || is_used_inside(output))
      shared.push_back(k);
  }
  return shared;
}

void Importer::separate(Entry& entry, std::size_t first) {
  entry.shared = shared_outputs(entry, first);
  Tensors own = entry.outputs;
  std::erase_if(entry.shared, [&](std::size_t k) {
    const bool used = k < entry.used.size() && entry.used[k];
    if (used) own[k] = own_output(entry, k);
    return used;
  });
  entry.outputs = std::move(own);
}

Tensor Importer::own_output(const Entry& entry, std::size_t output) {
  return identity(In(entry.outputs[output], where_), detail::join(entry.def->name, "/_/output_", output));
}

void Importer::pass_on(Entry& loop) {
  for (const std::size_t i : loop.def->flow->passed_on) {
    if (i >= loop.outputs.size() || bool(loop.outputs[i]) || variables_.contains(loop.inputs[i].node)) continue;
    add_missing(file_.entry(loop.inputs[i].node));
    loop.outputs[i] = tensor_of(loop.inputs[i]);
  }
}

void Importer::undo(std::size_t size) {
  const auto is_new = [&](const Tensor& tensor) { return bool(tensor) && detail::producer_of(tensor).index >= size; };
  for (; !changed_.empty() && is_new(changed_.back()->outputs[0]); changed_.pop_back())
    changed_.back()->outputs.clear();
  std::erase_if(numbers_, [&](const auto& each) { return is_new(each.second); });
  state().shrink_to(size);
  if (is_after_change_.size() > size) is_after_change_.resize(size);
}

bool Importer::is_known(const NodeReader& reader) {
  const NodeDef& def = reader.def();
  return def.flow || def.gradient || def.op == argument_op || is_result_of_loop(def) || is_readable(def) ||
         is_variable(def) || reader.find<std::string>(hint_op) || update_rule(reader) || find_composed_update(def.op) ||
         std::find(leaves_and_assignments.begin(), leaves_and_assignments.end(), def.op) !=
             leaves_and_assignments.end();
}

Tensors Importer::keep_unread(const Entry& entry, const NodeReader& reader, const std::string& reason) {
  Tensors inputs;
  for (const Source& each : entry.inputs) {
    Entry& input = file_.entry(each.node);
    add_missing(input);
    const auto variable = variables_.find(referred(each.node));
    const bool refers = each.node->op == "VarHandleOp" || takes_reference(entry.def->op);
    inputs.push_back(variable != variables_.end() && refers ? handle_of(variable->second) : tensor_of(each));
  }
  return keep_unread_node(state(), reader, inputs, static_cast<std::int64_t>(entry.used.size()), reason, where_)
      .outputs();
}

std::string Importer::colocation_of(const NodeDef& def) {
  constexpr std::string_view prefix = "loc:@";
  const auto found = def.attrs.find("_class");
  const ListDef* list = found == def.attrs.end() ? nullptr : std::get_if<ListDef>(&found->second);
  if (!list || list->strings.empty() || !list->strings[0].starts_with(prefix)) return {};
  std::string name = list->strings[0].substr(prefix.size());
  return state().find(name) ? name : std::string();
}

std::vector<Node*> Importer::nodes_before(const Entry& entry) {
  std::vector<const NodeDef*> defs = entry.controls;
  for (const Source& each : entry.inputs)
    if (takes_reference(entry.def->op) && gives_reference(each.node->op)) defs.push_back(each.node);
  // A function that reads a Variable does it when all inputs are there, among them what waits for a change.
  if (entry.def->flow)
    for (const Source& each : entry.inputs)
      if (const Node* node = file_.entry(each.node).node; node && is_after_change(*node)) defs.push_back(each.node);
  return nodes_of(defs);
}

bool Importer::is_after_change(const Node& node) {
  const auto comes_after = [&](const Node& needed) {
    return is_after_change_[needed.index] || changes_variables(needed);
  };
  for (std::size_t i = is_after_change_.size(); i <= node.index; ++i) {
    const Node& next = state().node(i);
    const auto& controls = next.control_inputs;
    is_after_change_.push_back(
        std::any_of(next.inputs().begin(), next.inputs().end(),
                    [&](const Tensor& input) { return comes_after(detail::producer_of(input)); }) ||
        std::any_of(controls.begin(), controls.end(), [&](const Node* control) { return comes_after(*control); }));
  }
  return is_after_change_[node.index] || changes_variables(node);
}

std::vector<Node*> Importer::nodes_of(const std::vector<const NodeDef*>& defs) {
  std::vector<Node*> nodes;
  for (const NodeDef* def : defs)
    if (Node* node = file_.entry(def).node) nodes.push_back(node);
  return nodes;
}

Tensors Importer::outputs_of(Entry& entry) {
  const NodeDef& def = *entry.def;
  const NodeReader reader(def, entry.inputs);
  if (def.op == argument_op && arguments_) return argument(entry);
  if (def.flow || def.gradient) return flow(entry, reader);
  if (is_result_of_loop(def)) return results_of_loop(entry);
  if (const OpRule* rule = reader.hinted()) return make_hinted(*rule, entry, reader);
  if (def.op == "Const") return constant(reader);
  if (def.op == "Placeholder") return placeholder(reader);
  if (def.op == "NoOp" || def.op == "PrintV2") return node(no_op_op, {}, {}, def.name);  // the library does not print
  if (is_variable(def)) return variable(reader);
  if (def.op == "ReadVariableOp") return read(entry, reader);
  if (def.op == "Identity" && reader.attr_or<TypeCode>("T", {}) == resource_type) {
    const Variable& same = variable_of(entry, reader);
    variables_.emplace(entry.def, Variable(same));
    return {handle_of(variables_.at(entry.def))};
  }
  if (def.op == "Identity" && entry.inputs.size() == 1 && is_variable(*entry.inputs[0].node))
    return read(entry, reader);
  if (def.op.starts_with("Assign")) return assign(entry, reader);
  if (def.op.starts_with("ResourceGather")) return gather_rows(entry, reader);
  if (def.op == "VarIsInitializedOp" || def.op == "IsVariableInitialized") {
    const Variable& asked = variable_of(entry, reader);
    return node(is_initialized_op, {handle_of(asked)}, variable_attrs({asked}), def.name);
  }
  if (def.op == "CountUpTo" || def.op == "ResourceCountUpTo") {
    const Variable& counter = variable_of(entry, reader);
    return read_count_up_to(reader, counter, handle_of(counter), where_);
  }
  if (def.op == "VariableShape") return shape_of_variable(entry, reader);
  if (def.op == "Assert")
    return read_assertion(
        entry, reader, [&](const Source& each) { return tensor_of(each); }, where_);
  if (const UpdateRule* rule = update_rule(reader)) return update(entry, reader, *rule);
  if (const ComposedUpdate* update = find_composed_update(def.op)) return compose(entry, reader, *update);
  if (!is_readable(def)) reader.refuse("the hint names an op that is not written so");
  // Throws for a type that we lack; a list of tensors has the type of its elements.
  for (const auto& [name, value] : def.attrs)
    if (const auto* type = std::get_if<TypeCode>(&value); type && *type != variant_type) reader.type(name);
  return read_or_keep(entry, reader);
}

// ---- Ops ----

Tensors Importer::read_or_keep(const Entry& entry, const NodeReader& reader) {
  Tensors inputs, values(entry.inputs.size());
  for (const Source& each : entry.inputs) inputs.push_back(file_.entry(each.node).is_read ? tensor_of(each) : Tensor());
  give_types(reader, inputs);
  bool complete = true;
  const ForeignOp* foreign = find_foreign_op(*entry.def);
  const bool takes_parts = foreign && foreign->takes_parts;
  for (const std::size_t i : value_inputs(reader)) {
    values[i] = reader.is_constant(i) ? reader.constant(i)
                : takes_parts         ? known_.find(inputs[i])
                                      : known_.find_complete(inputs[i]);
    complete = complete && bool(values[i]);
  }
  const NodeReader with_values(*entry.def, entry.inputs, values);
  if (!complete || lacks_sizes(with_values, inputs)) return keep(with_values, inputs);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (bool(values[i]) && bool(inputs[i])) detail::KnownValues::absorb(inputs[i]);
  const std::size_t first = state().size();
  std::optional<Specs> specs;
  try {
    Tensors results = read_op(with_values, inputs, where_);
    bool is_writable = true;
    for (std::size_t i = first; i < state().size(); ++i) is_writable = is_writable && !lacks_ranks(state().node(i));
    for (const Tensor& each : results) is_writable = is_writable && each.dtype() != DType::unknown;
    // A gradient that is found later stands for nodes that are not known yet.
    for (std::size_t i = first; i < state().size(); ++i)
      is_writable = is_writable && (!state().node(i).attrs().find("redo") || detail::awaited_values(state().node(i)));
    if (is_writable) return results;
    for (const Tensor& each : results) (specs ? *specs : specs.emplace()).push_back(each.spec());
  } catch (const InvalidArgumentError&) {
    // The node is read when the feeds tell what is unknown now.
    if (std::none_of(inputs.begin(), inputs.end(),
                     [](const Tensor& input) { return bool(input) && input.dtype() == DType::unknown; }))
      throw;
  }
  state().shrink_to(first);
  return keep(with_values, inputs, specs);
}

Tensors Importer::keep(const NodeReader& reader, Tensors& inputs, const std::optional<Specs>& specs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i]) continue;
    add_missing(file_.entry(reader.input(i).node));
    inputs[i] = tensor_of(reader.input(i));
  }
  return keep_node(state(), reader, inputs, specs ? *specs : outlook(reader, inputs, known_), where_).outputs();
}

void Importer::give_types(const NodeReader& reader, const Tensors& inputs) {
  const auto* code = reader.find<TypeCode>("T");
  if (!code || dtype_of(*code) == DType::unknown) return;
  for (const std::size_t i : inputs_of_type_t(reader))
    if (i < inputs.size() && bool(inputs[i]) && inputs[i].dtype() == DType::unknown)
      inputs[i].impl().dtype = dtype_of(*code);
}

Tensors Importer::make_hinted(const OpRule& rule, const Entry& entry, const NodeReader& reader) {
  Tensors inputs;
  for (const Source& each : entry.hinted) inputs.push_back(tensor_of(each));
  return make_op(rule, reader, inputs, reader.hinted_attrs(rule), where_);
}

// ---- Branches and loops ----

Tensors Importer::argument(const Entry& entry) {
  const auto found = arguments_->find(entry.def->name);
  if (found == arguments_->end())
    throw UnimplementedError(detail::join("'", entry.def->name, "' is a list that the loop uses in several ways"));
  if (found->second.variable) variables_.emplace(entry.def, *found->second.variable);
  return {found->second.tensor};
}

Tensors Importer::flow(const Entry& entry, const NodeReader& reader) {
  const Flow* flow = entry.def->flow.get();
  std::vector<Argument> inputs(entry.inputs.size());
  std::vector<char> used(inputs.size(), flow && flow->is_loop ? 0 : 1);
  if (flow)
    for (const std::size_t i : flow->used_variables()) used[i] = 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!used[i]) continue;
    if (const auto variable = variables_.find(entry.inputs[i].node);
        variable != variables_.end() &&
        (!is_reference_variable(*entry.inputs[i].node) || (flow && changes_reference(*flow, i))))
      inputs[i].variable = variable->second;
    else
      inputs[i].tensor = tensor_of(entry.inputs[i]);
  }
  const ReadBody read_body = [&](const FunctionBody& body, const std::map<std::string, Argument>& given,
                                 const std::vector<std::string>& outputs) {
    return read_function(reader, body, given, outputs);
  };
  if (flow && flow->is_loop)
    for (const std::size_t i : flow->counters)
      if (inputs[i].tensor) state().absorbed.insert(inputs[i].tensor.id());
  if (!flow) return read_with_gradient(reader, inputs, read_body, where_);
  return read_flow(reader, inputs, read_body, *uneven_, where_);
}

Tensors Importer::read_function(const NodeReader& reader, const FunctionBody& body,
                                const std::map<std::string, Argument>& given, const std::vector<std::string>& outputs) {
  const auto require_declared = [&](TypeCode declared, const Tensor& found, std::string_view what) {
    const DType due = dtype_of(declared);
    if (!found || due == DType::unknown || found.dtype() == DType::unknown || found.dtype() == due) return;
    reader.refuse(detail::join(what, " of its function '", body.name, "' is ", to_string(found.dtype()),
                               ", but is declared as ", to_string(due)));
  };
  for (std::size_t i = 0; i < body.types.size(); ++i)
    if (const auto found = given.find(body.inputs[i]); found != given.end())
      require_declared(body.types[i], found->second.tensor, detail::join("the argument '", body.inputs[i], "'"));
  std::vector<std::string> ends = body.operations;
  for (const std::string& each : outputs)
    if (!each.empty()) ends.push_back(each.substr(0, each.rfind(':')));
  GraphState& graph = *detail::scopes().graph;
  const bool is_raised = reader.def().flow && reader.def().flow->is_raised;
  const auto read =
      std::make_shared<Importer>(body.graph, ends, given, graph, where_, is_raised ? moved_ : nullptr, uneven_);
  Importer& inner = *read;
  inner.run();
  if (is_raised) graph.file = read;
  Tensors results;
  for (const std::string& each : outputs) {
    if (each.empty()) {
      results.push_back(Tensor());
      continue;
    }
    const Source source = inner.file_.source(reader.def(), each);
    const bool is_absent = source.node->attrs.contains(hint_absent);
    results.push_back(is_absent ? Tensor() : inner.tensor_of(source));
    for (std::size_t i = 0; i < body.output_types.size(); ++i)
      if (body.outputs[i] == each) require_declared(body.output_types[i], results.back(), detail::join("output ", i));
  }
  return results;
}

Tensors Importer::results_of_loop(const Entry& entry) {
  Tensors results;
  for (const Source& each : FileGraph::used_inputs(entry)) results.push_back(tensor_of(each));
  const std::string& name = entry.def->name;
  const Entry* loop = file_.find(detail::join(name, "/While"));
  if (loop && loop->node && !state().find(name) && has_outputs(*loop->node, results)) state().rename(*loop->node, name);
  return results;
}

// ---- Leaves ----

Tensors Importer::constant(const NodeReader& reader) {
  const DType dtype = reader.type("dtype");
  const Tensor& value = reader.attr<TensorDef>("value").value;
  if (value.dtype() != dtype) reader.refuse("its value is not of its dtype");
  return node(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, reader.def().name);
}

Tensors Importer::placeholder(const NodeReader& reader) {
  Shape shape = reader.attr_or<Shape>("shape", Shape::unknown_rank());
  // Up to this version, a scalar's shape stands for one that is not known.
  constexpr std::int32_t last_producer = 21;
  if (shape.rank() == 0 && file_.file().producer <= last_producer) shape = Shape::unknown_rank();
  return node(placeholder_op, {}, {{"dtype", reader.type("dtype")}, {"shape", shape}}, reader.def().name);
}

// ---- What all have in common ----

Tensor Importer::tensor_of(const Source& source) {
  Entry& entry = file_.entry(source.node);
  if (const auto found = variables_.find(source.node); found != variables_.end()) {
    // TensorFlow 1 reads a reference where a value is expected.
    return state().read(found->second, where_);
  }
  if (source.output == 0 && entry.outputs.empty() && refers_to_variable(entry)) {
    const detail::OptionsScope scopes(state().shared_from_this(), {.control_inputs = {entry.node}});
    entry.outputs.push_back(state().read(variables_.at(referred(entry.def)), where_));
    changed_.push_back(&entry);
  }
  if (static_cast<std::size_t>(source.output) >= entry.outputs.size())
    throw InvalidArgumentError(detail::join("output ", source.output, " of node '", source.node->name,
                                            "' is used, which has ", entry.outputs.size()));
  return entry.outputs[source.output];
}

Tensors Importer::node(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name) {
  return add_op(op, inputs, attrs, name, where_);
}

bool Importer::refers_to_variable(const Entry& entry) const {
  if (!entry.node || entry.inputs.empty() || !takes_reference(entry.def->op)) return false;
  const NodeDef* from = referred(entry.inputs[0].node);
  return (is_reference_variable(*from) || from->op == argument_op) && variables_.contains(from);
}

const UnevenLists& Importer::read(GraphState& graph, GraphDef file, Where where, const Importer* original,
                                  std::shared_ptr<VariableTable> shared) {
  const auto importer = std::make_shared<Importer>(std::move(file), graph, where, original, std::move(shared));
  importer->run();
  graph.file = importer;
  return importer->uneven();
}

std::shared_ptr<GraphState> Importer::with_values(const Tensors& tensors, const Tensors& values) {
  std::vector<std::pair<Name, Tensor>> constants;
  for (std::size_t i = 0; i < tensors.size(); ++i) constants.emplace_back(name_of(tensors[i]), values[i]);
  auto graph = std::make_shared<GraphState>();
  graph->budget().set_limits(state().budget().limits());
  read(*graph, file_.with_constants(constants), where_, this, shared_);
  return graph;
}

UnevenLists import_into(GraphState& graph, GraphDef file, Where where, const std::shared_ptr<VariableTable>& shared) {
  return Importer::read(graph, std::move(file), where, nullptr, shared);
}

}  // namespace tapestry::io
