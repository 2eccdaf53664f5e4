#include "io/tensorflow/flow_writer.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/list_writer.hpp"
#include "io/tensorflow/op_outputs.hpp"

namespace tapestry::io {
namespace {

using detail::Node;
using detail::WhileParts;

// ---- Variables --------------------------------------------------------------------------------------------------------

void add_variable(std::vector<Variable>& list, const Variable& variable) {
  if (std::none_of(list.begin(), list.end(), [&](const Variable& each) { return each.is(variable); }))
    list.push_back(variable);
}

/// Finds the Variables that a function reads or changes itself, or that functions in it do.
void find_variables(const detail::GraphFunction& function, std::vector<Variable>& list) {
  const std::vector<char> needed = detail::needed_nodes(*function.graph, detail::request_for(function, {}));
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = function.graph->node(i);
    if (!needed[i]) continue;
    if (&node.op() == &var_handle_op) add_variable(list, node.attr<VariablesRef>("variables")->front());
    if (detail::is_flow(node.op()))
      for (const detail::GraphFunction& each : detail::functions_of(node)) find_variables(each, list);
  }
}

// ---- Functions --------------------------------------------------------------------------------------------------------

/// A function of the file while it is made. Until `finish`, its nodes refer to each other as those of a graph do.
class FunctionBuilder {
 public:
  FunctionBuilder(const detail::GraphFunction& function, std::string name, const std::string& device)
      : function_(function), add(nodes_, names_, {}, device) {
    def_.name = std::move(name);
    const std::vector<char> needed = detail::needed_nodes(*function.graph, detail::request_for(function, {}));
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) names_.insert(function.graph->node(i).name());
    for (const Tensor& each : function.inputs)
      if (bool(each) && names_.insert(detail::producer_of(each).name()).second)
        own_.insert(detail::producer_of(each).name());
  }

 private:
  // The members that `add` refers to are declared first.
  const detail::GraphFunction& function_;
  FunctionDef def_;
  std::vector<NodeDef> nodes_;
  FileNames names_;
  std::unordered_set<std::string> own_;                 ///< names that are kept for arguments
  std::unordered_map<std::string, std::string> given_;  ///< by the name of a tensor of the graph: what stands for it

 public:
  NodeAdder add;

  /// Adds an argument. `tensor`: of the graph, for which it stands and whose name it has; may be empty.
  std::string argument(std::string label, TypeCode type, const Tensor& tensor = {}) {
    if (tensor) label = detail::producer_of(tensor).name();
    if (bool(tensor) && own_.erase(label) > 0) names_.erase(label);
    std::string name = add.unique(allowed(label));
    names_.insert(label);
    def_.inputs.push_back({.name = name, .type = type});
    if (tensor) give(tensor, name);
    return name;
  }
  /// Lets a name stand for a tensor of the graph.
  void give(const Tensor& tensor, const std::string& name) { given_.insert_or_assign(endpoint_name(tensor), name); }
  void give(const std::string& tensor, const std::string& name) { given_.insert_or_assign(tensor, name); }

  void add_nodes(std::vector<NodeDef> nodes) {
    for (NodeDef& each : nodes) nodes_.push_back(std::move(each));
  }
  std::string output_of(const Tensor& tensor) const { return endpoint_name(tensor); }

  void returns(const std::string& name, TypeCode type) {
    const std::string output = detail::join("output_", def_.outputs.size());
    def_.outputs.push_back({.name = output, .type = type});
    def_.returns.emplace(output, name);
  }

