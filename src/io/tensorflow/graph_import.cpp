#include "io/tensorflow/graph_import.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "graph/graph_state.hpp"
#include "graph/known_values.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "io/tensorflow/composed_updates.hpp"
#include "io/tensorflow/file_graph.hpp"
#include "io/tensorflow/kept_node.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "tapestry/ops.hpp"
#include "train/adam.hpp"

namespace tapestry::io {
namespace {

using detail::GraphState;
using detail::GraphVariable;
using detail::Node;

constexpr std::array leaves_and_assignments = std::to_array<std::string_view>(
    {"Const", "Placeholder", "NoOp", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Assign", "AssignAdd",
     "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"});

// ---- The nodes ----------------------------------------------------------------------------------------------------------

class Importer final : public detail::FileNodes {
 public:
  /// `original`: the same file in another graph, whose Variables this graph has as well; nullptr for none.
  Importer(GraphDef file, GraphState& graph, Where where, const Importer* original = nullptr)
      : file_(std::move(file)), graph_(graph), where_(where), original_(original) {}

  void run() {
    const auto deadline = state().budget().deadline(0);
    const detail::NodeDeadline until(deadline);
    state().reserve(file_.in_order().size());
    // No helper node gets the name of a node of the file.
    for (const Entry* each : file_.in_order()) state().names().take(each->def->name);
    for (Entry* each : file_.in_order())
      if (each->needed) add(*each);
  }

  // ---- FileNodes ----

  bool has(std::string_view name) const override { return file_.has(name); }

  const Tensors* outputs(std::string_view name) override {
    Entry* entry = file_.find(name);
    if (!entry) return nullptr;
    add_missing(*entry);
    if (entry->outputs.empty() && refers_to_variable(*entry)) tensor_of({entry->def});
    return &entry->outputs;
  }

  Node* find(std::string_view name) override {
    Entry* entry = file_.find(name);
    if (!entry) return nullptr;
    add_missing(*entry);
    return entry->node;
  }

  Name name_of(const Tensor& tensor) override {
    for (const Entry* each : file_.in_order())
      for (std::size_t i = 0; i < each->outputs.size(); ++i)
        if (each->outputs[i].is(tensor)) return {each->def->name, i};
    throw InvalidArgumentError(not_in_file(tensor.name()));
  }

  std::string name_of(const Node& node) override {
    for (const Entry* each : file_.in_order())
      if (each->node == &node) return each->def->name;
    throw InvalidArgumentError(not_in_file(node.name()));
  }

  std::string_view library() const override { return file_.file().library; }

  std::shared_ptr<GraphState> with_values(const Tensors& tensors, const Tensors& values) override;

 private:
  static std::string not_in_file(const std::string& name) {
    return detail::join("'", name,
                        "' cannot be fetched while a value is fed that the file's nodes have as an attribute",
                        ", because it was added after the graph was read");
  }

  GraphState& state() { return graph_; }

  // ---- Adding nodes ----

  void add(Entry& entry) {
    entry.is_read = true;
    const NodeDef& def = *entry.def;
    const NodeReader reader(def, entry.inputs);
    reader.blaming([&] {
      const detail::NodeOptions options{.control_inputs = nodes_of(entry.controls),
                                        .device = detail::merge_device_names("", def.device),
                                        .colocation = colocation_of(def)};
      const detail::OptionsScope scopes(state().shared_from_this(), options);
      const std::size_t first = state().size();
      state().names().release(def.name);  // for the node itself
      try {
        entry.outputs = is_known(reader) ? outputs_of(entry) : keep_unread(entry, reader, "");
      } catch (const UnimplementedError& error) {
        if (reader.find<std::string>(hint_op)) throw;
        take_back(entry, first);
        entry.outputs = keep_unread(entry, reader, error.message());
      }
      // The last node is the operation itself; the others serve it.
      if (state().size() > first) entry.node = &state().node(state().size() - 1);
      if (entry.node && !state().find(def.name)) state().rename(*entry.node, def.name);
      state().names().take(def.name);
      for (std::size_t i = first; i < state().size(); ++i) known_.note(state().node(i));
    });
  }

