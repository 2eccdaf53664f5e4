#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

/// ONNX's ModelProto as plain values. Attributes and tensors are as in GraphDef, so that what reads nodes of TensorFlow
/// reads those of ONNX.

namespace tapestry::io {

struct OnnxGraphDef;

/// NodeProto. The names in `inputs` and `outputs` are of values; "" where an optional one is left out.
struct OnnxNodeDef {
  std::string name{}, type{}, domain{};
  std::vector<std::string> inputs{}, outputs{};
  std::map<std::string, AttrDef, std::less<>> attrs{};
  std::map<std::string, std::shared_ptr<const OnnxGraphDef>, std::less<>> graphs{};  ///< attributes that are graphs
  std::map<std::string, std::string> references{};  ///< attributes that are those of the function around
};

/// ValueInfoProto. `is_tensor`: it may also be a sequence, or a value without type.
struct OnnxValueDef {
  std::string name{};
  bool is_tensor = false;
  TypeCode type{};
  Shape shape = Shape::unknown_rank();
};

/// GraphProto.
struct OnnxGraphDef {
  std::string name{};
  std::vector<OnnxNodeDef> nodes{};
  std::map<std::string, TensorDef> initializers{};
  std::vector<OnnxValueDef> inputs{}, outputs{};
};

/// FunctionProto: an op of the model.
struct OnnxFunctionDef {
  std::vector<std::string> inputs{}, outputs{};
  std::map<std::string, AttrDef, std::less<>> defaults{};
  std::vector<OnnxNodeDef> nodes{};
  std::map<std::string, std::int64_t> opsets{};
};

struct OnnxModelDef {
  OnnxGraphDef graph{};
  std::map<std::string, OnnxFunctionDef> functions{};  ///< by the ops that they are: "domain::type"
  std::map<std::string, std::int64_t> opsets{};        ///< by domain
  std::map<std::string, std::string> metadata{};
};

/// "ai.onnx::Conv": the name by which our tables have an op. No op of TensorFlow's has such a name.
std::string onnx_op_name(std::string_view domain, std::string_view type);

/// The number of TensorFlow's type for ONNX's; 0 for one that neither of the two libraries has.
TypeCode type_of_onnx(std::int64_t code);

/// The model of a file. `folder`: of the files that have tensors' elements; they must lie in it. Throws DataLossError
/// for bytes that are no ModelProto and for a tensor whose elements do not fit its shape, InvalidArgumentError for a
/// graph that is not consistent, ResourceExhaustedError for more nodes than the limits allow.
OnnxModelDef decode_onnx(std::string_view bytes, const std::filesystem::path& folder, const GraphLimits& limits,
                         Where where);

/// A TensorProto by itself, which has its elements.
std::pair<std::string, TensorDef> decode_onnx_tensor(std::string_view bytes, const std::filesystem::path& folder,
                                                     Where where);

}  // namespace tapestry::io
