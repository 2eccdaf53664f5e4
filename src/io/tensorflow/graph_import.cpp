#include "io/tensorflow/graph_import.hpp"

#include <algorithm>
#include <array>
#include <queue>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "graph/graph_state.hpp"
#include "graph/known_values.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "io/tensorflow/kept_node.hpp"
#include "io/tensorflow/node_reader.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "io/tensorflow/updates.hpp"
#include "tapestry/ops.hpp"
#include "train/adam.hpp"

namespace tapestry::io {
namespace {

using detail::GraphState;
using detail::GraphVariable;
using detail::Node;

constexpr std::array leaves_and_assignments =
    std::to_array<std::string_view>({"Const", "Placeholder", "NoOp", "ReadVariableOp", "Assign", "AssignAdd",
                                     "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"});

bool is_variable(const NodeDef& def) {
  return def.op == "VarHandleOp" || def.op == "VariableV2" || def.op == "Variable";
}

/// A node of the file with the nodes that it refers to.
struct Entry {
  const NodeDef* def = nullptr;
  std::vector<Source> inputs{}, hinted{};
  std::vector<const NodeDef*> controls{};
  bool needed = false;
  Tensors outputs{};
  Node* node = nullptr;  ///< the node of that name in our graph
};

/// The rule of an optimizer's update, or nullptr. Several of ours may be written as one of TensorFlow's.
const UpdateRule* update_rule(const NodeReader& reader) {
  const NodeDef& def = reader.def();
  if (const auto* op = reader.find<std::string>(hint_op)) {
    const UpdateRule* rule = update_rule_of(*op);
    return rule && (rule->resource == def.op || rule->reference == def.op) ? rule : nullptr;
  }
  for (const UpdateRule& each : update_rules())
    if ((each.resource == def.op || each.reference == def.op) &&
        each.nesterov == reader.attr_or<bool>("use_nesterov", false))
      return &each;
  return nullptr;
}

/// The node that gives an update its learning rate, or nullptr.
const NodeDef* rate_of(const Entry& entry) {
  const UpdateRule* rule = update_rule(NodeReader(*entry.def, entry.inputs));
  if (!rule || rule->arguments.size() != entry.inputs.size()) return nullptr;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i)
    if (rule->arguments[i].part == UpdateRule::Part::number && rule->arguments[i].index == 0)
      return entry.inputs[i].node;
  return nullptr;
}

/// Whether an input of an update becomes one of our node's numbers. Epsilon does: TensorFlow's own is a constant.
bool is_number(const UpdateRule& rule, std::size_t input) {
  if (input >= rule.arguments.size()) return false;
  const UpdateRule::Argument& each = rule.arguments[input];
  return each.part == UpdateRule::Part::number ||
         (each.part == UpdateRule::Part::from_step && each.index == UpdateRule::epsilon);
}

// ---- The file as a graph ----------------------------------------------------------------------------------------------

class FileGraph {
 public:
  explicit FileGraph(const GraphDef& file) {
    entries_.reserve(file.nodes.size());
    for (const NodeDef& def : file.nodes) {
      if (!index_.emplace(def.name, entries_.size()).second)
        throw InvalidArgumentError(detail::join("Node '", def.name, "' is not unique"));
      entries_.push_back({.def = &def});
    }
    for (Entry& each : entries_) resolve(each);
  }

  Entry& entry(const NodeDef* def) { return entries_[index_.at(def->name)]; }

  /// All nodes, each after those that it needs; otherwise in the file's order.
  std::vector<Entry*> in_order() {
    std::vector<std::size_t> waits(entries_.size());
    std::vector<std::vector<std::size_t>> users(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i)
      for_all(entries_[i], [&](const NodeDef* needed) {
        ++waits[i];
        users[index_.at(needed->name)].push_back(i);
      });
    std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
    for (std::size_t i = 0; i < entries_.size(); ++i)
      if (waits[i] == 0) ready.push(i);
    std::vector<Entry*> order;
    while (!ready.empty()) {
      const std::size_t i = ready.top();
      ready.pop();
      order.push_back(&entries_[i]);
      for (const std::size_t user : users[i])
        if (--waits[user] == 0) ready.push(user);
    }
    if (order.size() < entries_.size()) {
      const auto stuck = std::find_if(waits.begin(), waits.end(), [](std::size_t count) { return count > 0; });
      throw InvalidArgumentError(
          detail::join("The graph has a cycle at node '", entries_[stuck - waits.begin()].def->name, "'"));
    }
    return order;
  }

