#include "io/tensorflow/inline_functions.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/op_outputs.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

/// A function with its nodes and arguments by name.
struct Function {
  explicit Function(FunctionDef definition) : def(std::move(definition)) {
    const auto note = [&](const std::string& name, bool is_new) {
      if (!is_new) repeated = name;
    };
    for (std::size_t i = 0; i < def.inputs.size(); ++i)
      note(def.inputs[i].name, arguments.emplace(def.inputs[i].name, i).second);
    for (const NodeDef& each : def.nodes)
      note(each.name, nodes.emplace(each.name, &each).second && !arguments.contains(each.name));
    std::set<std::string_view> results;
    for (const FunctionDef::Arg& each : def.outputs) note(each.name, results.insert(each.name).second);
  }
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;

  const FunctionDef def;
  std::unordered_map<std::string_view, const NodeDef*> nodes;
  std::unordered_map<std::string_view, std::size_t> arguments;
  bool is_open = false;                 ///< is being called
  std::optional<std::string> repeated;  ///< a name that two arguments, nodes or outputs have

  bool has_lists() const {
    const auto is_list = [](const FunctionDef::Arg& each) { return each.is_list; };
    return std::any_of(def.inputs.begin(), def.inputs.end(), is_list) ||
           std::any_of(def.outputs.begin(), def.outputs.end(), is_list);
  }
};

/// How many bytes of text a node takes in memory.
std::size_t text_size(const NodeDef& node) {
  std::size_t size = node.name.size() + node.op.size() + node.device.size();
  for (const std::string& each : node.inputs) size += each.size();
  for (const auto& [name, value] : node.attrs) {
    size += name.size();
    if (const auto* raw = std::get_if<RawAttr>(&value)) size += raw->bytes.size();
    if (const auto* text = std::get_if<std::string>(&value)) size += text->size();
    if (const auto* list = std::get_if<ListDef>(&value)) {
      for (const std::string& each : list->strings) size += each.size();
      size += 8 * (list->ints.size() + list->floats.size() + list->bools.size() + list->types.size());
      size += sizeof(Shape) * list->shapes.size();
    }
  }
  return size;
}

class Inliner {
 public:
  Inliner(GraphDef file, const GraphLimits& limits, const FileGradients& gradients)
      : file_(std::move(file)), limits_(limits), gradients_(gradients), objects_(gradients.objects) {
    for (FunctionDef& each : decode_library(file_.library, limits)) {
      const std::string name = each.name;
      functions_.try_emplace(name, std::move(each));
    }
  }

  GraphDef run() {
    std::vector<NodeDef> nodes = std::exchange(file_.nodes, {});
    for (NodeDef& each : nodes) {
      give_gradient(each, nullptr);
      place(std::move(each));
    }
    // The library stays for nodes that are not read.
    const auto calls = [&](const NodeDef& node) {
      return functions_.contains(node.op) || std::any_of(node.attrs.begin(), node.attrs.end(),
                                                         [](const auto& attr) { return names_function(attr.second); });
    };
    if (std::none_of(file_.nodes.begin(), file_.nodes.end(), calls)) file_.library.clear();
    return std::move(file_);
  }

 private:
  /// A call: the function, and the attributes for its body.
  struct Called {
    Function* function = nullptr;
    AttrDefs attrs{};
  };
  /// The body of a call, while its nodes are added to the graph.
  struct Body {
    const NodeDef& call;
    const Function& function;
    const AttrDefs& attrs;
    std::vector<std::string> arguments{};
    std::string barrier{};  ///< "^node" of the node that waits for what the call waits for; "" if there is none
    std::string prefix{};   ///< of the names of its nodes
  };

  /// Calls f(), in which calls of the function are refused.
  template <class F>
  auto inside(Function& function, const NodeDef& call, F f) {
    if (function.is_open || ++depth_ > deepest)
      refuse(call, detail::join("calls the function '", function.def.name,
                                depth_ > deepest ? "' in too many others" : "', which calls itself"));
    if (function.repeated)
      refuse(call, detail::join("calls the function '", function.def.name, "', in which the name '", *function.repeated,
                                "' stands for two things"));
    function.is_open = true;
    auto result = f();
    function.is_open = false;
    --depth_;
    return result;
  }