  FunctionDef finish(bool is_stateful) {
    std::unordered_map<std::string_view, const NodeDef*> ops;
    for (const NodeDef& each : nodes_) ops.emplace(each.name, &each);
    for (const Node* each : function_.operations)
      if (ops.contains(each->name())) def_.control_returns.push_back(each->name());
    const auto reference = [&](const std::string& input) { return reference_to(input, ops); };
    for (auto& [output, input] : def_.returns) input = reference(input);
    std::vector<NodeDef> nodes = nodes_;
    for (NodeDef& each : nodes) {
      std::erase_if(each.inputs, [&](const std::string& input) {
        return input.starts_with('^') && !ops.contains(std::string_view(input).substr(1));
      });
      for (std::string& input : each.inputs) input = reference(input);
      if (const auto hint = each.attrs.find(hint_inputs); hint != each.attrs.end())
        for (std::string& input : std::get<ListDef>(hint->second).strings) input = reference(input);
    }
    def_.nodes = std::move(nodes);
    def_.is_stateful = is_stateful;
    return std::move(def_);
  }

 private:
  /// The characters that the name of an argument may have.
  static std::string allowed(std::string name) {
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    if (name.empty() || !std::isalpha(static_cast<unsigned char>(name[0]))) name = "input_" + name;
    return name;
  }

  /// An input as the nodes of a function have it: "argument", "node:output:index", "^node".
  std::string reference_to(const std::string& input,
                           const std::unordered_map<std::string_view, const NodeDef*>& ops) const {
    if (input.starts_with('^')) return input;
    if (const auto found = given_.find(input); found != given_.end()) {
      const auto node = ops.find(found->second);
      return node == ops.end() ? found->second : detail::join(found->second, ":", output_in_function(*node->second, 0));
    }
    const std::size_t colon = input.rfind(':');
    const std::string name = input.substr(0, colon);
    const std::int64_t number = colon == std::string::npos ? 0 : std::stoll(input.substr(colon + 1));
    const auto node = ops.find(name);
    if (node == ops.end()) return input;  // an argument
    return detail::join(name, ":", output_in_function(*node->second, number));
  }
};

// ---- Flow -------------------------------------------------------------------------------------------------------------

class FlowWriter {
 public:
  FlowWriter(NodeWriter& writer, GraphDef& file, FileNames& names, const FlowContext& context)
      : writer_(writer),
        node_(writer.node()),
        context_(context),
        add_(file.nodes, names, node_.name() + "/", node_.device) {
    for (const detail::GraphFunction& each : detail::functions_of(node_)) find_variables(each, variables_);
    const bool changes = node_.attrs().find("variables") != nullptr;
    if (context.style == VariableStyle::frozen) {
      if (changes) refuse(node_, "it changes Variables, and VariableStyle::frozen has none");
      variables_.clear();
    }
    if (context.style == VariableStyle::reference && !variables_.empty())
      refuse(node_, detail::join("its functions read or change the Variable '", variables_[0].name(),
                                 "', which VariableStyle::reference cannot pass to a function; "
                                 "VariableStyle::resource can"));
  }

  void write() {
    if (detail::is_while(node_.op())) return write_loop();
    write_branches();
  }

 private:
  bool is_stateful() const { return node_.op().stateful || guards_reads_; }

  std::string function_name(const std::string& label) {
    std::string name = node_.name();
    std::replace(name.begin(), name.end(), '/', '_');
    return name + "_" + label;
  }

  ListDef types(std::size_t first_input) const {
    ListDef list;
    for (std::size_t i = first_input; i < node_.inputs().size(); ++i)
      list.types.push_back(guarded_handle(i) ? resource_type : code_of(node_.input(i).dtype()));
    list.types.insert(list.types.end(), variables_.size(), resource_type);
    return list;
  }

  /// Adds the arguments for the Variables, and the nodes of the function.
  void add_body(FunctionBuilder& builder, const detail::GraphFunction& function) {
    for (const Variable& each : variables_) {
      const std::string name = builder.argument(each.name(), resource_type);
      for (const detail::GraphVariable& entry : function.graph->variables())
        if (entry.variable.is(each)) builder.give(entry.handle, name);
      handle_arguments_.push_back(name);
    }
    builder.add_nodes(context_.nodes_of(function));
  }

  // ---- Branches ----

