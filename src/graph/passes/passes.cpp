#include "graph/passes/passes.hpp"

#include <algorithm>
#include <array>

#include "graph/state_ops.hpp"

namespace tapestry::detail {

std::span<const Pass> passes() {
  static constexpr std::array list{
      Pass{"branches", branches},     Pass{"fold", fold},        Pass{"simplify", simplify}, Pass{"cse", cse},
      Pass{"shapes", shapes},         Pass{"prune", prune},      Pass{"fuse", fuse},         Pass{"epilogue", epilogue},
      Pass{"reductions", reductions}, Pass{"parallel", parallel}};
  return list;
}

void require_passes(std::span<const std::string> names) {
  for (const std::string& name : names)
    if (std::none_of(passes().begin(), passes().end(), [&](const Pass& pass) { return pass.name == name; }))
      throw InvalidArgumentError(join("There is no pass '", name, "'"));
}

PlanGraph optimize(PlanGraph plan, const std::vector<std::string>& disabled,
                   const std::function<void(std::string_view, const PlanGraph&)>& seen) {
  for (const Pass& pass : passes()) {
    if (std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end()) continue;
    plan = pass.run(plan);
    if (seen) seen(pass.name, plan);
  }
  return plan;
}

bool has_effect(const Node& node) { return node.op().stateful && &node.op() != &read_variable_op; }

bool reads_shape_only(const Op& op, std::size_t input) {
  return (op.shape_inputs >> std::min<std::size_t>(input, 31) & 1) != 0;
}

Tensor constant_value(const Tensor& tensor) {
  const Node* node = endpoint_of(tensor).node;
  return &node->op() == &const_op ? node->attr<Tensor>("value") : Tensor();
}

}  // namespace tapestry::detail