  static constexpr int deepest = 100;

  /// Adds a node, or what it stands for.
  void place(NodeDef node) {
    const Called called = called_by(node);
    if (!called.function) {
      if (is_flow_op(node.op)) node.flow = flow_of(node);
      return add(std::move(node));
    }
    inside(*called.function, node, [&] {
      expand(node, called);
      return true;
    });
  }

  // ---- Functions of branches and loops ----

  /// nullptr if the library lacks one of the functions, or if it takes or returns lists.
  std::shared_ptr<const Flow> flow_of(const NodeDef& node) {
    std::vector<FunctionName> names;
    const auto add_named = [&](std::string_view attr) {
      const auto found = node.attrs.find(attr);
      names.push_back(found == node.attrs.end() ? FunctionName() : function_named_by(found->second));
    };
    Flow flow{.is_loop = is_loop_op(node.op)};
    if (flow.is_loop) {
      add_named("body");
      add_named("cond");
    } else if (node.op.ends_with("If")) {
      add_named("then_branch");
      add_named("else_branch");
    } else if (const auto found = node.attrs.find("branches"); found != node.attrs.end()) {
      names = functions_named_by(found->second);
    }
    if (names.empty()) return nullptr;
    for (const FunctionName& each : names) {
      const auto found = functions_.find(each.name);
      if (found == functions_.end() || found->second.has_lists()) return nullptr;
    }
    for (const FunctionName& each : names) {
      Function& function = functions_.find(each.name)->second;
      const std::size_t first = flow.is_loop ? 0 : 1;
      const std::span<const std::string> given(node.inputs.data(), data_inputs(node));
      flow.functions.push_back(inside(function, node, [&] {
        return body_of(node, function, each.attrs, given.subspan(std::min(first, given.size())));
      }));
    }
    require_fit(node, flow);
    return std::make_shared<const Flow>(std::move(flow));
  }

  /// `given`: the tensors around that the arguments stand for.
  FunctionBody body_of(const NodeDef& node, const Function& function, const AttrDefs& attrs,
                       std::span<const std::string> given) {
    const FunctionDef& def = function.def;
    FunctionBody result{.name = def.name};
    Body body{node, function, attrs};
    std::vector<NodeDef> around = std::exchange(file_.nodes, {});
    std::map<std::string, std::size_t, std::less<>> objects;
    for (std::size_t i = 0; i < std::min(given.size(), def.inputs.size()); ++i)
      if (const auto found = objects_.find(given[i]); found != objects_.end())
        objects.emplace(def.inputs[i].name, found->second);
    objects_.swap(objects);
    for (const FunctionDef::Arg& each : def.inputs) {
      result.inputs.push_back(each.name);
      result.types.push_back(type_of(each, body));
      body.arguments.push_back(each.name);
      add({.name = each.name, .op = std::string(argument_op)});
    }
    for (const NodeDef& each : def.nodes) place(copy_of(each, body));
    objects_.swap(objects);
    for (const FunctionDef::Arg& each : def.outputs) {
      result.outputs.push_back(input_of(returned(each, body), body));
      result.output_types.push_back(type_of(each, body));
    }
    for (const std::string& each : def.control_returns)
      result.operations.push_back(input_of("^" + each, body).substr(1));
    result.graph.nodes = std::exchange(file_.nodes, std::move(around));
    result.graph.producer = file_.producer;
    inner_nodes_ += result.graph.nodes.size();
    return result;
  }