  /// The handle of the Variable that an input is the value of, if the condition is whether it has been initialized: in
  /// TensorFlow, the read fails outside the branch. An empty handle for any other input.
  Tensor guarded_handle(std::size_t i) const {
    if (i == 0 || context_.style != VariableStyle::resource || !detail::is_if(node_.op())) return {};
    const auto source_of = [](const Tensor& tensor) -> const Node& {
      const Node* node = &detail::producer_of(tensor);
      while (node->op().movement == Movement::keeps) node = &detail::producer_of(node->input(0));
      return *node;
    };
    const Node &condition = source_of(node_.input(0)), &read = source_of(node_.input(i));
    const bool is_guarded = &condition.op() == &is_initialized_op && &read.op() == &read_variable_op &&
                            read.control_inputs.empty() && read.input(0).is(condition.input(0));
    return is_guarded ? read.input(0) : Tensor();
  }

  void write_branches() {
    for (std::size_t i = 1; i < node_.inputs().size(); ++i) guards_reads_ |= bool(guarded_handle(i));
    std::vector<FunctionDef> branches;
    for (const detail::GraphFunction& each : detail::functions_of(node_)) branches.push_back(branch(each));
    const std::vector<std::string> functions = context_.library.add(std::move(branches));
    std::vector<std::string> inputs;
    for (std::size_t i = 0; i < node_.inputs().size(); ++i) {
      const Tensor handle = guarded_handle(i);
      inputs.push_back(handle ? endpoint_name(handle) : writer_.in(i).name);
    }
    for (const Variable& each : variables_) inputs.push_back(context_.handle_of(each));
    ListDef outputs, shapes;
    for (std::size_t i = 0; i < node_.outputs().size(); ++i) {
      outputs.types.push_back(code_of(node_.output(i).dtype()));
      shapes.shapes.push_back(is_open(i) ? Shape::unknown_rank() : node_.output(i).shape());
    }
    FieldList fields{{"Tin", types(1)}, {"Tout", outputs}, {"output_shapes", shapes}};
    if (detail::is_if(node_.op())) {
      fields.emplace("Tcond", code_of(boolean));
      fields.emplace("then_branch", function_attr(functions[0]));
      fields.emplace("else_branch", function_attr(functions[1]));
    } else {
      fields.emplace("branches", functions_attr(functions));
    }
    writer_.finish(guards_reads_ ? "If" : node_.type(), inputs, std::move(fields));
  }

  /// Whether a branch does not give an output whose shape is not known, so that its value has another shape there.
  bool is_open(std::size_t output) const {
    const std::vector<detail::GraphFunction>& branches = detail::functions_of(node_);
    return !node_.output(output).shape().is_known() &&
           std::any_of(branches.begin(), branches.end(),
                       [&](const detail::GraphFunction& each) { return !each.outputs[output]; });
  }

  FunctionDef branch(const detail::GraphFunction& branch) {
    FunctionBuilder builder(branch, function_name(branch.name), node_.device);
    for (std::size_t i = 0; i < branch.inputs.size(); ++i) {
      const std::string label = detail::join("unused_", i);
      const TypeCode dtype = code_of(node_.input(i + 1).dtype());
      if (!guarded_handle(i + 1)) {
        builder.argument(label, dtype, branch.inputs[i]);
        continue;
      }
      const std::string handle = builder.argument(label, resource_type);
      if (const Tensor& value = branch.inputs[i])
        builder.give(value, builder.add.op("ReadVariableOp", {handle}, {{"dtype", dtype}}));
    }
    add_body(builder, branch);
    for (std::size_t i = 0; i < branch.outputs.size(); ++i) {
      const Tensor& output = branch.outputs[i];
      const Spec spec = node_.output(i).spec();
      builder.returns(output ? builder.output_of(output) : absent(builder.add, spec), code_of(spec.dtype));
    }
    return builder.finish(is_stateful());
  }

  /// What stands for an output that a branch does not give: zeros, of which there are none along unknown axes.
  static std::string absent(NodeAdder& add, const Spec& spec) {
    const std::string dims = add.shape("absent/dims", spec.shape.has_rank() ? none_of(spec.shape) : Shape{0});
    const std::string zero = add.constant("absent/value", detail::make_scalar(0, spec.dtype));
    return add.op("Fill", {dims, zero},
                  {{"T", code_of(spec.dtype)}, {"index_type", code_of(int32)}, {std::string(hint_absent), true}},
                  "absent");
  }

