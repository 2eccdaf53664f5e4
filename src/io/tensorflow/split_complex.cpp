#include "io/tensorflow/split_complex.hpp"

#include <algorithm>
#include <array>
#include <numbers>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/node_adder.hpp"

namespace tapestry::io {
namespace {

constexpr TypeCode complex64{8}, complex128{18};

DType real_type(TypeCode type) { return type == complex64 ? float32 : type == complex128 ? float64 : DType::unknown; }

/// How a transform is written as matrix products, one for each of the last axes.
struct Transform {
  std::string_view op;
  int axes;
  bool inverse, is_real;
};
constexpr auto transforms = std::to_array<Transform>({{"FFT", 1, false, false},
                                                      {"FFT2D", 2, false, false},
                                                      {"FFT3D", 3, false, false},
                                                      {"IFFT", 1, true, false},
                                                      {"IFFT2D", 2, true, false},
                                                      {"IFFT3D", 3, true, false},
                                                      {"RFFT", 1, false, true},
                                                      {"RFFT2D", 2, false, true},
                                                      {"RFFT3D", 3, false, true},
                                                      {"IRFFT", 1, true, true},
                                                      {"IRFFT2D", 2, true, true},
                                                      {"IRFFT3D", 3, true, true}});

const Transform* transform_of(const NodeDef& node) {
  const std::string_view op = std::string_view(node.op).substr(node.op.starts_with("Batch") ? 5 : 0);
  const auto found =
      std::find_if(transforms.begin(), transforms.end(), [&](const Transform& each) { return each.op == op; });
  return found == transforms.end() ? nullptr : &*found;
}

/// The type of the complex numbers that a node takes or gives; nothing for another node. SavedModels leave out types
/// that an op has by default.
std::optional<TypeCode> complex_type(const NodeDef& node) {
  for (const auto& [name, attr] : node.attrs)
    if (const auto* type = std::get_if<TypeCode>(&attr); type && real_type(*type) != DType::unknown) return *type;
  static constexpr auto others =
      std::to_array<std::string_view>({"Angle", "Complex", "ComplexAbs", "Conj", "Imag", "Real"});
  const bool is_other = std::find(others.begin(), others.end(), node.op) != others.end();
  const bool has_type = is_other && node.attrs.contains(node.op == "Complex" ? "Tout" : "T");
  return (is_other && !has_type) || transform_of(node) ? std::optional(complex64) : std::nullopt;
}

/// A complex tensor.
struct Parts {
  std::string real{}, imag{};
};

/// Formulas of one node's parts.
class Formulas {
 public:
  Formulas(NodeAdder adder, DType dtype) : add(std::move(adder)), dtype_(dtype) {}

  std::string one(std::string_view op, const std::string& x) { return add.typed(op, {x}, dtype_); }
  std::string two(std::string_view op, const std::string& x, const std::string& y) {
    return add.typed(op, {x, y}, dtype_);
  }
  std::string cast(const std::string& x, DType from, DType to) {
    return add.op("Cast", {x}, {{"SrcT", code_of(from)}, {"DstT", code_of(to)}});
  }
  Parts multiply(const Parts& x, const Parts& y) {
    return {two("Sub", two("Mul", x.real, y.real), two("Mul", x.imag, y.imag)),
            two("AddV2", two("Mul", x.real, y.imag), two("Mul", x.imag, y.real))};
  }
  Parts conjugate(const Parts& x) { return {x.real, one("Neg", x.imag)}; }
  std::string square_of_length(const Parts& x) { return two("AddV2", one("Square", x.real), one("Square", x.imag)); }
  Parts divide(std::string_view op, const Parts& x, const Parts& y) {
    const Parts numerator = multiply(x, conjugate(y));
    const std::string length = square_of_length(y);
    return {two(op, numerator.real, length), two(op, numerator.imag, length)};
  }
  /// The absolute value; its derivative at 0 is 0.
  std::string length(const Parts& x) {
    const std::string square = square_of_length(x), zero = one("ZerosLike", square);
    const std::string is_zero = two("Equal", square, zero);
    const std::string safe = add.typed("SelectV2", {is_zero, one("OnesLike", square), square}, dtype_);
    return add.typed("SelectV2", {is_zero, zero, one("Sqrt", safe)}, dtype_);
  }
  std::string angle(const Parts& x) { return two("Atan2", x.imag, x.real); }
  Parts exp(const Parts& x) {
    const std::string length = one("Exp", x.real);
    return {two("Mul", length, one("Cos", x.imag)), two("Mul", length, one("Sin", x.imag))};
  }

