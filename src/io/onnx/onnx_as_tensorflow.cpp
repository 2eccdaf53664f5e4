// Nodes that were read from ONNX and wait for what is fed, written as TensorFlow's: there, what they wait for is an
// input.

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "io/onnx/onnx_ops.hpp"
#include "io/tensorflow/node_adder.hpp"

namespace tapestry::io {
namespace {

/// A tensor of the file.
struct FileTensor {
  std::string name;
  DType dtype;
};

/// Writes the nodes that stand for one of ONNX's.
class Translation {
 public:
  Translation(const OnnxCall& call, NodeAdder& add) : c(call), add_(add) {}

  FileTensor in(std::size_t place) const {
    const detail::Endpoint end = detail::endpoint_of(c[place]);
    return {end.output == 0 ? end.node->name() : detail::join(end.node->name(), ":", end.output), c.dtype(place)};
  }

  /// Adds a node. Its type "T", which some have by another name, is that of its first input, and so is its output's by
  /// default.
  FileTensor op(std::string_view name, const std::vector<FileTensor>& inputs, AttrDefs attrs = {},
                DType dtype = DType::unknown) {
    std::vector<std::string> names;
    names.reserve(inputs.size());
    for (const FileTensor& each : inputs) names.push_back(each.name);
    if (name != "Range" && name != "GatherNd") attrs.emplace("T", code_of(inputs[0].dtype));
    return {add_.op(name, names, std::move(attrs)), dtype == DType::unknown ? inputs[0].dtype : dtype};
  }
  FileTensor constant(const Tensor& value) { return {add_.constant("Const", value), value.dtype()}; }
  FileTensor number(double value, DType dtype = int64) { return constant(detail::make_scalar(value, dtype)); }
  FileTensor list(const std::vector<std::int64_t>& numbers) { return constant(vector_of(numbers, int64)); }

  FileTensor cast(const FileTensor& x, DType dtype) {
    if (x.dtype == dtype) return x;
    return {add_.op("Cast", {x.name}, {{"SrcT", code_of(x.dtype)}, {"DstT", code_of(dtype)}}), dtype};
  }
  FileTensor shape_of(const FileTensor& x) { return op("Shape", {x}, {{"out_type", code_of(int64)}}, int64); }
  FileTensor rank_of(const FileTensor& x) { return cast(op("Rank", {x}, {}, int32), int64); }
  FileTensor reshaped(const FileTensor& x, const FileTensor& shape) {
    return op("Reshape", {x, shape}, {{"Tshape", code_of(shape.dtype)}});
  }
  FileTensor scalar(const FileTensor& x) { return reshaped(x, list({})); }
  FileTensor transposed(const FileTensor& x, const std::vector<std::int64_t>& perm) {
    return op("Transpose", {x, list(perm)}, {{"Tperm", code_of(int64)}});
  }
  FileTensor joined(std::vector<FileTensor> vectors, std::int64_t axis = 0) {
    const auto count = static_cast<std::int64_t>(vectors.size());
    vectors.push_back(number(static_cast<double>(axis)));
    return op("ConcatV2", vectors, {{"N", count}, {"Tidx", code_of(int64)}});
  }
  /// The `size` elements of a vector from `begin` on.
  FileTensor part(const FileTensor& vector, const FileTensor& begin, const FileTensor& size) {
    const FileTensor one = list({1});
    return op("Slice", {vector, reshaped(begin, one), reshaped(size, one)}, {{"Index", code_of(int64)}});
  }
  FileTensor gathered(const FileTensor& vector, const FileTensor& indices) {
    const AttrDefs attrs{
        {"Tparams", code_of(vector.dtype)}, {"Tindices", code_of(indices.dtype)}, {"Taxis", code_of(int64)}};
    return {add_.op("GatherV2", {vector.name, indices.name, number(0).name}, attrs), vector.dtype};
  }
  FileTensor reduced(std::string_view name, const FileTensor& x, const FileTensor& axes, bool keep) {
    AttrDefs attrs{{"Tidx", code_of(axes.dtype)}, {"keep_dims", keep}};
    return op(name, {x, axes}, std::move(attrs));
  }

  const OnnxCall& c;