  // ---- Loops ----
  //
  // As TensorFlow has it, the loop variables are [loop_counter, maximum_iterations, carried..., the lists that are
  // stacked..., the lists of the sequences' elements..., operands..., the shapes of the elements of lists...,
  // Variables...]: its gradients rely on the first two.
  //
  // TensorFlow stacks elements of equal shapes only. Where a branch that was not taken has an empty one, the list has
  // no element, in whose place TensorFlow stacks zeros; and the loop keeps the greatest shape that an element has had.

  void write_loop() {
    const WhileParts parts(node_);
    bounded_ = parts.sequences > 0 || parts.maximum >= 0;
    reserves_ = !parts.condition;
    std::vector<std::string> inputs{add_.number("loop_counter", 0), limit(parts)};
    ListDef types{.types = {code_of(int32), code_of(int32)}}, shapes{.shapes = {Shape(), Shape()}};
    const auto add_variable = [&](const std::string& input, TypeCode type, const Shape& shape) {
      inputs.push_back(input);
      types.types.push_back(type);
      shapes.shapes.push_back(shape);
    };
    for (std::size_t i = 0; i < parts.carried; ++i)
      add_variable(writer_.in(i).name, code_of(node_.input(i).dtype()),
                   parts.may_vary(i) ? parts.body.inputs[i].shape() : node_.input(i).shape());
    require_lists(parts);
    for (std::size_t i = parts.carried; i < node_.outputs().size(); ++i)
      add_variable(new_list(node_.output(i).spec(), inputs[1]), variant_type, Shape());
    const std::size_t operands = parts.carried + parts.sequences;
    for (std::size_t i = parts.carried; i < operands; ++i) add_variable(sequence(i), variant_type, Shape());
    for (std::size_t i = operands; i < node_.inputs().size(); ++i)
      add_variable(writer_.in(i).name, code_of(node_.input(i).dtype()), node_.input(i).shape());
    for (std::size_t i = parts.carried; i < node_.outputs().size(); ++i) {
      const Shape element = without_axis_0(node_.output(i).shape());
      if (context_.is_list(node_.output(i)) || element.rank() < 1 || element.is_known() ||
          !detail::may_lack_elements(node_.output(i)))
        continue;
      lacking_.push_back(i - parts.carried);
      add_variable(add_.shape("element_shape", none_of(element)), code_of(int32), {element.rank()});
    }
    for (const Variable& each : variables_) add_variable(context_.handle_of(each), resource_type, Shape());
    const std::vector<std::string> functions = context_.library.add({condition(parts, types), body(parts, types)});
    AttrDefs attrs{{"T", types},
                   {"output_shapes", shapes},
                   {"parallel_iterations", std::int64_t{10}},
                   {std::string(hint_loop), true},
                   {std::string(hint_carried), static_cast<std::int64_t>(parts.carried)},
                   {"cond", function_attr(functions[0])},
                   {"body", function_attr(functions[1])}};
    if (node_.attrs().find("recompute")) attrs.emplace(hint_recompute, true);
    if (ListDef ragged = ragged_variables(parts); !ragged.ints.empty()) attrs.emplace(hint_ragged, std::move(ragged));
    add_control_inputs(names_of(node_.control_inputs), inputs);
    write_results(parts, types, add_.op(node_.type(), inputs, std::move(attrs), "While"));
  }

  /// The loop variables that are lists of elements of different shapes.
  ListDef ragged_variables(const WhileParts& parts) const {
    const auto first = static_cast<std::int64_t>(2 + parts.carried);
    ListDef variables;
    for (const std::int64_t each : parts.ragged_stacks) variables.ints.push_back(first + each);
    const auto stacks = static_cast<std::int64_t>(node_.outputs().size() - parts.carried);
    for (const std::int64_t each : parts.ragged_sequences) variables.ints.push_back(first + stacks + each);
    return variables;
  }

