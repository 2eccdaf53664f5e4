#include "io/tensorflow/kept_node.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "core/make_tensor.hpp"
#include "dispatch/declaration.hpp"
#include "io/tensorflow/foreign_ops.hpp"
#include "io/tensorflow/op_reader.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::io {
namespace {

/// What a kept node of type T calls once all is known; nullptr for any other node.
template <class T>
const T* redone_by(const Call& call) {
  const Closure* redo = call.attrs().find<Closure>("redo");
  return redo ? (*redo)->target<T>() : nullptr;
}

template <class T>
Specs kept_specs(const Call& call) {
  if (const T* kept = redone_by<T>(call)) return kept->specs;
  throw InternalError(detail::join(call.name(), " was not replaced by what it stands for"));
}

Attrs kept_attrs(Ints awaited, std::function<Tensors(const Tensors&)> redo) {
  return {{"awaited_values", std::move(awaited)},
          {"redo", std::make_shared<const std::function<Tensors(const Tensors&)>>(std::move(redo))}};
}

/// The gradient of a kept node, in a graph that calls the file's graph on a tape. It waits for the same values.
struct KeptGradient {
  KeptNode node;
  std::vector<std::size_t> sources{};  ///< the node's inputs that have gradients
  std::vector<std::size_t> targets{};  ///< its outputs that have them; they follow the node's inputs
  Specs specs{};

  Tensors operator()(const Tensors& all) const {
    Tensors inputs = all;
    GradientTape tape({.watch_accessed_variables = false});
    std::vector<Tensor> watched, reached;
    for (const std::size_t i : sources) {
      inputs[i] = identity(inputs[i]);
      tape.watch(inputs[i]);
      watched.push_back(inputs[i]);
    }
    const Tensor* const gradients = all.end() - targets.size();
    const Tensors outputs = node(Tensors(inputs.begin(), inputs.end() - targets.size()));
    for (const std::size_t i : targets) reached.push_back(outputs[i]);
    return Tensors(tape.gradient(
        reached, watched,
        {.output_gradients = std::vector<Tensor>(gradients, all.end()), .unconnected = Unconnected::zero}));
  }
};

Tensors gradient_of_kept(const Call& call, const Tensors& arrived) {
  static const Op& op = *new Op{.name = "KeptNodeGradient", .infer = kept_specs<KeptGradient>, .outputs = -1};
  const Ints& awaited = call.attr<Ints>("awaited_values");
  KeptGradient gradient{.node = *redone_by<KeptNode>(call)};
  Tensors inputs = call.inputs();
  for (std::size_t i = 0; i < call.inputs().size(); ++i) {
    if (!is_floating(inputs[i].dtype()) || std::find(awaited.begin(), awaited.end(), i) != awaited.end()) continue;
    gradient.sources.push_back(i);
    gradient.specs.push_back(inputs[i].spec());
  }
  for (std::size_t i = 0; i < arrived.size(); ++i) {
    if (!arrived[i]) continue;
    gradient.targets.push_back(i);
    inputs.push_back(arrived[i]);
  }
  Tensors found(call.inputs().size());
  if (gradient.sources.empty()) return found;
  const Tensors results = apply_all(op, inputs, kept_attrs(awaited, gradient), {}, call.where());
  for (std::size_t k = 0; k < results.size(); ++k) found[gradient.sources[k]] = results[k];
  return found;
}

/// The op of a node that is read later. It has the name of TensorFlow's op.
const Op& kept_op(const std::string& name, bool stateful) {
  static std::mutex& mutex = *new std::mutex;
  static auto& ops = *new std::map<std::string, Op>;
  const std::lock_guard lock(mutex);
  const Op op{
      .name = name, .infer = kept_specs<KeptNode>, .gradient = gradient_of_kept, .outputs = -1, .stateful = stateful};
  return ops.try_emplace(name, op).first->second;
}

bool is_random(const std::string& op) {
  const OpRule* rule = rule_of_tensorflow(op);
  return rule && rule->entry->stateful;
}

bool is_index(DType dtype) { return dtype == int32 || dtype == int64; }
/// Whether an op takes other values than integers for attributes.
bool takes_reals(const NodeDef& def) {
  const std::string& op = def.op;
  if (const ForeignOp* foreign = find_foreign_op(def); foreign && foreign->takes_reals) return true;
  return op == "Range" || op == "Fill" || op == "PadV2" || op == "LinSpace" || op == "Reverse" || op == "Switch" ||
         op == "RefSwitch" || op.starts_with("ScaleAndTranslate") || op.starts_with("ImageProjective") ||
         op.starts_with("NonMaxSuppression") || op == "CombinedNonMaxSuppression" || op == "ListDiff";
}

// ---- What is known of the outputs -----------------------------------------------------------------------------------

/// Infers the dtypes and shapes of a node's outputs, as far as its inputs and their known values allow.
class Outlook {
 public:
  Outlook(const NodeReader& reader, const Tensors& inputs, const detail::KnownValues& known)
      : reader_(reader), op_(reader.def().op), inputs_(inputs), known_(known) {}