 private:
  NodeAdder& add_;
};

using FileTensors = std::vector<FileTensor>;

// ---- Shapes

/// A size of 1 keeps that of the input: broadcasting goes both ways.
FileTensors write_expand(Translation& t) {
  const FileTensor x = t.in(0), shape = t.op("BroadcastArgs", {t.shape_of(x), t.cast(t.in(1), int64)});
  return {t.op("BroadcastTo", {x, shape}, {{"Tidx", code_of(int64)}})};
}

FileTensors write_constant_of_shape(Translation& t) {
  const auto* value = t.c.node().find<TensorDef>("value");
  const Tensor element = value ? value->value : detail::make_scalar(0, float32);
  if (!element || element.size() != 1) return {};
  const FileTensor one = t.scalar(t.constant(element));
  return {t.op("Fill", {t.in(0), one}, {{"T", code_of(one.dtype)}, {"index_type", code_of(int64)}}, one.dtype)};
}

FileTensors write_range(Translation& t) {
  const FileTensor start = t.scalar(t.in(0));
  return {t.op("Range", {start, t.scalar(t.in(1)), t.scalar(t.in(2))}, {{"Tidx", code_of(start.dtype)}})};
}

/// A size of 0 is that of the input, unless the node allows it.
FileTensors write_reshape(Translation& t) {
  if (!t.c.has(1)) return {};
  const FileTensor x = t.in(0), asked = t.in(1);
  if (t.c.flag("allowzero")) return {t.reshaped(x, asked)};
  const FileTensor zeros = t.op("ZerosLike", {asked}), one = t.list({1});
  const FileTensor own = t.part(t.joined({t.shape_of(x), zeros}), t.number(0), t.shape_of(asked));
  const FileTensor is_kept = t.op("Equal", {asked, zeros}, {}, boolean);
  return {t.reshaped(x, t.op("SelectV2", {is_kept, own, asked}, {{"T", code_of(int64)}}, int64))};
}

FileTensors write_flatten(Translation& t) {
  const FileTensor x = t.in(0), shape = t.shape_of(x);
  const std::int64_t axis = t.c.whole("axis", 1);
  const FileTensor rank = t.rank_of(x), first = axis < 0 ? t.op("AddV2", {rank, t.number(static_cast<double>(axis))})
                                                         : t.number(static_cast<double>(axis));
  const auto product = [&](const FileTensor& begin, const FileTensor& size) {
    return t.reduced("Prod", t.part(shape, begin, size), t.list({0}), true);
  };
  const FileTensor rows = product(t.number(0), first), columns = product(first, t.op("Sub", {rank, first}));
  return {t.reshaped(x, t.joined({rows, columns}))};
}

FileTensors write_transpose(Translation& t) {
  const FileTensor x = t.in(0);
  if (const std::vector<std::int64_t> perm = t.c.ints("perm"); !perm.empty()) return {t.transposed(x, perm)};
  const FileTensor one = t.number(1), last = t.op("Sub", {t.rank_of(x), one});
  const FileTensor perm = t.op("Range", {last, t.number(-1), t.number(-1)}, {{"Tidx", code_of(int64)}});
  return {t.op("Transpose", {x, perm}, {{"Tperm", code_of(int64)}})};
}

/// The new axes are added one after the other: those that count from the start from the first one on, those that count
/// from the end from the last one on.
FileTensors write_unsqueeze(Translation& t) {
  if (t.c.has(1) && !t.c.is_known(1)) return {};
  std::vector<std::int64_t> axes = t.c.numbers("axes", 1);
  std::sort(axes.begin(), axes.end());
  if (axes.empty() || (axes.front() < 0 && axes.back() >= 0)) return {};
  if (axes.front() < 0) std::reverse(axes.begin(), axes.end());
  FileTensor x = t.in(0);
  for (const std::int64_t axis : axes)
    x = t.op("ExpandDims", {x, t.number(static_cast<double>(axis))}, {{"Tdim", code_of(int64)}});
  return {x};
}

FileTensors write_squeeze(Translation& t) {
  if (t.c.has(1) && !t.c.is_known(1)) return {};
  return {t.op("Squeeze", {t.in(0)}, {{"squeeze_dims", ListDef{.ints = t.c.numbers("axes", 1)}}})};
}

FileTensors write_concat(Translation& t) {
  FileTensors parts;
  for (std::size_t i = 0; i < t.c.places(); ++i) parts.push_back(t.in(i));
  return {parts.size() == 1 ? parts[0] : t.joined(parts, t.c.whole("axis", 1))};
}

FileTensors write_split(Translation& t) {
  if (!t.c.has(1)) return {};
  const auto count = static_cast<std::int64_t>(t.c.outputs());
  const FileTensor axis = t.number(static_cast<double>(t.c.whole("axis", 0)), int32);
  const FileTensor parts = t.op("SplitV", {t.in(0), t.in(1), axis}, {{"num_split", count}, {"Tlen", code_of(int64)}});
  FileTensors outputs{parts};
  for (std::int64_t i = 1; i < count; ++i) outputs.push_back({detail::join(parts.name, ":", i), parts.dtype});
  return outputs;
}

/// TensorFlow has a part of each of the first axes.
FileTensors write_slice(Translation& t) {
  const OnnxCall& c = t.c;
  if (!c.has(1) || !c.has(2)) return {};
  const FileTensor starts = t.in(1), ends = t.in(2);
  const FileTensor steps = c.has(4) ? t.in(4) : t.op("OnesLike", {starts});
  AttrDefs attrs{{"Index", code_of(starts.dtype)}};
  if (!c.has(3)) return {t.op("StridedSlice", {t.in(0), starts, ends, steps}, attrs)};
  if (!c.is_known(3)) return {};
  const std::vector<std::int64_t> axes = c.numbers(3);
  const bool counts_back = std::any_of(axes.begin(), axes.end(), [](std::int64_t axis) { return axis < 0; });
  if (counts_back && c.rank() < 0) return {};
  std::vector<std::int64_t> place;  // of the axis in the lists
  std::int64_t whole = 0;           // the axes that are not in them, which come before the last one that is
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i] < 0 ? axes[i] + c.rank() : axes[i]);
    if (axis >= Shape::max_rank) return {};
    if (place.size() <= axis) place.resize(axis + 1, -1);
    place[axis] = static_cast<std::int64_t>(i);
  }
  for (std::size_t i = 0; i < place.size(); ++i)
    if (place[i] < 0) {
      place[i] = static_cast<std::int64_t>(axes.size());  // behind the others
      whole |= std::int64_t{1} << i;
    }
  const FileTensor order = t.list(place), behind = t.constant(vector_of({1}, starts.dtype));
  const auto for_axes = [&](const FileTensor& numbers) { return t.gathered(t.joined({numbers, behind}), order); };
  attrs.emplace("begin_mask", whole);
  attrs.emplace("end_mask", whole);
  return {t.op("StridedSlice", {t.in(0), for_axes(starts), for_axes(ends), for_axes(steps)}, attrs)};
}

