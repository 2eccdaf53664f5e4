#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "io/onnx/onnx_writer.hpp"

namespace tapestry::io {
namespace {

/// A rule is a line: the op's name; the types that its first input may have (its output, if it has no inputs): "any",
/// "number" (int32, int64 and floats), "whole" (int32, int64), "real" (floats) or "single" (float32); optionally "+x",
/// an attribute that must be present and not false; and the formula. The first rule that fits is used.
///
/// A formula is made of ONNX's ops: "F[x=1](a, b)" is F with an attribute and two inputs. a, b, c, d and e are our op's
/// inputs, * is all of them. @x is our attribute x, or one that is computed below: as an input, a constant of the type
/// of a if it is a real number, and of int64 otherwise; in brackets, an attribute. There, @T is the code of the
/// output's type, and @x/0 is 0 if x is absent. ?F(a, @x) is a if x is absent. 1 is a constant of the type of a, 1:b of
/// that of b, 1:int of int64; {1, 2} is a vector of int64. Definitions that end in ";" come first, then an expression
/// for each output, with "|" between them.
///
/// An op without a rule is written as ONNX's op of the same name if there is one, and otherwise as its composition.
constexpr std::string_view formulas = R"(
Neg number Neg(a)
Abs number Abs(a)
Sign number Sign(a)
Square number Mul(a, a)
Rsqrt real Reciprocal(Sqrt(a))
Expm1 real t = Tanh(Mul(a, 0.5)); Where(Less(Abs(a), 1), Div(Add(t, t), Sub(1, t)), Sub(Exp(a), 1))
Log1p real u = Add(a, 1); r = Sub(u, 1);
  Where(Equal(r, 0), a, Where(Less(Abs(a), 1), Mul(Log(u), Div(a, r)), Log(u)))
Rint real Round(a)
IsNan real IsNaN(a)
IsFinite real Equal(Sub(a, a), 0)
Relu real Relu(a)
Relu whole Max(a, 0)
LeakyRelu single LeakyRelu[alpha=@alpha](a)
Softmax real Softmax[axis=-1](a)
LogSoftmax real LogSoftmax[axis=-1](a)

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

Equal any Equal(a, b)
NotEqual any Not(Equal(a, b))
Less number Less(a, b)
LessEqual number LessOrEqual(a, b)
Greater number Greater(a, b)
GreaterEqual number GreaterOrEqual(a, b)
LogicalNot any Not(a)
LogicalAnd any And(a, b)
LogicalOr any Or(a, b)
SelectV2 any +logical Or(And(a, b), And(Not(a), c))
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
SoftmaxCrossEntropyWithLogits real s = LogSoftmax[axis=-1](a);
  Neg(ReduceSum[keepdims=0](Mul(b, s), {-1})) | Sub(Mul(Exp(s), ReduceSum(b, {-1})), b)
SparseSoftmaxCrossEntropyWithLogits real s = LogSoftmax[axis=-1](a); i = Unsqueeze(b, {-1});
  Neg(Squeeze(GatherElements[axis=-1](s, i), {-1})) |
  ScatterElements[axis=-1,reduction=add](Exp(s), i, Expand(-1, Shape(i)))

Identity any a
StopGradient any a
CheckNumerics any a
EnsureShape any a
Snapshot any a
DeviceCopy any a
Cast any Cast[to=@dtype](a)
Shape any Shape(a)
Size any Size(a)
SizeLike number Div(Cast[to=@T](Size(a)), Cast[to=@T](Max(Size(b), 1:int)))
CustomGradient any Identity(a)
RegisteredGradient any Identity(a)
Recompute any Identity(a)
OptimizationBarrier any Identity(a)
ZerosLike any Expand(0, Shape(a))
OnesLike any Expand(1, Shape(a))
Fill any Expand(@value, @shape)
BroadcastLike any Expand(a, Shape(b))
ReshapeLike any Reshape[allowzero=1](a, Shape(b))
Reshape any Reshape[allowzero=1](a, @shape)
Transpose any Transpose[perm=@perm](a)
BroadcastTo any Expand(a, @sizes)
SumLike number t = Shape(b);
  n = Squeeze(NonZero(Sub(Shape(a), Concat[axis=0](@added, t))), {0});
  Reshape[allowzero=1](ReduceSum[noop_with_empty_axes=1](a, n), t)
Squeeze any +axis Squeeze(a, @axis)
Squeeze any Squeeze(a)
ExpandDims any Unsqueeze(a, @axis)
ConcatV2 any Concat[axis=@axis](*)
ReverseV2 any Slice(a, @back, @first, @axis, @back)
Slice any Slice(a, @starts, @ends, @axes, @steps)
StridedSlice any ?Unsqueeze(?Squeeze(?Slice(a, @starts, @ends, @axes, @steps), @dropped), @new)
TensorStridedSliceUpdate any n = Reshape[allowzero=1](Range(0:int, Size(a), 1:int), Shape(a));
  p = ?Unsqueeze(?Squeeze(?Slice(n, @starts, @ends, @axes, @steps), @dropped), @new);
  w = ScatterElements(Reshape(a, {-1}), Reshape(p, {-1}), Reshape(Expand(b, Shape(p)), {-1}));
  Reshape[allowzero=1](w, Shape(a))
StridedSliceGrad any n = Reshape[allowzero=1](Range(0:int, Size(b), 1:int), Shape(b));
  p = ?Unsqueeze(?Squeeze(?Slice(n, @starts, @ends, @axes, @steps), @dropped), @new);
  w = ScatterElements(Expand(0, Reshape(Size(b), {1})), Reshape(p, {-1}), Reshape(a, {-1}));
  Reshape[allowzero=1](w, Shape(b))
Tile any Tile(a, @multiples)
Repeat any Reshape[allowzero=1](Tile(Unsqueeze(a, @behind), @times), Mul(Shape(a), @multiples))
TileGrad number s = Concat[axis=1](Unsqueeze(@front, {-1}), Unsqueeze(Shape(b), {-1}), Unsqueeze(@times, {-1}));
  ReduceSum[keepdims=0,noop_with_empty_axes=1](Reshape[allowzero=1](a, Reshape(s, {-1})), @axes)
PadV2 any Pad(a, @pads, @constant_values)
PadGrad any Slice(a, @before, Add(@before, Shape(b)))

GatherV2 any Gather[axis=@axis](a, b)
GatherNd any GatherND(a, Cast[to=7](b))
TakeAlongAxis any GatherElements[axis=@axis](a, b)
UnsortedSegmentSum any z = Expand(0:b, Gather(Shape(c), @front));
  u = ?Transpose[perm=@updates](b);
  ?Transpose[perm=@back](ScatterND[reduction=add](z, Unsqueeze(Cast[to=7](a), {-1}), u))
ScatterNd any ScatterND[reduction=add](Expand(0:b, Shape(c)), Cast[to=7](a), b)
PutAlongAxis any ScatterElements[axis=@axis,reduction=add](Expand(0:b, Shape(c)), a, b)
Where any Transpose[perm={1,0}](NonZero(a))
SequenceMask whole n = ReduceMax[keepdims=0](Concat[axis=0](Reshape(a, {-1}), Expand(0, {1})));
  Less(Range(0, n, 1), Unsqueeze(a, {-1}))
UniqueWithCounts real y, i, n, m = Unique[sorted=0](Cast[to=11](a));
  Cast[to=@T](y) | Cast[to=@out_idx/6](n) | Cast[to=@out_idx/6](m)
UniqueWithCounts any y, i, n, m = Unique[sorted=0](Cast[to=7](a));
  Cast[to=@T](y) | Cast[to=@out_idx/6](n) | Cast[to=@out_idx/6](m)
TopKV2 number +k v, i = TopK[largest=@largest](a, Reshape(@k, {1})); v | Cast[to=6](i)
TopKV2 number v, i = TopK[largest=@largest](a, Shape[start=-1](a)); v | Cast[to=6](i)

MatMul number MatMul(?Transpose[perm=@swap_a](a), ?Transpose[perm=@swap_b](b))
BatchMatMulV2 number MatMul(?Transpose[perm=@swap_a](a), ?Transpose[perm=@swap_b](b))
MatrixDeterminant single Det(a)
MatrixDeterminant real Cast[to=@T](Det(Cast[to=11](a)))
MatrixBandPart whole Cast[to=@T](?Trilu[upper=1](?Trilu[upper=0](Cast[to=7](a), @above), @below))
MatrixBandPart any ?Trilu[upper=1](?Trilu[upper=0](a, @above), @below)
MatrixDiagPart any i = Unsqueeze(Range(0:int, ReduceMin[keepdims=0](Shape[start=-2](a)), 1:int), {-1});
  Transpose[perm=@behind](GatherND(Transpose[perm=@front](a), Concat[axis=1](i, i)))
MatrixSetDiag any i = Unsqueeze(Range(0:int, ReduceMin[keepdims=0](Shape[start=-2](a)), 1:int), {-1});
  Transpose[perm=@back](ScatterND(Transpose[perm=@front](a), Concat[axis=1](i, i), Transpose[perm=@before](b)))

Conv2D real Transpose[perm={0,2,3,1}](Conv[strides=@steps,dilations=@spread,pads=@pads,auto_pad=@auto,group=@groups/1](
  Transpose[perm={0,3,1,2}](a), Transpose[perm={3,2,0,1}](b)))
Conv2DBackpropInput real +rest Transpose[perm={0,2,3,1}](
  ConvTranspose[strides=@steps,dilations=@spread,pads=@pads,output_padding=@rest,group=@groups/1](
  Transpose[perm={0,3,1,2}](c), Transpose[perm={3,2,0,1}](b)))
Conv2DBackpropInput real +pads
  y = ConvTranspose[strides=@steps,dilations=@spread,pads=@pads,output_padding=@most,group=@groups/1](
  Transpose[perm={0,3,1,2}](c), Transpose[perm={3,2,0,1}](b));
  Transpose[perm={0,2,3,1}](Slice(y, {0,0}, Shape[start=1,end=3](a), {2,3}))
Conv2DBackpropInput real +auto s = Shape[start=1,end=3](a);
  p = Div(Max(Sub(@reach, Add(Mod(Sub(s, 1:int), @steps), 1:int)), 0:int), 2:int);
  y = ConvTranspose[strides=@steps,dilations=@spread,output_padding=@most,group=@groups/1](
  Transpose[perm={0,3,1,2}](c), Transpose[perm={3,2,0,1}](b));
  Transpose[perm={0,2,3,1}](Slice(y, p, Add(p, s), {2,3}))
Conv2DBackpropFilter real +whole w = Conv[strides=@spread,dilations=@steps,pads=@pads](
  Transpose[perm={3,0,1,2}](a), Transpose[perm={3,0,1,2}](c));
  Transpose[perm={2,3,0,1}](Slice(w, {0,0}, Shape[start=0,end=2](b), {2,3}))
MaxPool real Transpose[perm={0,2,3,1}](
  MaxPool[kernel_shape=@window,strides=@steps,pads=@pads,auto_pad=@auto](Transpose[perm={0,3,1,2}](a)))
AvgPool real Transpose[perm={0,2,3,1}](
  AveragePool[kernel_shape=@window,strides=@steps,pads=@pads,auto_pad=@auto](Transpose[perm={0,3,1,2}](a)))
AvgPoolGrad real +rest m = Expand(1, Shape(Transpose[perm={0,3,1,2}](a)));
  r = AveragePool[kernel_shape=@window,strides=@steps,pads=@pads,count_include_pad=1](m);
  q = Div(Transpose[perm={0,3,1,2}](b), Mul(r, @count));
  u = ConvTranspose[strides=@steps,pads=@pads,output_padding=@rest](
    Reshape(q, Concat[axis=0]({-1,1}, Shape[start=2](q))), Expand(1, @kernel));
  Transpose[perm={0,2,3,1}](Reshape[allowzero=1](u, Shape(m)))
MaxPoolGrad real t = Transpose[perm={0,3,1,2}](a);
  y, i = MaxPool[kernel_shape=@window,strides=@steps,pads=@pads,auto_pad=@auto](t);
  u = Reshape(Transpose[perm={0,3,1,2}](c), {-1});
  s = ScatterElements[reduction=add](Expand(0, Reshape(Size(a), {1})), Reshape(i, {-1}), u);
  Transpose[perm={0,2,3,1}](Reshape[allowzero=1](s, Shape(t)))
MaxPoolGradGrad real
  y, i = MaxPool[kernel_shape=@window,strides=@steps,pads=@pads,auto_pad=@auto](Transpose[perm={0,3,1,2}](a));
  u = GatherElements(Reshape(Transpose[perm={0,3,1,2}](c), {-1}), Reshape(i, {-1}));
  Transpose[perm={0,2,3,1}](Reshape[allowzero=1](u, Shape(i)))

RandomStandardNormal real +shape RandomNormal[dtype=@T,mean=@mean,scale=@stddev,shape=@shape]()
RandomStandardNormal real RandomNormalLike[dtype=@T,mean=@mean,scale=@stddev](a)
RandomUniform real +shape RandomUniform[dtype=@T,low=@minval,high=@maxval,shape=@shape]()
RandomUniform real RandomUniformLike[dtype=@T,low=@minval,high=@maxval](a)
RandomBernoulli real +shape Cast[to=@T](Less(RandomUniform[dtype=@T,shape=@shape](), @probability))
RandomBernoulli real Cast[to=@T](Less(RandomUniformLike[dtype=@T](a), @probability))
Multinomial single Multinomial[dtype=@T,sample_size=@num_samples](a)
Multinomial real Multinomial[dtype=@T,sample_size=@num_samples](Cast[to=1](a))
)";

/// Functions of floats that have the same name in ONNX as in TensorFlow.
constexpr std::string_view same_functions =
    " Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Elu Erf Exp Floor Log Reciprocal Sigmoid Sin Sinh Softplus "
    "Softsign Sqrt Tan Tanh ";

bool fits(std::string_view types, DType dtype) {
  if (types == "any") return true;
  const bool wide = dtype == int32 || dtype == int64;
  if (types == "number") return wide || is_floating(dtype);
  if (types == "single") return dtype == float32;
  return types == "whole" ? wide : is_floating(dtype);
}

/// Removes the first word of a text and returns it.
std::string_view take_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

/// Refuses a formula with an op that takes no bfloat16 before opset 22.
void require_bfloat16(const OnnxWriter& w, std::string_view formula) {
  constexpr std::string_view lacking =
      " Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cos Cosh Elu MaxPool Multinomial RandomNormal "
      "RandomNormalLike RandomUniform RandomUniformLike Round Sin Sinh Softplus Softsign Tan TopK ";
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  for (std::size_t begin = 0; begin < formula.size(); ++begin) {
    if (!is_letter(formula[begin])) continue;
    std::size_t end = begin;
    while (end < formula.size() && is_letter(formula[end])) ++end;
    const std::string_view word = formula.substr(begin, end - begin);
    if (lacking.find(detail::join(' ', word, ' ')) != std::string_view::npos)
      w.refuse(detail::join("ONNX's ", word, " takes no bfloat16"));
    begin = end;
  }
}

}  // namespace

