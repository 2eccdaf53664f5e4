#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

/// FunctionDef, TensorFlow's format of a function that the nodes of a graph call.

namespace tapestry::io {

using AttrDefs = std::map<std::string, AttrDef, std::less<>>;

struct FunctionDef {
  /// An argument or a result. Its type is that of the attribute `type_attr` of the call, if that is not empty.
  struct Arg {
    std::string name{};
    TypeCode type{};
    std::string type_attr{};
    bool is_list = false;  ///< stands for several tensors
  };
  std::string name{};
  std::vector<Arg> inputs{}, outputs{};
  std::vector<NodeDef> nodes{};  ///< their inputs are "argument", "node:output:index" and "^node"
  std::map<std::string, std::string, std::less<>> returns{};  ///< by the name of the output: an input as nodes have it
  std::vector<std::string> control_returns{};                 ///< the nodes that run whenever the function is called
  bool is_stateful = false;
};

/// The functions of a GraphDef. Throws DataLossError for bytes that are no FunctionDefLibrary, InvalidArgumentError
/// when two different functions have one name, and ResourceExhaustedError when they have more nodes than the limits
/// allow.
TAPESTRY_API std::vector<FunctionDef> decode_library(std::string_view bytes, const GraphLimits& limits);

/// By the type of operation that nodes name in their attribute `_gradient_op_type`: the function that computes its
/// gradient. Throws DataLossError for a damaged library.
std::map<std::string, std::string> registered_gradients(std::string_view library);

/// The library without the functions whose names begin so, and without the gradients that these compute. Throws
/// DataLossError for a damaged one.
std::string without_functions(std::string_view library, std::string_view prefix);

/// Adds the functions of another library. Functions that are in both must be equal: otherwise throws
/// InvalidArgumentError. Throws DataLossError for a damaged one.
TAPESTRY_API void merge_library(std::string& library, std::string_view other);

/// The function that an attribute names, with the attributes that it is called with; "" when the attribute names none.
/// Throws DataLossError for a damaged attribute.
struct FunctionName {
  std::string name{};
  AttrDefs attrs{};
};
TAPESTRY_API FunctionName function_named_by(const AttrDef& attr);
/// The functions of an attribute that lists several; none for any other attribute.
TAPESTRY_API std::vector<FunctionName> functions_named_by(const AttrDef& attr);
/// The attribute of the call that an attribute in the body of a function stands for; "" if it is a value.
TAPESTRY_API std::string placeholder_of(const AttrDef& attr);
/// Whether an attribute names a function, or several.
TAPESTRY_API bool names_function(const AttrDef& attr);

/// The bytes of a FunctionDef as an entry of a FunctionDefLibrary. The same function gives the same bytes.
std::string encode_function(const FunctionDef& function);
/// An attribute that names a function, or several.
AttrDef function_attr(const std::string& name);
AttrDef functions_attr(const std::vector<std::string>& names);

}  // namespace tapestry::io
