#include "io/tensorflow/graph_export.hpp"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "core/make_tensor.hpp"
#include "dispatch/composition.hpp"
#include "graph/call_graph.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/known_values.hpp"
#include "graph/specialize.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "io/composition.hpp"
#include "io/tensorflow/assertions.hpp"
#include "io/tensorflow/count_up_to.hpp"
#include "io/tensorflow/flow_writer.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/kept_node.hpp"
#include "io/tensorflow/left_out.hpp"
#include "io/tensorflow/list_writer.hpp"
#include "io/tensorflow/lookups.hpp"
#include "io/tensorflow/node_writer.hpp"
#include "io/tensorflow/overwritten_reads.hpp"
#include "io/tensorflow/rule_writer.hpp"
#include "io/tensorflow/update_writer.hpp"
#include "io/tensorflow/updates.hpp"
#include "ops/handles.hpp"

namespace tapestry::io {
namespace {

using detail::endpoint_of;
using detail::GraphState;
using detail::GraphVariable;
using detail::Node;
using detail::why_unread;

bool changes_state(const Node& node) {
  return is_update(node) || &node.op() == &assign_op(Assign::set) || &node.op() == &assign_op(Assign::add) ||
         &node.op() == &assign_op(Assign::subtract);
}

/// Whether a node that was not read needs a Variable itself, not its value.
bool refers_to_variable(const Node& node) {
  return why_unread(node) && std::any_of(node.inputs().begin(), node.inputs().end(),
                                         [](const Tensor& input) { return input.dtype() == DType::resource; });
}

void for_inputs(const Node& node, const auto& visit) {
  for (const Tensor& input : node.inputs()) visit(*endpoint_of(input).node);
  for (const Node* control : node.control_inputs) visit(*control);
}

/// Whether a node that was not read calls a function of the file, or such a node is in a function that the node runs.
bool calls_file(const Node& node) {
  if (detail::is_flow(node.op())) {
    const auto& functions = detail::functions_of(node);
    return std::any_of(functions.begin(), functions.end(), [](const detail::GraphFunction& each) {
      for (std::size_t i = 0; i < each.graph->size(); ++i)
        if (calls_file(each.graph->node(i))) return true;
      return false;
    });
  }
  const KeptNode* kept = why_unread(node) ? kept_node(node) : nullptr;
  return kept && std::any_of(kept->def.attrs.begin(), kept->def.attrs.end(),
                             [](const auto& attr) { return names_function(attr.second); });
}

class Exporter {
 public:
  /// `library`: of the file, if the graph is that of a function; nullptr for the graph of the file.
  Exporter(const GraphState& graph, const SaveOptions& options, LibraryWriter* library = nullptr)
      : graph_(graph), options_(options), style_(options.variables), updates_(options.variables), library_(library) {}

  /// `wanted`: by node, whether it is to be written.
  GraphDef run(std::vector<char> wanted) {
    for (std::size_t i = 0; i < graph_.size(); ++i) names_.insert(graph_.node(i).name());
    if (graph_.file && !library_) aliases_ = graph_.file->aliases();
    for (const detail::FileNodes::Alias& each : aliases_) names_.insert(each.name);
    std::vector<detail::FileNodes::Constant> left_out;
    if (graph_.file && !library_) left_out = graph_.file->constants_left_out();
    for (const detail::FileNodes::Constant& each : left_out) names_.keep(each.name, each.value);
    kept_ = std::move(wanted);
    if (style_ == VariableStyle::frozen && !library_)
      drop_changes();  // no function of a frozen graph changes Variables
    for (std::size_t i = 0; i < graph_.size(); ++i)
      if (kept_[i] && is_update(graph_.node(i))) updates_.note(graph_.node(i));
    if (style_ != VariableStyle::frozen && !options_.computed_initial_values) find_initial_values();
    if (style_ == VariableStyle::reference) overwritten_ = overwritten_reads(graph_, kept_);
    if (style_ == VariableStyle::resource && !library_) lookups_.emplace(graph_, kept_);
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      if (!kept_[i]) continue;
      const std::size_t first = file_.nodes.size();
      write(graph_.node(i));
      add_colocation(graph_.node(i), first);
      if (options_.output_shapes && file_.nodes.size() > first) add_output_shapes(graph_.node(i));
    }
    if (lookups_) lookups_->replace_waits(file_.nodes);
    if (!added_initializers_.empty() && !is_served_) write_init();
    if (library_) return std::move(file_);
    write_aliases();
    for (const auto& [name, value, device] : left_out)
      if (names_.keeps(name)) {
        file_.nodes.push_back(constant_def(name, value, device));
        file_.nodes.back().attrs.emplace(hint_left_out, true);
      }
    file_.library = library().bytes();
    return std::move(file_);
  }

