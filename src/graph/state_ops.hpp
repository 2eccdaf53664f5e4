#pragma once

#include "dispatch/recorder.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// The ops that only graphs have: leaves, and those that read and change Variables. The Variables are in the attribute
/// "variables"; their handles, the first inputs, only make the edge.
TAPESTRY_API extern const Op &const_op, &placeholder_op, &no_op_op, &var_handle_op, &read_variable_op,
    &is_initialized_op;
/// The ops that connect the partitions of a plan: "_Send" sends a tensor to the device "recv_device", under the "key"
/// for which its "_Recv" waits.
extern const Op &send_op, &recv_op;
TAPESTRY_API const Op& assign_op(Assign kind);
std::string_view assign_name(Assign kind);

/// Whether an operation with these attributes changes Variables.
TAPESTRY_API bool changes_variables(const Call& call);

/// Whether the sizes of an operation's results are known only when it runs: it allocates them then.
bool allocates_results(const Call& call);
/// Whether the operation assigns a value of any sizes to a Variable whose own sizes change.
bool assigns_any_sizes(const Call& call);

TAPESTRY_API Attrs variable_attrs(const std::vector<Variable>& variables);
inline Spec variable_spec(const Variable& variable) { return {variable.dtype(), variable.shape()}; }

}  // namespace tapestry