  Parts log(const Parts& x) { return {one("Log", length(x)), angle(x)}; }
  Parts add_up(const Parts& x, const Parts& y) { return {two("AddV2", x.real, y.real), two("AddV2", x.imag, y.imag)}; }
  Parts negate(const Parts& x) { return {one("Neg", x.real), one("Neg", x.imag)}; }
  Parts scaled(const Parts& x, double factor) {
    return {two("Mul", x.real, real(factor)), two("Mul", x.imag, real(factor))};
  }
  /// 1, of the shape of x.
  Parts unit(const Parts& x) { return {one("OnesLike", x.real), one("ZerosLike", x.real)}; }
  Parts reciprocal(const Parts& x) { return divide("RealDiv", unit(x), x); }
  std::string select(const std::string& condition, const std::string& x, const std::string& y) {
    return add.typed("SelectV2", {condition, x, y}, dtype_);
  }

  /// The root whose real part is not negative.
  Parts sqrt(const Parts& x) {
    const std::string half = real(0.5), zero = one("ZerosLike", x.real);
    const std::string larger = one("Sqrt", two("Mul", two("AddV2", length(x), one("Abs", x.real)), half));
    const std::string smaller = two("Mul", two("DivNoNan", one("Abs", x.imag), larger), half);
    const std::string is_right = two("GreaterEqual", x.real, zero);
    const std::string imag = select(is_right, smaller, larger);
    return {select(is_right, larger, smaller), select(two("Less", x.imag, zero), one("Neg", imag), imag)};
  }
  Parts sin(const Parts& x) {
    return {two("Mul", one("Sin", x.real), one("Cosh", x.imag)), two("Mul", one("Cos", x.real), one("Sinh", x.imag))};
  }
  Parts cos(const Parts& x) {
    return {two("Mul", one("Cos", x.real), one("Cosh", x.imag)),
            one("Neg", two("Mul", one("Sin", x.real), one("Sinh", x.imag)))};
  }
  /// The function of i x, for those of which that of x follows: sinh x = -i sin(i x).
  Parts turned(const Parts& x) { return {one("Neg", x.imag), x.real}; }
  Parts turned_back(const Parts& x) { return {x.imag, one("Neg", x.real)}; }
  Parts tanh(const Parts& x) {
    const std::string real_part = one("Tanh", x.real), imag_part = one("Tan", x.imag);
    return divide("RealDiv", {real_part, imag_part}, {one("OnesLike", real_part), two("Mul", real_part, imag_part)});
  }
  Parts power(const Parts& x, const Parts& y) {
    const std::string size = length(x), zero = one("ZerosLike", size);
    const std::string is_zero = two("Equal", size, zero);
    const Parts safe{select(is_zero, one("OnesLike", size), x.real), x.imag};
    const Parts found = exp(multiply(y, log(safe)));
    // 0 to the power of 0 is 1.
    const std::string is_exponent = two("Equal", length(y), one("ZerosLike", y.real));
    const std::string whole = cast(is_exponent, boolean, dtype_);
    return {select(is_zero, whole, found.real), select(is_zero, one("ZerosLike", found.imag), found.imag)};
  }
  std::optional<Parts> function(std::string_view op, const Parts& x) {
    if (op == "Exp") return exp(x);
    if (op == "Expm1") return add_up(exp(x), negate(unit(x)));
    if (op == "Log") return log(x);
    if (op == "Log1p") return log(add_up(x, unit(x)));
    if (op == "Square") return multiply(x, x);
    if (op == "Sqrt") return sqrt(x);
    if (op == "Rsqrt") return reciprocal(sqrt(x));
    if (op == "Reciprocal" || op == "Inv") return reciprocal(x);
    if (op == "Sigmoid") return reciprocal(add_up(unit(x), exp(negate(x))));
    if (op == "Sin") return sin(x);
    if (op == "Cos") return cos(x);
    if (op == "Tan") return turned_back(tanh(turned(x)));
    if (op == "Sinh") return turned_back(sin(turned(x)));
    if (op == "Cosh") return cos(turned(x));
    if (op == "Tanh") return tanh(x);
    return {};
  }

