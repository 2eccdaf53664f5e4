#pragma once

#include "tapestry/op.hpp"

namespace tapestry {

/// An op of the library: a constant at namespace scope, in the file of its family. Its constructor registers it.
struct OpDefinition : Op {
  explicit OpDefinition(Op op);
};

/// `TAPESTRY_OP(sin){{.name = "Sin", ...}};` The priority makes the library's ops ready before a program that links the
/// static library initialises its own globals, which may use them.
#define TAPESTRY_OP(identifier) __attribute__((init_priority(2000))) const OpDefinition identifier

/// Whether a call may lack an attribute: `{"axis", AttrKind::number, optional}`.
inline constexpr bool required = false, optional = true;

namespace detail {

/// Defined beside the op families; a reference to it makes the linker take all of them out of the static library.
void link_op_families();

}  // namespace detail
}  // namespace tapestry
