#pragma once

#include <optional>

#include "tapestry/op.hpp"

namespace tapestry {

/// How many inputs an op has, where its entry tells: an elementwise function has as many as operands.
std::optional<int> input_count(const Op& op);

/// The declaration of an op's attribute, or nullptr when the op has none of that name.
const OpAttr* find_attr(const Op& op, std::string_view name);

/// What is wrong with the value of an attribute of the declared kind: "has 3 elements".
std::optional<std::string> problem_of(const OpAttr& attr, const AttrValue& value);

/// The attribute that an op cannot do without and that is not among these, or nullptr.
const OpAttr* missing_attr(const Op& op, const Attrs& attrs);

/// Throws InvalidArgumentError for an attribute that the op does not have or whose value it does not take, and
/// NotFoundError for one of another kind and for one that is missing.
void check_attrs(const Op& op, const Attrs& attrs, Where where);

}  // namespace tapestry
