#include "io/tensorflow/widen_integers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/unsigned_order.hpp"

namespace tapestry::io {
namespace {

struct Narrow {
  TypeCode type;
  int bits;
  bool is_signed;
  bool is_quantized = false;
  DType wide() const { return bits < 32 || is_signed ? int32 : int64; }
};

constexpr TypeCode uint32_type{22};

const Narrow* find_narrow(TypeCode type) {
  // DT_INT16, INT8, UINT16, UINT32, UINT64, QINT8, QUINT8, QINT32, QINT16, QUINT16, and their references
  static constexpr auto types = std::to_array<Narrow>({{{5}, 16, true},
                                                       {{6}, 8, true},
                                                       {{17}, 16, false},
                                                       {uint32_type, 32, false},
                                                       {uint64_type, 64, false},
                                                       {{11}, 8, true, true},
                                                       {{12}, 8, false, true},
                                                       {{13}, 32, true, true},
                                                       {{15}, 16, true, true},
                                                       {{16}, 16, false, true}});
  const auto found = std::find_if(types.begin(), types.end(), [&](const Narrow& each) {
    return each.type == type || reference_to(each.type) == type;
  });
  return found == types.end() ? nullptr : &*found;
}

TypeCode widened(TypeCode type) {
  const Narrow* narrow = find_narrow(type);
  if (!narrow) return type;
  const TypeCode wide = code_of(narrow->wide());
  return narrow->type == type ? wide : reference_to(wide);
}

bool has_word(std::string_view list, std::string_view word) {
  for (std::size_t at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1))
    if ((at == 0 || list[at - 1] == ' ') && (at + word.size() == list.size() || list[at + word.size()] == ' '))
      return true;
  return false;
}

/// Those that change a Variable by what may leave it, and by what does not.
constexpr std::string_view leaving_updates =
    "AssignAdd AssignAddVariableOp AssignSub AssignSubVariableOp ResourceScatterAdd ResourceScatterDiv "
    "ResourceScatterMul ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterSub ScatterAdd ScatterDiv ScatterMul "
    "ScatterNdAdd ScatterNdSub ScatterSub";
constexpr std::string_view passing_updates =
    "ResourceScatterMax ResourceScatterMin ResourceScatterNdMax ResourceScatterNdMin ResourceScatterNdUpdate "
    "ResourceScatterUpdate ScatterMax ScatterMin ScatterNdMax ScatterNdMin ScatterNdUpdate ScatterUpdate";

/// The ops whose results are in the range of their inputs, or are of another type.
constexpr std::string_view passing =
    "_Arg ArgMax ArgMin Assign AssignVariableOp BatchMatMulV3 BatchToSpaceND BitwiseAnd BitwiseOr BitwiseXor "
    "BroadcastTo Case ConcatV2 Const DepthToSpace DisableCopyOnRead DynamicPartition DynamicStitch Empty EnsureShape "
    "Enter Equal Exit ExpandDims Fill FloorMod Gather GatherNd GatherV2 Greater GreaterEqual Identity IdentityN If "
    "Less LessEqual ListDiff LoopCond MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV3 MatrixDiagV3 "
    "MatrixSetDiag MatrixSetDiagV3 Max Maximum Merge Min Minimum MirrorPad NextIteration NotEqual OneHot OnesLike "
    "Pack Pad PadV2 ParallelDynamicStitch Placeholder PlaceholderWithDefault Rank ReadVariableOp Relu Relu6 Reshape "
    "ResizeNearestNeighbor ResourceGather RestoreV2 Reverse ReverseSequence ReverseV2 RightShift Roll SaveV2 "
    "SegmentMax SegmentMin Select SelectV2 Shape ShapeN Sign Size Slice SpaceToBatchND SpaceToDepth SparseToDense "
    "Split SplitV Squeeze StatelessCase StatelessIf StatelessWhile StopGradient StridedSlice Switch TensorScatterMax "
    "TensorScatterMin TensorScatterUpdate Tile TopKV2 Transpose TruncateMod Unique UniqueV2 UniqueWithCounts "
    "UniqueWithCountsV2 Unpack VarHandleOp Variable VariableV2 VarIsInitializedOp Where While ZerosLike";
/// Those whose results may leave it.
constexpr std::string_view leaving =
    "Abs Add AddN AddV2 BatchMatMul BatchMatMulV2 Cast Cumprod Cumsum FloorDiv Invert LeftShift MatMul Mul Neg Prod "
    "ScatterNd SegmentSum Square Sub Sum TensorScatterAdd TensorScatterSub TruncateDiv UnsortedSegmentSum";
/// Those of quantized numbers. They know their types by the attributes that begin with `quantized_type`.
constexpr std::string_view quantizing =
    "Dequantize QuantizeDownAndShrinkRange QuantizeV2 QuantizedAvgPool QuantizedBiasAdd QuantizedConcat "
    "QuantizedConv2D "
    "QuantizedMatMul QuantizedMaxPool QuantizedRelu QuantizedRelu6 QuantizedReshape RequantizationRange Requantize";
/// Those that need the order of the numbers. From 2^63 on, those of uint64 come before the others in int64; see
/// `order_unsigned`.
constexpr std::string_view ordering =
    "ArgMax ArgMin FloorDiv FloorMod Greater GreaterEqual Less LessEqual Max Maximum Min Minimum Relu Relu6 "
    "ResourceScatterDiv ResourceScatterMax ResourceScatterMin ResourceScatterNdMax ResourceScatterNdMin RightShift "
    "ScatterDiv ScatterMax ScatterMin ScatterNdMax ScatterNdMin SegmentMax SegmentMin Sign TensorScatterMax "
    "TensorScatterMin TopKV2 TruncateDiv TruncateMod";

bool has_type(const NodeDef& node, TypeCode type) {
  return std::any_of(node.attrs.begin(), node.attrs.end(), [&](const auto& each) {
    const auto* found = std::get_if<TypeCode>(&each.second);
    return found && (*found == type || *found == reference_to(type));
  });
}

/// Whether a node only takes whole numbers for such of as many bits with or without a sign, as a Cast does.
bool keeps_bits(const NodeDef& node) {
  const auto bits = [&](std::string_view name) {
    const auto* type = attr_of<TypeCode>(node, name);
    const Narrow* narrow = type ? find_narrow(*type) : nullptr;
    if (narrow) return narrow->is_quantized ? 0 : narrow->bits;
    return !type ? 0 : *type == code_of(uint8) ? 8 : *type == code_of(int32) ? 32 : *type == code_of(int64) ? 64 : 0;
  };
  return node.op == "Bitcast" && bits("T") > 0 && bits("T") == bits("type");
}

/// Whether a node draws words of a type without a sign, all of whose values are as likely.
bool draws_words(const NodeDef& node) {
  const auto* type = attr_of<TypeCode>(node, "dtype");
  return node.op.starts_with("StatelessRandomUniformFullInt") && type && (*type == uint32_type || *type == uint64_type);
}

bool is_quantized(const NodeDef& node) {
  return std::any_of(node.attrs.begin(), node.attrs.end(), [](const auto& each) {
    const auto* type = std::get_if<TypeCode>(&each.second);
    const Narrow* narrow = type ? find_narrow(*type) : nullptr;
    return narrow && narrow->is_quantized;
  });
}

bool is_narrow(const AttrDef& attr) {
  if (const auto* type = std::get_if<TypeCode>(&attr)) return find_narrow(*type) != nullptr;
  const auto* list = std::get_if<ListDef>(&attr);
  return list && std::any_of(list->types.begin(), list->types.end(), [](TypeCode each) { return find_narrow(each); });
}

class Widener {
 public:
  explicit Widener(GraphDef& graph) : graph_(graph), groups_(graph.nodes.size()), narrow_(graph.nodes.size()) {
    std::iota(groups_.begin(), groups_.end(), std::size_t{0});
  }

