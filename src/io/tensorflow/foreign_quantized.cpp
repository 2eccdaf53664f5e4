// Quantized numbers, which widen_integers.cpp has made int32.

#include <limits>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/widen_integers.hpp"

namespace tapestry::io {
namespace {

/// The numbers of a quantized type.
struct QuantizedRange {
  double lowest, highest;

  double steps() const { return highest - lowest; }
  /// What is added to the numbers so that they begin at 0.
  double half() const { return lowest < 0 ? (steps() + 1) / 2 : 0; }
};

/// That of the type which an attribute tells.
QuantizedRange quantized_range(const ForeignNode& n, std::string_view type = "T") {
  switch (n.node.attr_or<std::int64_t>(detail::join(quantized_type, type), 0)) {
    case 11:  // qint8
      return {-128, 127};
    case 12:  // quint8
      return {0, 255};
    case 13:  // qint32
      return {-2147483648.0, 2147483647};
    case 15:  // qint16
      return {-32768, 32767};
    case 16:  // quint16
      return {0, 65535};
    default:
      lack(n, "type of quantized numbers");
  }
}

bool is_narrowed(const ForeignNode& n) { return n.node.attr_or<bool>("narrow_range", false); }
std::string mode_of(const ForeignNode& n) { return n.node.attr_or<std::string>("mode", "MIN_COMBINED"); }

Tensor number(double value) { return detail::make_scalar(value, float32); }
/// The ends of ranges for each part along the axis, if the node has one.
Tensor along_axis(const ForeignNode& n, const Tensor& ends) {
  const auto axis = n.node.attr_or<std::int64_t>("axis", -1);
  if (axis < 0) return ends;
  const Shape& shape = n.in(0).shape();
  Shape column(std::vector<std::int64_t>(static_cast<std::size_t>(shape.rank()), 1));
  column.set(normalize_axis(axis, shape.rank()), -1);
  return reshape(ends, column);
}
bool lacks_axis(const NodeReader& reader, const Tensors& inputs) {
  return reader.attr_or<std::int64_t>("axis", -1) >= 0 && lacks_rank(reader, inputs);
}

/// To the nearest whole number, halves away from 0.
Tensor rounded_away(const Tensor& x) { return sign(x) * floor(abs(x) + 0.5F); }
Tensor as_whole(const Tensor& x, const QuantizedRange& range) {
  return clip(x.cast(float64), range.lowest, range.highest).cast(int32);
}

/// Numbers of a range as whole ones, and the ends of the range, which always holds 0 and is not empty.
Tensors read_quantize(const ForeignNode& n) {
  const QuantizedRange range = quantized_range(n);
  const std::string mode = mode_of(n);
  const bool is_even = n.node.attr_or<std::string>("round_mode", "HALF_AWAY_FROM_ZERO") == "HALF_TO_EVEN";
  const float apart = n.node.attr_or<float>("ensure_minimum_range", 0.01F);
  return n.composed([&]() -> Tensors {
    const Tensor size = maximum(maximum(abs(n.in(1)), abs(n.in(2))), 1.0F);
    Tensor low = minimum(n.in(1), 0.0F), high = maximum(maximum(n.in(2), low + size * apart), 0.0F);
    const auto inside = [&] { return minimum(maximum(n.in(0), along_axis(n, low)), along_axis(n, high)); };
    if (mode == "SCALED") {
      const double first = range.lowest + (is_narrowed(n) ? 1 : 0);
      const Tensor most = number(std::numeric_limits<float>::max());
      const auto scale_of = [&](double end, const Tensor& bound) {
        return where(bound * number(end) > 0.0F, number(end) / bound, most);
      };
      const Tensor scale = minimum(scale_of(first, low), scale_of(range.highest, high));
      low = number(first) / scale;
      high = number(range.highest) / scale;
      const Tensor scaled = inside() * along_axis(n, scale);
      return {as_whole(is_even ? round(scaled) : rounded_away(scaled), range), low, high};
    }
    const Tensor scale = along_axis(n, where(equal(low, high), 0.0F, number(range.steps()) / (high - low)));
    if (mode == "MIN_FIRST") {
      const Tensor moved =
          rounded_away(n.in(0) * scale) - (rounded_away(along_axis(n, low) * scale) - number(range.lowest));
      return {as_whole(moved, range), low, high};
    }
    if (mode != "MIN_COMBINED") n.node.refuse(detail::join("its 'mode' is '", mode, "'"));
    const Tensor steps = (inside() - along_axis(n, low)) * scale;
    return {as_whole(range.half() > 0 ? rounded_away(steps - number(range.half())) : floor(steps + 0.5F), range), low,
            high};
  });
}

Tensors read_dequantize(const ForeignNode& n) {
  const QuantizedRange range = quantized_range(n);
  const std::string mode = mode_of(n);
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("dtype", code_of(float32)));
  return n.composed([&] {
    const Tensor x = n.in(0).cast(float32), low = along_axis(n, n.in(1)), high = along_axis(n, n.in(2));
    if (mode == "SCALED") {
      const Tensor above = high / number(range.highest);
      if (range.lowest == 0) return (x * above).cast(dtype);
      return (x * maximum(low / number(range.lowest + (is_narrowed(n) ? 1 : 0)), above)).cast(dtype);
    }
    const Tensor scale = (high - low) / number(range.steps());
    if (mode == "MIN_FIRST") {
      const Tensor begin = where(equal(low, high), low, rounded_away(low / scale) * scale);
      return (begin - number(range.lowest) * scale + x * scale).cast(dtype);
    }
    if (mode != "MIN_COMBINED") n.node.refuse(detail::join("its 'mode' is '", mode, "'"));
    return ((x + number(range.half())) * scale + low).cast(dtype);
  });
}

// ---- Ops of quantized numbers ---------------------------------------------------------------------------------------

/// Numbers in a range of real ones, as a quantized type has them.
struct Quantized {
  Tensor numbers, low, high;
  QuantizedRange range;
};
Quantized quantized_input(const ForeignNode& n, std::size_t i, std::size_t low, std::string_view type) {
  for (const std::size_t end : {low, low + 1})
    if (n.in(end).shape().has_rank() && n.in(end).shape().rank() > 0) lack(n, "ranges of channels");
  return {n.in(i), n.in(low), n.in(low + 1), quantized_range(n, type)};
}

/// How much one step of the numbers is.
Tensor step_of(const Quantized& x) { return (x.high - x.low) / number(x.range.steps()); }
/// The number that stands for a real one.
Tensor number_of(const Quantized& x, double real) {
  const Tensor low = x.low.cast(float64), scale = x.range.steps() / (x.high.cast(float64) - low);
  return where(equal(x.low, x.high), x.range.lowest,
               rounded_away(scale * real) - rounded_away(low * scale) + x.range.lowest);
}
Tensor real_of(const Quantized& x, const Tensor& numbers) {
  const Tensor step = (x.high.cast(float64) - x.low.cast(float64)) / x.range.steps(), single = step.cast(float32);
  const Tensor begin = rounded_away(x.low / single) * single;
  return where(equal(x.low, x.high), x.low.cast(float64),
               begin.cast(float64) + (numbers.cast(float64) - x.range.lowest) * step);
}
/// The real numbers in single precision, as TensorFlow's kernels of many numbers have them.
Tensor single_of(const Quantized& x) {
  const Tensor step = step_of(x), begin = where(equal(x.low, x.high), x.low, rounded_away(x.low / step) * step);
  return begin - number(x.range.lowest) * step + x.numbers.cast(float32) * step;
}

/// The same as TensorFlow's kernel for sums of 32 bits, in whole numbers of which 2^16 are a step.
Tensor sums_as_bytes(const Quantized& x, const Tensor& low, const Tensor& high) {
  constexpr double step = 1 << 16;
  const Tensor from = (x.high - x.low).cast(float64), to = high - low, wide = to.cast(float64);
  const auto unless_empty = [&](const Tensor& value) { return where(equal(to, 0.0F), zeros_like(value), value); };
  const Tensor scale = unless_empty(255.0 * step * from / wide).cast(int64);
  const Tensor middle = ((x.low + x.high).cast(float64) / 2.0).cast(float32);
  const Tensor offset = (middle * unless_empty((255.0 / wide).cast(float32)) * number(step)).cast(int64);
  const Tensor begin = unless_empty(rounded_away(step * (low.cast(float64) * 255.0) / wide)).cast(int64);
  const Tensor moved = floor_divide(x.numbers.cast(int64) * scale, std::int64_t{1} << 32) + offset - begin;
  return clip(floor_divide(moved + (1 << 15), 1 << 16), 0, 255).cast(int32);
}

/// The same real numbers in another range and type.
Tensor requantized(const Quantized& x, const Tensor& low, const Tensor& high, const QuantizedRange& range) {
  if (x.range.steps() > 1e9 && range.lowest == 0 && range.highest == 255) return sums_as_bytes(x, low, high);
  const Tensor scale = where(equal(low, high), 0.0F, number(range.steps()) / (high - low));
  return as_whole(rounded_away(single_of(x) * scale) - (rounded_away(low * scale) - number(range.lowest)), range);
}

/// The op for real numbers by this name, on these inputs in the place of the node's.
Tensor in_float64(const ForeignNode& n, const std::string& op, const Tensors& inputs) {
  NodeDef def = n.node.def();
  def.op = op;
  def.name = op;
  def.attrs.insert_or_assign("T", code_of(float64));
  const std::vector<Source> sources(inputs.size());
  return read_op(NodeReader(def, sources, Tensors(inputs.size())), inputs, n.where)[0];
}

/// Products of numbers whose zeros are moved to 0: their step is the product of the steps.
Tensors read_quantized_product(const ForeignNode& n) {
  const bool is_conv = n.node.def().op == "QuantizedConv2D";
  const Quantized a = quantized_input(n, 0, 2, is_conv ? "Tinput" : "T1"),
                  b = quantized_input(n, 1, 4, is_conv ? "Tfilter" : "T2");
  const QuantizedRange range = quantized_range(n, is_conv ? "out_type" : "Toutput");
  return n.composed([&]() -> Tensors {
    const auto moved = [&](const Quantized& x) { return x.numbers.cast(float64) - number_of(x, 0); };
    const Tensor step = step_of(a) * step_of(b);
    const Tensor sums = in_float64(n, is_conv ? "Conv2D" : "MatMul", {moved(a), moved(b)});
    return {sums.cast(int32), step * number(range.lowest), step * number(range.highest)};
  });
}

/// Sums in a range that is so much larger that none leaves it.
Tensors read_quantized_bias(const ForeignNode& n) {
  const Quantized a = quantized_input(n, 0, 2, "T1"), b = quantized_input(n, 1, 4, "T2");
  const QuantizedRange range = quantized_range(n, "out_type");
  return n.composed([&]() -> Tensors {
    const Tensor low = minimum(a.low, b.low), high = maximum(a.high, b.high);
    const Tensor most = maximum(abs(low), abs(high)) * number(1 << 17);
    const Tensor scale = number(range.steps()) / (most + most);
    const Tensor sum = rounded_away(single_of(a) * scale) + rounded_away(single_of(b) * scale);
    return {as_whole(sum, range), negative(most), most};
  });
}

/// The range of the numbers that there are, which holds 0.
std::pair<Tensor, Tensor> used_range(const Quantized& x) {
  const Tensor low = real_of(x, reduce_min(x.numbers)), high = real_of(x, reduce_max(x.numbers));
  return {minimum(low, 0.0).cast(float32), high.cast(float32)};
}

Tensors read_requantization_range(const ForeignNode& n) {
  const Quantized x = quantized_input(n, 0, 1, "Tinput");
  return n.composed([&]() -> Tensors {
    const auto [low, high] = used_range(x);
    return {low, high};
  });
}

Tensors read_requantize(const ForeignNode& n) {
  const Quantized x = quantized_input(n, 0, 1, "Tinput");
  const QuantizedRange range = quantized_range(n, "out_type");
  return n.composed([&]() -> Tensors {
    const auto [low, high] = n.inputs.size() == 3 ? used_range(x) : std::pair<Tensor, Tensor>(n.in(3), n.in(4));
    return {requantized(x, low, high, range), low, high};
  });
}

Tensors read_quantized_relu(const ForeignNode& n) {
  const Quantized x = quantized_input(n, 0, 1, "Tinput");
  return n.composed([&]() -> Tensors {
    Tensor y = maximum(x.numbers, number_of(x, 0).cast(int32));
    if (n.node.def().op == "QuantizedRelu6") y = minimum(y, number_of(x, 6).cast(int32));
    return {y, identity(x.low), identity(x.high)};
  });
}

/// Means are rounded toward 0.
Tensors read_quantized_pool(const ForeignNode& n) {
  const std::string op = n.node.def().op.substr(std::string_view("Quantized").size());
  return n.composed([&]() -> Tensors {
    return {in_float64(n, op, {n.in(0).cast(float64)}).cast(int32), identity(n.in(1)), identity(n.in(2))};
  });
}

Tensors read_quantized_reshape(const ForeignNode& n) {
  return n.composed([&]() -> Tensors {
    return {reshape(n.in(0), Shape(n.numbers(1))), identity(n.in(2)), identity(n.in(3))};
  });
}

std::vector<std::size_t> axis_of_concat(const NodeReader&) { return {0}; }

/// In a range that holds those of all parts.
Tensors read_quantized_concat(const ForeignNode& n) {
  const std::size_t count = (n.inputs.size() - 1) / 3;
  if (count == 0 || n.inputs.size() % 3 != 1) n.node.refuse("its tensors lack parts");
  std::vector<Quantized> parts;
  for (std::size_t i = 0; i < count; ++i)
    parts.push_back({n.in(1 + i), n.in(1 + count + i), n.in(1 + 2 * count + i), quantized_range(n)});
  return n.composed([&]() -> Tensors {
    Tensor low = number(0), high = parts[0].high;
    for (const Quantized& each : parts) {
      low = minimum(low, each.low);
      high = maximum(high, each.high);
    }
    if (parts[0].range.lowest < 0) {
      high = maximum(abs(low), abs(high));
      low = negative(high);
    }
    std::vector<Tensor> numbers;
    for (const Quantized& each : parts)  // a part of the whole range stays as it is
      numbers.push_back(
          where(equal(each.low, low) & equal(each.high, high), each.numbers, requantized(each, low, high, each.range)));
    return {concat(numbers, n.number(0)), low, high};
  });
}

}  // namespace