  /// Marks the nodes that our graph needs: those that no node uses, and the inputs and control inputs of marked nodes.
  void mark(const std::vector<Entry*>& order) {
    std::vector<char> used(entries_.size());
    for (const Entry& each : entries_) for_all(each, [&](const NodeDef* needed) { used[index_.at(needed->name)] = 1; });
    // TensorFlow adds a VarIsInitializedOp to each resource Variable, and rarely runs it.
    for (std::size_t i = 0; i < entries_.size(); ++i)
      entries_[i].needed = used[i] == 0 && entries_[i].def->op != "VarIsInitializedOp";
    for (auto each = order.rbegin(); each != order.rend(); ++each) {
      if (!(*each)->needed) continue;
      for (const Source& input : used_inputs(**each)) entry(input.node).needed = true;
      for (const NodeDef* control : (*each)->controls) entry(control).needed = true;
      // An update's learning rate becomes another node, with the same control inputs.
      if (const NodeDef* rate = rate_of(**each))
        for (const NodeDef* control : entry(rate).controls) entry(control).needed = true;
    }
  }

 private:
  void resolve(Entry& entry) {
    for (const std::string& input : entry.def->inputs) {
      if (input.starts_with('^')) {
        entry.controls.push_back(source(*entry.def, input.substr(1)).node);
      } else if (!entry.controls.empty()) {
        throw InvalidArgumentError(
            detail::join("Node '", entry.def->name, "': input '", input, "' stands behind a control input"));
      } else {
        entry.inputs.push_back(source(*entry.def, input));
      }
    }
    const NodeReader reader(*entry.def, entry.inputs);
    if (reader.find<std::string>(hint_op))
      for (const std::string& each : reader.attr<ListDef>(hint_inputs).strings)
        entry.hinted.push_back(source(*entry.def, each));
  }

  Source source(const NodeDef& user, const std::string& input) const {
    std::string name = input;
    std::int64_t output = 0;
    if (const std::size_t colon = input.rfind(':'); colon != std::string::npos) {
      name = input.substr(0, colon);
      const std::string digits = input.substr(colon + 1);
      if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
        throw InvalidArgumentError(detail::join("Node '", user.name, "': '", input, "' is no name of a tensor"));
      output = std::stoll(digits);
    }
    const auto found = index_.find(name);
    if (found == index_.end())
      throw InvalidArgumentError(detail::join("Node '", user.name, "': Unknown input node '", input, "'"));
    return {entries_[found->second].def, output};
  }

  template <class F>
  void for_all(const Entry& entry, F f) const {
    for (const Source& each : entry.inputs) f(each.node);
    for (const Source& each : entry.hinted) f(each.node);
    for (const NodeDef* each : entry.controls) f(each);
  }

  /// The inputs that our node has, too: neither constants that become attributes, nor the inner nodes of an expansion.
  static std::vector<Source> used_inputs(const Entry& entry) {
    const NodeReader reader(*entry.def, entry.inputs);
    if (reader.find<std::string>(hint_op)) return entry.hinted;
    std::vector<Source> used;
    const UpdateRule* update = update_rule(reader);
    std::vector<char> left_out(entry.inputs.size());
    if (update) {
      for (std::size_t i = 0; i < left_out.size(); ++i) left_out[i] = is_number(*update, i);
    } else if (is_readable(*entry.def) && !may_need_sizes(*entry.def)) {
      // A node that may become a KeptNode keeps all its inputs.
      const std::vector<std::size_t> values = value_inputs(reader);
      if (std::all_of(values.begin(), values.end(), [&](std::size_t i) { return reader.is_constant(i); }))
        for (const std::size_t i : values) left_out[i] = 1;
    }
    for (std::size_t i = 0; i < entry.inputs.size(); ++i)
      if (!left_out[i]) used.push_back(entry.inputs[i]);
    return used;
  }

