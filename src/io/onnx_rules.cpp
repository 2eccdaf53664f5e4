#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "core/make_tensor.hpp"
#include "io/onnx_writer.hpp"

namespace tapestry::io {
namespace {

using detail::Node;
using Numbers = std::vector<std::int64_t>;

// ---- What a formula says ----------------------------------------------------------------------------------------------

/// A line for each op: its name; the types of its first input (or of its output, if it has none): "any", "number"
/// (int32, int64 and floats), "whole", "real", or "single" (float32); with "?x" the attribute that must be there, and
/// not false; and the formula. The first line that fits is the rule.
///
/// A formula names ONNX's ops; "F[x=1](a, b)" is one with an attribute and inputs. a, b, c, d and e are the inputs of
/// our op and * all of them; @x is our attribute x as a constant (of the type of a, or int64) or, in brackets, as an
/// attribute, where T is the code of the output's type and @x/0 is 0 if our node has no x. 1 is a constant of the type
/// of a, 1:b of that of b, 1:int one of int64, and {1, 2} a vector of int64. Definitions that end in ; come first, one
/// expression for each output last.
constexpr std::string_view formulas = R"(
Neg number Neg(a)
Abs number Abs(a)
Sign number Sign(a)
Square number Mul(a, a)
Reciprocal real Reciprocal(a)
Sqrt real Sqrt(a)
Rsqrt real Reciprocal(Sqrt(a))
Exp real Exp(a)
Expm1 real t = Tanh(Mul(a, 0.5)); Where(Less(Abs(a), 1), Div(Add(t, t), Sub(1, t)), Sub(Exp(a), 1))
Log real Log(a)
Log1p real u = Add(a, 1); r = Sub(u, 1);
  Where(Equal(r, 0), a, Where(Less(Abs(a), 1), Mul(Log(u), Div(a, r)), Log(u)))
Sin real Sin(a)
Cos real Cos(a)
Tan real Tan(a)
Asin real Asin(a)
Acos real Acos(a)
Atan real Atan(a)
Atanh real Atanh(a)
Sinh real Sinh(a)
Cosh real Cosh(a)
Erf real Erf(a)
Floor real Floor(a)
Ceil real Ceil(a)
Rint real Round(a)
IsNan real IsNaN(a)
IsFinite real Equal(Sub(a, a), 0)
Sigmoid real Sigmoid(a)
Tanh real Tanh(a)
Relu real Relu(a)
Relu whole Max(a, 0)
Softplus real Softplus(a)
Elu real Elu(a)
LeakyRelu single LeakyRelu[alpha=@alpha](a)
LeakyRelu real Where(Greater(a, 0), a, Mul(a, @alpha))
Gelu real ?approximate t = Tanh(Mul(0.7978845608028654, Add(a, Mul(0.044715, Mul(a, Mul(a, a))))));
  Mul(Mul(a, 0.5), Add(t, 1))
Gelu real Mul(Mul(a, 0.5), Add(Erf(Mul(a, 0.7071067811865476)), 1))
Silu real Mul(a, Sigmoid(a))
Softmax real Softmax[axis=-1](a)
LogSoftmax real LogSoftmax[axis=-1](a)
SigmoidGrad real Mul(b, Mul(a, Sub(1, a)))
TanhGrad real Mul(b, Sub(1, Mul(a, a)))
ReluGrad number Where(Greater(b, 0), a, 0)
SoftplusGrad real Mul(a, Sigmoid(b))
EluGrad real Where(Greater(b, 0), a, Mul(a, Add(b, 1)))
LeakyReluGrad real Where(Greater(b, 0), a, Mul(a, @alpha))
SoftmaxGrad real p = Mul(a, b); Sub(p, Mul(a, ReduceSum(p, {-1})))
LogSoftmaxGrad real Sub(b, Mul(Exp(a), ReduceSum(b, {-1})))

AddV2 number Add(a, b)
Sub number Sub(a, b)
Mul number Mul(a, b)
RealDiv real Div(a, b)
DivNoNan real Where(Equal(b, 0), 0, Div(a, b))
FloorDiv real Floor(Div(a, b))
FloorDiv whole q = Div(a, b);
  Sub(q, Cast[to=@T](And(Not(Equal(Mul(q, b), a)), Xor(Less(a, 0), Less(b, 0)))))
FloorMod real r = Mod[fmod=1](a, b); Where(And(Not(Equal(r, 0)), Xor(Less(r, 0), Less(b, 0))), Add(r, b), r)
FloorMod whole Mod(a, b)
Pow number Pow(a, b)
Maximum number Max(a, b)
Minimum number Min(a, b)
SquaredDifference number s = Sub(a, b); Mul(s, s)
Atan2 real t = Atan(Div(a, b)); Where(Equal(b, 0), Mul(Sign(a), 1.5707963267948966),
  Where(Less(b, 0), Add(t, Where(Less(a, 0), -3.141592653589793, 3.141592653589793)), t))
Xlogy real Where(Equal(a, 0), 0, Mul(a, Log(b)))
BiasAdd number Add(a, b)
ClipByValue number Where(Less(a, b), b, Where(Greater(a, c), c, a))

Equal any Equal(a, b)
NotEqual any Not(Equal(a, b))
Less number Less(a, b)
LessEqual number LessOrEqual(a, b)
Greater number Greater(a, b)
GreaterEqual number GreaterOrEqual(a, b)
LogicalNot any Not(a)
LogicalAnd any And(a, b)
LogicalOr any Or(a, b)
SelectV2 any Where(a, b, c)

Sum number ReduceSum[keepdims=@keep_dims/0,noop_with_empty_axes=1](a, @axis)
Mean real ReduceMean[keepdims=@keep_dims/0,noop_with_empty_axes=1](a, @axis)
Prod number ReduceProd[keepdims=@keep_dims/0,noop_with_empty_axes=1](a, @axis)
Max number ReduceMax[keepdims=@keep_dims/0,noop_with_empty_axes=1](a, @axis)
Min number ReduceMin[keepdims=@keep_dims/0,noop_with_empty_axes=1](a, @axis)
Any any Greater(ReduceSum[keepdims=@keep_dims/0,noop_with_empty_axes=1](Cast[to=7](a), @axis), 0:int)
All any Equal(ReduceSum[keepdims=@keep_dims/0,noop_with_empty_axes=1](Cast[to=7](Not(a)), @axis), 0:int)
ArgMax number ArgMax[axis=@axis,keepdims=0](a)
ArgMin number ArgMin[axis=@axis,keepdims=0](a)
Cumsum number CumSum[exclusive=@exclusive,reverse=@reverse](a, @axis)

LayerNorm single y, m, r = LayerNormalization[axis=-1,epsilon=@epsilon](a, b, c); y | m | r
LayerNorm real m = ReduceMean(a, {-1}); s = Sub(a, m);
  r = Reciprocal(Sqrt(Add(ReduceMean(Mul(s, s), {-1}), @epsilon)));
  Add(Mul(Mul(s, r), b), c) | m | r
LayerNormGrad real n = Mul(Sub(a, c), d); h = Mul(e, b);
  Mul(d, Sub(Sub(h, ReduceMean(h, {-1})), Mul(n, ReduceMean(Mul(h, n), {-1})))) |
  ReduceSum[keepdims=0](Flatten[axis=-1](Mul(e, n)), {0}) | ReduceSum[keepdims=0](Flatten[axis=-1](e), {0})
SoftmaxCrossEntropyWithLogits real s = LogSoftmax[axis=-1](a);
  Neg(ReduceSum[keepdims=0](Mul(b, s), {-1})) | Sub(Mul(Exp(s), ReduceSum(b, {-1})), b)
SparseSoftmaxCrossEntropyWithLogits real s = LogSoftmax[axis=-1](a); i = Unsqueeze(b, {-1});
  Neg(Squeeze(GatherElements[axis=-1](s, i), {-1})) |
  ScatterElements[axis=-1,reduction=add](Exp(s), i, Expand(-1, Shape(i)))

Identity any a
StopGradient any a
Snapshot any a
DeviceCopy any a
Cast any Cast[to=@dtype](a)
Shape any Shape(a)
Size any Size(a)
SizeLike number Div(Cast[to=@T](Size(a)), Cast[to=@T](Max(Size(b), 1:int)))
ZerosLike any Expand(0, Shape(a))
OnesLike any Expand(1, Shape(a))
Fill any Expand(@value, @shape)
BroadcastLike any Expand(a, Shape(b))
ReshapeLike any Reshape[allowzero=1](a, Shape(b))
Reshape any Reshape[allowzero=1](a, @shape)
Transpose any Transpose[perm=@perm](a)
Squeeze any ?axis Squeeze(a, @axis)
Squeeze any Squeeze(a)
ExpandDims any Unsqueeze(a, @axis)
ConcatV2 any Concat[axis=@axis](*)
Tile any Tile(a, @multiples)

GatherV2 any Gather[axis=@axis](a, b)
GatherNd any GatherND(a, Cast[to=7](b))
TakeAlongAxis any GatherElements[axis=@axis](a, b)
ScatterNd any ScatterND[reduction=add](Expand(0:b, Shape(c)), Cast[to=7](a), b)
PutAlongAxis any ScatterElements[axis=@axis,reduction=add](Expand(0:b, Shape(c)), a, b)
TopKV2 number ?k v, i = TopK[largest=@largest](a, Reshape(@k, {1})); v | Cast[to=6](i)
TopKV2 number v, i = TopK[largest=@largest](a, Shape[start=-1](a)); v | Cast[to=6](i)

RandomStandardNormal real ?shape RandomNormal[dtype=@T,mean=@mean,scale=@stddev,shape=@shape]()
RandomStandardNormal real RandomNormalLike[dtype=@T,mean=@mean,scale=@stddev](a)
RandomUniform real ?shape RandomUniform[dtype=@T,low=@minval,high=@maxval,shape=@shape]()
RandomUniform real RandomUniformLike[dtype=@T,low=@minval,high=@maxval](a)
RandomBernoulli real ?shape Cast[to=@T](Less(RandomUniform[dtype=@T,shape=@shape](), @probability))
RandomBernoulli real Cast[to=@T](Less(RandomUniformLike[dtype=@T](a), @probability))
)";

bool fits(std::string_view types, DType dtype) {
  if (types == "any") return true;
  const bool wide = dtype == int32 || dtype == int64;
  if (types == "number") return wide || is_floating(dtype);
  if (types == "single") return dtype == float32;
  return types == "whole" ? wide : is_floating(dtype);
}

bool has_flag(const Node& node, std::string_view name) {
  const AttrValue* value = node.attrs().find(name);
  return value && (!std::holds_alternative<bool>(*value) || std::get<bool>(*value));
}

/// Takes the first word of a text.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

/// The formula for a node; nothing where there is none. `known` tells whether there is one for other types.
std::optional<std::string_view> formula_of(const Node& node, bool& known) {
  const DType dtype = node.inputs().empty() ? node.output().dtype() : node.input(0).dtype();
  const std::string start = detail::join('\n', node.type(), ' ');
  for (std::size_t at = 0; (at = formulas.find(start, at)) != std::string_view::npos; ++at) {
    known = true;
    std::string_view line = formulas.substr(at + start.size());
    // What begins with a space goes on.
    std::size_t end = line.find('\n');
    while (end + 1 < line.size() && line[end + 1] == ' ') end = line.find('\n', end + 1);
    line = line.substr(0, end);
    if (!fits(take_word(line), dtype)) continue;
    if (line.starts_with('?') && !has_flag(node, take_word(line).substr(1))) continue;
    return line;
  }
  return {};
}

// ---- What depends on ranks and sizes ----------------------------------------------------------------------------------

constexpr std::int64_t furthest = std::numeric_limits<std::int64_t>::max();

Numbers ints_of(const OnnxWriter& w, std::string_view attr) {
  const Ints& list = w.node().attr<Ints>(attr);
  return {list.begin(), list.end()};
}
int axis_of(const OnnxWriter& w, std::size_t input = 0) {
  return normalize_axis(w.node().attr<std::int64_t>("axis"), w.shape(input).rank());
}

void write_product(OnnxWriter& w) {
  std::array<std::string, 2> operands;
  constexpr std::array<std::array<std::string_view, 2>, 2> flags{{{"transpose_a", "adj_x"}, {"transpose_b", "adj_y"}}};
  for (std::size_t i = 0; i < 2; ++i) {
    operands[i] = w.in(i);
    if (!has_flag(w.node(), flags[i][0]) && !has_flag(w.node(), flags[i][1])) continue;
    Numbers perm;
    for (int axis = 0; axis < w.shape(i).rank(); ++axis) perm.push_back(axis);
    std::swap(perm.back(), perm[perm.size() - 2]);
    operands[i] = w.op("Transpose", {operands[i]}, {{"perm", perm}});
  }
  w.finish({w.op("MatMul", {operands[0], operands[1]})});
}

void write_band(OnnxWriter& w) {
  std::string x = w.in();
  const auto cut = [&](std::int64_t upper, std::int64_t diagonals) {
    if (diagonals < 0) return;  // all of them
    const double k = static_cast<double>(upper ? -diagonals : diagonals);
    x = w.op("Trilu", {x, w.number(k, int64)}, {{"upper", upper}});
  };
  cut(0, w.node().attr<std::int64_t>("num_upper"));
  cut(1, w.node().attr<std::int64_t>("num_lower"));
  w.finish({x});
}

void write_broadcast(OnnxWriter& w) {
  Numbers sizes = w.node().attr<Shape>("shape").to_vector();
  std::replace(sizes.begin(), sizes.end(), std::int64_t{-1}, std::int64_t{1});  // 1 keeps what is there
  w.finish({w.op("Expand", {w.in(), w.ints(sizes)})});
}

void write_reverse(OnnxWriter& w) {
  const Numbers axes = [&] {
    if (w.node().attrs().find("axis")) return ints_of(w, "axis");
    Numbers all;
    for (int axis = 0; axis < w.shape().rank(); ++axis) all.push_back(axis);
    return all;
  }();
  const Numbers back(axes.size(), -1), first(axes.size(), -furthest);
  w.finish({w.op("Slice", {w.in(), w.ints(back), w.ints(first), w.ints(axes), w.ints(back)})});
}

/// Which axes are summed is computed, as sizes that are not known yet may turn out to be 1.
void write_sum_like(OnnxWriter& w) {
  const auto added = static_cast<std::size_t>(w.shape(0).rank() - w.shape(1).rank());
  const std::string target = w.op("Shape", {w.in(1)});
  const std::string aligned = w.op("Concat", {w.ints(Numbers(added, 1)), target}, {{"axis", 0}});
  const std::string differs = w.op("Sub", {w.op("Shape", {w.in(0)}), aligned});
  const std::string axes = w.op("Squeeze", {w.op("NonZero", {differs}), w.ints({0})});
  const std::string sum = w.op("ReduceSum", {w.in(0), axes}, {{"noop_with_empty_axes", 1}});
  w.finish({w.op("Reshape", {sum, target}, {{"allowzero", 1}})});
}

// ---- Joining and parting ----------------------------------------------------------------------------------------------

void write_pack(OnnxWriter& w) {
  const std::string axis = w.ints({w.node().attr<std::int64_t>("axis")});
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < w.node().inputs().size(); ++i) rows.push_back(w.op("Unsqueeze", {w.in(i), axis}));
  w.finish({w.op("Concat", rows, {{"axis", w.node().attr<std::int64_t>("axis")}})});
}

