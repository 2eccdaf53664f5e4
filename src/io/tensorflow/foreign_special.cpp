// Special functions, bits of integers, running logarithms of sums.

#include <cmath>
#include <limits>
#include <numbers>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

using std::numbers::pi;

/// A function that is computed in double precision, whatever the type.
template <class F>
Tensors in_double(const ForeignNode& n, F f) {
  require_one_type(n);
  return n.composed([&] {
    const DType dtype = n.in(0).dtype();
    const Tensor x = dtype == float64 ? n.in(0) : n.in(0).cast(float64);
    return dtype == float64 ? f(x) : Tensor(f(x)).cast(dtype);
  });
}

// ---- The gamma function ---------------------------------------------------------------------------------------------

/// The argument from which both functions are computed: 1 - x where x is below 1/2, by their reflection formulas.
Tensor mirrored(const Tensor& x) { return where(x < 0.5, 1.0 - x, x); }
/// The fraction of x, which is exact for large x; 1/4 from 1/2 on. Its multiple by pi has a sine of the same absolute
/// value as pi x.
Tensor fraction_below_half(const Tensor& x) { return where(x < 0.5, x - floor(x), 0.25); }

/// Stirling's series for log Gamma(x + 8), less the logarithm of x (x + 1) ... (x + 7).
Tensor log_gamma_above_half(const Tensor& x) {
  Tensor product = x;
  for (int i = 1; i < 8; ++i) product = product * (x + i);
  const Tensor y = x + 8.0, inverse = 1.0 / y, square_of = square(inverse);
  Tensor series = square_of * (-691.0 / 360360) + 1.0 / 1188;
  for (const double each : {-1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12}) series = series * square_of + each;
  // The product of numbers above 1e38 is infinite, and the logarithm of each is then as good.
  const Tensor logarithm = where(x < 1e30, log(where(x < 1e30, product, 1.0)), 8.0 * log(x));
  return (y - 0.5) * log(y) - y + 0.5 * std::log(2 * pi) + series * inverse - logarithm;
}

Tensor log_gamma(const Tensor& x) {
  const Tensor finite = where(is_finite(x), x, 1.0), above = log_gamma_above_half(mirrored(finite));
  const Tensor below = std::log(pi) - log(abs(sin(pi * fraction_below_half(finite)))) - above;
  return where(is_finite(x), where(finite < 0.5, below, above), abs(x));
}

Tensor digamma(const Tensor& x) {
  const Tensor z = mirrored(x);
  Tensor shift = 1.0 / z;
  for (int i = 1; i < 10; ++i) shift = shift + 1.0 / (z + i);
  const Tensor y = z + 10.0, square_of = square(1.0 / y);
  Tensor series = square_of * (-691.0 / 32760) + 1.0 / 132;
  for (const double each : {-1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12}) series = series * square_of + each;
  const Tensor above = log(y) - 0.5 / y - series * square_of - shift;
  const Tensor part = fraction_below_half(x), is_pole = equal(part, 0.0);
  const Tensor below = above - pi / tan(pi * where(is_pole, 0.25, part));
  return where(x < 0.5, where(is_pole, std::numeric_limits<double>::quiet_NaN(), below), above);
}

Tensors read_lgamma(const ForeignNode& n) { return in_double(n, log_gamma); }
Tensors read_digamma(const ForeignNode& n) { return in_double(n, digamma); }

// ---- The normal distribution ----------------------------------------------------------------------------------------

Tensor polynomial(const Tensor& x, std::initializer_list<double> factors) {
  Tensor sum = zeros_like(x);
  for (const double each : factors) sum = sum * x + each;
  return sum;
}

/// The number below which a normal variable lies with the probability p: Acklam's rational approximations, then a step
/// of Newton's, of which the derivative by p is right.
Tensor normal_quantile(const Tensor& p) {
  const Tensor inside = where((p > 0.0) & (p < 1.0), p, 0.5), still = stop_gradient(inside);
  const Tensor tail = minimum(still, 1.0 - still), is_tail = tail < 0.02425;
  const Tensor middle = still - 0.5, r = square(middle), q = sqrt(-2.0 * log(where(is_tail, tail, 0.01)));
  const Tensor from_middle = middle *
                             polynomial(r, {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                                            1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00}) /
                             polynomial(r, {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                                            6.680131188771972e+01, -1.328068155288572e+01, 1});
  const Tensor from_tail =
      polynomial(q, {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00,
                     4.374664141464968e+00, 2.938163982698783e+00}) /
      polynomial(q, {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1});
  const Tensor first = where(is_tail, where(still < 0.5, from_tail, -1.0 * from_tail), from_middle);
  const Tensor slope = std::sqrt(2 * pi) * exp(0.5 * square(first));
  // Far out the distribution function is no better than the approximation.
  const Tensor missing = where(tail > 1e-6, still - 0.5 * (1.0 + erf(first * std::sqrt(0.5))), 0.0);
  const Tensor second = first + stop_gradient(missing * slope);
  const Tensor result = second + (inside - still) * stop_gradient(slope);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Tensor outside =
      where(equal(p, 0.0), -infinity, where(equal(p, 1.0), infinity, std::numeric_limits<double>::quiet_NaN()));
  return where((p > 0.0) & (p < 1.0), result, outside);
}

