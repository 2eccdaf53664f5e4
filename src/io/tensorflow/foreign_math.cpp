// Functions of each element, and sums.

#include <algorithm>
#include <cmath>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

Tensors read_add_all(const ForeignNode& n) {
  const OpRule& add = *rule_of("AddV2");
  Tensor sum = n.in(0);
  if (n.inputs.size() == 1) return {identity(sum, n.name())};
  for (std::size_t i = 1; i < n.inputs.size(); ++i) {
    const bool last = i + 1 == n.inputs.size();
    sum = make_op(add, n.node, {sum, n.in(i)}, {}, n.where, last ? n.name() : detail::join(n.name(), "/AddV2_", i))[0];
  }
  return {sum};
}

Tensors read_relu6(const ForeignNode& n) {
  return n.composed([&] { return minimum(relu(n.in(0)), 6); });
}

Tensors read_selu(const ForeignNode& n) {
  // Klambauer et al. 2017, with TensorFlow's digits.
  constexpr double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
  return n.composed([&] { return relu(n.in(0)) * scale + expm1(minimum(n.in(0), 0)) * (scale * alpha); });
}

Tensors read_softsign(const ForeignNode& n) {
  return n.composed([&] { return n.in(0) / (abs(n.in(0)) + 1); });
}

Tensors read_erfc(const ForeignNode& n) {
  return n.composed([&] { return 1 - erf(n.in(0)); });
}

Tensors read_l2_loss(const ForeignNode& n) {
  return n.composed([&] { return reduce_sum(square(n.in(0))) * 0.5; });
}

/// The op of TensorFlow 1: a condition that is a vector selects rows.
Tensors read_select(const ForeignNode& n) {
  const Tensor &condition = n.in(0), &a = n.in(1), &b = n.in(2);
  if (condition.dtype() != boolean || a.dtype() != b.dtype()) n.node.refuse("its inputs have wrong types");
  if (condition.shape().rank() != 1 || a.shape().rank() < 2) return {where(condition, a, b, n.name())};
  return n.composed([&] {
    Ints axes;
    for (int axis = 1; axis < a.shape().rank(); ++axis) axes.push_back(axis);
    return where(expand_dims(condition, axes), a, b);
  });
}

// ---- Division -------------------------------------------------------------------------------------------------------

/// Whether rounding the quotient down takes it away from 0: it is negative and not whole.
Tensor is_below_quotient(const Tensor& remainder, const Tensor& a, const Tensor& b) {
  return not_equal(remainder, 0) & not_equal(a < 0, b < 0);
}

/// The quotient of integers, rounded toward 0 as in C++.
Tensors read_truncated_quotient(const ForeignNode& n) {
  require_one_type(n);
  return n.composed([&] {
    const Tensor &a = n.in(0), &b = n.in(1);
    return floor_divide(a, b) + is_below_quotient(mod(a, b), a, b).cast(a.dtype());
  });
}

/// The remainder that has the sign of the dividend.
Tensors read_truncated_remainder(const ForeignNode& n) {
  require_one_type(n);
  return n.composed([&] {
    const Tensor &a = n.in(0), &b = n.in(1), rest = mod(a, b);
    return where(is_below_quotient(rest, a, b), rest - b, rest);
  });
}

// ---- Formulas -------------------------------------------------------------------------------------------------------

/// An op of one or two inputs of one type, as a formula.
template <class F>
Tensors formula(const ForeignNode& n, F f) {
  require_one_type(n);
  return n.composed([&] {
    if constexpr (std::invocable<F, Tensor>) {
      return f(n.in(0));
    } else {
      return f(n.in(0), n.in(1));
    }
  });
}