FileTensors write_tile(Translation& t) {
  if (t.c.version() < 6) return {};
  return {t.op("Tile", {t.in(0), t.in(1)}, {{"Tmultiples", code_of(int64)}})};
}

FileTensors write_pad(Translation& t) {
  const std::string mode = t.c.text("mode", "constant");
  if (!t.c.has(1) || t.c.has(3) || (mode != "constant" && mode != "reflect")) return {};
  const FileTensor x = t.in(0), pairs = t.transposed(t.reshaped(t.in(1), t.list({2, -1})), {1, 0});
  AttrDefs attrs{{"Tpaddings", code_of(int64)}};
  if (mode == "reflect") {
    attrs.emplace("mode", std::string("REFLECT"));
    return {t.op("MirrorPad", {x, pairs}, std::move(attrs))};
  }
  const FileTensor value = t.c.has(2) ? t.scalar(t.in(2)) : t.number(0, x.dtype);
  return {t.op("PadV2", {x, pairs, value}, std::move(attrs))};
}

// ---- Reductions

/// The axes of a reduction, from an attribute or an input. Without any, all are meant, unless the node says otherwise.
FileTensor axes_of(Translation& t, const FileTensor& x) {
  const bool noop = t.c.flag("noop_with_empty_axes");
  FileTensor axes = t.c.has(1) ? t.in(1) : t.list(t.c.ints("axes"));
  if (noop || (t.c.has(1) && t.c.is_known(1) ? t.c.value(1).size() : t.c.ints("axes").size()) > 0) return axes;
  const FileTensor rank = t.rank_of(x), none = t.number(0);
  FileTensor all = t.op("Range", {none, rank, t.number(1)}, {{"Tidx", code_of(int64)}});
  if (!t.c.has(1) || t.c.is_known(1)) return all;
  const FileTensor is_empty = t.op("Equal", {t.shape_of(axes), t.list({0})}, {}, boolean);
  return t.joined({axes, t.part(all, none, t.op("Mul", {t.cast(is_empty, int64), rank}))});
}