void write_unpack(OnnxWriter& w) {
  std::vector<std::string> rows(w.node().outputs().size());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (w.is_used(i))
      rows[i] = w.op("Gather", {w.in(), w.number(static_cast<double>(i), int64)}, {{"axis", axis_of(w)}});
  w.finish(rows);
}

/// The sizes of the outputs along the axis, as far as they are known.
void write_split(OnnxWriter& w) {
  const int axis = axis_of(w);
  Numbers sizes;
  for (const Tensor& each : w.node().outputs()) sizes.push_back(each.shape()[axis]);
  const bool known = std::find(sizes.begin(), sizes.end(), -1) == sizes.end();
  if (!known && w.node().type() == "SplitV") w.refuse("the size of a part is not known yet");
  const OnnxField along{"axis", axis};
  const auto parts = static_cast<std::int64_t>(sizes.size());
  w.finish(known ? w.ops("Split", {w.in(), w.ints(sizes)}, {along}, sizes.size())
                 : w.ops("Split", {w.in()}, {along, {"num_outputs", parts}}, sizes.size()));
}

void write_concat_grad(OnnxWriter& w) {
  const int axis = axis_of(w, 1);
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < w.node().outputs().size(); ++i)
    sizes.push_back(w.op("Shape", {w.in(i + 1)}, {{"start", axis}, {"end", axis + 1}}));
  w.finish(w.ops("Split", {w.in(), w.op("Concat", sizes, {{"axis", 0}})}, {{"axis", axis}}, sizes.size()));
}

