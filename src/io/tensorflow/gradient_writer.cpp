#include "io/tensorflow/gradient_writer.hpp"

#include <set>

#include "graph/specialize.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/graph_export.hpp"
#include "io/tensorflow/node_writer.hpp"

namespace tapestry::io {
namespace {

ConcreteFunction::Tensor tensor_in_function(const Tensor& tensor, const std::string& name) {
  return {without_zero(tensor.name()), name, code_of(tensor.dtype()), tensor.shape()};
}

/// The inputs of a node, and what else its gradient uses.
Tensors all_inputs(const detail::Node& node, const detail::NodeGradient& gradient) {
  Tensors all = node.inputs();
  all.append(gradient.others.begin(), gradient.others.end());
  return all;
}

/// The gradient of a node as a function of the gradients of all its outputs, as IdentityN has them: one for each input.
ObjectGraph::GradientObject gradient_object(const detail::Node& node, const detail::NodeGradient& known) {
  const detail::GraphFunction& function = known.function;
  const Tensors all = all_inputs(node, known);
  const std::size_t outputs = node.outputs().size(), inputs = all.size();
  ObjectGraph::GradientObject gradient;
  Tensors ends;
  std::vector<ConcreteFunction::Tensor>& taken = gradient.function.inputs;
  for (std::size_t i = 0; i < inputs; ++i) {
    const std::string name = detail::join("result_grads_", i);
    taken.push_back(tensor_in_function(i < outputs ? function.inputs[i] : all[i], name));
    if (i >= outputs) taken.back().endpoint = name;  // of an output that ours lacks: nothing uses it
    gradient.given.push_back(i < function.outputs.size() && bool(function.outputs[i]));
    if (!gradient.given.back()) continue;
    ends.push_back(function.outputs[i]);
    gradient.function.outputs.push_back(tensor_in_function(ends.back(), detail::join("gradient_", i)));
  }
  const std::vector<char> used = detail::used_inputs(function);
  for (std::size_t i = 0; i < inputs; ++i) {
    if (!used[outputs + i]) continue;
    taken.push_back(tensor_in_function(function.inputs[outputs + i], detail::join("captured_", i)));
    gradient.captured.push_back(without_zero(all[i].name()));
    gradient.inputs.push_back(static_cast<std::int64_t>(i));
  }
  gradient.graph = std::make_shared<const GraphDef>(export_part(*function.graph, {}, ends));
  std::set<std::string_view> arguments;
  for (const ConcreteFunction::Tensor& each : taken) arguments.insert(each.endpoint);
  for (const NodeDef& each : gradient.graph->nodes)
    if (!arguments.contains(each.name)) gradient.function.nodes.push_back(&each);
  return gradient;
}

}  // namespace

NodeGradients gradients_to_write(const detail::GraphState& graph, Tensors& tensors,
                                 const std::vector<detail::Node*>& operations) {
  const std::vector<char> needed =
      detail::needed_nodes(graph, {.fetches = tensors, .operations = operations, .feeds = {}, .fed = {}});
  NodeGradients gradients;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i] || !detail::has_own_gradient(graph.node(i).op())) continue;
    std::optional<detail::NodeGradient> gradient = detail::gradient_function(graph.node(i));
    if (!gradient) continue;
    tensors.append(gradient->others.begin(), gradient->others.end());
    gradients.emplace(&graph.node(i), std::move(*gradient));
  }
  return gradients;
}

void pass_on_inputs(GraphDef& file, const detail::GraphState& graph, const NodeGradients& gradients) {
  for (NodeDef& def : file.nodes) {
    const detail::Node* node = graph.find(def.name);
    if (!node || !detail::has_own_gradient(node->op())) continue;
    const auto found = gradients.find(node);
    std::vector<std::string> inputs;
    ListDef types;
    for (const Tensor& each : found == gradients.end() ? node->inputs() : all_inputs(*node, found->second)) {
      inputs.push_back(endpoint_name(each));
      types.types.push_back(code_of(each.dtype()));
    }
    inputs.insert(inputs.end(), def.inputs.begin() + static_cast<std::ptrdiff_t>(data_inputs(def)), def.inputs.end());
    def.op = "IdentityN";
    def.inputs = std::move(inputs);
    def.attrs.insert_or_assign("T", std::move(types));
  }
}

void add_gradients(ObjectGraph::SignatureObject& signature, const detail::GraphState& graph,
                   const NodeGradients& gradients) {
  const std::vector<std::string> arguments = argument_names(signature.function);
  for (const NodeDef*& def : signature.function.nodes) {
    const detail::Node* node = graph.find(def->name);
    const auto found = node ? gradients.find(node) : gradients.end();
    if (found == gradients.end()) continue;
    ObjectGraph::GradientObject gradient = gradient_object(*node, found->second);
    gradient.function.name = detail::join(signature.function.name, "_gradient_", signature.gradients.size());
    gradient.type = "CustomGradient-" + gradient.function.name;
    gradient.node = def->name;
    for (std::string& each : gradient.captured) {
      for (std::size_t i = 0; i < arguments.size(); ++i)
        if (signature.function.inputs[i].endpoint == each) each = arguments[i];
      if (each.find(':') == std::string::npos) each += ":0";
    }
    signature.own_nodes.push_back(*def);
    def = &signature.own_nodes.back();
    signature.own_nodes.back().attrs.insert_or_assign("_gradient_op_type", gradient.type);
    signature.gradients.push_back(std::move(gradient));
  }
}

void name_gradients(GraphDef& graph, const ObjectGraph& objects) {
  std::map<std::string_view, const ObjectGraph::GradientObject*> by_node;
  for (const ObjectGraph::SignatureObject& signature : objects.signatures)
    for (const ObjectGraph::GradientObject& each : signature.gradients) by_node.emplace(each.node, &each);
  for (NodeDef& each : graph.nodes) {
    const auto found = by_node.find(each.name);
    if (found == by_node.end()) continue;
    each.attrs.insert_or_assign("_gradient_op_type", found->second->type);
    each.attrs.insert_or_assign(std::string(hint_captured), ListDef{.ints = found->second->inputs});
  }
}

}  // namespace tapestry::io
