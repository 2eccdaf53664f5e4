#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/tensorflow/foreign_parts.hpp"

/// How each op of ONNX is read. A node of ONNX becomes a NodeDef whose op is "ai.onnx::Conv" and whose inputs are those
/// that the node has; the attributes below tell what GraphDef has no place for.

namespace tapestry::io {

/// ONNX's version of a node's op (an integer); the number of the node's outputs (an integer); and, where optional
/// inputs are left out, for each place its input or -1 (a list).
inline constexpr std::string_view onnx_version = "#version", onnx_outputs = "#outputs", onnx_places = "#places";

/// A node that is being read. A place is the number of an input in ONNX's definition of the op.
class OnnxCall {
 public:
  OnnxCall(const NodeReader& node, const Tensors& inputs) : node_(node), inputs_(inputs) {}

  const NodeReader& node() const { return node_; }
  std::int64_t version() const { return node_.attr_or<std::int64_t>(onnx_version, 1); }
  std::size_t outputs() const { return static_cast<std::size_t>(node_.attr_or<std::int64_t>(onnx_outputs, 1)); }
  /// How many places there are.
  std::size_t places() const;

  /// The input at a place; `find` gives an empty handle where it is left out.
  const Tensor& operator[](std::size_t place) const;
  Tensor find(std::size_t place) const;
  bool has(std::size_t place) const { return bool(input_at(place)); }
  const Shape& shape(std::size_t place = 0) const { return (*this)[place].shape(); }
  int rank(std::size_t place = 0) const { return shape(place).rank(); }
  /// -1 for an unknown size. Refuses the node when the input has no such axis.
  std::int64_t size(int axis, std::size_t place = 0) const;
  DType dtype(std::size_t place = 0) const { return (*this)[place].dtype(); }

  /// The value of an input; `is_known`: whether it is known, which it is for the op's `values`.
  bool is_known(std::size_t place) const;
  Tensor value(std::size_t place) const;
  /// A list of whole numbers, and one whole or real number.
  std::vector<std::int64_t> numbers(std::size_t place) const;
  std::int64_t number(std::size_t place) const;
  double real(std::size_t place) const;
  /// The numbers of an attribute or, in newer versions, of an input. Empty if there are none.
  std::vector<std::int64_t> numbers(std::string_view attr, std::size_t place) const;

  std::int64_t whole(std::string_view attr, std::int64_t otherwise) const;
  std::int64_t whole(std::string_view attr) const { return node_.attr<std::int64_t>(attr); }
  bool flag(std::string_view attr, bool otherwise = false) const { return whole(attr, otherwise) != 0; }
  double real(std::string_view attr, double otherwise) const;
  std::string text(std::string_view attr, std::string_view otherwise) const;
  std::vector<std::int64_t> ints(std::string_view attr, std::vector<std::int64_t> otherwise = {}) const;
  bool has_attr(std::string_view attr) const { return node_.def().attrs.contains(attr); }
  DType type(std::string_view attr) const;
  /// An axis of an input, counted from the start.
  int axis(std::int64_t given, std::size_t place = 0) const;
  int axis(std::string_view attr, std::int64_t otherwise, std::size_t place = 0) const {
    return axis(whole(attr, otherwise), place);
  }

  [[noreturn]] void refuse(const std::string& problem) const { node_.refuse(problem); }
  /// Throws UnimplementedError: Tapestry lacks this of the op.
  [[noreturn]] void lack(std::string_view what) const;
  void require(bool holds, std::string_view problem) const {
    if (!holds) refuse(std::string(problem));
  }

 private:
  std::optional<std::size_t> input_at(std::size_t place) const;

  const NodeReader& node_;
  const Tensors& inputs_;
};

/// The dtypes of the outputs, as far as they are known before the node is read.
using OnnxTypes = std::vector<DType> (*)(const OnnxCall&);

/// An op of ONNX. `values`: the places of inputs whose values it needs; `lacks`: whether it lacks sizes or ranks, so
/// that it must be read later; `rank`: that of its first output in that case, -1 if it is not known.
struct OnnxOp {
  std::string_view name;
  std::size_t least, most;  ///< the number of its inputs
  Tensors (*read)(const OnnxCall&);
  std::vector<std::size_t> values = {};
  bool (*lacks)(const OnnxCall&) = nullptr;
  OnnxTypes types = nullptr;  ///< nullptr: the first output has the type of the first input
  int (*rank)(const OnnxCall&) = nullptr;
  std::vector<std::size_t> statistics = {};  ///< inputs that training changes without gradients
  bool takes_parts = false;                  ///< as in ForeignOp
};
using OnnxOps = std::vector<OnnxOp>;

/// The metadata by which our own files tell the initializers that training changes: their names, each on a line.
inline constexpr std::string_view onnx_trained = "tapestry.trained";
/// The places at which an op takes what training does not change: values, statistics.
std::vector<std::size_t> onnx_fixed_places(const std::string& op);

inline constexpr std::size_t any_inputs = 1 << 16;

// One table for each file.
OnnxOps onnx_elementwise();
OnnxOps onnx_bits();
OnnxOps onnx_arrays();
OnnxOps onnx_indexing();
OnnxOps onnx_selection();
OnnxOps onnx_reductions();
OnnxOps onnx_images();
OnnxOps onnx_pools();
OnnxOps onnx_resizing();
OnnxOps onnx_sampling();
OnnxOps onnx_networks();
OnnxOps onnx_attention();
OnnxOps onnx_quantization();
OnnxOps onnx_recurrent();
OnnxOps onnx_sequences();

/// The op of a node that was read from ONNX, for the tables of foreign ops; nullptr when Tapestry lacks it.
const ForeignOp* find_onnx_op(const NodeDef& def);

/// ForeignOp::write of all ops of ONNX.
std::vector<std::string> write_onnx_as_tensorflow(const NodeReader& reader, const Tensors& inputs, NodeAdder& add);

// ---- Conditions (OnnxOp::lacks)

bool onnx_lacks_rank(const OnnxCall& c);      ///< the rank of the first input
bool onnx_lacks_ranks(const OnnxCall& c);     ///< the rank of any input
bool onnx_lacks_sizes(const OnnxCall& c);     ///< a size of the first input
bool onnx_lacks_any_size(const OnnxCall& c);  ///< a size of any input
bool onnx_lacks_plane(const OnnxCall& c);     ///< a size of the first input beside the first, the batch

// ---- Types and ranks (OnnxOp::types, rank)

std::vector<DType> onnx_type_bool(const OnnxCall& c);
std::vector<DType> onnx_type_int64(const OnnxCall& c);
int onnx_rank_of_input(const OnnxCall& c);

// ---- Parts

/// first, first + 1, ..., last - 1
Ints onnx_range(std::int64_t first, std::int64_t last);
/// A part of an axis by Python's rules: start:stop:step.
struct OnnxCut {
  int axis;
  std::int64_t start, stop, step = 1;
};
Tensor onnx_cut(const Tensor& x, const std::vector<OnnxCut>& cuts);
/// Which of several equal numbers (int64) is the last one of them, in the order of all: bools in their shape.
Tensor onnx_last_of_equal(const Tensor& numbers);
/// The permutation that moves one axis to another place.
Ints onnx_moved(int rank, int from, int to);

}  // namespace tapestry::io