// ---- Parts ------------------------------------------------------------------------------------------------------------

/// The part of x, of that rank, that an index expression names: its five masks are bits, one for each entry.
std::string indexed(OnnxWriter& w, std::string x, int rank) {
  enum Mask : std::uint8_t { no_begin, no_end, ellipsis, new_axis, number };
  const Ints &begin = w.node().attr<Ints>("begin"), &end = w.node().attr<Ints>("end"),
             &strides = w.node().attr<Ints>("strides"), &masks = w.node().attr<Ints>("masks");
  const auto has = [&](Mask mask, std::size_t i) { return (masks[mask] >> i & 1) != 0; };
  int picked = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) picked += !has(ellipsis, i) && !has(new_axis, i);

  Numbers starts, ends, axes, steps, dropped, added;
  std::int64_t axis = 0, place = 0;  // in x, and in the result
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (has(ellipsis, i)) {
      axis += rank - picked;
      place += rank - picked;
    } else if (has(new_axis, i)) {
      added.push_back(place++);
    } else {
      const std::int64_t step = has(number, i) ? 1 : strides[i], last = step > 0 ? furthest : -furthest;
      axes.push_back(axis);
      steps.push_back(step);
      if (has(number, i)) {
        starts.push_back(begin[i]);
        ends.push_back(begin[i] == -1 ? furthest : begin[i] + 1);
        dropped.push_back(axis);
      } else {
        starts.push_back(!has(no_begin, i) ? begin[i] : step > 0 ? 0 : furthest);
        ends.push_back(has(no_end, i) ? last : end[i]);
        ++place;
      }
      ++axis;
    }
  }
  if (!axes.empty()) x = w.op("Slice", {x, w.ints(starts), w.ints(ends), w.ints(axes), w.ints(steps)});
  if (!dropped.empty()) x = w.op("Squeeze", {x, w.ints(dropped)});
  return added.empty() ? x : w.op("Unsqueeze", {x, w.ints(added)});
}