  std::vector<Entry> entries_;
  std::unordered_map<std::string_view, std::size_t> index_;
};

// ---- The nodes ----------------------------------------------------------------------------------------------------------

class Importer {
 public:
  Importer(const GraphDef& file, const GraphLimits& limits, Where where) : file_(file), where_(where) {
    graph_.set_limits(limits, where);
  }

  Graph run() {
    const auto deadline = state().budget().deadline(0);
    const detail::NodeDeadline until(deadline);
    const std::vector<Entry*> order = file_.in_order();
    file_.mark(order);
    require_ops(order);
    for (Entry* each : order)
      if (each->needed) add(*each);
    return graph_;
  }

 private:
  GraphState& state() { return *graph_.state(); }

  /// Throws one error that names all ops that we lack.
  static void require_ops(const std::vector<Entry*>& order) {
    std::map<std::string_view, std::vector<const NodeDef*>> lacking;
    for (const Entry* each : order)
      if (each->needed && !is_known(NodeReader(*each->def, each->inputs))) lacking[each->def->op].push_back(each->def);
    std::string text;
    for (const auto& [op, nodes] : lacking) {
      text +=
          detail::join(text.empty() ? "Tapestry lacks the op '" : ", the op '", op, "' of node '", nodes[0]->name, "'");
      if (nodes.size() > 1) text += detail::join(" and of ", nodes.size() - 1, " more");
    }
    if (!text.empty()) throw UnimplementedError(text);
  }

  static bool is_known(const NodeReader& reader) {
    const NodeDef& def = reader.def();
    return is_readable(def) || is_variable(def) || reader.find<std::string>(hint_op) || update_rule(reader) ||
           std::find(leaves_and_assignments.begin(), leaves_and_assignments.end(), def.op) !=
               leaves_and_assignments.end();
  }

  void add(Entry& entry) {
    const NodeDef& def = *entry.def;
    NodeReader(def, entry.inputs).blaming([&] {
      const detail::NodeOptions options{.control_inputs = nodes_of(entry.controls),
                                        .device = detail::merge_device_names("", def.device),
                                        .colocation = colocation_of(def)};
      const detail::OptionsScope scopes(graph_.state(), options);
      const std::size_t first = state().size();
      entry.outputs = outputs_of(entry);
      // The last node is the operation itself; the others serve it.
      if (state().size() > first) entry.node = &state().node(state().size() - 1);
      if (entry.node && entry.node->name() != def.name)
        throw InvalidArgumentError(detail::join("Node '", def.name, "': another name is the same but for its case"));
      for (std::size_t i = first; i < state().size(); ++i) known_.note(state().node(i));
    });
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
    if (const UpdateRule* rule = update_rule(reader)) return update(entry, reader, *rule);
    if (!is_readable(def)) reader.refuse("the hint names an op that is not written so");
    return read_or_keep(entry, reader);
  }

  // ---- Ops ----

  /// Reads a node, or keeps it as it is if values or sizes that it needs are not known.
  Tensors read_or_keep(const Entry& entry, const NodeReader& reader) {
    Tensors inputs, values(entry.inputs.size());
    for (const Source& each : entry.inputs)
      inputs.push_back(file_.entry(each.node).needed || is_variable(*each.node) ? tensor_of(each) : Tensor());
    bool complete = true;
    for (const std::size_t i : value_inputs(reader)) {
      values[i] = reader.is_constant(i) ? reader.constant(i) : known_.find_complete(inputs[i]);
      complete = complete && bool(values[i]);
    }
    const NodeReader with_values(*entry.def, entry.inputs, values);
    if (!complete || lacks_sizes(with_values, inputs))
      return keep_node(state(), with_values, inputs, known_, where_).outputs();
    for (std::size_t i = 0; i < values.size(); ++i)
      if (bool(values[i]) && !reader.is_constant(i)) detail::KnownValues::prevent_feeding(inputs[i]);
    return read_op(with_values, inputs, where_);
  }

