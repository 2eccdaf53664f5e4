#pragma once

#include <cstdint>
#include <string>

#include "tapestry/shape.hpp"

namespace tapestry {

/// "[1,2]", for errors: where the flat position stands in a tensor; "" in a scalar.
inline std::string place_in(const Shape& shape, std::int64_t flat) {
  if (shape.rank() == 0) return "";
  std::string text;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    text = std::to_string(flat % shape.sizes()[i]) + (text.empty() ? "" : ",") + text;
    flat /= shape.sizes()[i];
  }
  return "[" + text + "]";
}

}  // namespace tapestry