/// The part of x that the attributes name: those of our Slice, or an index expression's.
std::string part_of(OnnxWriter& w, const std::string& x, int rank) {
  if (!w.node().attrs().find("size")) return indexed(w, x, rank);
  const Numbers begin = ints_of(w, "begin");
  Numbers end = ints_of(w, "size");
  for (std::size_t i = 0; i < end.size(); ++i) end[i] = end[i] < 0 ? furthest : begin[i] + end[i];
  return w.op("Slice", {x, w.ints(begin), w.ints(end)});
}

void write_part(OnnxWriter& w) { w.finish({part_of(w, w.in(), w.shape().rank())}); }

/// x with other values in the part: the part of the numbers of its elements tells where they go.
std::string with_part(OnnxWriter& w, const std::string& x, int rank, const std::string& values) {
  const std::string shape = w.op("Shape", {x}), all = w.ints({-1});
  const std::string numbers = w.op("Range", {w.number(0, int64), w.op("Size", {x}), w.number(1, int64)});
  const std::string places = part_of(w, w.op("Reshape", {numbers, shape}, {{"allowzero", 1}}), rank);
  const std::string fitting = w.op("Expand", {values, w.op("Shape", {places})});
  const auto flat = [&](const std::string& value) { return w.op("Reshape", {value, all}); };
  const std::string written = w.op("ScatterElements", {flat(x), flat(places), flat(fitting)});
  return w.op("Reshape", {written, shape}, {{"allowzero", 1}});
}