  /// The gradients by the argument of functions whose results are y.
  std::optional<Parts> gradient(std::string_view op, const Parts& y, const Parts& g) {
    const Parts own = conjugate(y);
    if (op == "SqrtGrad") return divide("RealDiv", scaled(g, 0.5), own);
    if (op == "RsqrtGrad") return scaled(multiply(g, multiply(own, multiply(own, own))), -0.5);
    if (op == "ReciprocalGrad" || op == "InvGrad") return negate(multiply(g, multiply(own, own)));
    if (op != "TanhGrad" && op != "SigmoidGrad") return {};
    // These two are given the conjugate.
    const Parts rest = add_up(unit(y), negate(op == "TanhGrad" ? multiply(y, y) : y));
    return multiply(g, op == "TanhGrad" ? rest : multiply(y, rest));
  }

  // ---- Matrices: A + i B as the real matrix [A, -B; B, A].

  std::string joined(const std::string& a, const std::string& b, std::int64_t axis) {
    return add.op("ConcatV2", {a, b, add.number("axis", axis)},
                  {{"T", code_of(dtype_)}, {"Tidx", code_of(int32)}, {"N", std::int64_t{2}}});
  }
  std::string doubled(const Parts& x) {
    return joined(joined(x.real, one("Neg", x.imag), -1), joined(x.imag, x.real, -1), -2);
  }
  Parts halves(const std::string& x, std::int64_t axis) {
    const std::string parts =
        add.op("Split", {add.number("axis", axis), x}, {{"T", code_of(dtype_)}, {"num_split", std::int64_t{2}}});
    return {parts, parts + ":1"};
  }

  // ---- Transforms: of n numbers. Positions are int64.

  std::string whole(std::int64_t value) {
    return add.constant("number", detail::make_scalar(static_cast<double>(value), int64));
  }
  /// The size of an axis, counted from the end.
  std::string size(const std::string& x, int axis) {
    const std::string shape = add.op("Shape", {x}, {{"T", code_of(dtype_)}, {"out_type", code_of(int64)}});
    return add.op("StridedSlice",
                  {shape, add.number("begin", axis), add.number("end", axis + 1), add.number("step", 1)},
                  {{"T", code_of(int64)}, {"Index", code_of(int32)}, {"shrink_axis_mask", std::int64_t{1}}}, "size");
  }
  std::string element(const std::string& list, std::int64_t i) {
    const std::string all = cast(list, int32, int64);
    return add.op("StridedSlice", {all, add.number("begin", i), add.number("end", i + 1), add.number("step", 1)},
                  {{"T", code_of(int64)}, {"Index", code_of(int32)}, {"shrink_axis_mask", std::int64_t{1}}}, "length");
  }
  std::string half_and_one(const std::string& n) {
    return add.typed("AddV2", {add.typed("FloorDiv", {n, whole(2)}, int64), whole(1)}, int64);
  }
  std::string range(const std::string& n, std::int64_t axis) {
    const std::string list = add.op("Range", {whole(0), n, whole(1)}, {{"Tidx", code_of(int64)}});
    return add.op("ExpandDims", {list, add.number("axis", axis)}, {{"T", code_of(int64)}, {"Tdim", code_of(int32)}});
  }
  /// cos and sin of 2 pi j k / n, for the rows j and the columns k.
  Parts matrix(const std::string& rows, const std::string& columns, const std::string& n) {
    const std::string turns =
        add.typed("FloorMod", {add.typed("Mul", {range(rows, 1), range(columns, 0)}, int64), n}, int64);
    const std::string full = add.constant("full", detail::make_scalar(2 * std::numbers::pi, float64));
    const std::string angles = add.typed(
        "Mul", {add.typed("RealDiv", {cast(turns, int64, float64), cast(n, int64, float64)}, float64), full}, float64);
    return {cast(add.typed("Cos", {angles}, float64), float64, dtype_),
            cast(add.typed("Sin", {angles}, float64), float64, dtype_)};
  }
  /// The product with a matrix along an axis, counted from the end.
  std::string product(const std::string& x, const std::string& matrix, int axis) {
    static constexpr std::string_view equations[] = {"...x,xy->...y", "...xa,xy->...ya", "...xab,xy->...yab"};
    return add.op("Einsum", {x, matrix},
                  {{"T", code_of(dtype_)}, {"N", std::int64_t{2}}, {"equation", std::string(equations[axis - 1])}});
  }
  /// The first elements along an axis, counted from the end.
  std::string first(const std::string& x, const std::string& count, int axis) {
    const std::string end = cast(count, int64, int32);
    const std::string none = add.constant("none", vector_of_zeros(axis + 1)),
                      zero = add.constant("none", vector_of_zeros(1));
    const std::string tail = axis == 1 ? "" : add.constant("none", vector_of_zeros(axis - 1));
    const std::string place =
        add.op("ExpandDims", {end, add.number("axis", 0)}, {{"T", code_of(int32)}, {"Tdim", code_of(int32)}});
    std::vector<std::string> list{zero, place};
    if (axis > 1) list.push_back(tail);
    const auto length = static_cast<std::int64_t>(list.size());
    list.push_back(add.number("axis", 0));
    const std::string ends = add.op("ConcatV2", list, {{"T", code_of(int32)}, {"Tidx", code_of(int32)}, {"N", length}});
    // The axes behind are whole.
    const std::int64_t behind = ((std::int64_t{1} << (axis + 1)) - 1) & ~std::int64_t{3};
    return add.op("StridedSlice", {x, none, ends, add.constant("step", vector_of_ones(axis + 1))},
                  {{"T", code_of(dtype_)},
                   {"Index", code_of(int32)},
                   {"ellipsis_mask", std::int64_t{1}},
                   {"begin_mask", behind},
                   {"end_mask", behind}},
                  "first");
  }