  /// Throws unless the functions take and return as many tensors as the node gives them and has.
  static void require_fit(const NodeDef& node, const Flow& flow) {
    const std::size_t inputs = data_inputs(node);
    const std::size_t taken = flow.is_loop ? inputs : inputs - std::min<std::size_t>(inputs, 1);
    const std::size_t due = flow.is_loop ? inputs : flow.functions[0].outputs.size();
    if (!flow.is_loop && inputs == 0) refuse(node, "has no inputs");
    for (std::size_t i = 0; i < flow.functions.size(); ++i) {
      const FunctionBody& each = flow.functions[i];
      const std::size_t outputs = flow.is_loop && i == 1 ? 1 : due;
      if (each.inputs.size() != taken || each.outputs.size() != outputs)
        refuse(node, detail::join("runs the function '", each.name, "', which takes ", each.inputs.size(),
                                  " tensors and returns ", each.outputs.size(), ", not ", taken, " and ", outputs));
      require_types(node, flow.is_loop ? "T" : "Tin", each.name, each.types);
      if (!flow.is_loop || i == 0) require_types(node, flow.is_loop ? "T" : "Tout", each.name, each.output_types);
    }
  }
  /// Throws unless an attribute that lists types, if the node has it, lists those that a function declares.
  static void require_types(const NodeDef& node, std::string_view attr, const std::string& function,
                            const std::vector<TypeCode>& declared) {
    const auto found = node.attrs.find(attr);
    if (found == node.attrs.end()) return;
    const auto* list = std::get_if<ListDef>(&found->second);
    if (!list) refuse(node, detail::join("has an attribute '", attr, "' that is no list of types"));
    const std::size_t count = list->types.size();
    if (count != declared.size())
      refuse(node, detail::join("has an attribute '", attr, "' of ", count, count == 1 ? " type" : " types",
                                ", but its function '", function, "' declares ", declared.size()));
    for (std::size_t i = 0; i < count; ++i)
      if (list->types[i] != declared[i])
        refuse(node, detail::join("has an attribute '", attr, "' with ", type_name(list->types[i]), " for tensor ", i,
                                  ", which its function '", function, "' declares as ", type_name(declared[i])));
  }

  Called called_by(const NodeDef& node) {
    FunctionName called{node.op, {}};
    if (node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall") {
      const auto found = node.attrs.find("f");
      if (found == node.attrs.end()) return {};
      called = function_named_by(found->second);
    }
    const auto found = functions_.find(called.name);
    if (found == functions_.end() || found->second.has_lists()) return {};
    if (called.name == node.op) called.attrs = node.attrs;
    return {&found->second, std::move(called.attrs)};
  }

  void add(NodeDef node) {
    size_ += text_size(node) / 1024;
    file_.nodes.push_back(std::move(node));
    if (std::cmp_greater(file_.nodes.size() + inner_nodes_ + size_, limits_.nodes))
      throw ResourceExhaustedError(
          detail::join("Node '", file_.nodes.back().name, "' is number ", file_.nodes.size(),
                       " of its graph, whose functions have replaced their calls; a graph may ", "have ", limits_.nodes,
                       " nodes (GraphLimits::nodes)"));
  }

  void expand(const NodeDef& call, const Called& called) {
    const FunctionDef& def = called.function->def;
    Body body{.call = call, .function = *called.function, .attrs = called.attrs, .prefix = call.name + "/"};
    std::vector<std::string> waits;
    for (const std::string& each : call.inputs) (each.starts_with('^') ? waits : body.arguments).push_back(each);
    if (body.arguments.size() != def.inputs.size())
      refuse(call, detail::join("calls the function '", def.name, "' with ", body.arguments.size(), " inputs, not ",
                                def.inputs.size()));
    if (!waits.empty()) {
      body.barrier = detail::join("^", call.name, "/input_control_node");
      add({.name = body.barrier.substr(1), .op = "NoOp", .inputs = waits});
    }
    const auto types_of = [&](const std::vector<FunctionDef::Arg>& args) {
      std::vector<TypeCode> types;
      types.reserve(args.size());
      for (const FunctionDef::Arg& each : args) types.push_back(type_of(each, body));
      return types;
    };
    if (call.op.ends_with("PartitionedCall")) {
      require_types(call, "Tin", def.name, types_of(def.inputs));
      require_types(call, "Tout", def.name, types_of(def.outputs));
    }
    for (const NodeDef& each : def.nodes) place(copy_of(each, body));
    add(results(body));
  }

  NodeDef copy_of(const NodeDef& node, const Body& body) {
    NodeDef copy = node;
    copy.name = body.prefix + node.name;
    if (copy.device.empty()) copy.device = body.call.device;
    for (std::string& each : copy.inputs) each = input_of(each, body);
    if (const auto hint = copy.attrs.find(hint_inputs); hint != copy.attrs.end())
      if (auto* list = std::get_if<ListDef>(&hint->second))
        for (std::string& each : list->strings) each = input_of(each, body);
    if (!body.barrier.empty() && node.op != "Const") copy.inputs.push_back(body.barrier);
    for (auto& [name, value] : copy.attrs) {
      const std::string placeholder = placeholder_of(value);
      if (placeholder.empty()) continue;
      const auto found = body.attrs.find(placeholder);
      if (found == body.attrs.end())
        refuse(body.call,
               detail::join("lacks the attribute '", placeholder, "' of the function '", body.function.def.name, "'"));
      value = found->second;
    }
    give_gradient(copy, &body);
    return copy;
  }

