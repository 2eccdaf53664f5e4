#pragma once

#include <cstdint>
#include <string>

#include "tapestry/shape.hpp"

namespace tapestry {

/// The index of the element at a flat position, for error messages: "[1,2]", or "" in a scalar.
inline std::string place_in(const Shape& shape, std::int64_t flat) {
  if (shape.rank() == 0) return "";
  std::string text;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    text = std::to_string(flat % shape.sizes()[i]) + (text.empty() ? "" : ",") + text;
    flat /= shape.sizes()[i];
  }
  return "[" + text + "]";
}

/// The error of a label that is no class.
inline std::string label_out_of_range(std::int64_t label, std::int64_t classes) {
  return "Received a label value of " + std::to_string(label) + " which is outside the valid range of [0, " +
         std::to_string(classes) + ")";
}

}  // namespace tapestry