Tensors read_normal_quantile(const ForeignNode& n) { return in_double(n, normal_quantile); }
Tensors read_inverse_erf(const ForeignNode& n) {
  return in_double(n, [](const Tensor& y) { return normal_quantile((y + 1.0) * 0.5) * std::sqrt(0.5); });
}

// ---- Bessel functions -----------------------------------------------------------------------------------------------

/// I0 or I1, times exp(-|x|): power series up to 12, the asymptotic one from there on.
Tensor scaled_bessel(const Tensor& x, int order) {
  const Tensor size = abs(x), near = minimum(size, 12.0), far = maximum(size, 12.0);
  const Tensor quarter = square(near * 0.5);
  Tensor series = ones_like(x);
  for (int k = 60; k > 0; --k) series = series * quarter * (1.0 / (k * (k + order))) + 1.0;
  Tensor small = series * exp(-1.0 * near);
  if (order == 1) small = small * near * 0.5;
  Tensor rest = ones_like(x);
  const double square_of_order = 4.0 * order * order;
  for (int k = 24; k > 0; --k) {
    const double odd = 2 * k - 1;
    rest = 1.0 - rest * ((square_of_order - odd * odd) / (8.0 * k)) / far;
  }
  const Tensor result = where(size < 12.0, small, rest / sqrt(2 * pi * far));
  return order == 1 ? result * sign(x) : result;
}

Tensors read_bessel(const ForeignNode& n) {
  const std::string& op = n.node.def().op;
  const int order = op.starts_with("BesselI1") ? 1 : 0;
  return in_double(n, [&](const Tensor& x) {
    const Tensor scaled = scaled_bessel(x, order);
    return op.ends_with("e") ? scaled : scaled * exp(abs(x));
  });
}

// ---- Bits -----------------------------------------------------------------------------------------------------------

int bits_of(DType dtype) { return dtype == uint8 ? 8 : dtype == int32 ? 32 : 64; }

void require_integers(const ForeignNode& n) {
  require_one_type(n);
  const DType dtype = n.in(0).dtype();
  if (dtype != uint8 && dtype != int32 && dtype != int64) lack(n, "type");
}

/// 1, 2, 4, ...: what each bit counts, the sign as a negative number.
Tensor weights_of_bits(DType dtype) {
  std::vector<std::int64_t> weights;
  for (int i = 0; i + 1 < bits_of(dtype); ++i) weights.push_back(std::int64_t{1} << i);
  weights.push_back(dtype == uint8   ? 128
                    : dtype == int32 ? std::numeric_limits<std::int32_t>::min()
                                     : std::numeric_limits<std::int64_t>::min());
  return tensor(weights);
}

/// The bits as a last axis of bools, the lowest first. A negative number has those of its two's complement.
Tensor bits(const Tensor& x) {
  const DType dtype = x.dtype();
  const Tensor wide = expand_dims(x.cast(int64), -1);
  std::vector<std::int64_t> divisors;
  for (int i = 0; i + (dtype == uint8 ? 0 : 1) < bits_of(dtype); ++i) divisors.push_back(std::int64_t{1} << i);
  const Tensor low = equal(mod(floor_divide(wide, tensor(divisors)), 2), 1);
  return dtype == uint8 ? low : concat({low, wide < 0}, -1);
}

Tensor from_bits(const Tensor& bits, DType dtype) {
  return reduce_sum(where(bits, weights_of_bits(dtype), tensor(std::int64_t{0})), -1).cast(dtype);
}

Tensors read_bitwise(const ForeignNode& n) {
  require_integers(n);
  const std::string& op = n.node.def().op;
  return n.composed([&] {
    const Tensor a = bits(n.in(0)), b = bits(n.in(1));
    return from_bits(op == "BitwiseAnd" ? a & b : op == "BitwiseOr" ? a | b : a ^ b, n.in(0).dtype());
  });
}