  Tensors make_hinted(const OpRule& rule, const Entry& entry, const NodeReader& reader) {
    Tensors inputs;
    for (const Source& each : entry.hinted) inputs.push_back(tensor_of(each));
    return make_op(rule, reader, inputs, reader.hinted_attrs(rule), where_);
  }

  // ---- Leaves ----

  Tensors constant(const NodeReader& reader) {
    const Tensor& value = reader.attr<TensorDef>("value").value;
    if (!value || value.dtype() != reader.type("dtype")) {
      reader.type("dtype");  // throws for a type that we lack
      reader.refuse("its value is not of its dtype");
    }
    return node(const_op, {}, {{"dtype", value.dtype()}, {"value", value}}, reader.def().name);
  }

  Tensors placeholder(const NodeReader& reader) {
    const Shape shape = reader.attr_or<Shape>("shape", Shape::unknown_rank());
    return node(placeholder_op, {}, {{"dtype", reader.type("dtype")}, {"shape", shape}}, reader.def().name);
  }

  // ---- Variables ----

  Tensors variable(const NodeReader& reader) {
    const Shape shape = reader.attr<Shape>("shape");
    if (!shape.is_known()) reader.refuse(detail::join("a Variable must have a shape, not ", shape));
    auto cell = std::make_shared<Variable::Cell>();
    cell->name = reader.def().name;
    cell->trainable = !reader.attr_or<bool>(hint_not_trainable, false);
    cell->spec = {reader.type("dtype"), shape};
    const Tensor handle = state().variable_entry(Variable(cell), where_).handle;
    state().budget().require_tensor(*detail::endpoint_of(handle).node, cell->spec);
    require_name(detail::endpoint_of(handle).node->name(), reader);
    variables_.emplace(&reader.def(), Variable(cell));
    return {handle};
  }

  const Variable& variable_of(const Entry& entry, const NodeReader& reader, std::size_t input = 0) const {
    const auto found = input < entry.inputs.size() ? variables_.find(entry.inputs[input].node) : variables_.end();
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
      if (&source.op() == &const_op) variable.cell()->store(source.attr<Tensor>("value"));
    }
    return {};
  }

  // ---- Optimizers ----