void write_part_update(OnnxWriter& w) { w.finish({with_part(w, w.in(0), w.shape(0).rank(), w.in(1))}); }

void write_part_grad(OnnxWriter& w) {
  const std::string zero = w.number(0, w.node().output().dtype());
  const std::string zeros = w.op("Expand", {zero, w.op("Shape", {w.in(1)})});
  w.finish({with_part(w, zeros, w.shape(1).rank(), w.in(0))});
}

// ---- Repeating and padding --------------------------------------------------------------------------------------------

/// For each axis how often it is repeated.
Numbers multiples_of(const OnnxWriter& w, std::size_t input) {
  if (w.node().attrs().find("multiples")) return ints_of(w, "multiples");
  Numbers multiples(static_cast<std::size_t>(w.shape(input).rank()), 1);
  multiples[static_cast<std::size_t>(axis_of(w, input))] = w.node().attr<std::int64_t>("repeats");
  return multiples;
}

void write_repeat(OnnxWriter& w) {
  const int axis = axis_of(w), rank = w.shape().rank();
  Numbers times(static_cast<std::size_t>(rank) + 1, 1);
  times[static_cast<std::size_t>(axis) + 1] = w.node().attr<std::int64_t>("repeats");
  const std::string apart = w.op("Tile", {w.op("Unsqueeze", {w.in(), w.ints({axis + 1})}), w.ints(times)});
  const std::string shape = w.op("Mul", {w.op("Shape", {w.in()}), w.ints(multiples_of(w, 0))});
  w.finish({w.op("Reshape", {apart, shape}, {{"allowzero", 1}})});
}

