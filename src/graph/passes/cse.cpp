#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

/// Contiguous constants on the CPU are compared by their elements up to this size. Others must be the same tensor.
constexpr std::size_t small_bytes = 1024;

std::string_view contents_of(const Tensor& value) {
  return {static_cast<const char*>(value.impl().data), nbytes(value)};
}
bool is_small(const Tensor& value) {
  return value.is_contiguous() && value.device().is_cpu() && nbytes(value) <= small_bytes;
}

bool same_value(const Tensor& a, const Tensor& b) {
  return a.is(b) || (a.spec() == b.spec() && is_small(a) && is_small(b) && contents_of(a) == contents_of(b));
}

/// Compares the attributes as text, too, because 0 and -0 are equal numbers.
bool same_attrs(const Attrs& a, const Attrs& b) { return a == b && to_string(a) == to_string(b); }

constexpr std::size_t mixed(std::size_t hash, std::size_t more) { return hash * 0x9E3779B97F4A7C15U + more; }

std::size_t hash_of(std::span<const std::int64_t> numbers) {
  std::size_t hash = numbers.size();
  for (const std::int64_t each : numbers) hash = mixed(hash, static_cast<std::size_t>(each));
  return hash;
}

/// The hash of an attribute. Equal ones have the same; tensors, functions, Variables and programs are equal if they are
/// the same object.
std::size_t hash_of(const AttrValue& value) {
  return std::visit(
      []<class T>(const T& each) -> std::size_t {
        if constexpr (std::is_same_v<T, Tensor>) {
          return static_cast<std::size_t>(each.id());
        } else if constexpr (std::is_same_v<T, Device>) {
          return mixed(static_cast<std::size_t>(each.kind()), static_cast<std::size_t>(each.index()));
        } else if constexpr (std::is_same_v<T, Ints>) {
          return hash_of(std::span(each.begin(), each.end()));
        } else if constexpr (std::is_same_v<T, Shape>) {
          return hash_of(each.sizes());
        } else {
          return std::hash<T>()(each);
        }
      },
      value);
}

class Merger {
 public:
  /// An earlier node that computes the same as `node` would from these inputs; nullptr if there is none.
  const Node* find(const Node& node, const Tensors& inputs) const {
    const auto [first, last] = by_hash_.equal_range(hash_of_node(node, inputs));
    const auto found =
        std::find_if(first, last, [&](const auto& entry) { return is_same(*entry.second, node, inputs); });
    return found == last ? nullptr : found->second;
  }
  void add(const Node& node) { by_hash_.emplace(hash_of_node(node, node.inputs()), &node); }

 private:
  static std::size_t hash_of_node(const Node& node, const Tensors& inputs) {
    std::size_t hash = std::hash<const void*>()(&node.op());
    for (const Tensor& input : inputs) hash = mixed(hash, static_cast<std::size_t>(input.id()));
    if (&node.op() == &const_op)
      if (const Tensor& value = node.attr<Tensor>("value"); is_small(value))
        return mixed(hash, std::hash<std::string_view>()(contents_of(value)));
    for (const Attr& attr : node.attrs()) hash = mixed(hash, hash_of(attr.value));
    return hash;
  }

  static bool is_same(const Node& known, const Node& node, const Tensors& inputs) {
    const bool same_inputs = std::equal(known.inputs().begin(), known.inputs().end(), inputs.begin(), inputs.end(),
                                        [](const Tensor& a, const Tensor& b) { return a.is(b); });
    if (&known.op() != &node.op() || !same_inputs || known.device != node.device || known.colocation != node.colocation)
      return false;
    if (&node.op() == &const_op) return same_value(known.attr<Tensor>("value"), node.attr<Tensor>("value"));
    return same_attrs(known.attrs(), node.attrs());
  }

  std::unordered_multimap<std::size_t, const Node*> by_hash_;
};

/// Nodes with control inputs are not merged, so that they keep their order. Nor are placeholders: equal ones may be fed
/// different values.
bool may_merge(const Node& node) {
  return !node.op().stateful && !node.outputs().empty() && node.control_inputs.empty() && &node.op() != &placeholder_op;
}

bool merges_any(const GraphState& graph) {
  Merger merger;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (!may_merge(node)) continue;
    if (merger.find(node, node.inputs())) return true;
    merger.add(node);
  }
  return false;
}

}  // namespace

PlanGraph cse(const PlanGraph& plan) {
  const GraphState& graph = *plan.graph;
  if (!merges_any(graph)) return plan;
  Rewrite rewrite(plan);
  Merger merger;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const Tensors inputs = rewrite.inputs_of(node);
    rewrite.build(node, [&]() -> Tensors {
      if (!may_merge(node)) return rewrite.copy_of(node, inputs).outputs();
      if (const Node* same = merger.find(node, inputs)) return same->outputs();
      const Node& copy = rewrite.copy_of(node, inputs);
      merger.add(copy);
      return copy.outputs();
    });
  }
  return rewrite.plan_like(plan);
}

}  // namespace tapestry::detail