  /// Adds an entry that nothing has needed so far, and what it needs. The value of such a tensor is an attribute.
  void add_missing(Entry& wanted) {
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
    const bool finalized = state().finalized();
    state().finalize(false);
    for (Entry* each : missing) {
      add(*each);
      for (const Tensor& output : each->outputs) state().absorbed.insert(output.id());
    }
    state().finalize(finalized);
  }

  /// Takes away what was added to the graph from node number `size` on, in an attempt to read the entry.
  void take_back(const Entry& entry, std::size_t size) {
    const auto is_new = [&](const Tensor& tensor) { return bool(tensor) && detail::producer_of(tensor).index >= size; };
    for (const Source& each : entry.inputs) {
      Tensors& outputs = file_.entry(each.node).outputs;
      if (!outputs.empty() && is_new(outputs[0])) outputs.clear();  // the value after a change of a Variable
    }
    std::erase_if(numbers_, [&](const auto& each) { return is_new(each.second); });
    state().shrink_to(size);
  }

  static bool is_known(const NodeReader& reader) {
    const NodeDef& def = reader.def();
    return is_readable(def) || is_variable(def) || reader.find<std::string>(hint_op) || update_rule(reader) ||
           find_composed_update(def.op) ||
           std::find(leaves_and_assignments.begin(), leaves_and_assignments.end(), def.op) !=
               leaves_and_assignments.end();
  }

  /// Adds a node that is not read, with all its inputs.
  Tensors keep_unread(const Entry& entry, const NodeReader& reader, const std::string& reason) {
    Tensors inputs;
    for (const Source& each : entry.inputs) {
      Entry& input = file_.entry(each.node);
      add_missing(input);
      const auto variable = variables_.find(each.node);
      const bool refers = each.node->op == "VarHandleOp" || takes_reference(entry.def->op);
      inputs.push_back(variable != variables_.end() && refers ? handle_of(variable->second) : tensor_of(each));
    }
    return keep_unread_node(state(), reader, inputs, entry.uses, reason, where_).outputs();
  }

  /// The node that the attribute `_class` names; "" for none.
  std::string colocation_of(const NodeDef& def) {
    constexpr std::string_view prefix = "loc:@";
    const auto found = def.attrs.find("_class");
    const ListDef* list = found == def.attrs.end() ? nullptr : std::get_if<ListDef>(&found->second);
    if (!list || list->strings.empty() || !list->strings[0].starts_with(prefix)) return {};
    std::string name = list->strings[0].substr(prefix.size());
    return state().find(name) ? name : std::string();
  }

  std::vector<Node*> nodes_of(const std::vector<const NodeDef*>& defs) {
    std::vector<Node*> nodes;
    for (const NodeDef* def : defs)
      if (Node* node = file_.entry(def).node) nodes.push_back(node);
    return nodes;
  }

  Tensors outputs_of(Entry& entry) {
    const NodeDef& def = *entry.def;
    const NodeReader reader(def, entry.inputs);
    if (const OpRule* rule = reader.hinted()) return make_hinted(*rule, entry, reader);
    if (def.op == "Const") return constant(reader);
    if (def.op == "Placeholder") return placeholder(reader);
    if (def.op == "NoOp") return node(no_op_op, {}, {}, def.name);
    if (is_variable(def)) return variable(reader);
    if (def.op == "ReadVariableOp") return read(entry, reader);
    if (def.op == "Identity" && entry.inputs.size() == 1 && is_variable(*entry.inputs[0].node))
      return read(entry, reader);
    if (def.op.starts_with("Assign")) return assign(entry, reader);
    if (def.op.starts_with("ResourceGather")) return gather_rows(entry, reader);
    if (const UpdateRule* rule = update_rule(reader)) return update(entry, reader, *rule);
    if (const ComposedUpdate* update = find_composed_update(def.op)) return compose(entry, reader, *update);
    if (!is_readable(def)) reader.refuse("the hint names an op that is not written so");
    if (reader.find<TypeCode>("T")) reader.type("T");  // throws for a type that we lack
    return read_or_keep(entry, reader);
  }