  ServedGraph run_for_server() {
    is_served_ = true;
    GraphDef file = run(std::vector<char>(graph_.size(), 1));
    return {std::move(file), std::move(added_initializers_), std::move(added_values_)};
  }

 private:
  // ---- Frozen: the present values of Variables, and no changes of them ----

  void drop_changes() {
    std::vector<std::size_t> uses(graph_.size()), dropped_uses(graph_.size());
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      const bool changes = changes_state(node) || (detail::is_flow(node.op()) && node.outputs().empty() &&
                                                   node.attrs().find("variables") != nullptr);
      if (changes || refers_to_variable(node) || &node.op() == &is_initialized_op || is_count_up_to(node)) kept_[i] = 0;
      for_inputs(node, [&](const Node& input) {
        ++uses[input.index];
        if (!kept_[input.index]) kept_[i] = 0;
      });
    }
    // Leaves that only dropped nodes use are dropped as well. A computed node stays: it may be a wanted result.
    const auto is_leaf = [](const Node& node) { return node.inputs().empty() || &node.op() == &learning_rate_op; };
    for (std::size_t i = graph_.size(); i-- > 0;) {
      const Node& node = graph_.node(i);
      if (kept_[i] && is_leaf(node) && uses[i] > 0 && uses[i] == dropped_uses[i] && &node.op() != &placeholder_op)
        kept_[i] = 0;
      if (!kept_[i]) for_inputs(node, [&](const Node& input) { ++dropped_uses[input.index]; });
    }
  }

  // ---- Variables ----

  /// Makes the present values the initial ones of the file, so that running its initializers restores this state.
  void find_initial_values() {
    std::vector<int> uses(graph_.size());
    for (std::size_t i = 0; i < graph_.size(); ++i)
      for (const Tensor& input : graph_.node(i).inputs()) ++uses[endpoint_of(input).node->index];
    for (const GraphVariable& each : graph_.variables()) {
      if (!each.variable.cell()->is_initialized() || !each.initializer) continue;
      const Node& source = *endpoint_of(each.initializer->input(1)).node;
      if (&source.op() == &const_op && uses[source.index] == 1) {
        replaced_constants_.emplace(&source, each.variable.cell()->load());
      } else {
        saved_values_.emplace(each.initializer, each.variable.cell()->load());
      }
    }
  }

  const GraphVariable* entry_of(const Variable& variable) const {
    for (const GraphVariable& each : graph_.variables())
      if (each.variable.is(variable)) return &each;
    return nullptr;
  }

  void write_handle(NodeWriter& writer) {
    const Node& node = writer.node();
    if (library_ && style_ != VariableStyle::frozen) return;  // an argument of the function stands for it
    const Variable& variable = variable_of(node);
    if (style_ == VariableStyle::frozen) {
      const Tensor value = variable.cell()->load();
      return writer.finish_constant(value);
    }
    FieldList fields{{"container", std::string()}, {"dtype", code_of(variable.dtype())}, {"shape", variable.shape()}};
    if (!variable.trainable()) fields.emplace(hint_not_trainable, true);
    const bool resource = style_ == VariableStyle::resource;
    fields.emplace("shared_name", resource ? node.name() : std::string());
    writer.finish(resource ? "VarHandleOp" : "VariableV2", {}, std::move(fields));
    const GraphVariable* entry = entry_of(variable);
    if (entry && !entry->initializer && variable.cell()->is_initialized()) write_added_initializer(node, variable);
  }

  /// Adds an initializer for a Variable for which the graph has none, such as one that was made outside it.
  void write_added_initializer(const Node& handle, const Variable& variable) {
    NodeWriter writer(handle, file_, names_);
    const Value value = writer.constant("initial_value", variable.cell()->load());
    added_values_.insert(value.name);
    added_initializers_.push_back(add_assign(writer, {handle.name(), value.dtype}, value, handle).name);
  }

