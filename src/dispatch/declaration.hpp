#pragma once

#include <optional>

#include "tapestry/op.hpp"

namespace tapestry {

/// The number of inputs of an elementwise op, which is the number of operands of its function. Nothing for other ops.
std::optional<int> input_count(const Op& op);

/// The op of that name. Throws NotFoundError, "Unrecognized Op name X".
const Op& registered_op(std::string_view name, Where where);

/// A call of an op by its name, and with a name for its node, as `apply_op` and `Graph::create_op` are given them. The
/// inputs are not promoted yet. Throws an error when there is no such op, and when the inputs are too few or too many
/// or the attributes do not fit.
Call named_call(std::string_view name, const InList& inputs, const Attrs& attrs, std::string_view node);

/// Both are defined in io/tensorflow/call_rules.cpp, by the rules of TensorFlow's ops, which tell what an absent
/// attribute stands for and how many inputs an op has: the attributes with those that a call may lack in TensorFlow,
/// and a check that throws InvalidArgumentError.
/// @{
Attrs with_defaults(const Op& op, const Attrs& attrs);
void check_input_count(const Call& call);
/// @}

/// The declaration of an op's attribute, or nullptr when the op has none of that name.
const OpAttr* find_attr(const Op& op, std::string_view name);

/// What is wrong with a value of the declared kind, such as "has 3 elements"; nothing if it is valid.
std::optional<std::string> problem_of(const OpAttr& attr, const AttrValue& value);

/// What the op's gradient reads. That of a composition starts from the inputs.
inline Needs needs_of(const Op& op) { return op.gradient ? op.needs : needs_inputs; }

/// Whether the op's gradient is the one that the library has for it. A program may have registered another one.
bool has_own_gradient(const Op& op);

/// A required attribute of the op that is not among these, or nullptr.
const OpAttr* missing_attr(const Op& op, const Attrs& attrs);

/// The attributes of a call, with a real number for a whole one where the op declares that. Throws InvalidArgumentError
/// for an attribute that the op does not have and for a value that it does not take, and NotFoundError for a value of
/// another kind and for a missing attribute.
Attrs checked_attrs(const Op& op, const Attrs& attrs, Where where);

namespace detail {

/// TensorFlow's rule for the names of nodes, which by default have those of ops: "^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$".
bool is_valid_node_name(std::string_view name);

}  // namespace detail

}  // namespace tapestry
