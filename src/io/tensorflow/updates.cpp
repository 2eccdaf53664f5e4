#include "io/tensorflow/updates.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "io/tensorflow/frames.hpp"

namespace tapestry::io {
namespace {

using Part = UpdateRule::Part;
using Argument = UpdateRule::Argument;

constexpr Argument gradient_descent[] = {{Part::handle, 0}, {Part::number, 0}, {Part::gradient}};
constexpr Argument momentum[] = {
    {Part::handle, 0}, {Part::handle, 1}, {Part::number, 0}, {Part::gradient}, {Part::number, 1, "momentum"}};
constexpr Argument adagrad[] = {
    {Part::handle, 0}, {Part::handle, 1}, {Part::number, 0}, {Part::number, 1, "epsilon"}, {Part::gradient}};
constexpr Argument rmsprop[] = {{Part::handle, 0},
                                {Part::handle, 1},
                                {Part::handle, 2},
                                {Part::number, 0},
                                {Part::number, 1, "rho"},
                                {Part::number, 3, "momentum"},
                                {Part::number, 4, "epsilon"},
                                {Part::gradient}};
constexpr Argument adam[] = {{Part::handle, 0},
                             {Part::handle, 1},
                             {Part::handle, 2},
                             {Part::from_step, UpdateRule::beta1_power, "beta1_power"},
                             {Part::from_step, UpdateRule::beta2_power, "beta2_power"},
                             {Part::number, 0},
                             {Part::number, 1, "beta1"},
                             {Part::number, 2, "beta2"},
                             {Part::from_step, UpdateRule::epsilon, "epsilon"},
                             {Part::gradient}};

constexpr Argument sparse_momentum[] = {{Part::handle, 0}, {Part::handle, 1}, {Part::number, 0},
                                        {Part::gradient},  {Part::indices},   {Part::number, 1, "momentum"}};
constexpr Argument sparse_adagrad[] = {{Part::handle, 0}, {Part::handle, 1},
                                       {Part::number, 0}, {Part::number, 1, "epsilon"},
                                       {Part::gradient},  {Part::indices}};
constexpr Argument sparse_adagrad_v1[] = {
    {Part::handle, 0}, {Part::handle, 1}, {Part::number, 0}, {Part::gradient}, {Part::indices}};
constexpr Argument sparse_rmsprop[] = {{Part::handle, 0},
                                       {Part::handle, 1},
                                       {Part::handle, 2},
                                       {Part::number, 0},
                                       {Part::number, 1, "rho"},
                                       {Part::number, 3, "momentum"},
                                       {Part::number, 4, "epsilon"},
                                       {Part::gradient},
                                       {Part::indices}};
constexpr Argument scatter_sub[] = {{Part::handle, 0}, {Part::indices}, {Part::difference}};

constexpr std::array rules = std::to_array<UpdateRule>(
    {{"ResourceApplyGradientDescent", "ResourceApplyGradientDescent", "ApplyGradientDescent", false, 2,
      gradient_descent},
     {"ResourceApplyMomentum", "ResourceApplyMomentum", "ApplyMomentum", false, 3, momentum},
     {"ResourceApplyNesterovMomentum", "ResourceApplyMomentum", "ApplyMomentum", true, 3, momentum},
     {"ResourceApplyAdam", "ResourceApplyAdam", "ApplyAdam", false, adam_parts, adam},
     {"ResourceApplyAdamW", "ResourceApplyAdam", "ApplyAdam", false, adam_parts, adam, true},
     {"ResourceApplyAdagradV2", "ResourceApplyAdagradV2", "ApplyAdagradV2", false, 3, adagrad},
     {"ResourceApplyRMSProp", "ResourceApplyRMSProp", "ApplyRMSProp", false, 6, rmsprop},
     {"ResourceSparseApplyGradientDescent", "ResourceScatterSub", "ScatterSub", false, 2, scatter_sub},
     {"ResourceSparseApplyMomentum", "ResourceSparseApplyMomentum", "SparseApplyMomentum", false, 3, sparse_momentum},
     {"ResourceSparseApplyNesterovMomentum", "ResourceSparseApplyMomentum", "SparseApplyMomentum", true, 3,
      sparse_momentum},
     {"ResourceSparseApplyAdam", "ResourceScatterSub", "ScatterSub", false, adam_parts, scatter_sub},
     {"ResourceSparseApplyAdamW", "ResourceScatterSub", "ScatterSub", false, adam_parts, scatter_sub, true},
     {"ResourceSparseApplyAdagradV2", "ResourceSparseApplyAdagradV2", "SparseApplyAdagradV2", false, 3, sparse_adagrad},
     // Read only: written is the first rule of an op.
     {"ResourceSparseApplyAdagradV2", "ResourceSparseApplyAdagrad", "SparseApplyAdagrad", false, 3, sparse_adagrad_v1},
     {"ResourceSparseApplyRMSProp", "ResourceSparseApplyRMSProp", "SparseApplyRMSProp", false, 6, sparse_rmsprop}});

}  // namespace

bool takes_reference(std::string_view op) {
  constexpr std::string_view prefixes[] = {"Assign", "Scatter", "Apply", "SparseApply"};
  return op == "IsVariableInitialized" || op == "CountUpTo" || op == "StridedSliceAssign" ||
         (!op.ends_with("VariableOp") && std::any_of(std::begin(prefixes), std::end(prefixes),
                                                     [&](std::string_view each) { return op.starts_with(each); }));
}

bool gives_reference(std::string_view op) {
  return takes_reference(op) && op != "IsVariableInitialized" && op != "CountUpTo";
}

std::map<std::string, Assignments> assignments_of_any_sizes(const std::vector<NodeDef>& nodes) {
  std::map<std::string, Assignments> found;
  for (const NodeDef& node : nodes) {
    if (!node.flow && node.op != "Assign" && node.op != "AssignVariableOp") continue;
    const auto* checks = attr_of<bool>(node, "validate_shape");
    for (std::size_t i = 0; i < (node.flow ? data_inputs(node) : std::min<std::size_t>(data_inputs(node), 1)); ++i) {
      const std::string variable = without_zero(node.inputs[i]);
      Assignments& each = found[variable];
      ++each.count;
      if (node.op == "Assign" && checks && !*checks && node.name != variable + "/Assign") each.is_unchecked = true;
    }
  }
  return found;
}

std::span<const UpdateRule> update_rules() { return rules; }

const UpdateRule* update_rule_of(std::string_view op) {
  for (const UpdateRule& each : rules)
    if (each.op == op) return &each;
  return nullptr;
}

}  // namespace tapestry::io