  Value add_assign(NodeWriter& writer, const Value& handle, const Value& value, const Node& handle_node) {
    if (style_ == VariableStyle::resource) {
      Value assign =
          writer.op("AssignVariableOp", {handle, value}, value.dtype, {{"dtype", code_of(value.dtype)}}, "Assign");
      file_.nodes.back().attrs.erase("T");
      return assign;
    }
    return writer.op("Assign", {handle, value}, assign_fields(value.dtype, handle_node));
  }

  static FieldList assign_fields(DType dtype, const Node& handle) {
    return {{"T", code_of(dtype)}, {"_class", class_of(handle)}, {"use_locking", true}, {"validate_shape", true}};
  }

  /// Writes a node "init" that runs all initializers, including the added ones. The graph's own node of this name is
  /// extended instead if it runs the graph's initializers.
  void write_init() {
    NodeDef init{.name = "init", .op = "NoOp"};
    for (const GraphVariable& each : graph_.variables())
      if (each.initializer) init.inputs.push_back("^" + each.initializer->name());
    const auto own = std::find_if(file_.nodes.begin(), file_.nodes.end(), [&](const NodeDef& node) {
      return node.name == init.name && node.op == init.op &&
             std::is_permutation(node.inputs.begin(), node.inputs.end(), init.inputs.begin(), init.inputs.end());
    });
    const bool extend = own != file_.nodes.end();
    for (int number = 1; !extend && names_.contains(init.name); ++number) init.name = detail::join("init_", number);
    NodeDef& node = extend ? *own : file_.nodes.emplace_back(std::move(init));
    for (const std::string& each : added_initializers_) node.inputs.push_back("^" + each);
  }

  void write_read(NodeWriter& writer) {
    const Node& handle = *endpoint_of(writer.node().input(0)).node;
    const TypeCode type = code_of(variable_of(writer.node()).dtype());
    const std::vector<std::string> inputs{handle.name()};
    if (style_ == VariableStyle::resource) return writer.finish("ReadVariableOp", inputs, {{"dtype", type}});
    FieldList fields{{"T", type}};
    if (style_ == VariableStyle::reference) fields.emplace("_class", class_of(handle));
    if (!overwritten_.contains(&writer.node())) return writer.finish("Identity", inputs, std::move(fields));
    const DType dtype = variable_of(writer.node()).dtype();
    const Value memory = writer.op("Identity", {{handle.name(), dtype}}, dtype, std::move(fields));
    writer.finish("DeepCopy", {memory.name}, {{"T", type}});
  }

  void write_assign(NodeWriter& writer) {
    const Node& node = writer.node();
    const Node& handle = *endpoint_of(node.input(0)).node;
    const DType dtype = variable_of(node).dtype();
    std::vector<std::string> inputs{handle.name(), writer.in(1).name};
    if (const auto saved = saved_values_.find(&node); saved != saved_values_.end()) {
      NodeWriter beside(handle, file_, names_);
      inputs[1] = beside.constant("saved_value", saved->second).name;
    }
    if (style_ == VariableStyle::resource) return writer.finish(node.type(), inputs, {{"dtype", code_of(dtype)}});
    const std::string name = node.type().substr(0, node.type().find("VariableOp"));
    FieldList fields = assign_fields(dtype, handle);
    if (name != "Assign") {
      fields.insert_or_assign("use_locking", false);
      fields.erase("validate_shape");
    }
    writer.finish(name, inputs, std::move(fields));
  }

  // ---- Functions ----

  /// The functions of the file; at first those that nodes call which were not read.
  LibraryWriter& library() {
    if (library_) return *library_;
    if (own_library_) return *own_library_;
    bool is_needed = false;
    for (std::size_t i = 0; graph_.file && i < graph_.size() && !is_needed; ++i)
      is_needed = kept_[i] && calls_file(graph_.node(i));
    return own_library_.emplace(is_needed ? graph_.file->library() : std::string_view());
  }