  /// The transform along one axis: sums of x e^(-i angle), or the inverse.
  Parts along(const Parts& x, int axis, bool inverse) {
    const std::string n = size(x.real, -axis);
    const Parts m = matrix(n, n, n);
    Parts y = inverse ? Parts{two("Sub", product(x.real, m.real, axis), product(x.imag, m.imag, axis)),
                              two("AddV2", product(x.imag, m.real, axis), product(x.real, m.imag, axis))}
                      : Parts{two("AddV2", product(x.real, m.real, axis), product(x.imag, m.imag, axis)),
                              two("Sub", product(x.imag, m.real, axis), product(x.real, m.imag, axis))};
    if (!inverse) return y;
    const std::string count = cast(n, int64, dtype_);
    return {two("RealDiv", y.real, count), two("RealDiv", y.imag, count)};
  }
  /// Of real numbers: the first half of what comes.
  Parts of_real(const std::string& x, const std::string& n) {
    const Parts m = matrix(n, half_and_one(n), n);
    const std::string part = first(x, n, 1);
    return {product(part, m.real, 1), one("Neg", product(part, m.imag, 1))};
  }
  /// Of the first half: the real numbers that it comes from.
  std::string to_real(const Parts& x, const std::string& n) {
    const std::string half = half_and_one(n);
    const Parts m = matrix(half, n, n);
    // Each number but the first, and the one in the middle, stands for its conjugate, too.
    const std::string places = range(half, 1), doubled = add.typed("Mul", {places, whole(2)}, int64);
    const std::string is_single = add.op(
        "LogicalOr", {add.typed("Equal", {places, whole(0)}, int64), add.typed("Equal", {doubled, n}, int64)}, {});
    const std::string times = add.typed("Sub", {whole(2), cast(is_single, boolean, int64)}, int64);
    const std::string weights = two("RealDiv", cast(times, int64, dtype_), cast(n, int64, dtype_));
    const Parts part{first(x.real, half, 1), first(x.imag, half, 1)};
    return two("Sub", product(part.real, two("Mul", m.real, weights), 1),
               product(part.imag, two("Mul", m.imag, weights), 1));
  }

  NodeAdder add;

 private:
  std::string real(double value) { return add.constant("number", detail::make_scalar(value, dtype_)); }
  static Tensor numbers(int count, std::int32_t value) {
    Tensor made = detail::make_tensor(int32, Shape{count}, cpu());
    std::fill_n(detail::mutable_data<std::int32_t>(made), count, value);
    return made;
  }
  static Tensor vector_of_zeros(int count) { return numbers(count, 0); }
  static Tensor vector_of_ones(int count) { return numbers(count, 1); }

