#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/plan_graph.hpp"

namespace tapestry::detail {

// The passes between a specialised graph and the one that runs. Each makes a new graph that computes the same bits, and
// each can be left out.

/// Computes all branches of an If or Case on the CPU and chooses among their results, if that takes no longer than to
/// run one: each branch is a few elementwise functions of few elements. The plan must be complete: what a branch that
/// is not taken is given may have no value.
PlanGraph branches(const PlanGraph& plan);
/// Computes the nodes that depend only on constants and sizes, if the results are not large.
PlanGraph fold(const PlanGraph& plan);
/// Replaces operations that have a simpler form: `x * 1`, `reshape` of `reshape`, `cast` to the type of the operand.
PlanGraph simplify(const PlanGraph& plan);
/// Merges operations that compute the same.
PlanGraph cse(const PlanGraph& plan);
/// Cuts the edges along which ops read only a shape, so that the value is not kept, or not computed, for them.
PlanGraph shapes(const PlanGraph& plan);
/// Leaves out the nodes that nothing needs. Those with an effect stay.
PlanGraph prune(const PlanGraph& plan);
/// Joins elementwise operations of one shape into programs, which read and write memory once.
PlanGraph fuse(const PlanGraph& plan);
/// Joins a matrix product with the elementwise operation or program that is its only user. This then runs on each tile
/// of the product while the tile is in the cache, and overwrites it. Small products are left alone.
PlanGraph epilogue(const PlanGraph& plan);
/// Joins a reduction on the CPU with the elementwise operation or program whose result it alone needs. The elements are
/// then reduced while they are in the cache, and not kept. Small ones stay in the cache anyway and are left alone.
PlanGraph reductions(const PlanGraph& plan);
/// Puts independent operations that would each keep one core busy next to each other, in a group.
PlanGraph parallel(const PlanGraph& plan);

/// How `place` chooses devices.
struct Placement {
  bool soft = false;  ///< a node that asks for a device that is not there runs on the CPU, instead of throwing
  bool log = false;   ///< writes "MatMul: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0" to std::clog
};
/// Gives every node the device on which it runs: that of its Variable, else that of the node with which it is
/// colocated, else the one that was asked for, else that of its attribute "device", else that of its inputs (an
/// accelerator before the host), else the CPU. A device copy always runs on the device of its attribute. Variables are
/// moved to the device that was asked for. Runs before all other passes. Throws InvalidArgumentError for a device that
/// is not there, unless the placement is soft.
PlanGraph place(const PlanGraph& plan, const Placement& options);

/// The nodes of a plan that run on one device.
struct Partition {
  Device device;
  PlanGraph plan;
  std::vector<std::size_t> feeds, fetches;  ///< as indices of those of the whole plan
};
/// Splits a plan by device; the partition of the host comes first. A tensor that other partitions need is sent once to
/// each of their devices by a "_Send" and received there by a "_Recv"; instead of a control edge, an empty constant is
/// sent. Constants are copied into each partition that needs them. Runs after all other passes.
std::vector<Partition> partition(const PlanGraph& plan);

struct Pass {
  std::string_view name;
  PlanGraph (*run)(const PlanGraph&);
};
/// All passes in their order.
std::span<const Pass> passes();

/// Throws InvalidArgumentError for a name that no pass has.
void require_passes(std::span<const std::string> names);
/// Runs all passes but the disabled ones, and calls `seen`, if given, with the plan after each.
PlanGraph optimize(PlanGraph plan, const std::vector<std::string>& disabled = {},
                   const std::function<void(std::string_view pass, const PlanGraph& plan)>& seen = {});

/// The op of the programs that `fuse` makes. Only plans have it, so it is not in the registry.
const Op& fused_op();
/// Whether a node is elementwise and may be computed in a program.
bool may_be_fused(const Node& node);
/// The program of a call that `fuse` made or, of an elementwise op, a program of one instruction. Also sets the
/// program's inputs.
ProgramRef program_of(const Call& call, Tensors& inputs);
/// Infers the outputs of an op from its attributes "program" and "shape".
Specs program_specs(const Call& call);
/// Whether a node does more than compute its outputs: it changes a Variable, or takes random numbers from the stream.
bool has_effect(const Node& node);
/// Whether an op reads no more of an input than its dtype and shape.
bool reads_shape_only(const Op& op, std::size_t input);
/// The value of a constant; an empty handle for any other tensor.
Tensor constant_value(const Tensor& tensor);

}  // namespace tapestry::detail
