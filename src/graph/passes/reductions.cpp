#include <array>
#include <utility>

#include "backend/backend.hpp"
#include "backend/program.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "ops/reduction.hpp"

namespace tapestry::detail {
namespace {

/// The op of a program and the reduction of one of its outputs, in whose place is the result. Only plans have it.
const Op& reduction_op() {
  static const Op& op = *new Op{
      .name = "_FusedReduction",
      .infer =
          [](const Call& call) {
            Specs specs = program_specs(call);
            specs[call.attr<Ints>("reduction")[0]].shape = call.attr<Shape>("reduced");
            return specs;
          },
      .forward =
          [](Backend& backend, const Call& call) {
            const Ints& reduction = call.attr<Ints>("reduction");
            const Backend::ReducedOutput reduced{.output = static_cast<std::size_t>(reduction[0]),
                                                 .function = static_cast<ReduceFunction>(reduction[1]),
                                                 .axes = static_cast<std::uint32_t>(reduction[2])};
            backend.program_reduce(*call.attr<ProgramRef>("program"), {call.inputs().begin(), call.inputs().size()},
                                   call.attr<Shape>("shape"), reduced, {call.outputs().begin(), call.outputs().size()});
          },
      .gradient = no_gradient,
      .outputs = -1,
  };
  return op;
}

/// Fewer elements stay in the second-level cache anyway.
constexpr std::int64_t smallest_reduced = 32768;

class ReductionJoiner {
 public:
  explicit ReductionJoiner(const PlanGraph& plan)
      : plan_(plan), graph_(*plan.graph), rewrite_(plan), first_(graph_.size()) {
    std::size_t outputs = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      first_[i] = outputs;
      outputs += graph_.node(i).outputs().size();
    }
    uses_.resize(outputs);
    for (const Tensor& fetch : plan.fetches) ++uses_of(fetch);
    for (std::size_t i = 0; i < graph_.size(); ++i)
      for (const Tensor& input : graph_.node(i).inputs()) ++uses_of(input);
  }

  PlanGraph run() {
    std::vector<const Node*> reduction_of(graph_.size());  // by the node that is joined with it
    std::vector<char> joined(graph_.size());
    bool any = false;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      if (!may_join(node)) continue;
      const Node*& reduction = reduction_of[producer_of(node.input(0)).index];
      if (reduction) continue;
      reduction = &node;
      joined[i] = 1;
      any = true;
    }
    if (!any) return plan_;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      if (reduction_of[i]) {
        join(node, *reduction_of[i]);
      } else if (!joined[i]) {
        rewrite_.copy(node);
      }
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  int& uses_of(const Tensor& tensor) {
    const Endpoint end = endpoint_of(tensor);
    return uses_[first_[end.node->index] + static_cast<std::size_t>(end.output)];
  }

  /// Whether a node is a reduction that can be computed where its input is.
  bool may_join(const Node& node) {
    if (!ops::reduction_of(node) || !node.control_inputs.empty()) return false;
    const Tensor& x = node.input(0);
    const Node& from = producer_of(x);
    const bool is_program = &from.op() == &fused_op() || may_be_fused(from);
    return is_program && uses_of(x) == 1 && x.shape().num_elements() > smallest_reduced && !is_half(x.dtype()) &&
           plan_.device_of(node).is_cpu() && plan_.device_of(node) == plan_.device_of(from) &&
           node.device == from.device;
  }

  /// The reduction runs where the program does: it waits for nothing else.
  void join(const Node& node, const Node& reduction) {
    const std::array group{&node, &reduction};
    rewrite_.build(group, [&] {
      Tensors inputs;
      const ProgramRef program = program_of(node, inputs);
      for (Tensor& input : inputs) input = rewrite_.of(input);
      const auto number = static_cast<std::size_t>(endpoint_of(reduction.input(0)).output);
      const ops::Reduction what = *ops::reduction_of(reduction);
      const Attrs attrs{{"program", program},
                        {"shape", reduction.input(0).shape()},
                        {"reduced", reduction.output().shape()},
                        {"reduction", Ints{static_cast<std::int64_t>(number), static_cast<std::int64_t>(what.function),
                                           static_cast<std::int64_t>(what.axes)}}};
      Specs specs = specs_of(node);
      specs[number] = reduction.output().spec();
      Tensors outputs = rewrite_.add(reduction_op(), inputs, attrs, specs, reduction).outputs();
      outputs.push_back(std::exchange(outputs[number], Tensor()));
      return outputs;
    });
  }

  const PlanGraph& plan_;
  const GraphState& graph_;
  Rewrite rewrite_;
  std::vector<std::size_t> first_;  ///< by node: its first output among all
  std::vector<int> uses_;           ///< by output: how many nodes and fetches use it
};

}  // namespace

PlanGraph reductions(const PlanGraph& plan) { return ReductionJoiner(plan).run(); }

}  // namespace tapestry::detail