/// A reduction of x, to which one op is applied before, or another one after it; "" for none.
struct Reduction {
  std::string_view name, before = {}, after = {};
};
FileTensors write_reduced(Translation& t, const Reduction& ops) {
  FileTensor x = t.in(0);
  if (x.dtype == boolean) return {};
  const FileTensor axes = axes_of(t, x);
  if (!ops.before.empty()) x = t.op(ops.before, {x});
  x = t.reduced(ops.name, x, axes, t.c.flag("keepdims", true));
  return {ops.after.empty() ? x : t.op(ops.after, {x})};
}

/// The logarithm of a sum of exponentials, none of which is too large.
FileTensors write_log_sum_exp(Translation& t) {
  const FileTensor x = t.in(0), axes = axes_of(t, x), largest = t.reduced("Max", x, axes, true);
  const FileTensor finite = t.op("SelectV2", {t.op("IsFinite", {largest}, {}, boolean), largest, t.number(0, x.dtype)},
                                 {{"T", code_of(x.dtype)}}, x.dtype);
  const FileTensor sum = t.reduced("Sum", t.op("Exp", {t.op("Sub", {x, finite})}), axes, true);
  const FileTensor result = t.op("AddV2", {t.op("Log", {sum}), finite});
  // The axes have one element each.
  return {t.c.flag("keepdims", true) ? result : t.reduced("Sum", result, axes, false)};
}

template <bool largest>
FileTensors write_position(Translation& t) {
  if (t.c.flag("select_last_index")) return {};
  const FileTensor axis = t.number(static_cast<double>(t.c.whole("axis", 0)));
  const FileTensor found = t.op(largest ? "ArgMax" : "ArgMin", {t.in(0), axis},
                                {{"Tidx", code_of(int64)}, {"output_type", code_of(int64)}}, int64);
  return {t.c.flag("keepdims", true) ? t.op("ExpandDims", {found, axis}, {{"Tdim", code_of(int64)}}) : found};
}

FileTensors write_cumsum(Translation& t) {
  const FileTensor axis = t.scalar(t.in(1));
  return {
      t.op("Cumsum", {t.in(0), axis},
           {{"Tidx", code_of(axis.dtype)}, {"exclusive", t.c.flag("exclusive")}, {"reverse", t.c.flag("reverse")}})};
}

/// TensorFlow orders the last axis, from the largest element on.
FileTensors write_top_k(Translation& t) {
  const OnnxCall& c = t.c;
  const bool largest = c.flag("largest", true);
  const std::int64_t axis = c.whole("axis", -1);
  const bool is_last = axis == -1 || axis == c.rank() - 1;
  if (!c.has(1) || (!is_last && c.rank() < 0) || (!largest && c.dtype() == uint8)) return {};
  const FileTensor k = t.cast(t.scalar(t.in(1)), int32);
  const auto moved = [&](const FileTensor& x, bool back) {
    const int last = c.rank() - 1, place = c.axis(axis);
    const Ints perm = back ? onnx_moved(c.rank(), last, place) : onnx_moved(c.rank(), place, last);
    return t.transposed(x, {perm.begin(), perm.end()});
  };
  // The negative of a whole number may not exist.
  const auto opposite = [&](const FileTensor& x) {
    return is_floating(x.dtype) ? t.op("Neg", {x}) : t.op("Sub", {t.number(-1, x.dtype), x});
  };
  FileTensor x = is_last ? t.in(0) : moved(t.in(0), false);
  if (!largest) x = opposite(x);
  FileTensor values = t.op("TopKV2", {x, k}, {{"sorted", true}});
  FileTensor places = t.cast({values.name + ":1", int32}, int64);
  if (!largest) values = opposite(values);
  if (is_last) return {values, places};
  return {moved(values, true), moved(places, true)};
}