/// The sum over what was repeated: each axis becomes two, (times, size) for `tile` and (size, times) for `repeat`.
void write_repeat_grad(OnnxWriter& w) {
  const bool tile = w.node().attrs().find("multiples") != nullptr;
  const Numbers multiples = multiples_of(w, 1);
  Numbers axes;
  for (std::size_t i = 0; i < multiples.size(); ++i) axes.push_back(static_cast<std::int64_t>(2 * i + (tile ? 0 : 1)));
  const std::string last = w.ints({-1});
  std::string times = w.op("Unsqueeze", {w.ints(multiples), last});
  std::string sizes = w.op("Unsqueeze", {w.op("Shape", {w.in(1)}), last});
  if (!tile) std::swap(times, sizes);
  const std::string shape = w.op("Reshape", {w.op("Concat", {times, sizes}, {{"axis", 1}}), last});
  const std::string apart = w.op("Reshape", {w.in(0), shape}, {{"allowzero", 1}});
  w.finish({w.op("ReduceSum", {apart, w.ints(axes)}, {{"keepdims", 0}, {"noop_with_empty_axes", 1}})});
}

/// The widths in front of all axes, then, for `pad`, those behind.
Numbers paddings_of(const OnnxWriter& w, bool behind) {
  const Ints& pairs = w.node().attr<Ints>("paddings");
  Numbers widths;
  for (std::size_t side = 0; side <= (behind ? 1U : 0U); ++side)
    for (std::size_t i = side; i < pairs.size(); i += 2) widths.push_back(pairs[i]);
  return widths;
}

void write_pad(OnnxWriter& w) {
  const std::string value = w.number(w.node().attr<double>("constant_values"), w.node().output().dtype());
  w.finish({w.op("Pad", {w.in(), w.ints(paddings_of(w, true)), value})});
}

void write_pad_grad(OnnxWriter& w) {
  const std::string begin = w.ints(paddings_of(w, false));
  w.finish({w.op("Slice", {w.in(0), begin, w.op("Add", {begin, w.op("Shape", {w.in(1)})})})});
}

// ---- Images -----------------------------------------------------------------------------------------------------------

std::string transposed(OnnxWriter& w, const std::string& x, Numbers perm) {
  return w.op("Transpose", {x}, {{"perm", std::move(perm)}});
}
/// Our images are NHWC, ONNX's NCHW; our filters are HWIO, ONNX's OIHW.
std::string to_nchw(OnnxWriter& w, const std::string& x) { return transposed(w, x, {0, 3, 1, 2}); }
std::string to_nhwc(OnnxWriter& w, const std::string& x) { return transposed(w, x, {0, 2, 3, 1}); }