Tensors read_asinh(const ForeignNode& n) {
  return formula(n, [](const Tensor& x) {
    const Tensor size = abs(x);
    return sign(x) * log1p(size + square(x) / (sqrt(square(x) + 1) + 1));
  });
}
Tensors read_is_inf(const ForeignNode& n) {
  return formula(n, [](const Tensor& x) { return ~(is_finite(x) | is_nan(x)); });
}
Tensors read_multiply_no_nan(const ForeignNode& n) {
  return formula(n, [](const Tensor& a, const Tensor& b) { return where(equal(b, 0), 0, a * b); });
}
/// The next number from x toward y: one more or one less, where numbers are counted from 0 by their bits. TensorFlow's
/// derivative is 1 by x, and 0 by y.
Tensors read_next_after(const ForeignNode& n) {
  const DType dtype = n.in(0).dtype(), whole = dtype == float32 ? int32 : int64;
  if (dtype != float32 && dtype != float64) lack(n, "type");
  const auto bits = [&](const Tensor& of, DType to, const char* label) {
    return add_op(*rule_of("Bitcast")->entry, {of}, {{"type", to}}, detail::join(n.name(), "/_/", label), n.where)[0];
  };
  return n.composed([&] {
    const Tensor given = n.in(0) + zeros_like(n.in(1)), x = stop_gradient(given);
    const Tensor lowest =
        bits(constant_node(detail::make_scalar(-0.0, dtype), "lowest", n.where), whole, "lowest_bits");
    const auto counted = [&](const Tensor& number) { return where(number < 0, lowest - number, number); };
    const Tensor up = (n.in(1) > x).cast(whole), down = (n.in(1) < x).cast(whole);
    const Tensor result = bits(counted(counted(bits(x, whole, "from")) + up - down), dtype, "to"), step = result - x;
    return where(is_finite(step), given + stop_gradient(step), where(is_nan(n.in(1)), n.in(1), result));
  });
}

Tensors read_xdivy(const ForeignNode& n) {
  return formula(n, [](const Tensor& a, const Tensor& b) {
    const Tensor nothing = equal(a, 0);
    return where(nothing, 0, a / where(nothing, 1, b));
  });
}
Tensors read_xlog1py(const ForeignNode& n) {
  return formula(n, [](const Tensor& a, const Tensor& b) {
    const Tensor nothing = equal(a, 0);
    return where(nothing, 0, a * log1p(where(nothing, 1, b)));
  });
}
Tensors read_approximately_equal(const ForeignNode& n) {
  const auto tolerance = n.node.attr_or<float>("tolerance", 1e-5F);
  return formula(n, [&](const Tensor& a, const Tensor& b) { return abs(a - b) < tolerance; });
}
/// The product of vectors of three numbers.
Tensors read_cross(const ForeignNode& n) {
  return formula(n, [](const Tensor& a, const Tensor& b) {
    return roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1);
  });
}

Tensors read_euclidean_norm(const ForeignNode& n) {
  const bool keep_dims = n.node.attr_or<bool>("keep_dims", false);
  return n.composed([&] { return sqrt(reduce_sum(square(n.in(0)), n.numbers(1), {.keep_dims = keep_dims})); });
}

/// The number of the interval between boundaries in which each element lies.
Tensors read_bucketize(const ForeignNode& n) {
  const std::vector<float>& boundaries = n.node.attr<ListDef>("boundaries").floats;
  return n.composed([&] {
    const Tensor above = expand_dims(n.in(0).cast(float32), -1) >= tensor(boundaries);
    return reduce_sum(above.cast(int32), -1);
  });
}

/// Rounds to as many numbers as an integer of some bits has, of which one is 0. The gradient passes within the range.
Tensor quantized(const ForeignNode& n, const Tensor& x, const Tensor& low, const Tensor& high) {
  const auto bits = n.node.attr_or<std::int64_t>("num_bits", 8);
  if (bits < 2 || bits > 16) n.node.refuse(detail::join("it has ", bits, " bits"));
  const double first = n.node.attr_or<bool>("narrow_range", false) ? 1 : 0, last = static_cast<double>((1 << bits) - 1);
  const Tensor step = (high - low) / (last - first);
  const Tensor zero = floor(clip(first - low / step, first, last) + 0.5);
  // The ends are moved so that 0 is one of the numbers, which their gradients ignore.
  const Tensor begin = low + stop_gradient((first - zero) * step - low);
  const Tensor end = high + stop_gradient((last - zero) * step - high);
  const Tensor inside = minimum(maximum(x, begin), end);
  return inside + stop_gradient(floor((inside - begin) / step + 0.5) * step + begin - inside);
}

