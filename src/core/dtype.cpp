#include "tapestry/dtype.hpp"

#include <iterator>
#include <ostream>

namespace tapestry {

std::string to_string(DType dtype) {
  constexpr std::string_view names[] = {"unknown", "bool",     "uint8",   "int32",   "int64",
                                        "float16", "bfloat16", "float32", "float64", "resource"};
  const auto place = static_cast<std::size_t>(dtype);
  // A program can cast any number to the type.
  return place < std::size(names) ? std::string(names[place]) : "DType(" + std::to_string(place) + ")";
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << to_string(dtype); }

std::string_view tensorflow_name(DType dtype) {
  constexpr std::string_view names[] = {"unknown", "bool",     "uint8", "int32",  "int64",
                                        "half",    "bfloat16", "float", "double", "resource"};
  return dtype <= DType::resource ? names[static_cast<std::size_t>(dtype)] : "invalid";
}

}  // namespace tapestry