bool has_flag(const OnnxWriter& w, std::string_view name) {
  const AttrValue* value = w.find(name);
  return value && (!std::holds_alternative<bool>(*value) || std::get<bool>(*value));
}

std::optional<std::string> formula_of(const OnnxWriter& w, bool& known) {
  const detail::Node& node = w.node();
  const DType dtype = node.inputs().empty() ? node.output().dtype() : node.input(0).dtype();
  const auto found = [&](std::string formula) {
    if (dtype == bfloat16) require_bfloat16(w, formula);
    return formula;
  };
  known = same_functions.find(detail::join(' ', node.type(), ' ')) != std::string_view::npos;
  if (known && is_floating(dtype)) return found(node.type() + "(a)");
  const std::string start = detail::join('\n', node.type(), ' ');
  for (std::size_t at = 0; (at = formulas.find(start, at)) != std::string_view::npos; ++at) {
    known = true;
    std::string_view line = formulas.substr(at + start.size());
    // A line that begins with a space continues the rule.
    std::size_t end = line.find('\n');
    while (end + 1 < line.size() && line[end + 1] == ' ') end = line.find('\n', end + 1);
    line = line.substr(0, end);
    if (!fits(take_word(line), dtype)) continue;
    if (line.starts_with('+') && !has_flag(w, take_word(line).substr(1))) continue;
    return found(std::string(line));
  }
  return {};
}

}  // namespace tapestry::io