  Specs specs() const {
    if (op_ == "DynamicPartition") {
      const auto count = reader_.attr<std::int64_t>("num_partitions");
      if (count < 1 || count > most_outputs) reader_.refuse(detail::join("it has ", count, " partitions"));
      return Specs(count, Spec{type(0), open(rank(0) < 0 || rank(1) < 0 ? -1 : rank(0) - rank(1) + 1)});
    }
    if (op_ == "Split" || op_ == "SplitV" || op_ == "Unpack") {
      const auto count = reader_.attr<std::int64_t>(op_ == "Unpack" ? "num" : "num_split");
      if (count < 1 || count > most_outputs) reader_.refuse(detail::join("it has ", count, " outputs"));
      const Tensor& x = in(op_ == "Split" ? 1 : 0);
      const Shape shape = op_ == "Unpack" ? without_one_axis(x) : open(x.shape().rank());
      return Specs(count, Spec{x.dtype(), shape});
    }
    const ForeignOp* foreign = find_foreign_op(reader_.def());
    if (foreign && foreign->specs) return foreign->specs(reader_, inputs_);
    if (foreign && !foreign->outputs.empty()) {
      Specs specs;
      for (const OutputType& each : foreign->outputs) specs.push_back({type(each), Shape::unknown_rank()});
      specs[0].shape = shape_of_output();
      if (op_.ends_with("Switch")) specs[0].shape = specs[1].shape = shape(0);
      if (op_.starts_with("SparseSegment") && op_.ends_with("GradV2")) specs[1].shape = {-1};
      if (op_.ends_with("Merge")) specs = {{type(0), common_shape()}, {int32, {}}};
      return specs;
    }
    if (op_ == "ConcatOffset") return Specs(inputs_.size() - 1, Spec{type(1), shape(1)});
    if (op_ == "TopKV2") return {{type(0), open(rank(0))}, {int32, open(rank(0))}};
    if (op_ == "BroadcastGradientArgs") return {{type(0), {-1}}, {type(0), {-1}}};
    if (op_.starts_with("FusedBatchNorm")) {
      Specs specs{
          {type(0), shape(0)}, {type(3), shape(3)}, {type(4), shape(4)}, {type(3), shape(3)}, {type(4), shape(4)}};
      if (op_ == "FusedBatchNormV3") specs.push_back({type(3), Shape::unknown_rank()});
      return specs;
    }
    return {{dtype(), shape_of_output()}};
  }

 private:
  const Tensor& in(std::size_t i) const {
    if (i >= inputs_.size()) reader_.refuse(detail::join("it has no input ", i));
    return inputs_[i];
  }
  DType type(std::size_t i) const { return in(i).dtype(); }
  DType type(const OutputType& output) const {
    if (output.like >= 0) return type(static_cast<std::size_t>(output.like));
    const auto* code = output.attr.empty() ? nullptr : reader_.find<TypeCode>(output.attr);
    return code ? dtype_of(*code) : output.dtype;
  }
  const Shape& shape(std::size_t i) const { return in(i).shape(); }
  int rank(std::size_t i) const { return shape(i).rank(); }

  /// A shape of that many unknown sizes; one of unknown rank if there cannot be so many.
  static Shape open(int rank) {
    if (rank < 0 || rank > Shape::max_rank) return Shape::unknown_rank();
    return Shape(std::vector<std::int64_t>(rank, -1));
  }

  /// The shape of all inputs, as far as they agree.
  Shape common_shape() const {
    Shape common = shape(0);
    for (const Tensor& each : inputs_) {
      if (each.shape().rank() != common.rank()) return Shape::unknown_rank();
      for (int i = 0; i < common.rank(); ++i)
        if (each.shape().sizes()[i] != common.sizes()[i]) common.set(i, -1);
    }
    return common;
  }

  Shape without_one_axis(const Tensor& x) const {
    if (!x.shape().has_rank()) return Shape::unknown_rank();
    Shape rest = x.shape();
    rest.erase(normalize_axis(reader_.attr_or<std::int64_t>("axis", 0), x.shape().rank()));
    return rest;
  }

