#include <algorithm>

#include "backend/backend.hpp"
#include "graph/plan.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

bool is_unknown(const Tensor& tensor) { return tensor.dtype() == DType::unknown || !tensor.shape().has_rank(); }

class Specializer {
 public:
  Specializer(const GraphState& from, const Request& request) : from_(from), request_(request) {
    result_.graph = std::make_shared<GraphState>();
  }

  PlanGraph run() {
    const Graph::Scope open{Graph(result_.graph)};
    mark_needed();
    add_feeds();
    for (std::size_t i = 0; i < needed_.size(); ++i)
      if (needed_[i]) copy(from_.node(i));
    for (const Tensor& fetch : request_.fetches) result_.fetches.push_back(mapped(fetch));
    for (const Node* node : request_.operations)
      for (Node* copied : copies_[node->index]) result_.operations.push_back(copied);
    return std::move(result_);
  }

 private:
  bool is_fed(const Tensor& tensor) const {
    return std::any_of(request_.feeds.begin(), request_.feeds.end(),
                       [&](const Tensor& feed) { return feed.id() == tensor.id(); });
  }

  void mark_needed() {
    needed_.resize(from_.size());
    copies_.resize(from_.size());
    std::vector<Node*> pending;
    const auto visit = [&](Node* node) {
      if (!std::exchange(needed_[node->index], 1)) pending.push_back(node);
    };
    const auto visit_tensor = [&](const Tensor& tensor) {
      if (!is_fed(tensor)) visit(endpoint_of(tensor).node);
    };
    for (const Tensor& fetch : request_.fetches) visit_tensor(fetch);
    for (Node* node : request_.operations) visit(node);
    while (!pending.empty()) {
      Node* node = pending.back();
      pending.pop_back();
      for (const Tensor& input : node->inputs()) visit_tensor(input);
      for (Node* control : node->control_inputs) visit(control);
    }
  }

  void add_feeds() {
    for (std::size_t i = 0; i < request_.feeds.size(); ++i) {
      const Tensor& feed = request_.feeds[i];
      const Spec& spec = request_.fed[i];
      const Endpoint end = endpoint_of(feed);
      std::string name = end.node->name();
      if (&end.node->op() != &placeholder_op) name = join(name, "_", end.output, "_fed");
      Node& node = result_.graph->add_node(
          Call(placeholder_op, {}, {{"dtype", spec.dtype}, {"shape", spec.shape}}, end.node->where(), name), {spec});
      map_.emplace(feed.id(), node.output());
      result_.feeds.push_back(node.output());
    }
  }

  const Tensor& mapped(const Tensor& tensor) const { return map_.at(tensor.id()); }

  void copy(const Node& node) {
    Tensors inputs;
    for (const Tensor& input : node.inputs()) inputs.push_back(mapped(input));
    Scopes& scope = scopes();
    scope.control_inputs.clear();
    for (const Node* control : node.control_inputs)
      for (Node* copied : copies_[control->index]) scope.control_inputs.push_back(operation_of(*copied));
    scope.device = node.device;
    const std::size_t first = result_.graph->size();
    const CallSiteScope site(node.where());
    try {
      const Tensors outputs = copy_outputs(node, inputs);
      for (std::size_t i = 0; i < outputs.size(); ++i) map_.try_emplace(node.output(i).id(), outputs[i]);
    } catch (Error& error) {
      error.locate(node.type(), node.where());
      throw;
    }
    for (std::size_t i = first; i < result_.graph->size(); ++i) copies_[node.index].push_back(&result_.graph->node(i));
  }

  Tensors copy_outputs(const Node& node, const Tensors& inputs) {
    if (&node.op() == &placeholder_op) node.op().forward(backend_of(cpu()), node);  // throws: it is not fed
    if (const AttrValue* redo = node.attrs().find("redo")) {
      const NameScope inside(node.name() + "/", node.where());
      return (*std::get<Closure>(*redo))(inputs);
    }
    const bool was_unknown = std::any_of(node.inputs().begin(), node.inputs().end(), is_unknown);
    if (was_unknown) return apply_all(node.op(), inputs, node.numbers, node.attrs(), node.name(), node.where());
    Call call(node.op(), inputs, node.attrs(), node.where(), node.name());
    const Specs specs = node.op().infer(call);
    return result_.graph->add_node(std::move(call), specs).outputs();
  }

  const GraphState& from_;
  const Request& request_;
  PlanGraph result_;
  std::vector<char> needed_;
  std::vector<std::vector<Node*>> copies_;        ///< of each node: the nodes that stand for it
  std::unordered_map<std::int64_t, Tensor> map_;  ///< by id: the tensor that stands for another
};

}  // namespace

PlanGraph specialize(const GraphState& graph, const Request& request) { return Specializer(graph, request).run(); }

}  // namespace tapestry::detail