  /// Only as lists, stacks of tensors of different shapes are in files.
  void require_lists(const WhileParts& parts) const {
    const auto require = [&](const Tensor& stack) {
      if (!context_.is_list(stack))
        throw UnimplementedError(detail::join("The loop '", node_.name(), "' stacks tensors whose shapes differ from ",
                                              "iteration to iteration, but '", stack.name(), "' is no list"));
    };
    for (const std::int64_t each : parts.ragged_stacks)
      require(node_.output(parts.carried + static_cast<std::size_t>(each)));
    for (const std::int64_t each : parts.ragged_sequences)
      require(node_.input(parts.carried + static_cast<std::size_t>(each)));
  }

  /// The greatest number of iterations; -1 for any number.
  std::string limit(const WhileParts& parts) {
    if (parts.sequences == 0) return add_.number("maximum_iterations", parts.maximum);
    const Shape& shape = node_.input(parts.carried).shape();
    const std::int64_t length = shape.has_rank() ? shape.sizes()[0] : -1;
    if (length >= 0)
      return add_.number("maximum_iterations", parts.maximum >= 0 ? std::min(parts.maximum, length) : length);
    if (context_.is_list(node_.input(parts.carried)))
      return add_.op("TensorListLength", {writer_.in(parts.carried).name}, {}, "maximum_iterations");
    const std::string all = add_.typed("Shape", {writer_.in(parts.carried).name}, node_.input(parts.carried).dtype());
    const std::string begin = add_.shape("begin", {0}), end = add_.shape("end", {1}), step = add_.shape("strides", {1});
    std::string size =
        add_.op("StridedSlice", {all, begin, end, step},
                {{"T", code_of(int32)}, {"Index", code_of(int32)}, {"shrink_axis_mask", std::int64_t{1}}},
                "maximum_iterations");
    if (parts.maximum < 0) return size;
    return add_.whole("Minimum", size, add_.number("maximum", parts.maximum));
  }

  /// The list of the elements of a sequence.
  std::string sequence(std::size_t input) {
    if (context_.is_list(node_.input(input))) return writer_.in(input).name;
    return list_of(add_, writer_.in(input).name, node_.input(input).spec(), hint_loop);
  }

  std::string new_list(const Spec& stacked, const std::string& length) {
    const std::string shape = add_.shape("element_shape", without_axis_0(stacked.shape));
    if (reserves_) return add_.op("TensorListReserve", {shape, length}, element_attrs(stacked.dtype));
    return add_.op("EmptyTensorList", {shape, add_.number("max_num_elements", -1)}, element_attrs(stacked.dtype));
  }

  /// The arguments of one of the loop's functions, by the number of the loop variable.
  std::vector<std::string> add_arguments(FunctionBuilder& builder, const WhileParts& parts, const ListDef& types,
                                         const detail::GraphFunction& function, bool takes_sequences) {
    std::vector<std::string> names{builder.argument("loop_counter", code_of(int32)),
                                   builder.argument("maximum_iterations", code_of(int32))};
    const std::size_t lists = node_.outputs().size() - parts.carried, operands = parts.carried + parts.sequences;
    for (std::size_t i = 0; i < parts.carried; ++i)
      names.push_back(builder.argument(detail::join("variable_", i), types.types[2 + i], function.inputs[i]));
    for (std::size_t i = 0; i < lists; ++i) names.push_back(builder.argument("stacked", variant_type));
    for (std::size_t i = 0; i < parts.sequences; ++i) names.push_back(builder.argument("sequence", variant_type));
    for (std::size_t i = operands; i < node_.inputs().size(); ++i)
      names.push_back(builder.argument(detail::join("operand_", i), code_of(node_.input(i).dtype()),
                                       function.inputs[takes_sequences ? i : i - parts.sequences]));
    for (std::size_t i = 0; i < lacking_.size(); ++i) names.push_back(builder.argument("shape", code_of(int32)));
    return names;
  }

