#include "io/onnx/onnx_import.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include "backend/views.hpp"
#include "core/make_tensor.hpp"
#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {

// ---- What the graphs of a model share --------------------------------------------------------------------------------

std::string OnnxModelContext::unique(std::string_view name) {
  std::string valid;
  for (const char c : name) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '/' || c == '-';
    valid += fits ? c : '_';
  }
  const std::size_t first = valid.find_first_not_of("_/-");
  valid = first == std::string::npos ? "value" : valid.substr(first);
  std::string free = valid;
  for (int i = 1; !names_.insert(free).second; ++i) free = detail::join(valid, "_", i);
  return free;
}

void OnnxModelContext::count_node() {
  if (++nodes_ > limits_.nodes)
    throw ResourceExhaustedError(
        detail::join("The ONNX model has more than ", limits_.nodes, " nodes (GraphLimits::nodes)"));
}

// ---- A graph ---------------------------------------------------------------------------------------------------------

OnnxBuilder::OnnxBuilder(OnnxModelContext& context, OnnxBuilder& around) : context_(context), around_(&around) {
  Frame frame;
  frame.attrs = around.frames_.back().attrs;
  frame.function = around.frames_.back().function;
  frame.depth = around.frames_.back().depth + 1;
  frames_.push_back(std::move(frame));
}

void OnnxBuilder::add_contents(const OnnxGraphDef& graph) {
  for (const auto& [name, tensor] : graph.initializers)
    if (!defines(name)) define(name, add_constant(name, tensor));
  for (const OnnxNodeDef& node : graph.nodes) add_node(node);
}

std::string OnnxBuilder::value(const std::string& name) {
  Frame& frame = frames_.back();
  const auto found = frame.values.find(name);
  if (found != frame.values.end()) return found->second;
  if (!around_ || frames_.size() > 1)
    throw InvalidArgumentError(detail::join("No node before gives the value '", name, "'"));
  const std::string outer = around_->value(name);
  if (outer.empty()) return {};
  // A small constant, which may tell axes or sizes, is one inside, too.
  constexpr std::int64_t most_copied = 1 << 10;
  const TensorDef* constant = around_->constant(around_->behind_identities(outer));
  const bool is_small = constant && (!constant->value || constant->value.size() <= most_copied);
  std::string argument = is_small ? add_constant(name, *constant) : add_argument(name);
  if (!is_small) captured_.emplace_back(name, argument);
  frames_.front().values.insert_or_assign(name, argument);
  return argument;
}

std::string OnnxBuilder::add(NodeDef def) {
  context_.count_node();
  def.name = context_.unique(def.name);
  index_.emplace(def.name, graph_.nodes.size());
  graph_.nodes.push_back(std::move(def));
  return graph_.nodes.back().name;
}

std::string OnnxBuilder::add_constant(std::string_view name, const TensorDef& value) {
  return add({.name = std::string(name), .op = "Const", .attrs = {{"dtype", value.type}, {"value", value}}});
}

std::string OnnxBuilder::add_argument(std::string_view name) {
  return add({.name = std::string(name), .op = std::string(argument_op)});
}

std::string OnnxBuilder::add_op(std::string_view name, std::string_view op, std::vector<std::string> inputs,
                                std::map<std::string, AttrDef, std::less<>> attrs) {
  attrs.emplace(onnx_version, std::int64_t{18});
  return add(
      {.name = std::string(name), .op = std::string(op), .inputs = std::move(inputs), .attrs = std::move(attrs)});
}

const TensorDef* OnnxBuilder::constant(const std::string& tensor) const {
  const auto found = index_.find(tensor);
  if (found == index_.end() || graph_.nodes[found->second].op != "Const") return nullptr;
  return std::get_if<TensorDef>(&graph_.nodes[found->second].attrs.at("value"));
}

std::string OnnxBuilder::behind_identities(std::string tensor) const {
  for (auto found = index_.find(tensor); found != index_.end(); found = index_.find(tensor)) {
    const NodeDef& node = graph_.nodes[found->second];
    if (node.op != onnx_op_name("", "Identity") || node.inputs.size() != 1) break;
    tensor = node.inputs[0];
  }
  return tensor;
}

bool OnnxBuilder::is_empty_sequence(const std::string& tensor) const {
  const auto found = index_.find(behind_identities(tensor));
  return found != index_.end() && graph_.nodes[found->second].op == onnx_op_name("", "SequenceEmpty");
}

