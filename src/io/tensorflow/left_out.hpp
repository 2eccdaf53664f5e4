#pragma once

#include <string_view>

namespace tapestry::io {

/// An attribute of a constant that only keeps the name and the value which it had in the file that the graph was read
/// from. No node of the graph stands for it unless somebody asks for it.
inline constexpr std::string_view hint_left_out = "_tapestry_left_out";

}  // namespace tapestry::io
