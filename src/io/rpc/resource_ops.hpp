#pragma once

#include "io/rpc/node_edges.hpp"

/// TensorFlow's queues and accumulators of gradients, with which the workers of a cluster wait for each other. They
/// live at a task, as Variables do, and the ops that use them may wait. So no plan has these ops: tasks run them
/// themselves.

namespace tapestry::io::rpc {

/// Whether the op makes a queue or an accumulator: the others get it as their first input.
bool makes_shared_resource(std::string_view op);
/// Whether the op uses one, such as "QueueDequeueV2" or "AccumulatorTakeGradient".
bool uses_shared_resource(std::string_view op);
/// Whether the op may wait for what other runs do.
bool may_wait(std::string_view op);
/// The op without what only tells how it refers to the resource: "QueueDequeueV2" and "QueueDequeue" are one, and
/// so are "ResourceAccumulatorTakeGradient" and "AccumulatorTakeGradient".
std::string_view resource_op(std::string_view op);
/// The ops of a Variable of a server that is none of the client's graph, such as the step of a worker.
inline constexpr const char *local_variable_op = "VarHandleOp", *read_local_op = "ReadVariableOp",
                            *assign_local_op = "AssignVariableOp";
/// The type of an output of such an op; 0 for what is no tensor, or for an output that it lacks.
TypeCode output_type(const NodeDef& node, int output);

}  // namespace tapestry::io::rpc
