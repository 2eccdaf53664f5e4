#include "io/rpc/resource_ops.hpp"

#include <algorithm>
#include <array>

namespace tapestry::io::rpc {
namespace {

constexpr std::array makers =
    std::to_array<std::string_view>({"FIFOQueue", "ConditionalAccumulator", "SparseConditionalAccumulator"});

constexpr std::array users = std::to_array<std::string_view>(
    {"QueueEnqueue", "QueueEnqueueMany", "QueueDequeue", "QueueDequeueMany", "QueueSize", "QueueClose", "QueueIsClosed",
     "AccumulatorApplyGradient", "AccumulatorTakeGradient", "AccumulatorSetGlobalStep", "AccumulatorNumAccumulated",
     "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient"});

bool contains(const auto& list, std::string_view op) { return std::find(list.begin(), list.end(), op) != list.end(); }

}  // namespace

std::string_view resource_op(std::string_view op) {
  if (op.ends_with("V2")) op.remove_suffix(2);
  constexpr std::string_view by_resource = "Resource";
  if (op.starts_with("ResourceAccumulator") || op == "ResourceConditionalAccumulator")
    op.remove_prefix(by_resource.size());
  return op;
}

bool makes_shared_resource(std::string_view op) { return contains(makers, resource_op(op)); }
bool uses_shared_resource(std::string_view op) { return contains(users, resource_op(op)); }

bool may_wait(std::string_view op) {
  const std::string_view known = resource_op(op);
  return known.ends_with("TakeGradient") || known.starts_with("QueueDequeue") || known.starts_with("QueueEnqueue");
}

TypeCode output_type(const NodeDef& node, int output) {
  const std::string_view op = resource_op(node.op);
  if (op.starts_with("QueueDequeue")) {
    const std::vector<TypeCode> types = attr_or<ListDef>(node, "component_types", {}).types;
    return std::cmp_less(output, types.size()) ? types[output] : TypeCode{};
  }
  const TypeCode dtype = attr_or<TypeCode>(node, "dtype", {});
  if (op == "SparseAccumulatorTakeGradient") return output == 1 ? dtype : output <= 2 ? code_of(int64) : TypeCode{};
  if (output != 0) return {};
  if (op == "AccumulatorTakeGradient") return dtype;
  if (op == "QueueSize" || op == "AccumulatorNumAccumulated") return code_of(int32);
  if (op == "QueueIsClosed") return code_of(boolean);
  return {};
}

}  // namespace tapestry::io::rpc