ForeignOps foreign_quantized() {
  ForeignOps ops;
  const auto add = [&](std::string_view name, int inputs, Tensors (*read)(const ForeignNode&),
                       std::vector<OutputType> outputs = {typed(int32), typed(float32), typed(float32)}) {
    ops.push_back(
        {.name = name, .inputs = inputs, .lacks_sizes = lacks_rank, .outputs = std::move(outputs), .read = read});
  };
  for (const char* name : {"QuantizedConv2D", "QuantizedMatMul"}) add(name, 6, read_quantized_product);
  for (const char* name : {"QuantizedRelu", "QuantizedRelu6"}) add(name, 3, read_quantized_relu);
  for (const char* name : {"QuantizedAvgPool", "QuantizedMaxPool"}) add(name, 3, read_quantized_pool);
  add("QuantizedBiasAdd", 6, read_quantized_bias);
  add("QuantizeDownAndShrinkRange", 3, read_requantize);
  add("Requantize", 5, read_requantize);
  add("RequantizationRange", 3, read_requantization_range, {typed(float32), typed(float32)});
  add("QuantizedConcat", -1, read_quantized_concat);
  ops.back().find_values = axis_of_concat;
  add("QuantizedReshape", 4, read_quantized_reshape);
  ops.back().values = {1};
  add("Dequantize", 3, read_dequantize, {told_by("dtype", float32)});
  ops.back().lacks_sizes = lacks_axis;
  add("QuantizeV2", 3, read_quantize, {typed(int32), like(1), like(2)});
  ops.back().lacks_sizes = lacks_axis;
  return ops;
}

}  // namespace tapestry::io