  FunctionDef condition(const WhileParts& parts, const ListDef& types) {
    // Without a condition, the body's graph only gives names that the function does not use.
    const detail::GraphFunction none{
        .name = "cond", .graph = parts.body.graph, .inputs = Tensors(node_.inputs().size()), .outputs = {}};
    const detail::GraphFunction& function = parts.condition ? *parts.condition : none;
    FunctionBuilder builder(function, function_name("cond"), node_.device);
    const auto arguments = add_arguments(builder, parts, types, function, false);
    add_body(builder, function);
    std::string result;
    if (bounded_) result = builder.add.whole("Less", arguments[0], arguments[1]);
    if (parts.condition) {
      const std::string holds = builder.output_of(parts.condition->outputs[0]);
      result = bounded_ ? builder.add.op("LogicalAnd", {result, holds}, {}) : holds;
    }
    builder.returns(result, code_of(boolean));
    return builder.finish(is_stateful());
  }

  FunctionDef body(const WhileParts& parts, const ListDef& types) {
    const detail::GraphFunction& body = parts.body;
    FunctionBuilder builder(body, function_name("body"), node_.device);
    NodeAdder& add = builder.add;
    const auto arguments = add_arguments(builder, parts, types, body, true);
    const std::size_t lists = node_.outputs().size() - parts.carried, first_list = 2 + parts.carried;
    std::string at = arguments[0];
    const std::string one = add.number("one", 1);
    if (parts.reverse) at = add.whole("Sub", add.whole("Sub", arguments[1], one), arguments[0]);
    for (std::size_t i = 0; i < parts.sequences; ++i) {
      const Tensor& element = body.inputs[parts.carried + i];
      if (!element) continue;
      const DType dtype = element.dtype();
      const Shape of_element =
          parts.is_ragged_sequence(i) ? element.shape() : without_axis_0(node_.input(parts.carried + i).shape());
      const std::string shape = add.shape("element_shape", of_element);
      builder.give(element, add.op("TensorListGetItem", {arguments[first_list + lists + i], at, shape},
                                   {{"element_dtype", code_of(dtype)}}));
    }
    add_body(builder, body);
    std::vector<std::string> results = arguments;
    results[0] = add.typed("AddV2", {arguments[0], one}, int32, "next");
    for (std::size_t i = 0; i < parts.carried; ++i) results[2 + i] = builder.output_of(body.outputs[i]);
    for (std::size_t i = 0; i < lists; ++i) {
      const bool is_sizes = i > 0 && parts.is_ragged_stack(i - 1);
      const Tensor& element = body.outputs[parts.carried + i - (is_sizes ? 1 : 0)];
      const DType dtype = is_sizes ? int64 : element.dtype();
      const AttrDefs attrs{{"element_dtype", code_of(dtype)}};
      const std::string& list = arguments[first_list + i];
      std::string value = builder.output_of(element);
      if (is_sizes) value = add.op("Shape", {value}, {{"T", code_of(element.dtype())}, {"out_type", code_of(int64)}});
      if (const auto found = std::find(lacking_.begin(), lacking_.end(), i); found != lacking_.end()) {
        std::string& largest = results[shape_of(types, found)];
        const std::string longer = reserves_ ? list : add.op("TensorListResize", {list, results[0]}, {});
        const std::string shape = add.typed("Shape", {value}, element.dtype());
        results[first_list + i] = set_unless_empty(add, longer, at, {value, element.dtype()}, shape);
        largest = add.whole("Maximum", largest, shape);
        continue;
      }
      results[first_list + i] = reserves_ ? add.op("TensorListSetItem", {list, at, value}, attrs)
                                          : add.op("TensorListPushBack", {list, value}, attrs);
    }
    results.resize(types.types.size() - variables_.size());
    results.insert(results.end(), handle_arguments_.end() - static_cast<std::ptrdiff_t>(variables_.size()),
                   handle_arguments_.end());
    for (std::size_t i = 0; i < results.size(); ++i) builder.returns(results[i], types.types[i]);
    return builder.finish(is_stateful());
  }