Tensors read_invert(const ForeignNode& n) {
  require_integers(n);
  return n.composed([&] { return n.in(0).dtype() == uint8 ? 255 - n.in(0) : -1 - n.in(0); });
}

Tensors read_bit_count(const ForeignNode& n) {
  require_integers(n);
  return n.composed([&] { return reduce_sum(bits(n.in(0)).cast(int32), -1).cast(uint8); });
}

/// Like TensorFlow, limits the distance of the shift to between 0 and the number of bits less 1.
Tensors read_shift(const ForeignNode& n) {
  require_integers(n);
  const DType dtype = n.in(0).dtype();
  const int count = bits_of(dtype);
  return n.composed([&] {
    const Tensor a = n.in(0) + zeros_like(n.in(1)), by = n.in(1) + zeros_like(n.in(0));
    const Tensor places = expand_dims(clip(by.cast(int64), 0, count - 1), -1);
    const Tensor index = arange(count, {.dtype = int64});
    // A bit comes from that many places below, or above. Above the highest, an arithmetic shift has the sign.
    const bool left = n.node.def().op == "LeftShift";
    const Tensor from = left ? index - places : index + places, nothing = index < 0;
    const Tensor taken = take_along_axis(bits(a), clip(from, 0, count - 1), -1);
    const Tensor beyond = left || dtype == uint8 ? nothing : expand_dims(a < 0, -1);
    return from_bits(where((from >= 0) & (from < count), taken, beyond), dtype);
  });
}

// ---- Running sums ---------------------------------------------------------------------------------------------------

Tensor log_add(const Tensor& a, const Tensor& b) {
  const Tensor larger = maximum(a, b), distance = where(equal(a, b), 0.0, minimum(a, b) - larger);
  return larger + log1p(exp(distance));
}

/// log(exp(x[0]) + ... + exp(x[i])): each element is combined with the one 1, 2, 4, ... places before.
Tensors read_running_logsumexp(const ForeignNode& n) {
  const int axis = normalize_axis(n.number(1), n.in(0).shape().rank());
  const bool exclusive = n.node.attr_or<bool>("exclusive", false), reverse = n.node.attr_or<bool>("reverse", false);
  const std::int64_t count = n.in(0).shape().sizes()[axis];
  return n.composed([&] {
    const auto moved = [&](const Tensor& x, std::int64_t by) {
      // What comes from before the first element is the logarithm of 0.
      std::vector<Padding> borders(static_cast<std::size_t>(x.shape().rank()));
      borders[axis] = {by, 0};
      Ints begin(std::vector<std::int64_t>(borders.size(), 0)), size(std::vector<std::int64_t>(borders.size(), -1));
      size[axis] = count;
      return slice(pad(x, borders, {.value = -std::numeric_limits<double>::infinity()}), begin, size);
    };
    Tensor x = reverse ? flip(n.in(0), {axis}) : Tensor(n.in(0));
    if (exclusive && count > 0) x = moved(x, 1);
    for (std::int64_t step = 1; step < count; step *= 2) x = log_add(x, moved(x, step));
    return reverse ? flip(x, {axis}) : x;
  });
}

}  // namespace

ForeignOps foreign_special() {
  ForeignOps ops{
      {.name = "CumulativeLogsumexp",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_running_logsumexp},
      {.name = "Digamma", .inputs = 1, .outputs = {like(0)}, .read = read_digamma},
      {.name = "Erfinv", .inputs = 1, .outputs = {like(0)}, .read = read_inverse_erf},
      {.name = "Invert", .inputs = 1, .outputs = {like(0)}, .read = read_invert},
      {.name = "Lgamma", .inputs = 1, .outputs = {like(0)}, .read = read_lgamma},
      {.name = "Ndtri", .inputs = 1, .outputs = {like(0)}, .read = read_normal_quantile},
      {.name = "PopulationCount",
       .inputs = 1,
       .lacks_sizes = lacks_rank,
       .outputs = {typed(uint8)},
       .read = read_bit_count},
  };
  for (const char* name : {"BesselI0", "BesselI0e", "BesselI1", "BesselI1e"})
    ops.push_back({.name = name, .inputs = 1, .outputs = {like(0)}, .read = read_bessel});
  for (const char* name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    ops.push_back({.name = name, .inputs = 2, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_bitwise});
  for (const char* name : {"LeftShift", "RightShift"})
    ops.push_back({.name = name, .inputs = 2, .lacks_sizes = lacks_any_size, .outputs = {like(0)}, .read = read_shift});
  return ops;
}

}  // namespace tapestry::io