Tensors read_fake_quantization(const ForeignNode& n) {
  const bool fixed = n.inputs.size() == 1;
  return n.composed([&] {
    const auto bound = [&](std::size_t i, std::string_view name, float otherwise) {
      return fixed ? constant_node(detail::make_scalar(n.node.attr_or<float>(name, otherwise), float32),
                                   std::string(name), n.where)
                   : n.in(i);
    };
    return quantized(n, n.in(0), bound(1, "min", -6), bound(2, "max", 6));
  });
}

/// The gradients for the input and, if the ends of the range are inputs, for those.
Tensors read_fake_quantization_gradient(const ForeignNode& n) {
  const bool fixed = n.inputs.size() == 2;
  return n.composed([&] {
    const auto bound = [&](std::string_view name, float otherwise) {
      return constant_node(detail::make_scalar(n.node.attr_or<float>(name, otherwise), float32), std::string(name),
                           n.where);
    };
    if (fixed)
      return gradients_of({n.in(1)}, [&](const Tensors& x) {
        return Tensors{quantized(n, x[0], bound("min", -6), bound("max", 6)) * n.in(0)};
      });
    return gradients_of({n.in(1), n.in(2), n.in(3)},
                        [&](const Tensors& x) { return Tensors{quantized(n, x[0], x[1], x[2]) * n.in(0)}; });
  });
}

/// Multiplies by the largest scale that keeps the range within whole numbers of some bits, rounds and divides again.
/// The gradient of -V4 passes within the range that is given, and those of the others everywhere.
Tensors read_quantization_and_back(const ForeignNode& n) {
  for (const std::size_t i : {1, 2})
    if (n.in(i).dtype() != n.in(0).dtype()) n.node.refuse("its inputs have several types");
  const Tensor& x = n.in(0);
  const std::string& op = n.node.def().op;
  const bool has_sign = n.node.attr_or<bool>("signed_input", true),
             narrow = n.node.attr_or<bool>("narrow_range", false);
  const bool given = n.node.attr_or<bool>("range_given", n.inputs.size() > 3);
  const auto mode = n.node.attr_or<std::string>("round_mode", "HALF_TO_EVEN");
  const std::int64_t bits = n.inputs.size() > 3 ? n.number(3) : n.node.attr_or<std::int64_t>("num_bits", 8);
  const auto axis = n.node.attr_or<std::int64_t>("axis", -1);
  if (bits < 2 || bits > 62) n.node.refuse(detail::join("it has ", bits, " bits"));
  if (mode != "HALF_TO_EVEN" && mode != "HALF_UP") n.node.refuse("its mode is " + mode);
  const double half = std::ldexp(1.0, static_cast<int>(bits) - 1);
  const double first = !has_sign ? 0 : narrow ? 1 - half : -half, last = has_sign ? half - 1 : 2 * half - 1;
  const double largest = x.dtype() == float16 ? 65504 : 3e38;
  Shape by_channel;
  std::vector<std::int64_t> others;
  for (int i = 0; i < x.shape().rank(); ++i) {
    if (axis != i) others.push_back(i);
    if (axis >= 0) by_channel.push_back(axis == i ? -1 : 1);
  }
  if (axis < -1 || axis >= x.shape().rank()) n.node.refuse(detail::join("its axis is ", axis));
  return n.composed([&] {
    const Tensor given_low = reshape(n.in(1), by_channel), given_high = reshape(n.in(2), by_channel);
    const ReduceOptions kept{.keep_dims = axis >= 0};
    const Tensor still = stop_gradient(x), low = given ? stop_gradient(given_low) : reduce_min(still, others, kept),
                 high = given ? stop_gradient(given_high) : reduce_max(still, others, kept);
    const Tensor from_low = where(first * low > 0, first / low, largest),
                 from_high = where(last * high > 0, last / high, largest), by_low = from_low < from_high;
    const Tensor step = where(by_low, first == 0 ? low : low / first, high / last);
    // One end of the range moves.
    const Tensor inside =
        given ? maximum(minimum(still, where(by_low, last * step, high)), where(by_low, low, first * step)) : still;
    const Tensor scaled = inside * where(by_low, from_low, from_high);
    const Tensor result = (mode == "HALF_UP" ? floor(scaled + 0.5) : round(scaled)) * step;
    const Tensor passed = op.ends_with("V4") ? where((x >= given_low) & (x <= given_high), x, 0) : x;
    return result + (passed - stop_gradient(passed));
  });
}