  /// The number of the loop variable that is the shape of an element of this list.
  std::size_t shape_of(const ListDef& types, std::vector<std::size_t>::const_iterator list) const {
    return types.types.size() - variables_.size() - static_cast<std::size_t>(lacking_.end() - list);
  }

  /// Sets an element of a list, unless the value, which has this shape, is empty. Returns the list.
  static std::string set_unless_empty(NodeAdder& add, const std::string& list, const std::string& at,
                                      const Value& value, const std::string& shape) {
    const std::string count = add.whole("Minimum", add.typed("Size", {value.name}, value.dtype), add.shape("one", {1}));
    const std::string rows =
        add.op("ConcatV2", {count, shape, add.number("axis", 0)}, {{"T", code_of(int32)}, {"N", std::int64_t{2}}});
    return add.op("TensorListScatterIntoExistingList",
                  {list, add.typed("Reshape", {value.name, rows}, value.dtype), add.whole("Fill", count, at)},
                  {{"element_dtype", code_of(value.dtype)}, {std::string(hint_loop), true}});
  }

  /// Adds the node that has the outputs in the order of ours.
  void write_results(const WhileParts& parts, const ListDef& loop_types, const std::string& loop) {
    std::vector<std::string> results;
    ListDef types;
    for (std::size_t i = 0; i < node_.outputs().size(); ++i) {
      const bool is_list = i >= parts.carried && context_.is_list(node_.output(i));
      const auto lacking = std::find(lacking_.begin(), lacking_.end(), i - parts.carried);
      std::string result = detail::join(loop, ":", i + 2), shape;
      if (lacking != lacking_.end()) shape = detail::join(loop, ":", shape_of(loop_types, lacking));
      if (i >= parts.carried && !is_list) result = stack_of(add_, result, node_.output(i).spec(), hint_loop, shape);
      results.push_back(std::move(result));
      types.types.push_back(is_list ? variant_type : code_of(node_.output(i).dtype()));
    }
    FieldList fields{{std::string(hint_loop), true}};
    if (results.size() == 1)
      fields.emplace("T", types.types[0]);
    else
      fields.emplace("T", std::move(types));
    if (results.empty()) return writer_.finish("NoOp", {"^" + loop}, {});
    writer_.finish(results.size() == 1 ? "Identity" : "IdentityN", results, std::move(fields));
  }

  NodeWriter& writer_;
  const Node& node_;
  const FlowContext& context_;
  NodeAdder add_;
  std::vector<Variable> variables_;            ///< that the functions read or change themselves
  std::vector<std::string> handle_arguments_;  ///< of the function that was written last, at the end
  bool bounded_ = false;                       ///< the loop has a greatest number of iterations
  bool guards_reads_ = false;                  ///< an If reads Variables only where they are initialized
  bool reserves_ = false;                      ///< the loop does as many, so that lists get their length at once
  std::vector<std::size_t> lacking_;           ///< the lists of the loop in which elements may lack
};

}  // namespace

LibraryWriter::LibraryWriter(std::string_view library) : bytes_(library) {
  for (const FunctionDef& each : decode_library(library, GraphLimits::none())) names_.insert(each.name);
}

std::vector<std::string> LibraryWriter::add(std::vector<FunctionDef> functions) {
  std::uint32_t hash = 2166136261;
  for (const FunctionDef& each : functions)
    for (const char c : encode_function(each)) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", hash);
  std::vector<std::string> names;
  for (FunctionDef& each : functions) {
    const std::string name = each.name + "_" + digits;
    each.name = name;
    for (int number = 1; !names_.insert(each.name).second; ++number) each.name = detail::join(name, "_", number);
    bytes_ += encode_function(each);
    names.push_back(each.name);
  }
  return names;
}

void write_flow(NodeWriter& writer, GraphDef& file, FileNames& names, const FlowContext& context) {
  FlowWriter(writer, file, names, context).write();
}

}  // namespace tapestry::io