  void write_functions(NodeWriter& writer) {
    const auto nodes_of = [&](const detail::GraphFunction& function) {
      const std::lock_guard lock(function.graph->mutex());
      Exporter inner(*function.graph, options_, &library());
      for (const Tensors* each : {&function.inputs, &function.outputs})
        for (const Tensor& tensor : *each)
          if (tensor) inner.passed_.insert(tensor.id());
      return inner.run(detail::needed_nodes(*function.graph, detail::request_for(function, {}))).nodes;
    };
    const auto handle_of = [&](const Variable& variable) {
      const GraphVariable* entry = entry_of(variable);
      if (!entry) refuse(writer.node(), detail::join("the graph does not have the Variable '", variable.name(), "'"));
      return entry->name;
    };
    const auto is_list = [&](const Tensor& tensor) { return lists().contains(tensor.id()); };
    write_flow(writer, file_, names_, {nodes_of, handle_of, is_list, library(), style_});
  }

  /// The stacked outputs of loops, by id, that are used, and only by other loops as sequences.
  const std::unordered_set<std::int64_t>& lists() {
    if (lists_) return *lists_;
    lists_.emplace();
    std::unordered_set<std::int64_t> others = passed_;
    for (const detail::FileNodes::Alias& each : aliases_)
      for (const Tensor& output : each.outputs)
        if (bool(output) && !each.is_loop) others.insert(output.id());
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      std::size_t begin = 0, end = 0;  // the sequences, of which a composition makes tensors
      if (detail::is_while(node.op()) && !detail::is_replayed(node)) {
        const detail::WhileParts parts(node);
        begin = parts.carried;
        end = begin + parts.sequences;
      }
      for (std::size_t k = 0; kept_[i] && k < node.inputs().size(); ++k) {
        const auto [source, number] = endpoint_of(node.input(k));
        const bool is_stacked =
            detail::is_while(source->op()) && std::cmp_greater_equal(number, detail::WhileParts(*source).carried);
        (is_stacked && k >= begin && k < end ? *lists_ : others).insert(node.input(k).id());
      }
    }
    std::erase_if(*lists_, [&](std::int64_t id) { return others.contains(id); });
    return *lists_;
  }

  // ---- Nodes ----

  void write(const Node& node) {
    NodeWriter writer(node, file_, names_);
    const Op& op = node.op();
    if (updates_.is_rate(node)) return updates_.write_rate(writer);
    if (&op == &learning_rate_op) return updates_.write_composed_numbers(writer);
    if (&op == &var_handle_op) return write_handle(writer);
    if (&op == &read_variable_op) return write_read(writer);
    if (&op == &is_initialized_op) return write_is_initialized(writer);
    if (is_count_up_to(node))
      return write_count_up_to(writer, style_ == VariableStyle::resource, class_of(detail::producer_of(node.input(0))));
    if (lookups_ && lookups_->contains(node)) return lookups_->write(writer);
    if (is_update(node)) return updates_.write_update(writer);
    if (changes_state(node)) return write_assign(writer);
    if (&op == &no_op_op) return writer.finish("NoOp", {}, {});
    if (const KeptNode* kept = kept_node(node)) return write_kept(writer, kept->def);
    if (is_assertion(node))
      return write_assertion(writer, [&](const std::string& name) {
        const Node* text = graph_.find(name);
        return text && kept_[text->index];
      });
    require_types(node);
    if (detail::is_replayed(node)) return write_replay(writer);
    if (detail::is_flow(op)) return write_functions(writer);
    if (&op == &const_op) {
      const auto replaced = replaced_constants_.find(&node);
      const Tensor value = replaced == replaced_constants_.end() ? node.attr<Tensor>("value") : replaced->second;
      return writer.finish_constant(value);
    }
    if (&op == &placeholder_op)
      return writer.finish("Placeholder", {},
                           {{"dtype", code_of(node.output().dtype())}, {"shape", node.attr<Shape>("shape")}});
    if (node.attrs().find("communicator")) refuse(node, "a file does not know the ranks among which it communicates");
    if (&op == &symbolic_gradient_op())
      refuse(node,
             "this gradient depends on a rank that is not known yet; give the placeholders it depends on a shape");
    if (node.attrs().find("redo") && &op != &ops::matmul)
      refuse(node, "what it does depends on a rank that is not known yet; give the placeholders it depends on a shape");
    const OpRule* rule = rule_of(node.type());
    // An op whose attributes no hint can tell, such as tensors.
    if (!rule && op.composition) return write_replay(writer);
    if (!rule || rule->entry != &op) refuse(node, "TensorFlow has no op that does the same");
    if (rule->by_entry) require_plain_attrs(node);
    if (is_written_directly(*rule, node)) return write_by_rule(writer, *rule);
    if (!rule->expand && !op.composition) refuse(node, "TensorFlow's op of that name cannot do this");
    if (lacks_ranks(node)) refuse(node, "the rank of an input is not known yet");
    if (rule->expand) {
      rule->expand(writer);
    } else {
      write_composition(writer);
    }
    writer.finish_expanded(writer.result);
  }

  void write_replay(NodeWriter& writer) {
    write_composition(writer);
    std::vector<std::string> results;
    ListDef types;
    for (const Value& each : writer.result) {
      results.push_back(each.name);
      types.types.push_back(code_of(each.dtype));
    }
    writer.finish("IdentityN", results, {{"T", std::move(types)}});
  }

  /// Writes the composition of the node's op, as nodes in the node's scope.
  void write_composition(NodeWriter& writer) {
    const Composing inside(writer.node());
    const ComposedGraph composed = compose(writer.node());
    GraphDef file = std::exchange(file_, {});
    FileNames names = std::exchange(names_, {});
    for (std::size_t i = 0; i < composed.graph->size(); ++i) names_.insert(composed.graph->node(i).name());
    for (std::size_t i = composed.inputs.size(); i < composed.graph->size(); ++i) write(composed.graph->node(i));
    file.nodes.swap(file_.nodes);
    names_ = std::move(names);
    std::vector<Value> given;
    for (std::size_t i = 0; i < composed.inputs.size(); ++i) given.push_back(writer.in(i));
    writer.add_inner(std::move(file.nodes), composed.inputs, given, composed.outputs);
  }

  void write_is_initialized(NodeWriter& writer) const {
    const Node& handle = detail::producer_of(writer.node().input(0));
    if (style_ == VariableStyle::resource) return writer.finish("VarIsInitializedOp", {handle.name()}, {});
    writer.finish("IsVariableInitialized", {handle.name()},
                  {{"_class", class_of(handle)}, {"dtype", code_of(variable_of(handle).dtype())}});
  }

  /// Writes the node as the file that it was read from had it.
  void write_kept(NodeWriter& writer, const NodeDef& def) {
    const Node& node = writer.node();
    const bool unread = why_unread(node) != nullptr;
    if (!unread && is_list_op(def.op))
      return write_list_op(writer, NodeAdder(file_.nodes, names_, node.name() + "/", node.device), def);
    if (is_other_op(def.op) && !unread && write_foreign(writer, def)) return;
    if (is_other_op(def.op))
      refuse(node, unread ? "it is no op of Tapestry's or TensorFlow's"
                          : "its attributes depend on sizes that are not known");
    if (refers_to_variable(node) && takes_reference(def.op) != (style_ == VariableStyle::reference))
      refuse(node, detail::join("it refers to a Variable as VariableStyle::",
                                takes_reference(def.op) ? "reference" : "resource", " has it"));
    const bool is_unread_loop = def.attrs.contains(hint_unread);
    if (is_unread_loop || (def.flow && std::none_of(def.attrs.begin(), def.attrs.end(),
                                                    [](const auto& attr) { return names_function(attr.second); })))
      refuse(node,
             "it was read from several nodes, as TensorFlow 1 has branches and loops, and Tapestry lacks a part of it");
    FieldList fields;
    for (const auto& [name, value] : def.attrs)
      if (unread ? name != "_class" : !name.starts_with('_')) fields.emplace(name, value);
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < node.inputs().size(); ++i) inputs.push_back(writer.in(i).name);
    if (!unread && takes_key_and_counter(def.op)) give_bits(node, inputs);
    writer.finish(def.op, inputs, std::move(fields));
  }

  static bool takes_key_and_counter(std::string_view op) {
    return op == "StatelessShuffle" || op == "StatelessRandomGammaV3" ||
           (op.starts_with("Stateless") && op.ends_with("V2") && op != "StatelessRandomGammaV2");
  }
  /// TensorFlow's keys and counters of random numbers are uint64, and are int64 here, but for what its own op gives.
  void give_bits(const Node& node, std::vector<std::string>& inputs) {
    NodeAdder add(file_.nodes, names_, node.name() + "/", node.device);
    for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
      const KeptNode* source = i < inputs.size() ? kept_node(detail::producer_of(node.input(i))) : nullptr;
      if (i < inputs.size() && !(source && source->def.op.starts_with("StatelessRandomGetKeyCounter")))
        inputs[i] = add.op("Bitcast", {inputs[i]}, {{"T", code_of(int64)}, {"type", TypeCode{23}}});
    }
  }

  /// Writes a node of another format that waits for sizes; returns false if TensorFlow has no nodes that do the same.
  bool write_foreign(NodeWriter& writer, const NodeDef& def) {
    const Node& node = writer.node();
    const ForeignOp* op = find_foreign_op(def);
    if (!op || !op->write) return false;
    const std::vector<io::Source> sources(node.inputs().size());
    Tensors constants(node.inputs().size());
    for (std::size_t i = 0; i < node.inputs().size(); ++i) constants[i] = detail::KnownValues().find(node.input(i));
    NodeAdder add(file_.nodes, names_, node.name() + "/", node.device);
    const std::vector<std::string> outputs = op->write(NodeReader(def, sources, constants), node.inputs(), add);
    if (outputs.size() < node.outputs().size()) return false;
    ListDef types;
    for (const Tensor& each : node.outputs()) types.types.push_back(code_of(each.dtype()));
    if (outputs.size() == 1) {
      writer.finish("Identity", outputs, {{"T", types.types[0]}});
    } else {
      writer.finish("IdentityN", {outputs.begin(), outputs.begin() + types.types.size()}, {{"T", types}});
    }
    return true;
  }

  /// Lets the nodes of the file that the graph was read from have their outputs again where these are outputs of other
  /// nodes in our graph.
  void write_aliases() {
    for (const detail::FileNodes::Alias& each : aliases_) {
      Tensors outputs = each.outputs;
      for (Tensor& output : outputs)
        if (!has_value(output) || (each.is_loop && lists().contains(output.id()))) output = Tensor();
      while (!outputs.empty() && !outputs.back()) outputs.pop_back();
      if (outputs.empty()) continue;
      NodeDef alias{.name = each.name, .op = "IdentityN"};
      ListDef types;
      for (const Tensor& output : outputs) {
        types.types.push_back(code_of(output ? output.dtype() : float32));
        alias.inputs.push_back(output ? endpoint_name(output) : lacking_output(each.name));
      }
      alias.attrs = {{std::string(hint_loop), true}};
      if (outputs.size() == 1) {
        alias.op = "Identity";
        alias.attrs.emplace("T", types.types[0]);
      } else {
        alias.attrs.emplace("T", std::move(types));
      }
      file_.nodes.push_back(std::move(alias));
    }
  }
  /// What takes the place of an output that the graph lacks, so that the later ones keep their numbers: NaN.
  std::string lacking_output(const std::string& node) {
    return NodeAdder(file_.nodes, names_, node + "/", {})
        .constant("lacking", detail::make_scalar(std::numeric_limits<double>::quiet_NaN(), float32));
  }
  /// Whether the tensor is that of a node that is written, and no handle.
  bool has_value(const Tensor& tensor) const {
    return bool(tensor) && tensor.is_symbolic() && tensor.dtype() != DType::unknown &&
           tensor.dtype() != DType::resource && kept_[endpoint_of(tensor).node->index];
  }

  static void require_plain_attrs(const Node& node) {
    for (const Attr& each : node.attrs())
      if (std::holds_alternative<std::monostate>(attr_def(each.value)))
        refuse(node, detail::join("its attribute '", each.name, "' is no part of a file"));
  }

  static void require_types(const Node& node) {
    for (const Tensor& each : node.outputs())
      if (each.dtype() == DType::unknown)
        refuse(node, "its dtype is not known yet; give the placeholders it depends on a dtype and a shape");
  }

  /// Adds the colocation of a node to the nodes of the file from `first` on, which were written for it.
  void add_colocation(const Node& node, std::size_t first) {
    const Node* other = graph_.find(node.colocation);
    if (!other || !kept_[other->index]) return;
    for (std::size_t i = first; i < file_.nodes.size(); ++i) file_.nodes[i].attrs.emplace("_class", class_of(*other));
  }

  void add_output_shapes(const Node& node) {
    if (why_unread(node)) return;  // nor is it known how many outputs there are
    ListDef shapes{.shapes = written_shapes(node)};
    if (shapes.shapes.empty()) return;
    const auto own = std::find_if(file_.nodes.rbegin(), file_.nodes.rend(),
                                  [&](const NodeDef& def) { return def.name == node.name(); });
    own->attrs.insert_or_assign("_output_shapes", std::move(shapes));
  }

  /// One shape for each output of TensorFlow's op. These outputs need not be those of our op.
  std::vector<Shape> written_shapes(const Node& node) const {
    const bool resource = style_ == VariableStyle::resource;
    // The node of an optimizer's numbers is written as the learning rate alone.
    if (updates_.is_rate(node)) return {Shape()};
    // A handle is a scalar. The other styles have the Variable, or its value, instead.
    if (&node.op() == &var_handle_op) return {resource ? Shape() : variable_of(node).shape()};
    // An op that changes a reference returns the reference.
    if (changes_state(node)) return resource ? std::vector<Shape>() : std::vector{variable_of(node).shape()};
    std::vector<Shape> shapes;
    for (const Tensor& each : node.outputs()) shapes.push_back(each.shape());
    return shapes;
  }

  const GraphState& graph_;
  const SaveOptions& options_;
  VariableStyle style_;
  GraphDef file_;
  FileNames names_;
  std::vector<detail::FileNodes::Alias> aliases_;
  std::vector<char> kept_;
  UpdateWriter updates_;
  std::unordered_map<const Node*, Tensor> replaced_constants_;  ///< values for constants that are initial values
  std::unordered_map<const Node*, Tensor> saved_values_;        ///< values for initializers whose own one is computed
  std::vector<std::string> added_initializers_;
  std::set<std::string> added_values_;           ///< the constants that these assign
  std::unordered_set<const Node*> overwritten_;  ///< the reads of which TensorFlow needs a copy
  bool is_served_ = false;                       ///< who sends the graph runs the added initializers
  std::optional<Lookups> lookups_;
  std::unordered_set<std::int64_t> passed_;  ///< of a function: the tensors that it is given or returns, by id
  std::optional<std::unordered_set<std::int64_t>> lists_;
  LibraryWriter* library_;
  std::optional<LibraryWriter> own_library_;
};

}  // namespace