  DType dtype_;
};

constexpr auto moving = std::to_array<std::string_view>({"AddN",
                                                         "BroadcastTo",
                                                         "ConcatV2",
                                                         "Cumsum",
                                                         "DepthToSpace",
                                                         "EnsureShape",
                                                         "ExpandDims",
                                                         "Fill",
                                                         "Gather",
                                                         "GatherNd",
                                                         "GatherV2",
                                                         "Identity",
                                                         "MatrixBandPart",
                                                         "MatrixDiagV3",
                                                         "MatrixDiagPartV3",
                                                         "Mean",
                                                         "Neg",
                                                         "Pack",
                                                         "Pad",
                                                         "PadV2",
                                                         "PreventGradient",
                                                         "Reshape",
                                                         "ResourceGather",
                                                         "ReverseSequence",
                                                         "ReverseV2",
                                                         "Roll",
                                                         "ScatterNd",
                                                         "Select",
                                                         "SelectV2",
                                                         "Slice",
                                                         "Snapshot",
                                                         "Split",
                                                         "SplitV",
                                                         "Squeeze",
                                                         "StopGradient",
                                                         "StridedSlice",
                                                         "StridedSliceGrad",
                                                         "Sum",
                                                         "Tile",
                                                         "Transpose",
                                                         "Unpack",
                                                         "UnsortedSegmentSum",
                                                         "ZerosLike",
                                                         "Sub",
                                                         "Add",
                                                         "AddV2",
                                                         "MirrorPad",
                                                         "SegmentSum"});
constexpr auto products =
    std::to_array<std::string_view>({"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"});

template <std::size_t n>
bool is_one_of(const std::array<std::string_view, n>& list, std::string_view op) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

class Splitter {
 public:
  explicit Splitter(GraphDef& graph) : graph_(graph) {
    for (const NodeDef& each : graph.nodes) names_.insert(each.name);
  }

  void run() {
    for (const std::size_t i : in_order(graph_, numbers_by_name(graph_)))
      if (const auto type = complex_type(graph_.nodes[i])) split(graph_.nodes[i], *type);
    // What waits for a complex node waits for its parts.
    for (NodeDef& node : graph_.nodes) {
      const std::vector<std::string> before = std::exchange(node.inputs, {});
      for (const std::string& input : before) {
        const auto found = input.starts_with('^') ? parts_.find(input.substr(1)) : parts_.end();
        if (found == parts_.end() || kept_.contains(node.name)) {
          node.inputs.push_back(input);
          continue;
        }
        for (const std::string& part : {found->second.real, found->second.imag})
          node.inputs.push_back("^" + producer_name(part));
      }
    }
    std::move(added_.begin(), added_.end(), std::back_inserter(graph_.nodes));
  }

 private:
  const Parts* parts_of(const std::string& tensor) const {
    const auto found = parts_.find(without_zero(tensor));
    return found == parts_.end() ? nullptr : &found->second;
  }

  void split(NodeDef& node, TypeCode type) {
    const DType dtype = real_type(type);
    Formulas make(NodeAdder(added_, names_, node.name + "/_/", node.device), dtype);
    std::vector<const Parts*> inputs;
    for (std::size_t i = 0; i < data_inputs(node); ++i) inputs.push_back(parts_of(node.inputs[i]));
    if (const auto real = real_result(node, inputs, make, dtype)) {
      std::vector<std::string> controls(node.inputs.begin() + static_cast<std::ptrdiff_t>(inputs.size()),
                                        node.inputs.end());
      const bool compares = node.op == "Equal" || node.op == "NotEqual";
      node.op = "Identity";
      node.attrs = {{"T", code_of(compares ? boolean : dtype)}};
      node.inputs = {*real};
      node.inputs.insert(node.inputs.end(), controls.begin(), controls.end());
      return;
    }
    if (node.op == "Shape" || node.op == "ShapeN" || node.op == "Size" || node.op == "Rank") {
      if (std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end()) return;
      for (std::size_t i = 0; i < inputs.size(); ++i) node.inputs[i] = inputs[i]->real;
      node.attrs.insert_or_assign("T", code_of(dtype));
      return;
    }
    kept_.insert(node.name);
    if (const auto found = complex_result(node, inputs, make, dtype)) parts_.insert_or_assign(node.name, *found);
  }