  /// The numbers of an input that is a list, -1 for unknown ones; nothing when even their count is unknown.
  std::optional<std::vector<std::int64_t>> list(std::size_t i) const {
    const Tensor value = reader_.is_constant(i) ? reader_.constant(i) : known_.find(in(i));
    const Tensor& input = value ? value : in(i);
    if (input.shape().rank() != 1 || input.shape().sizes()[0] < 0 || input.shape().sizes()[0] > Shape::max_rank)
      return {};
    if (!value) return std::vector<std::int64_t>(input.shape().sizes()[0], -1);
    if (!is_index(value.dtype())) return {};
    std::vector<std::int64_t> numbers = value.to_vector<std::int64_t>();
    for (std::int64_t& each : numbers)
      if (each < 0) each = -1;
    return numbers;
  }

  Shape listed(std::size_t i) const {
    const auto numbers = list(i);
    return numbers ? Shape(*numbers) : Shape::unknown_rank();
  }

  DType dtype() const {
    const auto attr = [&](std::string_view name, DType otherwise) {
      const auto* code = reader_.find<TypeCode>(name);
      return code ? dtype_of(*code) : otherwise;
    };
    if (op_ == "Any" || op_ == "All") return boolean;
    if (op_ == "ArgMax" || op_ == "ArgMin") return attr("output_type", int64);
    if (op_ == "Rank") return int32;
    if (op_ == "Fill" || op_ == "AvgPoolGrad") return type(1);
    if (op_ == "OneHot" || op_ == "Conv2DBackpropInput" || op_ == "Conv2DBackpropFilter") return type(2);
    if (op_ == "Select") return type(1);
    if (op_ == "DynamicStitch") return inputs_.back().dtype();
    if (op_ == "ScatterNd") return type(1);
    if (op_ == "StridedSliceGrad") return type(4);
    if (op_ == "ResizeBilinear") return float32;
    if (is_random(op_)) return attr("dtype", DType::unknown);
    return type(0);
  }

  Shape shape_of_output() const {
    if (op_ == "Reshape" || op_ == "BroadcastTo") return listed(1);
    if (op_ == "Fill" || op_ == "Conv2DBackpropInput" || op_ == "AvgPoolGrad" || op_ == "StridedSliceGrad" ||
        is_random(op_))
      return listed(0);
    if (op_ == "Conv2DBackpropFilter") return listed(1);
    if (op_ == "ScatterNd") return listed(2);
    if (op_ == "SparseToDense") return listed(1);
    if (op_.starts_with("Segment") || op_.starts_with("SparseSegment")) return open(rank(0));
    if (op_ == "SparseTensorDenseMatMul") return {-1, -1};
    if (op_.starts_with("UnsortedSegment")) return open(rank(0) < 0 || rank(1) < 0 ? -1 : rank(0) - rank(1) + 1);
    if (op_ == "PlaceholderWithDefault") return reader_.attr_or<Shape>("shape", Shape::unknown_rank());
    if (op_ == "Rank") return {};
    if (op_ == "Range" || op_ == "BiasAddGrad" || op_ == "DynamicStitch") return {-1};
    if (op_ == "BroadcastArgs") return broadcast_count();
    if (op_ == "Tile") return tiled();
    if (op_ == "Slice") return listed(2);
    if (op_ == "StridedSlice") return region();
    if (op_ == "ReverseV2" || op_ == "Cumsum" || op_ == "Cumprod") return shape(0);
    if (op_ == "OneHot") return open(rank(0) < 0 ? -1 : rank(0) + 1);
    if (op_ == "ExpandDims") return open(rank(0) < 0 ? -1 : rank(0) + 1);
    if (op_ == "ArgMax" || op_ == "ArgMin") return open(rank(0) - 1);
    if (op_ == "GatherV2") return gathered();
    if (op_ == "ResizeBilinear" || op_ == "ResizeNearestNeighbor") return resized();
    if (op_ == "DepthToSpace" || op_ == "SpaceToDepth" || op_ == "ResizeBicubic" || op_ == "DepthwiseConv2dNative" ||
        op_ == "Conv2D")
      return open(4);
    if (op_ == "Einsum") return contracted();
    if (op_.starts_with("FusedBatchNorm") || op_ == "LRN" || op_ == "LRNGrad" || op_ == "ReverseSequence" ||
        op_ == "Reverse" || op_.starts_with("TensorScatter"))
      return shape(0);
    if (op_ == "SparseTensorDenseAdd") return shape(3);
    if (op_.starts_with("SpaceToBatch") || op_.starts_with("BatchToSpace") || op_.starts_with("MaxPool") ||
        op_.ends_with("Pool3D") || op_ == "Conv3D" || op_ == "MirrorPadGrad" || op_.starts_with("Resize") ||
        op_ == "FusedPadConv2D" || op_ == "FusedResizeAndPadConv2D")
      return open(rank(0));
    if (op_ == "Pad" || op_ == "PadV2" || op_ == "MirrorPad" || op_ == "Transpose" || op_ == "ConcatV2")
      return open(rank(0));
    if (const OpRule* rule = rule_of_tensorflow(op_); rule && find_attr(*rule->entry, "keep_dims")) return reduced();
    return Shape::unknown_rank();
  }

