#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "expect.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::test {

/// "int32[2]: 1 2"
inline std::string text(const Tensor& x) {
  std::ostringstream out;
  out << to_string(x.dtype()) << x.shape() << ':';
  for (const double value : x.to_vector<double>()) out << ' ' << value;
  return out.str();
}

/// Spellings of the same tensor.
inline void all_same(const std::vector<Tensor>& spellings, double tolerance = 0) {
  for (const Tensor& each : spellings) check_same(each, spellings[0], tolerance);
}

}  // namespace tapestry::test