/// How a window of that height and width moves over our first input.
OnnxFields window_fields(const OnnxWriter& w, const Numbers& window) {
  const Node& node = w.node();
  const Ints& strides = node.attr<Ints>("strides");
  const Ints* dilations = node.attrs().find<Ints>("dilations");
  const auto& scheme = node.attr<std::string>("padding");
  OnnxFields fields{{"kernel_shape", window}, {"strides", Numbers{strides[1], strides[2]}}};
  if (dilations) fields.push_back({"dilations", Numbers{(*dilations)[1], (*dilations)[2]}});
  Numbers pads(4);
  for (std::size_t i = 0; i < 2; ++i) {
    if (scheme == "EXPLICIT") {
      const Ints& widths = node.attr<Ints>("explicit_paddings");
      pads[i] = widths[2 * i + 2];
      pads[i + 2] = widths[2 * i + 3];
    } else if (scheme == "SAME") {
      const std::int64_t stride = strides[i + 1], size = w.shape()[static_cast<int>(i) + 1];
      const std::int64_t dilation = dilations ? (*dilations)[i + 1] : 1;
      if (size < 0 && stride > 1) {
        if (dilation > 1) w.refuse("its padding depends on a size that is not known yet");
        fields.push_back({"auto_pad", std::string("SAME_UPPER")});
        return fields;
      }
      // What the last window needs beyond the image; with stride 1 that is the same for every size.
      const std::int64_t rest = stride > 1 ? (size - 1) % stride + 1 : 1;
      const std::int64_t total = std::max<std::int64_t>((window[i] - 1) * dilation + 1 - rest, 0);
      pads[i] = total / 2;
      pads[i + 2] = total - total / 2;
    }
  }
  fields.push_back({"pads", pads});
  return fields;
}

void write_conv(OnnxWriter& w) {
  const Shape& filter = w.shape(1);
  if (filter[0] < 0 || filter[1] < 0) w.refuse("the size of its filter is not known yet");
  OnnxFields fields = window_fields(w, {filter[0], filter[1]});
  const auto* groups = w.node().attrs().find<std::int64_t>("groups");
  fields.push_back({"group", groups ? *groups : 1});
  const std::string kernel = transposed(w, w.in(1), {3, 2, 0, 1});
  w.finish({to_nhwc(w, w.op("Conv", {to_nchw(w, w.in(0)), kernel}, fields))});
}

void write_pool(OnnxWriter& w) {
  const Ints& window = w.node().attr<Ints>("ksize");
  const OnnxFields fields = window_fields(w, {window[1], window[2]});
  const std::string_view type = w.node().type() == "MaxPool" ? "MaxPool" : "AveragePool";
  w.finish({to_nhwc(w, w.op(type, {to_nchw(w, w.in())}, fields))});
}

struct Rule {
  std::string_view op;
  void (*write)(OnnxWriter&);
};
constexpr std::array rules = std::to_array<Rule>({{"MatMul", write_product},
                                                  {"BatchMatMulV2", write_product},
                                                  {"MatrixBandPart", write_band},
                                                  {"BroadcastTo", write_broadcast},
                                                  {"ReverseV2", write_reverse},
                                                  {"SumLike", write_sum_like},
                                                  {"Pack", write_pack},
                                                  {"Unpack", write_unpack},
                                                  {"Split", write_split},
                                                  {"SplitV", write_split},
                                                  {"ConcatGrad", write_concat_grad},
                                                  {"Slice", write_part},
                                                  {"StridedSlice", write_part},
                                                  {"TensorStridedSliceUpdate", write_part_update},
                                                  {"StridedSliceGrad", write_part_grad},
                                                  {"Repeat", write_repeat},
                                                  {"TileGrad", write_repeat_grad},
                                                  {"PadV2", write_pad},
                                                  {"PadGrad", write_pad_grad},
                                                  {"Conv2D", write_conv},
                                                  {"MaxPool", write_pool},
                                                  {"AvgPool", write_pool}});

}  // namespace

void write_onnx(OnnxWriter& writer) {
  const Node& node = writer.node();
  for (const Tensor& each : node.inputs())
    if (!each.shape().has_rank()) writer.refuse("the rank of an input is not known yet");
  bool known = false;
  if (const auto formula = formula_of(node, known)) return writer.finish(writer.formula(*formula));
  if (known) writer.refuse(detail::join("ONNX's op does not take ", node.input(0).dtype()));
  for (const Rule& each : rules)
    if (each.op == node.type()) return each.write(writer);
  writer.refuse("ONNX has no op that does the same");
}

}  // namespace tapestry::io