  Shape broadcast_count() const {
    if (rank(0) != 1 || rank(1) != 1) return {-1};
    const std::int64_t a = shape(0).sizes()[0], b = shape(1).sizes()[0];
    return {a < 0 || b < 0 ? -1 : std::max(a, b)};
  }

  Shape tiled() const {
    const auto multiples = list(1);
    Shape result = open(rank(0));
    if (!multiples || static_cast<int>(multiples->size()) != result.rank()) return result;
    for (int i = 0; i < result.rank(); ++i) {
      const std::int64_t factor = (*multiples)[i], size = shape(0).sizes()[i];
      std::int64_t product = 0;
      if (factor >= 0 && size >= 0 && !__builtin_mul_overflow(factor, size, &product)) result.set(i, product);
    }
    return result;
  }

  /// The shape of an index expression. Its rank does not depend on where the expression begins and ends.
  Shape region() const {
    const std::vector<std::int64_t> none;
    const auto count = list(1);
    if (!count || !shape(0).has_rank() || reader_.attr_or<std::int64_t>("ellipsis_mask", 0) != 0)
      return Shape::unknown_rank();
    const auto has = [&](std::string_view mask, std::size_t i) {
      return (reader_.attr_or<std::int64_t>(mask, 0) >> i & 1) != 0;
    };
    Shape result;
    int axis = 0;
    for (std::size_t i = 0; i < count->size() && axis <= rank(0) && result.rank() < Shape::max_rank; ++i) {
      if (has("new_axis_mask", i)) {
        result.push_back(1);
      } else if (has("shrink_axis_mask", i)) {
        ++axis;
      } else if (axis < rank(0)) {
        const bool whole = has("begin_mask", i) && has("end_mask", i) && is_one(3, i);
        result.push_back(whole ? shape(0).sizes()[axis] : -1);
        ++axis;
      }
    }
    for (; axis < rank(0) && result.rank() < Shape::max_rank; ++axis) result.push_back(shape(0).sizes()[axis]);
    return result;
  }
  bool is_one(std::size_t input, std::size_t i) const {
    const auto numbers = list(input);
    return numbers && i < numbers->size() && (*numbers)[i] == 1;
  }

  Shape gathered() const {
    const auto batches = reader_.attr_or<std::int64_t>("batch_dims", 0);
    if (rank(0) < 0 || rank(1) < 0 || batches < 0 || batches > rank(1)) return Shape::unknown_rank();
    return open(rank(0) + rank(1) - 1 - static_cast<int>(batches));
  }

  Shape resized() const {
    Shape result = open(4);
    const auto sizes = list(1);
    if (rank(0) != 4) return result;
    for (const int axis : {0, 3}) result.set(axis, shape(0).sizes()[axis]);
    for (int i = 0; sizes && sizes->size() == 2 && i < 2; ++i) result.set(i + 1, (*sizes)[i]);
    return result;
  }

  /// The size of each letter after the arrow, if some operand tells it.
  Shape contracted() const {
    const std::string& equation = reader_.attr<std::string>("equation");
    const std::size_t arrow = equation.find("->");
    if (arrow == std::string::npos || equation.find('.') != std::string::npos) return Shape::unknown_rank();
    std::map<char, std::int64_t> sizes;
    std::size_t operand = 0;
    int axis = 0;
    for (const char letter : equation.substr(0, arrow)) {
      if (letter == ' ') continue;
      if (letter == ',') {
        ++operand;
        axis = 0;
      } else if (operand < inputs_.size() && axis < rank(operand)) {
        std::int64_t& size = sizes.emplace(letter, -1).first->second;
        size = std::max(size, shape(operand).sizes()[axis++]);
      }
    }
    Shape result;
    for (const char letter : equation.substr(arrow + 2)) {
      if (letter == ' ') continue;
      if (!sizes.contains(letter) || result.rank() == Shape::max_rank) return Shape::unknown_rank();
      result.push_back(sizes.at(letter));
    }
    return result;
  }