  // ---- Ops ----

  /// Reads a node, or keeps it as it is if values or sizes that it needs are not known.
  Tensors read_or_keep(const Entry& entry, const NodeReader& reader) {
    Tensors inputs, values(entry.inputs.size());
    for (const Source& each : entry.inputs)
      inputs.push_back(file_.entry(each.node).is_read ? tensor_of(each) : Tensor());
    give_types(reader, inputs);
    bool complete = true;
    for (const std::size_t i : value_inputs(reader)) {
      values[i] = reader.is_constant(i) ? reader.constant(i) : known_.find_complete(inputs[i]);
      complete = complete && bool(values[i]);
    }
    const NodeReader with_values(*entry.def, entry.inputs, values);
    if (!complete || lacks_sizes(with_values, inputs)) return keep(with_values, inputs);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (bool(values[i]) && bool(inputs[i])) detail::KnownValues::absorb(inputs[i]);
    const std::size_t first = state().size();
    try {
      return read_op(with_values, inputs, where_);
    } catch (const InvalidArgumentError&) {
      // The node is read when the feeds tell what is unknown now.
      if (std::none_of(inputs.begin(), inputs.end(),
                       [](const Tensor& input) { return bool(input) && input.dtype() == DType::unknown; }))
        throw;
      state().shrink_to(first);
      return keep(with_values, inputs);
    }
  }

  /// Adds a node that is read later, with all its inputs.
  Tensors keep(const NodeReader& reader, Tensors& inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i]) inputs[i] = tensor_of(reader.input(i));
    return keep_node(state(), reader, inputs, known_, where_).outputs();
  }

  /// Gives inputs of unknown dtype, such as the outputs of a node that is not read, the dtype that the node's own
  /// attribute "T" tells.
  static void give_types(const NodeReader& reader, const Tensors& inputs) {
    const auto* code = reader.find<TypeCode>("T");
    if (!code || dtype_of(*code) == DType::unknown) return;
    for (const std::size_t i : inputs_of_type_t(reader))
      if (i < inputs.size() && bool(inputs[i]) && inputs[i].dtype() == DType::unknown)
        inputs[i].impl().dtype = dtype_of(*code);
  }

  Tensors make_hinted(const OpRule& rule, const Entry& entry, const NodeReader& reader) {
    Tensors inputs;
    for (const Source& each : entry.hinted) inputs.push_back(tensor_of(each));
    return make_op(rule, reader, inputs, reader.hinted_attrs(rule), where_);
  }

  // ---- Leaves ----

  Tensors constant(const NodeReader& reader) {
    const DType dtype = reader.type("dtype");
    const Tensor& value = reader.attr<TensorDef>("value").value;
    if (value.dtype() != dtype) reader.refuse("its value is not of its dtype");
    return node(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, reader.def().name);
  }

  Tensors placeholder(const NodeReader& reader) {
    Shape shape = reader.attr_or<Shape>("shape", Shape::unknown_rank());
    // Up to this version, a scalar's shape stands for one that is not known.
    constexpr std::int32_t last_producer = 21;
    if (shape.rank() == 0 && file_.file().producer <= last_producer) shape = Shape::unknown_rank();
    return node(placeholder_op, {}, {{"dtype", reader.type("dtype")}, {"shape", shape}}, reader.def().name);
  }

  // ---- Variables ----

  Tensors variable(const NodeReader& reader) {
    const NodeDef& def = reader.def();
    const Spec spec{reader.type("dtype"), reader.attr<Shape>("shape")};
    if (!spec.shape.is_known()) reader.refuse(detail::join("a Variable must have a shape, not ", spec.shape));
    const auto name = reader.attr_or<std::string>("shared_name", "");
    auto& cell = cells_[{reader.attr_or<std::string>("container", ""), name.empty() ? def.name : name}];
    if (!cell) cell = make_cell(reader, spec);
    const Variable shared(cell);
    if (shared.dtype() != spec.dtype || shared.shape() != spec.shape)
      reader.refuse(detail::join("it is ", to_string(spec.dtype), spec.shape, ", but shares the Variable '",
                                 shared.name(), "', which is ", to_string(shared.dtype()), shared.shape()));
    variables_.emplace(&def, shared);
    return {handle_of(shared)};
  }

