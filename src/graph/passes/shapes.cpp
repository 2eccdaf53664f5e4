#include <algorithm>

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
    const auto same = [&](const Tensor& other) {
      return other.spec() == tensor.spec() && other.device() == tensor.device();
    };
    const auto found = std::find_if(made_.begin(), made_.end(), same);
    if (found != made_.end()) return *found;
    Call call(placeholder_op, {}, {{"dtype", tensor.dtype()}, {"shape", tensor.shape()}, {"device", tensor.device()}},
              reader.where(), "shape");
    const NodeOptions options{.device = full_name(tensor.device()), .outputs_on = tensor.device()};
    made_.push_back(rewrite_.add(std::move(call), {tensor.spec()}, options).output());
    return made_.back();
  }

 private:
  Rewrite& rewrite_;
  std::vector<Tensor> made_;
};

}  // namespace

PlanGraph shapes(const PlanGraph& plan) {
  const GraphState& graph = *plan.graph;
  Rewrite rewrite(plan);
  StandIns stand_ins(rewrite);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    Tensors inputs = rewrite.inputs_of(node);
    for (std::size_t k = 0; k < inputs.size(); ++k)
      if (reads_shape_only(node.op(), k) && inputs[k].dtype() != DType::resource)
        inputs[k] = stand_ins.like(inputs[k], node);
    rewrite.build(node, [&] { return rewrite.copy_of(node, inputs).outputs(); });
  }
  return rewrite.plan_like(plan);
}

}  // namespace tapestry::detail
