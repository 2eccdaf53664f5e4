#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "tapestry/graph.hpp"

/// GraphDef, TensorFlow's format of a graph, as plain values, and its two encodings: protobuf's wire format (.pb) and
/// protobuf's text format (.pbtxt).

namespace tapestry::io {

/// TensorFlow's DataType: 1 is float. Types that Tapestry lacks keep their numbers.
struct TypeCode {
  std::int32_t value = 0;
  friend bool operator==(TypeCode, TypeCode) = default;
};
inline constexpr TypeCode resource_type{20}, variant_type{21};
/// DType::unknown becomes 0, TensorFlow's DT_INVALID.
TAPESTRY_API TypeCode code_of(DType dtype);
/// DType::unknown for a type that Tapestry lacks. A reference type gives the type that it refers to.
TAPESTRY_API DType dtype_of(TypeCode type);
/// "DT_FLOAT", "DT_FLOAT_REF"; the number of a type that TensorFlow lacks.
TAPESTRY_API std::string type_name(TypeCode type);
constexpr TypeCode reference_to(TypeCode type) { return {type.value + 100}; }

/// The value of a Const. `value` is empty when Tapestry lacks the type; an attribute is then a RawAttr.
struct TensorDef {
  TypeCode type;
  Tensor value{};
};

/// At most one of these has elements.
struct ListDef {
  std::vector<std::string> strings{};
  std::vector<std::int64_t> ints{};
  std::vector<float> floats{};
  std::vector<std::uint8_t> bools{};
  std::vector<TypeCode> types{};
  std::vector<Shape> shapes{};
};

/// The bytes of an AttrValue of which Tapestry has no use: a function, strings, a tensor of a type that Tapestry lacks,
/// shapes and tensors of more dimensions than ours have.
struct RawAttr {
  std::string bytes{};
  bool lacks_rank = false;  ///< it is a shape or a tensor of too many dimensions
};

/// An attribute; monostate for one without a value.
using AttrDef =
    std::variant<std::monostate, std::string, std::int64_t, float, bool, TypeCode, Shape, TensorDef, ListDef, RawAttr>;

struct Flow;
struct FileGradient;

struct NodeDef {
  std::string name{}, op{}, device{};
  std::vector<std::string> inputs{};  ///< "n", "n:k"; the control inputs, "^n", last
  std::map<std::string, AttrDef, std::less<>> attrs{};
  std::shared_ptr<const Flow> flow{};  ///< of a branch or a loop that can be read: the functions that it runs
  std::shared_ptr<const FileGradient> gradient{};  ///< of an IdentityN for which the file has one
};

/// Of nodes that have become part of a branch or of a loop, by their names: the node that runs this. "" for a node that
/// only passed on a tensor to a branch. Of outputs of nodes that are gone, "node:0": the tensor of the same value.
using MovedNodes = std::unordered_map<std::string, std::string>;

/// Lists of tensors whose elements have different shapes, by the nodes that make them empty; with the number of
/// dimensions of all elements, or -1 if they have different ones.
using UnevenLists = std::map<std::string, int>;

struct GraphDef {
  std::vector<NodeDef> nodes{};
  std::string library{};      ///< the bytes of its FunctionDefLibrary: the functions that its nodes call
  std::int32_t producer = 0;  ///< the version of TensorFlow's formats that the file is written in; 0 if it tells none
  /// The names of the file's nodes that are like those which the reader gives, with "/_/" in them; nullptr for none.
  std::shared_ptr<const std::unordered_set<std::string>> like_reader{};
  std::shared_ptr<const MovedNodes> moved{};  ///< nodes of the file that this graph has no longer
};

/// Whether the reader has given a node of the graph its name.
inline bool is_named_by_reader(const GraphDef& graph, const std::string& name) {
  return name.find("/_/") != std::string::npos && !(graph.like_reader && graph.like_reader->contains(name));
}

/// The number of a node's inputs before its control inputs.
TAPESTRY_API std::size_t data_inputs(const NodeDef& node);
/// The name of a tensor, as inputs have it, without ":0".
TAPESTRY_API std::string without_zero(const std::string& tensor);

/// The bytes of a .pb file. The same graph gives the same bytes.
TAPESTRY_API std::string encode(const GraphDef& graph);
/// Throws DataLossError for bytes that are no GraphDef, InvalidArgumentError for tensors that claim far more elements
/// than they list, and ResourceExhaustedError for more nodes than the limits allow. Takes memory in proportion to the
/// bytes, and for at most 2^24 elements that the bytes do not list.
TAPESTRY_API GraphDef decode(std::string_view bytes, const GraphLimits& limits = GraphLimits::none());

/// A NodeDef and an AttrValue by themselves.
/// @{
TAPESTRY_API std::string encode_node(const NodeDef& node);
std::string encode_attr(const AttrDef& attr);
/// @}

/// A NodeDef and an AttrValue by themselves. `repeats`: how many elements tensors may leave out; what they leave out is
/// taken off. They throw protozero's exceptions for bytes that are no such message.
/// @{
NodeDef decode_node(std::string_view bytes, std::int64_t& repeats);
AttrDef decode_attr(std::string_view bytes, std::int64_t& repeats);
/// @}

/// A TensorProto by itself. Throws DataLossError for bytes that are none, InvalidArgumentError for a tensor that leaves
/// out more elements than it has bytes, unless it repeats a single one.
TAPESTRY_API TensorDef decode_tensor(std::string_view bytes);
/// The value of a Const of a type that Tapestry lacks: of int8, int16 or uint16 as int32, of uint32 or uint64 as int64;
/// of complex numbers the real parts and the imaginary ones.
TAPESTRY_API std::pair<TensorDef, TensorDef> decode_parts(const RawAttr& value);

/// The messages that have a text form.
enum class TextMessage { graph, checkpoint_state, saved_model };
/// The bytes of a .pb file as the text of a .pbtxt file, and back. `from_text` throws DataLossError, with the line, for
/// text that is no such message; it skips unknown fields.
std::string to_text(std::string_view bytes, TextMessage message = TextMessage::graph);
TAPESTRY_API std::string from_text(std::string_view text, TextMessage message = TextMessage::graph);

}  // namespace tapestry::io
