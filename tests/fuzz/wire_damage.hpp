#pragma once

#include <string>

#include "fuzz/dice.hpp"

namespace tapestry::test {

/// A GraphDef with one field changed, at any depth; the lengths of the messages around it are right again.
std::string damage_field(const std::string& graph_def, Dice& dice);

}  // namespace tapestry::test