std::string OnnxBuilder::appended(const std::string& tensor, const std::string& sequence) const {
  const auto found = index_.find(behind_identities(tensor));
  if (found == index_.end()) return {};
  const NodeDef& node = graph_.nodes[found->second];
  const bool appends = node.op == onnx_op_name("", "SequenceInsert") && node.inputs.size() == 2;
  return appends && behind_identities(node.inputs[0]) == sequence ? node.inputs[1] : std::string();
}

// ---- Nodes -----------------------------------------------------------------------------------------------------------

void OnnxBuilder::add_node(const OnnxNodeDef& node) {
  const auto blame = [&](const std::string& problem) {
    const std::string& label = node.name.empty() && !node.outputs.empty() ? node.outputs[0] : node.name;
    throw InvalidArgumentError(
        detail::join("Node '", label, "' (op: '", onnx_op_name(node.domain, node.type), "'): ", problem));
  };
  try {
    const auto function = context_.model().functions.find(onnx_op_name(node.domain, node.type));
    if (function != context_.model().functions.end()) return call(node, function->second);
    if (node.domain.empty()) {
      if (node.type == "Constant") return add_constant_node(node);
      if (node.type == "If" && node.graphs.size() == 2) return add_if(node);
      if (node.type == "Loop" && node.graphs.size() == 1) return add_loop(node);
      if (node.type == "Scan" && node.graphs.size() == 1 && version_of("") >= 9) return add_scan(node);
    }
    add_plain(node);
  } catch (const InvalidArgumentError& error) {
    if (error.message().starts_with("Node '")) throw;
    blame(error.message());
  }
}

std::map<std::string, AttrDef, std::less<>> OnnxBuilder::attrs_of(const OnnxNodeDef& node) const {
  std::map<std::string, AttrDef, std::less<>> attrs = node.attrs;
  for (const auto& [name, reference] : node.references) {
    const Frame& frame = frames_.back();
    if (!frame.function) throw InvalidArgumentError(detail::join("its attribute '", name, "' is that of a function"));
    if (const auto given = frame.attrs->find(reference); given != frame.attrs->end()) {
      attrs.insert_or_assign(name, given->second);
    } else if (const auto usual = frame.function->defaults.find(reference); usual != frame.function->defaults.end()) {
      attrs.insert_or_assign(name, usual->second);
    }
  }
  return attrs;
}

std::int64_t OnnxBuilder::version_of(const std::string& domain) const {
  const OnnxFunctionDef* function = frames_.back().function;
  const auto& opsets = function && !function->opsets.empty() ? function->opsets : context_.model().opsets;
  const auto found = opsets.find(domain);
  return found == opsets.end() ? 1 : found->second;
}

void OnnxBuilder::define_outputs(const OnnxNodeDef& node, const std::string& name,
                                 const std::vector<std::string>& tensors) {
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    if (!tensors.empty() && i >= tensors.size())
      throw InvalidArgumentError(detail::join("it has no output ", i, ", '", node.outputs[i], "'"));
    if (defines(node.outputs[i]))
      throw InvalidArgumentError(detail::join("the value '", node.outputs[i], "' is given twice"));
    define(node.outputs[i], !tensors.empty() ? tensors[i] : i == 0 ? name : detail::join(name, ":", i));
  }
}

void OnnxBuilder::add_plain(const OnnxNodeDef& node) {
  NodeDef def{.name = {}, .op = onnx_op_name(node.domain, node.type), .attrs = attrs_of(node)};
  for (const std::string& output : node.outputs)
    if (def.name.empty()) def.name = output;
  if (def.name.empty()) return;  // nobody can use it
  std::size_t used = node.inputs.size();
  while (used > 0 && node.inputs[used - 1].empty()) --used;
  ListDef places;
  for (std::size_t i = 0; i < used; ++i) {
    const std::string tensor = node.inputs[i].empty() ? "" : value(node.inputs[i]);
    places.ints.push_back(tensor.empty() ? -1 : static_cast<std::int64_t>(def.inputs.size()));
    if (!tensor.empty()) def.inputs.push_back(tensor);
  }
  if (def.inputs.size() < places.ints.size()) def.attrs.insert_or_assign(std::string(onnx_places), places);
  if (def.op == onnx_op_name("", "SequenceInsert") && def.inputs.size() == 2 && is_empty_sequence(def.inputs[0])) {
    def.op = "tapestry::FirstOfSequence";
    def.inputs.erase(def.inputs.begin());
    places.ints.pop_back();
  }
  def.attrs.insert_or_assign(std::string(onnx_version), version_of(node.domain));
  def.attrs.insert_or_assign(std::string(onnx_outputs), static_cast<std::int64_t>(node.outputs.size()));
  define_outputs(node, add(std::move(def)), {});
}