  void run() {
    bool has_any = false;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const auto& attrs = graph_.nodes[i].attrs;
      narrow_[i] = std::any_of(attrs.begin(), attrs.end(), [](const auto& each) { return is_narrow(each.second); });
      has_any = has_any || narrow_[i];
    }
    if (!has_any) return;
    join_groups();
    std::vector<char> refused(groups_.size());
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (narrow_[i] && !can_widen(graph_.nodes[i])) refused[group_of(i)] = 1;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (narrow_[i] && !refused[group_of(i)]) widen(graph_.nodes[i]);
    std::move(added_.begin(), added_.end(), std::back_inserter(graph_.nodes));
  }

 private:
  std::size_t group_of(std::size_t i) {
    while (groups_[i] != i) i = groups_[i] = groups_[groups_[i]];
    return i;
  }

  /// Nodes that have such a type, and of which one takes what the other one gives.
  void join_groups() {
    const Index index = numbers_by_name(graph_);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (!narrow_[i]) continue;
      for (const std::string& input : graph_.nodes[i].inputs) {
        const auto found = input.starts_with('^') ? index.end() : index.find(producer_name(input));
        if (found != index.end() && narrow_[found->second]) groups_[group_of(i)] = group_of(found->second);
      }
    }
  }

  /// Whether numbers from 2^63 on may not be negative ones for a node.
  static bool needs_order(const NodeDef& node) {
    return has_type(node, uint64_type) && (has_word(ordering, node.op) || is_cast_of_floats(node));
  }

  static bool can_widen(const NodeDef& node) {
    if (needs_order(node)) return can_order_unsigned(node);
    if (is_quantized(node) && has_word(leaving, node.op)) return false;
    if (keeps_bits(node) || draws_words(node)) return true;
    if (node.op != "Const")
      return has_word(passing, node.op) || has_word(leaving, node.op) || has_word(quantizing, node.op) ||
             (!is_quantized(node) && (has_word(leaving_updates, node.op) || has_word(passing_updates, node.op)));
    const auto* value = attr_of<RawAttr>(node, "value");
    return value && !value->lacks_rank;
  }

  void widen(NodeDef& node) {
    if (keeps_bits(node)) {
      node.op = "Cast";
      node.attrs = {{"SrcT", node.attrs.at("T")}, {"DstT", node.attrs.at("type")}};
    }
    if (draws_words(node) && *attr_of<TypeCode>(node, "dtype") == uint32_type) return draw_signed(node);
    const bool is_ordered = needs_order(node);
    const AttrDefs before = is_ordered ? node.attrs : AttrDefs();
    const Narrow* result = result_type(node);
    const Narrow* changed = changed_type(node);
    if (has_word(quantizing, node.op)) {
      const std::map<std::string, AttrDef, std::less<>> attrs(node.attrs.begin(), node.attrs.end());
      for (const auto& [name, attr] : attrs)
        if (const auto* type = std::get_if<TypeCode>(&attr))
          node.attrs.insert_or_assign(detail::join(quantized_type, name), std::int64_t{type->value});
    }
    for (auto& [name, attr] : node.attrs) {
      if (auto* type = std::get_if<TypeCode>(&attr)) *type = widened(*type);
      if (auto* list = std::get_if<ListDef>(&attr))
        std::transform(list->types.begin(), list->types.end(), list->types.begin(), widened);
    }
    if (is_ordered) return order_unsigned(node, before, added_);
    if (node.op == "Const") {
      auto& value = node.attrs.at("value");
      value = decode_parts(std::get<RawAttr>(value)).first;
    }
    if (node.flow) {
      Flow flow = *node.flow;
      for (FunctionBody& each : flow.functions)
        for (auto* types : {&each.types, &each.output_types})
          std::transform(types->begin(), types->end(), types->begin(), widened);
      node.flow = std::make_shared<const Flow>(std::move(flow));
    }
    if (result && result->bits < 64) bring_back(node, *result);
    if (changed && changed->bits < 64) bring_variable_back(node, *changed);
  }

  /// Words of 32 bits are drawn with a sign, and then taken modulo the size of their range.
  void draw_signed(NodeDef& node) {
    NodeDef words = node;
    words.name = node.name + "/_/words";
    words.attrs.insert_or_assign("dtype", code_of(int32));
    node.op = "Cast";
    node.inputs = {words.name};
    node.attrs = {{"SrcT", code_of(int32)}, {"DstT", code_of(int64)}};
    added_.push_back(std::move(words));
    bring_back(node, *find_narrow(uint32_type));
  }

  /// The type of a Variable that a node changes, if its numbers may leave their range.
  static const Narrow* changed_type(const NodeDef& node) {
    if (!has_word(leaving_updates, node.op)) return nullptr;
    for (const std::string_view name : {"dtype", "T"})
      if (const auto* type = attr_of<TypeCode>(node, name)) return find_narrow(*type);
    return nullptr;
  }

  /// The node's change gets a name of its own, and the node's name an assignment of what the Variable then is modulo
  /// the size of the range.
  void bring_variable_back(NodeDef& node, const Narrow& type) {
    const bool is_resource = node.op.ends_with("VariableOp") || node.op.starts_with("Resource");
    const AttrDef dtype = code_of(type.wide());
    NodeDef change = node, read{.name = node.name + "/_/read", .op = is_resource ? "ReadVariableOp" : "Identity"};
    change.name = node.name + "/_/change";
    read.device = node.device;
    read.inputs = is_resource ? std::vector{node.inputs[0], "^" + change.name} : std::vector{change.name};
    NodeDef value{.name = node.name + "/_/value", .op = "Identity", .device = node.device, .inputs = {read.name}};
    NodeDef assign{.name = node.name, .op = is_resource ? "AssignVariableOp" : "Assign", .device = node.device};
    assign.inputs = {is_resource ? node.inputs[0] : change.name, value.name};
    for (NodeDef* each : {&read, &value}) each->attrs.emplace("T", dtype);
    read.attrs.emplace("dtype", dtype);
    assign.attrs.emplace(is_resource ? "dtype" : "T", dtype);
    bring_back(value, type);
    node = std::move(assign);
    for (NodeDef* each : {&change, &read, &value}) added_.push_back(std::move(*each));
  }

  /// The type of a result that may leave its range.
  static const Narrow* result_type(const NodeDef& node) {
    if (!has_word(leaving, node.op)) return nullptr;
    const auto* type = attr_of<TypeCode>(node, node.op == "Cast" ? "DstT" : "T");
    const Narrow* narrow = type ? find_narrow(*type) : nullptr;
    if (!narrow || node.op != "Cast") return narrow;
    const auto* from = attr_of<TypeCode>(node, "SrcT");
    const bool fits = from && dtype_of(*from) == boolean;
    return fits ? nullptr : narrow;
  }

  /// The node's number gets a name of its own, and the node's name what it is modulo the size of the range.
  void bring_back(NodeDef& node, const Narrow& type) {
    const std::string name = node.name;
    const auto inside = [&](std::string_view part) { return detail::join(name, "/_/", part); };
    const auto number = [&](std::string_view part, std::int64_t value) {
      const DType dtype = type.wide();
      added_.push_back(
          {.name = inside(part),
           .op = "Const",
           .attrs = {{"dtype", code_of(dtype)},
                     {"value", TensorDef{code_of(dtype), detail::make_scalar(static_cast<double>(value), dtype)}}}});
      return inside(part);
    };
    const auto combine = [&](std::string own, std::string_view op, std::string a, std::string b) {
      NodeDef made{
          .name = std::move(own), .op = std::string(op), .device = node.device, .inputs = {std::move(a), std::move(b)}};
      made.attrs.emplace("T", code_of(type.wide()));
      return made;
    };
    const std::int64_t range = std::int64_t{1} << type.bits;
    NodeDef wide = node;
    wide.name = inside("wide");
    std::string from = wide.name;
    added_.push_back(std::move(wide));
    if (!type.is_signed) {
      node = combine(name, "FloorMod", from, number("range", range));
      return;
    }
    const std::string half = number("half", range / 2);
    added_.push_back(combine(inside("raised"), "AddV2", from, half));
    added_.push_back(combine(inside("modulo"), "FloorMod", inside("raised"), number("range", range)));
    node = combine(name, "Sub", inside("modulo"), half);
  }

  GraphDef& graph_;
  std::vector<std::size_t> groups_;
  std::vector<char> narrow_;
  std::vector<NodeDef> added_;
};

}  // namespace

void widen_integers(GraphDef& graph) {
  for (NodeDef& node : graph.nodes) {
    if (!node.flow) continue;
    Flow flow = *node.flow;
    for (FunctionBody& each : flow.functions) widen_integers(each.graph);
    node.flow = std::make_shared<const Flow>(std::move(flow));
  }
  Widener(graph).run();
}

}  // namespace tapestry::io