  // ---- Gradients ----

  /// Gives an IdentityN the gradient that the file has for it. `body`: nullptr for a node of the graph, which has its
  /// gradient from us.
  void give_gradient(NodeDef& node, const Body* body) {
    const auto* name = node.op == "IdentityN" ? attr_of<std::string>(node, "_gradient_op_type") : nullptr;
    const auto* numbers = attr_of<ListDef>(node, hint_captured);
    const auto registered = name ? gradients_.by_type.find(*name) : gradients_.by_type.end();
    if (registered == gradients_.by_type.end() || (!body && !numbers)) return;
    FileGradient gradient{.values = data_inputs(node), .given = registered->second.given};
    std::vector<std::string> captured;
    if (numbers) {
      for (const std::int64_t each : numbers->ints)
        captured.push_back(each >= 0 && std::cmp_less(each, gradient.values) ? node.inputs[each] : "");
    } else {
      for (const FileGradients::Capture& each : registered->second.captured)
        captured.push_back(captured_input(each, *body));
    }
    gradient.problem = problem_of(registered->second, gradient, captured);
    if (gradient.problem.empty()) {
      Function& function = functions_.find(registered->second.function)->second;
      std::vector<std::string> given(gradient.values);
      given.insert(given.end(), captured.begin(), captured.end());
      gradient.function = inside(function, node, [&] { return body_of(node, function, {}, given); });
      node.inputs.insert(node.inputs.begin() + static_cast<std::ptrdiff_t>(gradient.values), captured.begin(),
                         captured.end());
    }
    node.gradient = std::make_shared<const FileGradient>(std::move(gradient));
  }

  /// Why a gradient cannot be used, or "".
  std::string problem_of(const FileGradients::Gradient& registered, const FileGradient& gradient,
                         const std::vector<std::string>& captured) const {
    const auto found = functions_.find(registered.function);
    if (found == functions_.end()) return detail::join("the file lacks the function '", registered.function, "'");
    const Function& function = found->second;
    const auto outputs = static_cast<std::size_t>(std::count(gradient.given.begin(), gradient.given.end(), true));
    if (function.is_open || function.has_lists() || gradient.given.size() != gradient.values ||
        function.def.inputs.size() != gradient.values + captured.size() || function.def.outputs.size() != outputs)
      return detail::join("the function '", registered.function, "' does not fit the operation");
    if (std::find(captured.begin(), captured.end(), "") != captured.end())
      return detail::join("the function '", registered.function, "' takes a tensor or a Variable that is not in the ",
                          "function that uses the gradient");
    return {};
  }

  /// What a gradient captures, as an input of a node in the body; "" if it is somewhere else.
  std::string captured_input(const FileGradients::Capture& capture, const Body& body) const {
    if (capture.tensor.empty()) {
      const auto is_it = [&](const auto& each) { return each.second == capture.object; };
      const auto found = std::find_if(objects_.begin(), objects_.end(), is_it);
      return found == objects_.end() ? "" : found->first;
    }
    if (capture.function != body.function.def.name) return {};
    const std::string tensor = without_zero(capture.tensor);
    const std::string node = tensor.substr(0, tensor.rfind(':'));
    if (const auto argument = body.function.arguments.find(node); argument != body.function.arguments.end())
      return body.arguments[argument->second];
    return body.function.nodes.contains(node) ? body.prefix + tensor : "";
  }