  std::shared_ptr<Variable::Cell> make_cell(const NodeReader& reader, const Spec& spec) {
    const std::string& name = reader.def().name;
    if (original_)
      for (const auto& [def, variable] : original_->variables_)
        if (def->name == name) return variable.cell();
    auto cell = std::make_shared<Variable::Cell>();
    cell->name = name;
    cell->trainable = !reader.attr_or<bool>(hint_not_trainable, false);
    cell->spec = spec;
    const Tensor handle = handle_of(Variable(cell));
    state().budget().require_tensor(detail::producer_of(handle), spec);
    return cell;
  }

  const Variable& variable_of(const Entry& entry, const NodeReader& reader, std::size_t input = 0) const {
    const auto found = input < entry.inputs.size() ? variables_.find(entry.inputs[input].node) : variables_.end();
    if (found == variables_.end() && input < entry.inputs.size() && is_variable(*entry.inputs[input].node))
      throw UnimplementedError(detail::join("Node '", entry.def->name, "' uses the Variable '",
                                            entry.inputs[input].node->name, "', of a type that Tapestry lacks"));
    if (found == variables_.end()) reader.refuse(detail::join("its input ", input, " is no Variable"));
    return found->second;
  }
  Tensor handle_of(const Variable& variable) { return state().variable_entry(variable, where_).handle; }

  Tensors read(const Entry& entry, const NodeReader& reader) {
    const Variable& variable = variable_of(entry, reader);
    Tensors value = node(read_variable_op, {handle_of(variable)}, variable_attrs({variable}), entry.def->name);
    GraphVariable& known = state().variable_entry(variable, where_);
    if (!known.value && entry.controls.empty()) known.value = value[0];
    return value;
  }

  Tensors assign(const Entry& entry, const NodeReader& reader) {
    const std::string& op = entry.def->op;
    const bool add = op == "AssignAdd" || op == "AssignAddVariableOp";
    const bool subtract = op == "AssignSub" || op == "AssignSubVariableOp";
    if (entry.inputs.size() != 2) reader.refuse("it has not two inputs");
    const Variable& variable = variable_of(entry, reader);
    const Tensor value = tensor_of(entry.inputs[1]);
    const Assign kind = add ? Assign::add : subtract ? Assign::subtract : Assign::set;
    node(assign_op(kind), {handle_of(variable), value}, variable_attrs({variable}), entry.def->name);
    GraphVariable& known = state().variable_entry(variable, where_);
    if (kind == Assign::set && !known.initializer && entry.def->name == variable.name() + "/Assign") {
      known.initializer = &state().node(state().size() - 1);
      known.initial_value = value;
      const Node& source = *detail::endpoint_of(value).node;
      if (&source.op() == &const_op && !original_) variable.cell()->store(source.attr<Tensor>("value"));
    }
    return {};
  }

  // ---- Optimizers ----

  Tensors update(const Entry& entry, const NodeReader& reader, const UpdateRule& rule) {
    if (entry.inputs.size() != rule.arguments.size())
      reader.refuse(detail::join("it has ", entry.inputs.size(), " inputs, not ", rule.arguments.size()));
    std::vector<Variable> variables;
    Source gradient;
    for (std::size_t i = 0; i < rule.arguments.size(); ++i) {
      const UpdateRule::Argument& each = rule.arguments[i];
      if (each.part == UpdateRule::Part::handle) variables.push_back(variable_of(entry, reader, i));
      if (each.part == UpdateRule::Part::gradient) gradient = entry.inputs[i];
    }
    const bool hinted = !entry.hinted.empty();
    if (hinted) {
      if (entry.hinted.size() != variables.size() + (rule.is_adam() ? 2 : 1)) reader.refuse("its hints do not fit");
      gradient = entry.hinted.back();
    }
    const Tensor g = tensor_of(gradient);
    check_update(reader, variables, g);
    Tensors inputs;
    for (const Variable& each : variables) inputs.push_back(handle_of(each));
    const Entry& rate = file_.entry(rate_of(entry));
    if (rule.is_adam() && hinted) {
      inputs.push_back(
          adam_numbers_by_counter(rate, reader, entry.hinted[variables.size()], constant_numbers(reader, rule)));
    } else if (rule.is_adam()) {
      inputs.push_back(adam_numbers_by_powers(entry, reader));
    } else {
      inputs.push_back(has_constant_numbers(reader, rule) ? numbers_node(rate, constant_numbers(reader, rule))
                                                          : numbers_by_tensors(entry, reader, rule));
    }
    inputs.push_back(g);
    node(*find_op(rule.op), inputs, variable_attrs(variables), entry.def->name);
    return {};
  }