/// Of -V4, by the input, and by the ends of the range 0.
Tensors read_quantization_gradient(const ForeignNode& n) {
  require_one_type(n);
  const auto axis = n.node.attr_or<std::int64_t>("axis", -1);
  Shape by_channel;
  for (int i = 0; axis >= 0 && i < n.in(1).shape().rank(); ++i) by_channel.push_back(axis == i ? -1 : 1);
  return n.composed([&]() -> Tensors {
    const Tensor is_inside = (n.in(1) >= reshape(n.in(2), by_channel)) & (n.in(1) <= reshape(n.in(3), by_channel));
    return {where(is_inside, n.in(0), 0), zeros_like(n.in(2)), zeros_like(n.in(3))};
  });
}

// ---- Classes --------------------------------------------------------------------------------------------------------

/// Whether fewer than k classes have a higher score than the target.
Tensors read_in_top(const ForeignNode& n) {
  require_rank(n, 0, 2);
  const std::int64_t k = n.inputs.size() > 2 ? n.number(2) : n.node.attr<std::int64_t>("k");
  const Tensor& scores = n.in(0);
  return n.composed([&] {
    const Tensor target = take_along_axis(scores, expand_dims(n.in(1), 1), 1);
    const Tensor above = reduce_sum((scores > target).cast(int64), 1);
    return (above < k) & reduce_all(is_finite(scores), 1);
  });
}

// ---- The largest ----------------------------------------------------------------------------------------------------

bool is_unsorted(const NodeDef& def) { return has_flag(def, "sorted", false); }
/// An old node, or one that leaves the order open.
Tensors read_top(const ForeignNode& n) {
  return n.composed([&] {
    const TopK top = top_k(n.in(0), n.inputs.size() > 1 ? n.number(1) : n.node.attr<std::int64_t>("k"));
    return Tensors{top.values, top.indices};
  });
}

Tensors read_nth(const ForeignNode& n) {
  const Direction direction = n.node.attr_or<bool>("reverse", false) ? Direction::descending : Direction::ascending;
  const std::int64_t place = n.number(1);
  if (place < 0 || place > most_numbers) n.node.refuse(detail::join("its place is ", place));
  return n.composed([&] { return squeeze(gather(sort(n.in(0), -1, direction), vector_of({place}, int32), -1), -1); });
}

}  // namespace