  /// The result of a node that gives real numbers.
  std::optional<std::string> real_result(const NodeDef& node, const std::vector<const Parts*>& inputs, Formulas& make,
                                         DType dtype) {
    const std::string& op = node.op;
    if (inputs.empty() || !inputs[0]) return {};
    const Parts& x = *inputs[0];
    if (op == "Real") return x.real;
    if (op == "Imag") return x.imag;
    if (op == "ComplexAbs") return make.length(x);
    if (op == "Angle") return make.angle(x);
    if ((op == "Equal" || op == "NotEqual") && inputs.size() == 2 && inputs[1])
      return make.add.op(op == "Equal" ? "LogicalAnd" : "LogicalOr",
                         {make.two(op, x.real, inputs[1]->real), make.two(op, x.imag, inputs[1]->imag)}, {});
    if (op == "Cast") {
      const auto* to = attr_of<TypeCode>(node, "DstT");
      if (!to || real_type(*to) != DType::unknown) return {};
      return make.cast(x.real, dtype, dtype_of(*to));
    }
    const Transform* transform = transform_of(node);
    if (!transform || !transform->inverse || !transform->is_real || inputs.size() != 2) return {};
    Parts y = x;
    for (int axis = transform->axes; axis > 1; --axis) {
      const std::string n = make.element(node.inputs[1], transform->axes - axis);
      y = make.along({make.first(y.real, n, axis), make.first(y.imag, n, axis)}, axis, true);
    }
    return make.to_real(y, make.element(node.inputs[1], transform->axes - 1));
  }

  std::optional<Parts> complex_result(const NodeDef& node, const std::vector<const Parts*>& inputs, Formulas& make,
                                      DType dtype) {
    const std::string& op = node.op;
    if (op == "Const") return constant(node, make);
    if (op == "Complex" && inputs.size() == 2) {
      const std::string &real = node.inputs[0], &imag = node.inputs[1];
      return Parts{make.two("AddV2", real, make.one("ZerosLike", imag)),
                   make.two("AddV2", imag, make.one("ZerosLike", real))};
    }
    if (op == "Cast" && inputs.size() == 1) {
      const auto *from = attr_of<TypeCode>(node, "SrcT"), *to = attr_of<TypeCode>(node, "DstT");
      if (!from || !to) return {};
      const DType made = real_type(*to);
      if (inputs[0])
        return Parts{make.cast(inputs[0]->real, real_type(*from), made),
                     make.cast(inputs[0]->imag, real_type(*from), made)};
      if (dtype_of(*from) == DType::unknown) return {};
      const std::string real = make.cast(node.inputs[0], dtype_of(*from), made);
      return Parts{real, make.one("ZerosLike", real)};
    }
    if (const Transform* transform = transform_of(node)) return transformed(node, *transform, inputs, make);
    if (inputs.empty() || std::all_of(inputs.begin(), inputs.end(), [](const Parts* each) { return !each; })) return {};
    if (inputs[0]) {
      const Parts& x = *inputs[0];
      if (op == "Conj") return make.conjugate(x);
      if (op == "ConjugateTranspose") return each_part(node, inputs, dtype, make, "Transpose", true);
      if (op == "OnesLike") return make.unit(x);
      if (op == "Prod" && inputs.size() == 2) return turned_product(node, x, dtype, make);
      if (op == "MatrixInverse" || op == "BatchMatrixInverse")
        return make.halves(make.halves(make.add.op(op, {make.doubled(x)}, real_attrs(node, dtype)), -1).real, -2);
      if (const auto found = make.function(op, x)) return found;
    }
    if (inputs.size() == 2 && inputs[0] && inputs[1]) {
      if (op == "Mul") return make.multiply(*inputs[0], *inputs[1]);
      if (op == "RealDiv" || op == "Div") return make.divide("RealDiv", *inputs[0], *inputs[1]);
      if (op == "DivNoNan") return make.divide("DivNoNan", *inputs[0], *inputs[1]);
      if (const auto found = make.gradient(op, *inputs[0], *inputs[1])) return found;
      if (op == "Pow") return make.power(*inputs[0], *inputs[1]);
      if (op == "MatrixSolve" || op == "BatchMatrixSolve") {
        const std::string right = make.joined(inputs[1]->real, inputs[1]->imag, -2);
        return make.halves(make.add.op(op, {make.doubled(*inputs[0]), right}, real_attrs(node, dtype)), -2);
      }
      if (is_one_of(products, op)) return product(node, *inputs[0], *inputs[1], dtype, make);
    }
    if (is_one_of(moving, op)) return each_part(node, inputs, dtype, make, op, false);
    return {};
  }