  static bool has_constant_numbers(const NodeReader& reader, const UpdateRule& rule) {
    if (reader.find<TensorDef>(hint_numbers)) return true;
    for (std::size_t i = 0; i < rule.arguments.size(); ++i)
      if (rule.arguments[i].part == UpdateRule::Part::number && !reader.is_constant(i)) return false;
    return true;
  }

  static std::vector<double> constant_numbers(const NodeReader& reader, const UpdateRule& rule) {
    if (const auto* exact = reader.find<TensorDef>(hint_numbers)) {
      if (exact->value.dtype() != float64 || exact->value.shape() != Shape{rule.numbers})
        reader.refuse("its exact numbers do not fit");
      return exact->value.to_vector<double>();
    }
    std::vector<double> numbers(static_cast<std::size_t>(rule.numbers));
    for (std::size_t i = 0; i < rule.arguments.size(); ++i)
      if (const UpdateRule::Argument& each = rule.arguments[i]; each.part == UpdateRule::Part::number)
        numbers[static_cast<std::size_t>(each.index)] = reader.constant(i).item<double>();
    if (rule.resource == "ResourceApplyRMSProp") numbers[2] = 1 - numbers[1];
    return numbers;
  }

  /// An input of an update as a number: a float64 scalar.
  Tensor number_of(const Entry& entry, const NodeReader& reader, std::size_t input) {
    if (reader.is_constant(input)) return detail::make_scalar(reader.constant(input).item<double>(), float64);
    const Tensor value = tensor_of(entry.inputs[input]);
    const bool is_scalar = !value.shape().has_rank() || value.rank() == 0;
    if (!is_scalar || (value.dtype() != DType::unknown && !is_floating(value.dtype())))
      reader.refuse(detail::join("its input ", input, ", '", value.name(), "', is no floating-point scalar"));
    const Tensor wide = cast(value, float64);
    return wide.shape().has_rank() ? wide : reshape(wide, Shape());
  }

  /// The numbers of an update, some of which the graph computes or a run feeds.
  Tensor numbers_by_tensors(const Entry& entry, const NodeReader& reader, const UpdateRule& rule) {
    const NameScope scope(entry.def->name + "/numbers/", where_);
    std::vector<Tensor> numbers(static_cast<std::size_t>(rule.numbers), detail::make_scalar(0, float64));
    for (std::size_t i = 0; i < rule.arguments.size(); ++i)
      if (const UpdateRule::Argument& each = rule.arguments[i]; each.part == UpdateRule::Part::number)
        numbers[static_cast<std::size_t>(each.index)] = number_of(entry, reader, i);
    if (rule.resource == "ResourceApplyRMSProp") numbers[2] = 1.0 - numbers[1];
    return stack(numbers);
  }

  /// Adds an update that is several of our operations.
  Tensors compose(const Entry& entry, const NodeReader& reader, const ComposedUpdate& update) {
    if (entry.inputs.size() != update.inputs)
      reader.refuse(detail::join("it has ", entry.inputs.size(), " inputs, not ", update.inputs));
    UpdateCall call{state(), reader, {}, {}, where_};
    std::vector<Variable> variables;
    for (std::size_t i = 0; i < update.inputs; ++i) {
      call.variables.emplace_back();
      if (i < update.variables) {
        variables.push_back(variable_of(entry, reader, i));
        call.variables.back() = variables.back();
      }
      call.inputs.push_back(i < update.variables ? state().read(variables.back(), where_) : tensor_of(entry.inputs[i]));
    }
    check_slots(reader, variables);
    const NameScope scope(entry.def->name + "/_/", where_);
    update.add(call);
    return {};
  }