/// By node: whether it is there for more than the name of a tensor.
static std::vector<char> all_nodes(const GraphState& graph) {
  std::vector<char> wanted(graph.size(), 1);
  if (!graph.file) return wanted;
  for (std::size_t i = 0; i < graph.size(); ++i)
    if (graph.file->only_names(graph.node(i))) wanted[i] = 0;
  for (std::size_t i = graph.size(); i-- > 0;)
    if (wanted[i]) for_inputs(graph.node(i), [&](const Node& input) { wanted[input.index] = 1; });
  return wanted;
}

GraphDef export_graph(const GraphState& graph, const SaveOptions& options) {
  const std::lock_guard lock(graph.mutex());
  return Exporter(graph, options).run(all_nodes(graph));
}

ServedGraph export_for_server(const GraphState& graph) {
  const std::lock_guard lock(graph.mutex());
  const SaveOptions options{.computed_initial_values = true};
  return Exporter(graph, options).run_for_server();
}

GraphDef export_part(const GraphState& graph, const SaveOptions& options, const Tensors& tensors,
                     const std::vector<Node*>& operations) {
  const std::lock_guard lock(graph.mutex());
  std::vector<char> needed =
      detail::needed_nodes(graph, {.fetches = tensors, .operations = operations, .feeds = {}, .fed = {}});
  // The handles of Variables that a branch or loop changes are inputs of it in the file only.
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const auto* changed = needed[i] ? graph.node(i).attrs().find<VariablesRef>("variables") : nullptr;
    if (!changed) continue;
    for (const detail::GraphVariable& each : graph.variables())
      if (std::any_of((*changed)->begin(), (*changed)->end(), [&](const Variable& v) { return v.is(each.variable); }))
        needed[detail::producer_of(each.handle).index] = 1;
  }
  return Exporter(graph, options).run(needed);
}

}  // namespace tapestry::io
