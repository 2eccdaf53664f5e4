#include "tapestry/dtype.hpp"

#include <ostream>

namespace tapestry {

std::string to_string(DType dtype) {
  constexpr std::string_view names[] = {"unknown", "bool",     "uint8",   "int32",   "int64",
                                        "float16", "bfloat16", "float32", "float64", "resource"};
  return std::string(names[static_cast<std::size_t>(dtype)]);
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }

std::string_view tensorflow_name(DType dtype) {
  constexpr std::string_view names[] = {"unknown", "bool",     "uint8", "int32",  "int64",
                                        "half",    "bfloat16", "float", "double", "resource"};
  return names[static_cast<std::size_t>(dtype)];
}

}  // namespace tapestry