  /// The rows of a Variable: TensorFlow's lookup of embeddings.
  Tensors gather_rows(const Entry& entry, const NodeReader& reader) {
    if (entry.inputs.size() != 2) reader.refuse("it has not two inputs");
    if (reader.attr_or<std::int64_t>("batch_dims", 0) != 0)
      throw UnimplementedError(
          detail::join("Node '", entry.def->name, "' (op: '", entry.def->op, "'): Tapestry lacks its 'batch_dims'"));
    const Tensor rows = state().read(variable_of(entry, reader), where_);
    const Tensor indices = tensor_of(entry.inputs[1]);
    if (entry.def->op == "ResourceGatherNd") return {gather_nd(rows, indices, entry.def->name)};
    return {gather(rows, indices, 0, entry.def->name)};
  }

  static void check_update(const NodeReader& reader, const std::vector<Variable>& variables, const Tensor& gradient) {
    check_slots(reader, variables);
    if (!is_floating(variables[0].dtype()) || variables[0].dtype() != gradient.dtype() ||
        !can_be(gradient.shape(), variables[0].shape()))
      reader.refuse("the Variables, their slots and the gradient are not alike");
  }

  static void check_slots(const NodeReader& reader, const std::vector<Variable>& variables) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].dtype() != variables[0].dtype() || variables[i].shape() != variables[0].shape())
        reader.refuse("the Variables, their slots and the gradient are not alike");
      for (std::size_t k = 0; k < i; ++k)
        if (variables[k].is(variables[i])) reader.refuse("a Variable is its own slot");
    }
  }

  /// The tensor of these numbers, which all updates with the same learning rate share; empty before it is made.
  Tensor& numbers_of(const Entry& rate, const std::vector<double>& numbers) { return numbers_[{rate.def, numbers}]; }
  /// The node of the numbers has the name of the rate's node, if that is no node of ours so far.
  Tensor numbers_named(const Entry& rate, Tensor numbers) {
    if (!rate.is_read && !state().find(rate.def->name)) state().rename(detail::producer_of(numbers), rate.def->name);
    return numbers;
  }

  Tensor numbers_node(const Entry& rate, const std::vector<double>& numbers) {
    Tensor& known = numbers_of(rate, numbers);
    if (known) return known;
    const Tensor value = [&] {
      const ExecuteNow now;
      return Init(numbers).tensor();
    }();
    const ControlScope nothing(ControlInputs{});
    return known = numbers_named(rate, node(const_op, {}, {{"dtype", float64}, {"value", value}}, rate.def->name)[0]);
  }

  /// Adam's numbers as our own optimizer computes them, from a Variable that counts the steps.
  Tensor adam_numbers_by_counter(const Entry& rate, const NodeReader& reader, const Source& counter,
                                 const std::vector<double>& parts) {
    const auto found = variables_.find(counter.node);
    if (found == variables_.end() || found->second.dtype() != int64 || found->second.shape().rank() != 0)
      reader.refuse("no Variable counts its steps");
    Tensor& known = numbers_of(rate, parts);
    if (known) return known;
    const auto numbers = [parts](const Tensors& steps) -> Tensors {
      const auto step = steps[0].item<std::int64_t>() + 1;
      const ExecuteNow now;
      return {tensor(std::vector<double>(train::adam_numbers(parts[0], step, parts[1], parts[2], parts[3], parts[4])))};
    };
    const Variable& variable = found->second;
    const Attrs attrs{{"variables", std::make_shared<const std::vector<Variable>>(1, variable)},
                      {"numbers", std::make_shared<const std::function<Tensors(const Tensors&)>>(numbers)},
                      {"count", std::int64_t{8}}};
    std::vector<Operation> waits;
    for (Node* each : nodes_of(rate.controls)) waits.push_back(detail::operation_of(*each));
    const ControlScope nothing(ControlInputs{}), same(waits);
    return known = numbers_named(rate, node(learning_rate_op, {handle_of(variable)}, attrs, rate.def->name)[0]);
  }

  /// Adam's numbers of a file of TensorFlow's own: the powers of the betas are tensors, and epsilon is not yet divided
  /// by sqrt(1 - beta2^step), as our op needs it (see UpdateRule).
  Tensor adam_numbers_by_powers(const Entry& entry, const NodeReader& reader) {
    const NameScope scope(entry.def->name + "/numbers/", where_);
    Tensor powers[2], parts[3], epsilon;
    const UpdateRule& rule = *update_rule(reader);
    for (std::size_t i = 0; i < rule.arguments.size(); ++i) {
      const UpdateRule::Argument& each = rule.arguments[i];
      if (each.part == UpdateRule::Part::number) parts[each.index] = number_of(entry, reader, i);
      if (each.part != UpdateRule::Part::from_step) continue;
      (each.index == UpdateRule::epsilon ? epsilon : powers[each.index]) = number_of(entry, reader, i);
    }
    const auto& [rate, beta1, beta2] = parts;
    const Tensor left = 1.0 - powers[1];
    return stack({rate / (1.0 - powers[0]), beta1, 1.0 - beta1, beta2, 1.0 - beta2, 1.0 / left, epsilon / sqrt(left),
                  detail::make_scalar(0, float64)});
  }

  // ---- What all have in common ----

  Tensor tensor_of(const Source& source) {
    Entry& entry = file_.entry(source.node);
    if (const auto found = variables_.find(source.node); found != variables_.end()) {
      // TensorFlow 1 reads a reference where a value is expected.
      return state().read(found->second, where_);
    }
    if (source.output == 0 && entry.outputs.empty() && refers_to_variable(entry)) {
      const detail::OptionsScope scopes(state().shared_from_this(), {.control_inputs = {entry.node}});
      entry.outputs.push_back(state().read(variables_.at(entry.inputs[0].node), where_));
    }
    if (static_cast<std::size_t>(source.output) >= entry.outputs.size())
      throw InvalidArgumentError(detail::join("output ", source.output, " of node '", source.node->name,
                                              "' is used, which has ", entry.outputs.size()));
    return entry.outputs[source.output];
  }

  Tensors node(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name) {
    return add_op(op, inputs, attrs, name, where_);
  }

  /// Whether the output of a node is TensorFlow 1's reference to the Variable that it has changed.
  bool refers_to_variable(const Entry& entry) const {
    return entry.node && !entry.inputs.empty() && is_reference_variable(*entry.inputs[0].node) &&
           variables_.contains(entry.inputs[0].node) && takes_reference(entry.def->op);
  }

  FileGraph file_;
  GraphState& graph_;  ///< owns the importer
  Where where_;
  const Importer* original_;
  std::unordered_map<const NodeDef*, Variable> variables_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Variable::Cell>> cells_;  ///< by container, shared name
  std::map<std::pair<const NodeDef*, std::vector<double>>, Tensor> numbers_;
  detail::KnownValues known_;
};

/// Adds the importer to its graph.
std::shared_ptr<GraphState> import_into(const std::shared_ptr<GraphState>& graph, GraphDef file, Where where,
                                        const Importer* original = nullptr) {
  const auto importer = std::make_shared<Importer>(std::move(file), *graph, where, original);
  importer->run();
  graph->file = importer;
  return graph;
}

std::shared_ptr<GraphState> Importer::with_values(const Tensors& tensors, const Tensors& values) {
  std::vector<std::pair<Name, Tensor>> constants;
  for (std::size_t i = 0; i < tensors.size(); ++i) constants.emplace_back(name_of(tensors[i]), values[i]);
  const auto graph = std::make_shared<GraphState>();
  graph->budget().set_limits(state().budget().limits());
  return import_into(graph, file_.with_constants(constants), where_, this);
}

}  // namespace

Graph import_graph(GraphDef file, const GraphLimits& limits, Where where) {
  Graph graph;
  graph.set_limits(limits, where);
  import_into(graph.state(), std::move(file), where);
  return graph;
}

}  // namespace tapestry::io