ForeignOps foreign_math() {
  return {
      {.name = "AccumulateNV2", .inputs = -1, .read = read_add_all},
      {.name = "AddN", .inputs = -1, .read = read_add_all},
      {.name = "ApproximateEqual", .inputs = 2, .outputs = {typed(boolean)}, .read = read_approximately_equal},
      {.name = "Asinh", .inputs = 1, .read = read_asinh},
      {.name = "Bucketize", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {typed(int32)}, .read = read_bucketize},
      {.name = "Cross", .inputs = 2, .lacks_sizes = lacks_rank, .read = read_cross},
      {.name = "Div", .inputs = 2, .applies = is_of_integers, .read = read_truncated_quotient},
      {.name = "Erfc", .inputs = 1, .read = read_erfc},
      {.name = "EuclideanNorm", .inputs = 2, .values = {1}, .lacks_sizes = lacks_rank, .read = read_euclidean_norm},
      {.name = "FakeQuantWithMinMaxArgs", .inputs = 1, .read = read_fake_quantization},
      {.name = "FakeQuantWithMinMaxArgsGradient",
       .inputs = 2,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_fake_quantization_gradient},
      {.name = "FakeQuantWithMinMaxVars", .inputs = 3, .read = read_fake_quantization},
      {.name = "FakeQuantWithMinMaxVarsGradient",
       .inputs = 4,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(0), like(0)},
       .read = read_fake_quantization_gradient},
      {.name = "FakeQuantWithMinMaxVarsPerChannel", .inputs = 3, .read = read_fake_quantization},
      {.name = "FakeQuantWithMinMaxVarsPerChannelGradient",
       .inputs = 4,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(0), like(0)},
       .read = read_fake_quantization_gradient},
      {.name = "InTopK", .inputs = 2, .lacks_sizes = lacks_rank, .outputs = {typed(boolean)}, .read = read_in_top},
      {.name = "InTopKV2",
       .inputs = 3,
       .values = {2},
       .lacks_sizes = lacks_rank,
       .outputs = {typed(boolean)},
       .read = read_in_top},
      {.name = "IsInf", .inputs = 1, .outputs = {typed(boolean)}, .read = read_is_inf},
      {.name = "L2Loss", .inputs = 1, .read = read_l2_loss},
      {.name = "Mod", .inputs = 2, .read = read_truncated_remainder},
      {.name = "MulNoNan", .inputs = 2, .read = read_multiply_no_nan},
      {.name = "NthElement", .inputs = 2, .values = {1}, .lacks_sizes = lacks_rank, .read = read_nth},
      {.name = "Relu6", .inputs = 1, .read = read_relu6},
      {.name = "Select", .inputs = 3, .lacks_sizes = lacks_rank, .read = read_select},
      {.name = "Selu", .inputs = 1, .read = read_selu},
      {.name = "Softsign", .inputs = 1, .read = read_softsign},
      {.name = "QuantizeAndDequantizeV2",
       .inputs = 3,
       .lacks_sizes = lacks_rank,
       .specs = specs_like_first,
       .read = read_quantization_and_back},
      {.name = "QuantizeAndDequantizeV3",
       .inputs = 4,
       .values = {3},
       .lacks_sizes = lacks_rank,
       .specs = specs_like_first,
       .read = read_quantization_and_back},
      {.name = "QuantizeAndDequantizeV4",
       .inputs = 3,
       .lacks_sizes = lacks_rank,
       .specs = specs_like_first,
       .read = read_quantization_and_back},
      {.name = "QuantizeAndDequantizeV4Grad",
       .inputs = 4,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(2), like(3)},
       .read = read_quantization_gradient},
      {.name = "TopK", .inputs = 1, .lacks_sizes = lacks_rank, .outputs = {like(0), typed(int32)}, .read = read_top},
      {.name = "TopKV2",
       .inputs = 2,
       .values = {1},
       .applies = is_unsorted,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), typed(int32)},
       .read = read_top},
      {.name = "NextAfter", .inputs = 2, .read = read_next_after},
      {.name = "TruncateDiv", .inputs = 2, .read = read_truncated_quotient},
      {.name = "TruncateMod", .inputs = 2, .read = read_truncated_remainder},
      {.name = "Xdivy", .inputs = 2, .read = read_xdivy},
      {.name = "Xlog1py", .inputs = 2, .read = read_xlog1py},
  };
}

}  // namespace tapestry::io