/// The value is in an attribute of its kind.
void OnnxBuilder::add_constant_node(const OnnxNodeDef& node) {
  const auto attrs = attrs_of(node);
  if (node.outputs.size() != 1 || attrs.size() != 1) throw InvalidArgumentError("it is no constant");
  const auto& [kind, value] = *attrs.begin();
  TensorDef tensor;
  const auto vector = [&](const auto& list, DType dtype) {
    const auto size = static_cast<std::int64_t>(list.size());
    const Tensor made = detail::make_tensor(dtype, {size}, cpu());
    using T = typename std::remove_cvref_t<decltype(list)>::value_type;
    std::copy(list.begin(), list.end(), detail::mutable_data<T>(made));
    return TensorDef{code_of(dtype), made};
  };
  const auto scalar = [](const TensorDef& list) { return TensorDef{list.type, view_as(list.value, {})}; };
  if (const auto* given = std::get_if<TensorDef>(&value)) {
    tensor = *given;
  } else if (const auto* real = std::get_if<float>(&value); real && kind == "value_float") {
    tensor = scalar(vector(std::vector<float>{*real}, float32));
  } else if (const auto* whole = std::get_if<std::int64_t>(&value); whole && kind == "value_int") {
    tensor = scalar(vector(std::vector<std::int64_t>{*whole}, int64));
  } else if (const auto* list = std::get_if<ListDef>(&value); list && kind == "value_floats") {
    tensor = vector(list->floats, float32);
  } else if (list && kind == "value_ints") {
    tensor = vector(list->ints, int64);
  } else {
    tensor.type = type_of_onnx(8);  // texts, which Tapestry lacks
  }
  define_outputs(node, add_constant(node.outputs[0], tensor), {});
}

/// Adds the nodes of a function of the model, whose values have names of their own.
void OnnxBuilder::call(const OnnxNodeDef& node, const OnnxFunctionDef& function) {
  constexpr int deepest = 64;
  Frame frame;
  const auto attrs = attrs_of(node);
  frame.attrs = &attrs;
  frame.function = &function;
  frame.depth = frames_.back().depth + 1;
  if (frame.depth > deepest) throw InvalidArgumentError("the function calls itself, or others too deep");
  if (node.inputs.size() > function.inputs.size() || node.outputs.size() > function.outputs.size())
    throw InvalidArgumentError("it does not fit the function");
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    const bool given = i < node.inputs.size() && !node.inputs[i].empty();
    frame.values.emplace(function.inputs[i], given ? value(node.inputs[i]) : "");
  }
  frames_.push_back(std::move(frame));
  std::vector<std::string> results;
  for (const OnnxNodeDef& each : function.nodes) add_node(each);
  for (std::size_t i = 0; i < node.outputs.size(); ++i)
    results.push_back(node.outputs[i].empty() ? "" : value(function.outputs[i]));
  frames_.pop_back();
  define_outputs(node, {}, results);
}

// ---- The model -------------------------------------------------------------------------------------------------------

