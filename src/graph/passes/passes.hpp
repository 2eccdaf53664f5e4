#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan_graph.hpp"

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
/// Joins a matrix product and the elementwise operations that alone need it, which then run on each block of the
/// product while it is in the cache, and in its place. Small products are left alone.
PlanGraph epilogue(const PlanGraph& plan);
/// Puts operations next to each other, in a group, that are independent and would each keep one core busy.
PlanGraph parallel(const PlanGraph& plan);

/// How `place` chooses devices.
struct Placement {
  bool soft = false;  ///< what asks for a device that is not there runs on the CPU, instead of being an error
  bool log = false;   ///< writes "MatMul: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0" to std::clog
};
/// Gives every node the device it runs on: the one that was asked for, else that of its Variable, else that of its
/// inputs (beside an accelerator, not the host), else the CPU. Variables are moved to where they were asked for. Runs
/// before all other passes. Throws InvalidArgumentError for a device that is not there.
PlanGraph place(const PlanGraph& plan, const Placement& options);

/// What runs on one device.
struct Partition {
  Device device;
  PlanGraph plan;
  std::vector<std::size_t> feeds, fetches;  ///< which of the whole plan's the part's are
};
/// Splits a plan by device, the part on the host first. What one part computes and another needs is sent once to each
/// device by a "_Send" and comes out of a "_Recv" there; a wait becomes the sending of an empty constant. Constants are
/// copied into each part that needs them. Runs after all other passes.
std::vector<Partition> partition(const PlanGraph& plan);

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

/// Whether a node is elementwise and may be computed in a program.
bool may_be_fused(const Node& node);
/// What an op infers whose attributes "program" and "shape" say what it computes.
Specs program_specs(const Call& call);
/// Whether a node does more than compute its outputs: it changes a Variable, or takes random numbers from the stream.
bool has_effect(const Node& node);
/// Whether an op reads no more of an input than its dtype and shape.
bool reads_shape_only(const Op& op, std::size_t input);
/// The value of a constant; an empty handle for any other tensor.
Tensor constant_value(const Tensor& tensor);

}  // namespace tapestry::detail
