#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/function_def.hpp"
#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

inline constexpr TypeCode uint64_type{23};

/// Whether a Cast makes floats of whole numbers, or the reverse.
bool is_cast_of_floats(const NodeDef& node);

/// Whether `order_unsigned` knows the op, or the kind of Cast.
bool can_order_unsigned(const NodeDef& node);

/// A node of uint64 whose numbers have become int64 of the same bits, for which the order of the numbers matters: lets
/// it do the same with numbers without a sign. `types`: the attributes that it had.
void order_unsigned(NodeDef& node, const AttrDefs& types, std::vector<NodeDef>& added);

}  // namespace tapestry::io
