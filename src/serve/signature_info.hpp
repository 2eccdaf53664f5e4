#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/dtype.hpp"

/// What the file of a SavedModel says of its signatures, also of those with types that tensors do not have.

namespace tapestry::serve {

/// The number of TensorFlow's enum DataType: DT_FLOAT is 1.
using TypeNumber = int;
inline constexpr TypeNumber float_type = 1, string_type = 7;

/// "DT_FLOAT".
std::string enum_name(TypeNumber type);
/// The name in TensorFlow's messages: "float".
std::string type_name(TypeNumber type);
/// The type of tensors; DType::unknown for one that they do not have.
DType dtype_of(TypeNumber type);

/// An input or output of a signature.
struct TensorInfo {
  std::string name{};                                ///< the tensor of the graph: "points:0"
  TypeNumber type = 0;                               ///< of its elements
  std::optional<std::vector<std::int64_t>> sizes{};  ///< -1: any size; nothing: of unknown rank
};

/// A signature, whose inputs and outputs have the names that clients use.
struct SignatureInfo {
  std::map<std::string, TensorInfo> inputs{}, outputs{};
  std::string method{};  ///< "tensorflow/serving/predict"
  std::string proto{};   ///< the bytes of the SignatureDef
};

/// The signatures of the graph with the tag "serve". Throws NotFoundError when there is no file or no such graph, and
/// DataLossError when the file is damaged.
std::map<std::string, SignatureInfo> read_signatures(const std::filesystem::path& folder);

/// The file of a SavedModel, saved_model.pb, or saved_model.pbtxt where that is the only one.
std::filesystem::path model_file(const std::filesystem::path& folder);
/// The bytes of the file, or of what its text tells. Throws NotFoundError, and DataLossError for a text with a mistake.
std::string read_model(const std::filesystem::path& folder);
/// Whether one of its MetaGraphs has the tag "serve", and no other. Throws protozero's exceptions.
bool is_for_serving(std::string_view meta_graph);

}  // namespace tapestry::serve
