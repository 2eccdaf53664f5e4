#pragma once

#include "dispatch/recorder.hpp"
#include "tapestry/variable.hpp"

namespace tapestry {

/// The ops that only graphs have: leaves, and what reads and changes Variables. The Variables are in the attribute
/// "variables"; their handles, the first inputs, only draw the edge.
extern const Op &const_op, &placeholder_op, &no_op_op, &var_handle_op, &read_variable_op;
/// What joins the parts of a plan on several devices: "_Send" of a tensor to the device "recv_device", under the "key"
/// that its "_Recv" waits for.
extern const Op &send_op, &recv_op;
const Op& assign_op(Assign kind);
std::string_view assign_name(Assign kind);

Attrs variable_attrs(const std::vector<Variable>& variables);
inline Spec variable_spec(const Variable& variable) { return {variable.dtype(), variable.shape()}; }

}  // namespace tapestry