  /// The node once for the real parts and once for the imaginary ones.
  std::optional<Parts> each_part(const NodeDef& node, const std::vector<const Parts*>& inputs, DType dtype,
                                 Formulas& make, std::string_view op, bool conjugates) {
    const auto part = [&](bool imag) {
      std::vector<std::string> taken = node.inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (inputs[i]) taken[i] = imag ? inputs[i]->imag : inputs[i]->real;
      return make.add.op(op, taken, real_attrs(node, dtype), imag ? "imag" : "real");
    };
    const Parts all{part(false), part(true)};
    if (node.op == "Split" || node.op == "SplitV" || node.op == "Unpack") {
      const auto* count = attr_of<std::int64_t>(node, node.op == "Unpack" ? "num" : "num_split");
      for (std::int64_t i = 1; count && i < *count && i < most_outputs; ++i)
        parts_.insert_or_assign(detail::join(node.name, ":", i),
                                Parts{detail::join(all.real, ":", i), detail::join(all.imag, ":", i)});
    }
    return conjugates ? make.conjugate(all) : all;
  }

  static AttrDefs real_attrs(const NodeDef& node, DType dtype) {
    AttrDefs attrs(node.attrs.begin(), node.attrs.end());
    for (auto& [name, attr] : attrs)
      if (auto* type = std::get_if<TypeCode>(&attr); type && real_type(*type) != DType::unknown) *type = code_of(dtype);
    return attrs;
  }

  /// The product along axes: the absolute values are multiplied, and the angles added up.
  static Parts turned_product(const NodeDef& node, const Parts& x, DType dtype, Formulas& make) {
    const auto reduced = [&](std::string_view op, const std::string& part) {
      return make.add.op(op, {part, node.inputs[1]}, real_attrs(node, dtype));
    };
    const std::string length = reduced("Prod", make.length(x)), angle = reduced("Sum", make.angle(x));
    return {make.two("Mul", length, make.one("Cos", angle)), make.two("Mul", length, make.one("Sin", angle))};
  }

  static std::optional<Parts> product(const NodeDef& node, Parts x, Parts y, DType dtype, Formulas& make) {
    if (has_flag(node, "adj_x")) x = make.conjugate(x);
    if (has_flag(node, "adj_y")) y = make.conjugate(y);
    const auto of = [&](const std::string& a, const std::string& b) {
      return make.add.op(node.op, {a, b}, real_attrs(node, dtype));
    };
    return Parts{make.two("Sub", of(x.real, y.real), of(x.imag, y.imag)),
                 make.two("AddV2", of(x.real, y.imag), of(x.imag, y.real))};
  }
  static bool has_flag(const NodeDef& node, std::string_view name) {
    const auto* flag = attr_of<bool>(node, name);
    return flag && *flag;
  }

  static std::optional<Parts> transformed(const NodeDef& node, const Transform& transform,
                                          const std::vector<const Parts*>& inputs, Formulas& make) {
    Parts x;
    int axis = 1;
    if (transform.is_real) {
      if (transform.inverse || inputs.size() != 2) return {};
      std::string part = node.inputs[0];
      for (int k = transform.axes; k > 1; --k)
        part = make.first(part, make.element(node.inputs[1], transform.axes - k), k);
      x = make.of_real(part, make.element(node.inputs[1], transform.axes - 1));
      axis = 2;
    } else {
      if (inputs.size() != 1 || !inputs[0]) return {};
      x = *inputs[0];
    }
    for (; axis <= transform.axes; ++axis) x = make.along(x, axis, transform.inverse);
    return x;
  }

  static std::optional<Parts> constant(const NodeDef& node, Formulas& make) {
    const auto* value = attr_of<RawAttr>(node, "value");
    if (!value || value->lacks_rank) return {};
    const auto [real, imag] = decode_parts(*value);
    return Parts{make.add.constant("real", real.value), make.add.constant("imag", imag.value)};
  }

  static constexpr std::int64_t most_outputs = 1 << 12;
  GraphDef& graph_;
  FileNames names_;
  std::unordered_set<std::string> kept_;
  std::unordered_map<std::string, Parts> parts_;
  std::vector<NodeDef> added_;
};

}  // namespace

void split_complex(GraphDef& graph) {
  for (NodeDef& node : graph.nodes) {
    if (!node.flow) continue;
    Flow flow = *node.flow;
    for (FunctionBody& each : flow.functions) split_complex(each.graph);
    node.flow = std::make_shared<const Flow>(std::move(flow));
  }
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(),
                  [](const NodeDef& each) { return complex_type(each).has_value(); }))
    Splitter(graph).run();
}

}  // namespace tapestry::io