/// A negative label counts from the last class. Other labels beyond the classes have none.
FileTensors write_one_hot(Translation& t) {
  const FileTensor labels = t.cast(t.in(0), int64), depth = t.cast(t.scalar(t.in(1)), int64), values = t.in(2);
  const FileTensor is_negative = t.op("Less", {labels, t.number(0)}, {}, boolean);
  const FileTensor classes =
      t.op("SelectV2", {is_negative, t.op("AddV2", {labels, depth}), labels}, {{"T", code_of(int64)}}, int64);
  const FileTensor on = t.gathered(values, t.number(1)), off = t.gathered(values, t.number(0));
  return {t.op("OneHot", {classes, t.cast(depth, int32), on, off},
               {{"T", code_of(values.dtype)}, {"TI", code_of(int64)}, {"axis", t.c.whole("axis", -1)}}, values.dtype)};
}

/// Each element has a coordinate for each axis: for one of them that of an index.
FileTensors write_gather_elements(Translation& t) {
  const OnnxCall& c = t.c;
  if (c.rank() < 1) return {};
  const FileTensor x = t.in(0), indices = t.cast(t.in(1), int64);
  const FileTensor sizes = t.shape_of(x), ones = t.op("OnesLike", {indices});
  FileTensors coordinates;
  for (int i = 0; i < c.rank(); ++i) {
    const FileTensor axis = t.number(i);
    if (i == c.axis("axis", 0)) {
      coordinates.push_back(t.op("FloorMod", {indices, t.gathered(sizes, axis)}));
    } else {
      coordinates.push_back(
          t.op("Cumsum", {ones, axis}, {{"Tidx", code_of(int64)}, {"exclusive", true}, {"reverse", false}}));
    }
  }
  const AttrDefs attrs{{"N", std::int64_t{c.rank()}}, {"axis", std::int64_t{-1}}};
  const FileTensor places = t.op("Pack", coordinates, attrs);
  return {t.op("GatherNd", {x, places}, {{"Tparams", code_of(x.dtype)}, {"Tindices", code_of(int64)}})};
}

using WriteTranslation = std::function<FileTensors(Translation&)>;

WriteTranslation reduced(const Reduction& ops) {
  return [ops](Translation& t) { return write_reduced(t, ops); };
}

WriteTranslation translation_of(std::string_view name) {
  static const auto& all = *new std::map<std::string_view, WriteTranslation>{
      {"ArgMax", write_position<true>},
      {"ArgMin", write_position<false>},
      {"Concat", write_concat},
      {"ConstantOfShape", write_constant_of_shape},
      {"CumSum", write_cumsum},
      {"Expand", write_expand},
      {"Flatten", write_flatten},
      {"GatherElements", write_gather_elements},
      {"OneHot", write_one_hot},
      {"Pad", write_pad},
      {"Range", write_range},
      {"ReduceL1", reduced({"Sum", "Abs"})},
      {"ReduceL2", reduced({"Sum", "Square", "Sqrt"})},
      {"ReduceLogSum", reduced({"Sum", "", "Log"})},
      {"ReduceLogSumExp", write_log_sum_exp},
      {"ReduceMax", reduced({"Max"})},
      {"ReduceMean", reduced({"Mean"})},
      {"ReduceMin", reduced({"Min"})},
      {"ReduceProd", reduced({"Prod"})},
      {"ReduceSum", reduced({"Sum"})},
      {"ReduceSumSquare", reduced({"Sum", "Square"})},
      {"Reshape", write_reshape},
      {"Slice", write_slice},
      {"Split", write_split},
      {"Squeeze", write_squeeze},
      {"Tile", write_tile},
      {"TopK", write_top_k},
      {"Transpose", write_transpose},
      {"Unsqueeze", write_unsqueeze},
  };
  const auto found = all.find(name);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace

std::vector<std::string> write_onnx_as_tensorflow(const NodeReader& reader, const Tensors& inputs, NodeAdder& add) {
  constexpr std::string_view own = "ai.onnx::";
  const std::string_view name = reader.def().op;
  const WriteTranslation write = name.starts_with(own) ? translation_of(name.substr(own.size())) : nullptr;
  std::vector<std::string> outputs;
  if (!write) return outputs;
  const OnnxCall call(reader, inputs);
  Translation translation(call, add);
  for (const FileTensor& each : write(translation)) outputs.push_back(each.name);
  return outputs;
}

}  // namespace tapestry::io
