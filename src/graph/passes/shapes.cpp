#include <string>
#include <unordered_map>

#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

/// Placeholders that are never fed: they stand for tensors of which only the shape matters.
class StandIns {
 public:
  explicit StandIns(Rewrite& rewrite) : rewrite_(rewrite) {}

  Tensor like(const Tensor& tensor, const Node& reader) {
    Tensor& known = made_[join(to_string(tensor.dtype()), tensor.shape(), tensor.device())];
    if (known) return known;
    Call call(placeholder_op, {}, {{"dtype", tensor.dtype()}, {"shape", tensor.shape()}, {"device", tensor.device()}},
              reader.where(), "shape");
    const NodeOptions options{.device = full_name(tensor.device()), .outputs_on = tensor.device()};
    return known = rewrite_.add(std::move(call), {tensor.spec()}, options).output();
  }

 private:
  Rewrite& rewrite_;
  std::unordered_map<std::string, Tensor> made_;  ///< by dtype, shape and device
};

bool is_cut(const Node& node, std::size_t input) {
  return reads_shape_only(node.op(), input) && node.input(input).dtype() != DType::resource;
}

bool cuts_any(const GraphState& graph) {
  for (std::size_t i = 0; i < graph.size(); ++i)
    for (std::size_t k = 0; k < graph.node(i).inputs().size(); ++k)
      if (is_cut(graph.node(i), k)) return true;
  return false;
}

}  // namespace

PlanGraph shapes(const PlanGraph& plan) {
  const GraphState& graph = *plan.graph;
  if (!cuts_any(graph)) return plan;
  Rewrite rewrite(plan);
  StandIns stand_ins(rewrite);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    Tensors inputs = rewrite.inputs_of(node);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (is_cut(node, k)) inputs[k] = stand_ins.like(inputs[k], node);
    rewrite.build(node, [&] { return rewrite.copy_of(node, inputs).outputs(); });
  }
  return rewrite.plan_like(plan);
}

}  // namespace tapestry::detail
