#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan.hpp"

namespace tapestry::detail {

// The steps between a graph that is specialised and one that is run. Each makes a new graph which computes the same
// bits; each can be left out.

/// Computes what depends on nothing but constants and sizes, if the result is not large.
PlanGraph fold(const PlanGraph& plan);
/// Replaces what has a simpler form: `x * 1`, `reshape` of `reshape`, `cast` to the type that it has.
PlanGraph simplify(const PlanGraph& plan);
/// Merges operations that compute the same.
PlanGraph cse(const PlanGraph& plan);
/// Cuts the edges to ops that read only the shape of an input, so that its value is not kept, or not computed, for
/// them.
PlanGraph shapes(const PlanGraph& plan);
/// Leaves out what nobody needs.
PlanGraph prune(const PlanGraph& plan);
/// Joins elementwise operations of one shape into programs, which read and write memory once.
PlanGraph fuse(const PlanGraph& plan);

struct Pass {
  std::string_view name;
  PlanGraph (*run)(const PlanGraph&);
};
/// All passes in their order.
std::span<const Pass> passes();

/// Runs the passes but those of the names that are disabled; `seen`, if given, sees the plan after each.
/// Throws InvalidArgumentError for a name that no pass has.
PlanGraph optimize(PlanGraph plan, const std::vector<std::string>& disabled = {},
                   const std::function<void(std::string_view pass, const PlanGraph& plan)>& seen = {});

/// Whether a node does more than compute its outputs: it changes a Variable, or takes random numbers from the stream.
bool has_effect(const Node& node);
/// Whether an op reads no more of an input than its dtype and shape.
bool reads_shape_only(const Op& op, std::size_t input);
/// The value of a constant; an empty handle for any other tensor.
Tensor constant_value(const Tensor& tensor);

}  // namespace tapestry::detail