  Tensors update(const Entry& entry, const NodeReader& reader, const UpdateRule& rule) {
    if (entry.inputs.size() != rule.arguments.size())
      reader.refuse(detail::join("it has ", entry.inputs.size(), " inputs, not ", rule.arguments.size()));
    std::vector<Variable> variables;
    std::vector<double> numbers(rule.numbers);
    Source gradient;
    for (std::size_t i = 0; i < rule.arguments.size(); ++i) {
      const UpdateRule::Argument& each = rule.arguments[i];
      if (each.part == UpdateRule::Part::handle) variables.push_back(variable_of(entry, reader, i));
      if (each.part == UpdateRule::Part::gradient) gradient = entry.inputs[i];
      if (each.part == UpdateRule::Part::number && !reader.find<TensorDef>(hint_numbers))
        numbers[each.index] = reader.constant(i).item<double>();
    }
    if (rule.resource == "ResourceApplyRMSProp") numbers[2] = 1 - numbers[1];
    if (const auto* exact = reader.find<TensorDef>(hint_numbers)) {
      if (!exact->value || exact->value.dtype() != float64 || exact->value.shape() != Shape{rule.numbers})
        reader.refuse("its exact numbers do not fit");
      numbers = exact->value.to_vector<double>();
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
    inputs.push_back(!rule.is_adam() ? numbers_node(rate, numbers)
                     : hinted        ? adam_numbers_by_counter(rate, reader, entry.hinted[variables.size()], numbers)
                                     : adam_numbers_by_powers(entry, reader, numbers));
    inputs.push_back(g);
    node(*find_op(rule.op), inputs, variable_attrs(variables), entry.def->name);
    return {};
  }

  static void check_update(const NodeReader& reader, const std::vector<Variable>& variables, const Tensor& gradient) {
    for (std::size_t i = 0; i < variables.size(); ++i) {
      if (variables[i].dtype() != gradient.dtype() || variables[i].shape() != variables[0].shape() ||
          !can_be(gradient.shape(), variables[i].shape()) || !is_floating(gradient.dtype()))
        reader.refuse("the Variables, their slots and the gradient are not alike");
      for (std::size_t k = 0; k < i; ++k)
        if (variables[k].is(variables[i])) reader.refuse("a Variable is its own slot");
    }
  }

  /// The tensor of these numbers, which all updates with the same learning rate share; empty before it is made.
  Tensor& numbers_of(const Entry& rate, const std::vector<double>& numbers) { return numbers_[{rate.def, numbers}]; }
  std::string name_of_numbers(const Entry& rate) {
    return state().find(rate.def->name) ? graph_.unique_name(rate.def->name) : rate.def->name;
  }

  Tensor numbers_node(const Entry& rate, const std::vector<double>& numbers) {
    Tensor& known = numbers_of(rate, numbers);
    if (known) return known;
    const Tensor value = [&] {
      const ExecuteNow now;
      return Init(numbers).tensor();
    }();
    const ControlScope nothing(ControlInputs{});
    return known = node(const_op, {}, {{"dtype", float64}, {"value", value}}, name_of_numbers(rate))[0];
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
    return known = node(learning_rate_op, {handle_of(variable)}, attrs, name_of_numbers(rate))[0];
  }

  /// Adam's numbers of a file of TensorFlow's own: the powers of the betas are tensors, and epsilon is a constant,
  /// which our op needs divided by sqrt(1 - beta2^step) (see UpdateRule).
  Tensor adam_numbers_by_powers(const Entry& entry, const NodeReader& reader, const std::vector<double>& parts) {
    const UpdateRule& rule = *update_rule(reader);
    const auto scalar = [&](std::size_t input) {
      const Tensor value = tensor_of(entry.inputs[input]);
      if (value.rank() != 0 || !is_floating(value.dtype())) reader.refuse("a power of beta is no scalar");
      return cast(value, float64);
    };
    Tensor powers[2];
    double epsilon = 0;
    for (std::size_t i = 0; i < rule.arguments.size(); ++i) {
      if (rule.arguments[i].part != UpdateRule::Part::from_step) continue;
      if (is_number(rule, i)) {
        epsilon = reader.constant(i).item<double>();
      } else {
        powers[rule.arguments[i].index] = scalar(i);
      }
    }
    const NameScope scope(entry.def->name + "/numbers/", where_);
    const auto number = [](double value) { return detail::make_scalar(value, float64); };
    const Tensor left = 1.0 - powers[1];
    return stack({parts[0] / (1.0 - powers[0]), number(parts[1]), number(1 - parts[1]), number(parts[2]),
                  number(1 - parts[2]), 1.0 / left, epsilon / sqrt(left), number(0)});
  }

  // ---- What all have in common ----

  Tensor tensor_of(const Source& source) {
    Entry& entry = file_.entry(source.node);
    if (const auto found = variables_.find(source.node); found != variables_.end()) {
      // TensorFlow 1 reads a reference where a value is expected.
      return state().read(found->second, where_);
    }
    if (static_cast<std::size_t>(source.output) >= entry.outputs.size())
      throw InvalidArgumentError(detail::join("output ", source.output, " of node '", source.node->name,
                                              "' is used, which has ", entry.outputs.size()));
    return entry.outputs[source.output];
  }

  Tensors node(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name) {
    return add_op(op, inputs, attrs, name, where_);
  }

  static void require_name(const std::string& name, const NodeReader& reader) {
    if (name != reader.def().name) reader.refuse("its name is no name of a Variable, or differs from another in case");
  }

  FileGraph file_;
  Where where_;
  Graph graph_;
  std::unordered_map<const NodeDef*, Variable> variables_;
  std::map<std::pair<const NodeDef*, std::vector<double>>, Tensor> numbers_;
  detail::KnownValues known_;
};

}  // namespace

Graph import_graph(const GraphDef& file, const GraphLimits& limits, Where where) {
  return Importer(file, limits, where).run();
}

}  // namespace tapestry::io