namespace {

/// Whether a tensor of floats is a mask that is added to what softmax takes: 0 where it lets through, and a number far
/// below, or minus infinity, elsewhere.
bool is_additive_mask(const Tensor& value) {
  constexpr float far_below = -1e4F;
  if (!is_floating(value.dtype())) return false;
  return detail::visit_dtype(value.dtype(), [&]<class T>() {
    bool hides = false;
    for (std::int64_t i = 0; i < value.size(); ++i) {
      const auto each = static_cast<float>(detail::mutable_data<T>(value)[i]);
      if (each != 0 && !(each <= far_below)) return false;
      hides = hides || each != 0;
    }
    return hides;
  });
}

/// The initializers that training changes. ONNX does not tell them: they are those of floats that are no scalars and no
/// masks, and that no node takes as statistics or in place of an attribute.
class TrainedInitializers {
 public:
  explicit TrainedInitializers(const OnnxModelDef& model) : model_(model) {
    const auto told = model.metadata.find(std::string(onnx_trained));
    if (told != model.metadata.end()) {
      for (std::size_t at = 0; at < told->second.size();) {
        const std::size_t end = std::min(told->second.find('\n', at), told->second.size());
        names_.insert(told->second.substr(at, end - at));
        at = end + 1;
      }
      return;
    }
    std::set<std::string> fixed;
    visit(model.graph, fixed);
    for (const auto& [name, tensor] : model.graph.initializers)
      if (bool(tensor.value) && tensor.value.rank() > 0 && !fixed.contains(name) && !is_additive_mask(tensor.value))
        names_.insert(name);
  }

  bool contains(const std::string& name) const {
    const TensorDef& tensor = model_.graph.initializers.at(name);
    return names_.contains(name) && bool(tensor.value) && is_floating(tensor.value.dtype());
  }

 private:
  static void visit(const OnnxGraphDef& graph, std::set<std::string>& fixed) {
    for (const OnnxNodeDef& node : graph.nodes) {
      for (const std::size_t place : onnx_fixed_places(onnx_op_name(node.domain, node.type)))
        if (place < node.inputs.size()) fixed.insert(node.inputs[place]);
      for (const auto& [name, inner] : node.graphs) visit(*inner, fixed);
    }
  }

  const OnnxModelDef& model_;
  std::set<std::string> names_;
};

/// A Variable with this value, and the tensor that is read from it.
std::string add_variable(OnnxBuilder& builder, const std::string& name, const TensorDef& value) {
  const std::string variable = builder.add(
      {.name = name, .op = "VarHandleOp", .attrs = {{"dtype", value.type}, {"shape", value.value.shape()}}});
  const std::string initial = builder.add_constant(variable + "/value", value);
  builder.add({.name = variable + "/Assign",
               .op = "AssignVariableOp",
               .inputs = {variable, initial},
               .attrs = {{"dtype", value.type}}});
  return builder.add(
      {.name = variable + "/Read", .op = "ReadVariableOp", .inputs = {variable}, .attrs = {{"dtype", value.type}}});
}

}  // namespace

OnnxImport import_onnx(const OnnxModelDef& model, const GraphLimits& limits) {
  constexpr std::int64_t last_opset = 23;  // later ones may let an op mean something else
  if (const auto opset = model.opsets.find(""); opset != model.opsets.end() && opset->second > last_opset)
    throw UnimplementedError(
        detail::join("The model has opset ", opset->second, " of ONNX; those up to ", last_opset, " are read"));
  OnnxModelContext context(model, limits);
  OnnxBuilder builder(context);
  OnnxImport import;
  const OnnxGraphDef& graph = model.graph;
  for (const OnnxValueDef& input : graph.inputs) {
    if (graph.initializers.contains(input.name)) continue;  // its value; older versions list it as an input, too
    if (builder.defines(input.name))
      throw InvalidArgumentError(detail::join("The ONNX model has two inputs '", input.name, "'"));
    const std::string name =
        builder.add({.name = input.name,
                     .op = input.is_tensor ? "Placeholder" : onnx_op_name("", "an input that is no tensor"),
                     .attrs = {{"dtype", input.type}, {"shape", input.shape}}});
    builder.define(input.name, name);
    import.inputs.emplace_back(input.name, name);
  }
  const TrainedInitializers trained(model);
  for (const auto& [name, tensor] : graph.initializers)
    if (trained.contains(name)) builder.define(name, add_variable(builder, name, tensor));
  builder.add_contents(graph);
  std::set<std::string> names;
  for (const OnnxValueDef& output : graph.outputs) {
    if (!names.insert(output.name).second)
      throw InvalidArgumentError(detail::join("The ONNX model has two outputs '", output.name, "'"));
    std::string tensor = builder.value(output.name);
    if (tensor.find(':') != std::string::npos)
      tensor = builder.add_op(output.name, onnx_op_name("", "Identity"), {tensor});
    import.outputs.emplace_back(output.name, tensor);
  }
  import.graph = builder.take();
  import.graph.producer = 2000;  // a new one, for which a shape without sizes is that of a scalar
  return import;
}

}  // namespace tapestry::io