  /// The node that has the call's name.
  NodeDef results(const Body& body) const {
    const FunctionDef& def = body.function.def;
    NodeDef node{.name = body.call.name, .op = "NoOp", .device = body.call.device};
    ListDef types;
    for (const FunctionDef::Arg& each : def.outputs) {
      node.inputs.push_back(input_of(returned(each, body), body));
      types.types.push_back(type_of(each, body));
    }
    if (types.types.size() == 1) {
      node.op = "Identity";
      node.attrs.emplace("T", types.types[0]);
    } else if (!types.types.empty()) {
      node.op = "IdentityN";
      node.attrs.emplace("T", std::move(types));
    }
    for (const std::string& each : def.control_returns) node.inputs.push_back(input_of("^" + each, body));
    if (!body.barrier.empty()) node.inputs.push_back(body.barrier);
    return node;
  }

  /// What the function returns for an output, as its nodes have inputs.
  static const std::string& returned(const FunctionDef::Arg& output, const Body& body) {
    const FunctionDef& def = body.function.def;
    const auto found = def.returns.find(output.name);
    if (found == def.returns.end())
      refuse(body.call, detail::join("calls the function '", def.name, "', which does not return '", output.name, "'"));
    return found->second;
  }

  static TypeCode type_of(const FunctionDef::Arg& arg, const Body& body) {
    const auto found = arg.type_attr.empty() ? body.attrs.end() : body.attrs.find(arg.type_attr);
    const auto* type = found == body.attrs.end() ? nullptr : std::get_if<TypeCode>(&found->second);
    if (!arg.type_attr.empty() && !type)
      refuse(body.call, detail::join("lacks the attribute '", arg.type_attr, "', a type, of the function '",
                                     body.function.def.name, "'"));
    return type ? *type : arg.type;
  }

  /// The name in the graph of an input as the nodes of a function have it: "argument", "node:output:index", "^node".
  std::string input_of(std::string_view input, const Body& body) const {
    const bool control = input.starts_with('^');
    std::string_view name = input.substr(control ? 1 : 0), output;
    if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) {
      output = name.substr(colon + 1);
      name = name.substr(0, colon);
    }
    if (const auto found = body.function.arguments.find(name); found != body.function.arguments.end()) {
      const std::string& given = body.arguments[found->second];
      return control ? "^" + given.substr(0, given.rfind(':')) : given;
    }
    const auto found = body.function.nodes.find(name);
    if (found == body.function.nodes.end())
      refuse(body.call, detail::join("calls the function '", body.function.def.name, "', in which '", input,
                                     "' is neither an argument nor an output"));
    const std::int64_t index = control || output.empty() ? 0 : output_number(*found->second, output, body);
    return detail::join(control ? "^" : "", body.prefix, name, index > 0 ? detail::join(":", index) : "");
  }

  /// The number of an output "output:index".
  std::int64_t output_number(const NodeDef& node, std::string_view output, const Body& body) const {
    const std::size_t colon = output.find(':');
    const std::string digits(colon == std::string_view::npos ? output : output.substr(colon + 1));
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
      refuse(body.call, detail::join("calls the function '", body.function.def.name, "', in which '", node.name, ":",
                                     output, "' is no name of a tensor"));
    const std::int64_t index = std::stoll(digits);
    if (colon == std::string_view::npos) return index;
    const std::string_view name = output.substr(0, colon);
    if (const auto found = functions_.find(node.op); found != functions_.end()) {
      const auto& outputs = found->second.def.outputs;
      const auto which =
          std::find_if(outputs.begin(), outputs.end(), [&](const auto& each) { return each.name == name; });
      return which == outputs.end() ? index : which - outputs.begin() + index;
    }
    return first_output(node, name) + index;
  }

  [[noreturn]] static void refuse(const NodeDef& call, const std::string& problem) {
    throw InvalidArgumentError(detail::join("Node '", call.name, "' ", problem));
  }

  GraphDef file_;
  GraphLimits limits_;
  const FileGradients& gradients_;
  std::map<std::string, std::size_t, std::less<>> objects_;  ///< of Variables, by tensors of this graph
  std::map<std::string, Function, std::less<>> functions_;
  std::size_t size_ = 0;         ///< the text of all nodes, in KiB
  std::size_t inner_nodes_ = 0;  ///< of the functions of branches and loops that are complete
  int depth_ = 0;
};

}  // namespace

GraphDef inline_functions(GraphDef file, const GraphLimits& limits, const FileGradients& gradients) {
  if (file.library.empty()) return file;
  return Inliner(std::move(file), limits, gradients).run();
}

}  // namespace tapestry::io
