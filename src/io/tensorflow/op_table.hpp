#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {

/// The rules of all ops whose form in TensorFlow is not that of their entry, without `entry`.
std::vector<OpRule> op_table();
/// The op for which TensorFlow's op is another name; by default the same.
std::string_view op_of_alias(std::string_view tensorflow);

}  // namespace tapestry::io