  Shape reduced() const {
    if (reader_.attr_or<bool>("keep_dims", false)) return open(rank(0));
    const auto axes = list(1);
    if (!axes || rank(0) < 0) return Shape::unknown_rank();
    return open(std::max(rank(0) - static_cast<int>(axes->size()), 0));
  }

  const NodeReader& reader_;
  const std::string& op_;
  const Tensors& inputs_;
  const detail::KnownValues& known_;
};

/// What the attributes of a node that is not read tell of its outputs.
Specs unread_specs(const NodeReader& reader, std::size_t count) {
  Specs specs(count, Spec{DType::unknown, Shape::unknown_rank()});
  for (const std::string_view name :
       {"output_types", "component_types", "out_types", "Tout", "dtypes", "_output_types"})
    if (const auto* list = reader.find<ListDef>(name))
      for (std::size_t i = 0; i < std::min(count, list->types.size()); ++i) specs[i].dtype = dtype_of(list->types[i]);
  for (const std::string_view name : {"_output_shapes", "output_shapes"})
    if (const auto* list = reader.find<ListDef>(name))
      for (std::size_t i = 0; i < std::min(count, list->shapes.size()); ++i) specs[i].shape = list->shapes[i];
  if (const auto* code = reader.find<TypeCode>("dtype"); code && count == 1) specs[0].dtype = dtype_of(*code);
  return specs;
}

}  // namespace

Tensors KeptNode::operator()(const Tensors& inputs) const {
  const std::vector<Source> sources(inputs.size());
  Tensors values(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].is_symbolic()) values[i] = inputs[i];
  const NodeReader reader(def, sources, values);
  const bool has_unknown = std::any_of(inputs.begin(), inputs.end(), [](const Tensor& each) {
    return bool(each) && each.is_symbolic() && !each.shape().is_known();
  });
  if (has_unknown &&
      lacks_sizes(reader, inputs)) {  // in a graph that does not know them either, the node waits there, too
    Ints awaited;
    for (const std::size_t each : value_inputs(reader)) awaited.push_back(static_cast<std::int64_t>(each));
    return apply_all(kept_op(def.op, is_random(def.op)), inputs, kept_attrs(std::move(awaited), *this), def.name,
                     where);
  }
  Tensors outputs = reader.blaming([&] { return read_op(reader, inputs, where); });
  if (outputs.size() != specs.size())
    reader.refuse(detail::join("it has ", outputs.size(), " outputs, not ", specs.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (specs[i].dtype != DType::unknown && outputs[i].dtype() != specs[i].dtype)
      reader.refuse(
          detail::join("its output ", i, " is ", to_string(outputs[i].dtype()), ", not ", to_string(specs[i].dtype)));
  return outputs;
}

Specs outlook(const NodeReader& reader, const Tensors& inputs, const detail::KnownValues& known) {
  return Outlook(reader, inputs, known).specs();
}

detail::Node& keep_node(detail::GraphState& graph, const NodeReader& reader, const Tensors& inputs, const Specs& specs,
                        Where where) {
  const NodeDef& def = reader.def();
  Ints awaited;
  for (const std::size_t each : value_inputs(reader)) {
    const Tensor& input = inputs[each];
    if (input.dtype() != DType::unknown && !is_index(input.dtype()) && !takes_reals(def) && !is_other_op(def.op)) {
      reader.refuse(detail::join("its input ", each, ", '", input.name(), "', is ", to_string(input.dtype()),
                                 ", where whole numbers are due"));
    }
    awaited.push_back(each);
  }
  const Attrs attrs = kept_attrs(awaited, KeptNode{def, specs, where});
  return graph.add_in_scopes(Call(kept_op(def.op, is_random(def.op)), inputs, attrs, where, def.name), specs);
}

detail::Node& keep_unread_node(detail::GraphState& graph, const NodeReader& reader, const Tensors& inputs,
                               std::int64_t outputs, const std::string& reason, Where where) {
  if (outputs > most_outputs) reader.refuse(detail::join("it has ", outputs, " outputs"));
  const NodeDef& def = reader.def();
  const Specs specs = unread_specs(reader, static_cast<std::size_t>(std::max<std::int64_t>(outputs, 1)));
  const KeptNode kept{def, specs, where};
  Attrs attrs{{"awaited_values", Ints()},
              {"redo", std::make_shared<const std::function<Tensors(const Tensors&)>>(kept)},
              {"unread", reason}};
  return graph.add_in_scopes(Call(kept_op(def.op, false), inputs, std::move(attrs), where, def.name), specs);
}

const KeptNode* kept_node(const detail::Node& node) { return redone_by<KeptNode>(node); }

}  // namespace tapestry::io
