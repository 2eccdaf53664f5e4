// Special functions, bits of integers, running logarithms of sums.

#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

using std::numbers::pi;

constexpr double euler_gamma = std::numbers::egamma, infinity = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

/// A function of all inputs that is computed in double precision, whatever the type.
template <class F>
Tensors in_double(const ForeignNode& n, F f) {
  require_one_type(n);
  return n.composed([&] {
    const DType dtype = n.in(0).dtype();
    const auto wide = [&](std::size_t i) { return dtype == float64 ? n.in(i) : n.in(i).cast(float64); };
    const Tensor y = [&]() -> Tensor {
      if constexpr (std::is_invocable_v<F, Tensor>) {
        return f(wide(0));
      } else if constexpr (std::is_invocable_v<F, Tensor, Tensor>) {
        return f(wide(0), wide(1));
      } else {
        return f(wide(0), wide(1), wide(2));
      }
    }();
    return dtype == float64 ? y : y.cast(dtype);
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
  return where(x < 0.5, where(is_pole, not_a_number, below), above);
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
  const Tensor outside = where(equal(p, 0.0), -infinity, where(equal(p, 1.0), infinity, not_a_number));
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

/// The factors of the asymptotic series of Bessel functions: of 1 / x to the power of k.
double hankel_factor(int order, int k) {
  double factor = 1;
  for (int i = 1; i <= k; ++i) factor *= (4.0 * order * order - (2 * i - 1) * (2 * i - 1)) / (8.0 * i);
  return factor;
}

/// J0, J1, Y0 or Y1: up to 25 the integral over a quarter of a circle, by sums that converge like the series of
/// Fourier; from there on the asymptotic series.
Tensor oscillating_bessel(const Tensor& x, int order, bool second) {
  constexpr int count = 64;
  const Tensor size = abs(x), near = minimum(size, 25.0), far = maximum(size, 25.0);
  std::vector<double> sines, plain, logarithmic;
  for (int i = 0; i < count; ++i) {
    const double angle = (i + 0.5) * pi / (2 * count), factor = order == 1 ? std::sin(angle) : 1.0;
    double weight = 0;
    for (int k = 1; k <= 30; ++k) weight += (k % 2 == 1 ? 4 : -4) * std::cos(2 * k * angle) / (k * pi);
    sines.push_back(std::sin(angle));
    plain.push_back(factor / count);
    logarithmic.push_back(weight * factor / count);
  }
  const auto integral = [&](int of_order, const std::vector<double>& weights) {
    const Tensor phase = expand_dims(near, -1) * tensor(sines);
    return reduce_sum((of_order == 1 ? sin(phase) : cos(phase)) * tensor(weights), -1);
  };
  Tensor small = integral(order, plain);
  if (second) {
    const Tensor safe = where(near > 0.0, near, 1.0);
    small = small * (2 / pi) * (log(safe * 0.5) + euler_gamma) + integral(order, logarithmic);
    if (order == 1) small = small - integral(0, std::vector<double>(count, 1.0 / count)) * (2 / pi) / safe;
  }
  Tensor even = zeros_like(x), odd = zeros_like(x);
  const Tensor inverse = 1.0 / far, step = square(inverse);
  for (int k = 10; k >= 0; --k) {
    const double sign = k % 2 == 0 ? 1 : -1;
    even = even * step + sign * hankel_factor(order, 2 * k);
    odd = odd * step + sign * hankel_factor(order, 2 * k + 1);
  }
  odd = odd * inverse;
  const Tensor phase = far - (2 * order + 1) * pi / 4, wave = sqrt((2 / pi) * inverse);
  const Tensor large = wave * (second ? even * sin(phase) + odd * cos(phase) : even * cos(phase) - odd * sin(phase));
  const Tensor result = where(size < 25.0, small, large);
  if (second) return where(x > 0.0, result, where(equal(x, 0.0), -infinity, not_a_number));
  return order == 1 ? result * sign(x) : result;
}

/// K0 or K1, times exp(x): the integral of exp(-x (cosh(t) - 1)) cosh(order t), in steps that suit its width.
Tensor scaled_decaying_bessel(const Tensor& x, int order) {
  const Tensor tiny = x < 1e-9, safe = where(tiny, 1.0, x);
  std::vector<double> places, weights;
  for (int i = 0; i < 110; ++i) {
    places.push_back(i * 0.25);
    weights.push_back(i == 0 ? 0.125 : 0.25);
  }
  const Tensor step = 1.0 / sqrt(1.0 + 0.25 * stop_gradient(safe)), t = expand_dims(step, -1) * tensor(places);
  const Tensor decay = exp(-2.0 * expand_dims(safe, -1) * square(sinh(0.5 * t)));
  const Tensor sum = step * reduce_sum((order == 1 ? decay * cosh(t) : decay) * tensor(weights), -1);
  const Tensor positive = where(x > 0.0, x, 1.0);
  const Tensor first = order == 1 ? 1.0 / positive : std::log(2.0) - euler_gamma - log(positive);
  return where(x > 0.0, where(tiny, first, sum), where(equal(x, 0.0), infinity, not_a_number));
}

Tensors read_other_bessel(const ForeignNode& n) {
  const std::string& op = n.node.def().op;
  const int order = op[7] == '1' ? 1 : 0;
  return in_double(n, [&](const Tensor& x) {
    if (op[6] != 'K') return oscillating_bessel(x, order, op[6] == 'Y');
    const Tensor scaled = scaled_decaying_bessel(x, order);
    return op.ends_with("e") ? scaled : scaled * exp(-1.0 * x);
  });
}

// ---- Incomplete functions -------------------------------------------------------------------------------------------

/// The integral from 0 on of a function that decays within 1 / scale or later: it is summed in even steps of u, s being
/// exp(u - exp(-u)).
template <class F>
Tensor integral_of_decay(const Tensor& scale, F f) {
  std::vector<double> places, weights;
  for (int i = -37; i <= 120; ++i) {
    const double u = i / 10.0, s = std::exp(u - std::exp(-u));
    places.push_back(s);
    weights.push_back(s * (1 + std::exp(-u)) / 10);
  }
  const Tensor unit = stop_gradient(1.0 / scale);
  return unit * reduce_sum(tensor(weights) * f(expand_dims(unit, -1) * tensor(places)), -1);
}

/// The part of the gamma function's integral up to x, or from x on: the smaller one, and 1 less it.
Tensor incomplete_gamma(const Tensor& shape, const Tensor& bound, bool upper) {
  const Tensor none = zeros_like(shape + bound), is_inner = (shape > 0.0) & (bound > 0.0) & is_finite(bound);
  const Tensor a = where(is_inner, shape + none, 1.0), x = where(is_inner, bound + none, 1.0);
  const Tensor is_low = x < a, sign = expand_dims(where(is_low, -1.0, 1.0), -1);
  const Tensor part = integral_of_decay(abs(a - x) + sqrt(a) + where(is_low, 0.0, 1.0), [&](const Tensor& s) {
    return exp(sign * expand_dims(a, -1) * s - expand_dims(x, -1) * expm1(minimum(sign * s, 700.0)));
  });
  const Tensor share = exp(a * log(x) - x - log_gamma(a)) * part, rest = 1.0 - share;
  const Tensor is_end = equal(bound, 0.0), is_valid = upper ? shape > 0.0 : (shape > 0.0) | is_end;
  const Tensor outer =
      where(is_valid & (bound >= 0.0), where(is_end, upper ? 1.0 : 0.0, upper ? 0.0 : 1.0), not_a_number);
  return where(is_inner, upper ? where(is_low, rest, share) : where(is_low, share, rest), outer);
}

Tensors read_incomplete_gamma(const ForeignNode& n) {
  const bool upper = n.node.def().op == "Igammac";
  return in_double(n, [&](const Tensor& a, const Tensor& x) { return incomplete_gamma(a, x, upper); });
}
Tensors read_incomplete_gamma_gradient(const ForeignNode& n) {
  return in_double(n, [](const Tensor& a, const Tensor& x) {
    return gradients_of({a + zeros_like(x)},
                        [&](const Tensors& by) { return Tensors{incomplete_gamma(by[0], x, false)}; })[0];
  });
}

Tensors read_incomplete_beta(const ForeignNode& n) {
  return in_double(n, [](const Tensor& a, const Tensor& b, const Tensor& bound) {
    const Tensor is_valid = (a > 0.0) & (b > 0.0), is_inner = is_valid & (bound > 0.0) & (bound < 1.0);
    const Tensor from = where(is_inner, a, 1.0), to = where(is_inner, b, 1.0), x = where(is_inner, bound, 0.5);
    // The share of the smaller side, which is that of 1 - x with a and b exchanged beyond the mean.
    const Tensor beyond = x * (from + to) > from;
    const Tensor p = where(beyond, to, from), q = where(beyond, from, to);
    const Tensor y = where(beyond, 1.0 - x, x), rest = where(beyond, x, 1.0 - x), slope = y / rest;
    const Tensor part = integral_of_decay(abs(p - (q - 1.0) * slope) + sqrt(p), [&](const Tensor& s) {
      return exp((expand_dims(q, -1) - 1.0) * log1p(-1.0 * expand_dims(slope, -1) * expm1(-1.0 * s)) -
                 expand_dims(p, -1) * s);
    });
    const Tensor share =
        part * exp(p * log(y) + (q - 1.0) * log(rest) + log_gamma(p + q) - log_gamma(p) - log_gamma(q));
    const Tensor outer =
        where(is_valid & equal(bound, 0.0), 0.0, where(is_valid & equal(bound, 1.0), 1.0, not_a_number));
    return where(is_inner, where(beyond, 1.0 - share, share), outer);
  });
}

// ---- Zeta and polygamma ---------------------------------------------------------------------------------------------

/// The sum of (q + k)^-x: some terms, and the formula of Euler and Maclaurin for the others. They are too few below -8,
/// where it is NaN.
Tensor zeta(const Tensor& x, const Tensor& q) {
  constexpr int terms = 20;
  const Tensor is_inner = (x > 1.0) & ((q > 0.0) | ((q > -8.0) & not_equal(q, floor(q)) & equal(x, floor(x))));
  const Tensor power_of = where(is_inner, x, 2.0), from = where(is_inner, q, 1.0), end = from + terms;
  const Tensor first = reduce_sum(
      power(expand_dims(from, -1) + arange(terms, {.dtype = float64}), -1.0 * expand_dims(power_of, -1)), -1);
  const Tensor last = power(end, -1.0 * power_of);
  Tensor rest = end / (power_of - 1.0) + 0.5, factor = power_of / end;
  int k = 1;
  for (const double each :
       {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000, 1.0 / 74724249600}) {
    rest = rest + each * factor;
    factor = factor * (power_of + k) * (power_of + (k + 1)) / square(end);
    k += 2;
  }
  const Tensor is_pole = equal(x, 1.0) | ((x > 1.0) & (q <= 0.0) & equal(q, floor(q)));
  return where(is_inner, first + last * rest, where(is_pole, infinity, not_a_number));
}

Tensors read_zeta(const ForeignNode& n) { return in_double(n, zeta); }
Tensors read_polygamma(const ForeignNode& n) {
  return in_double(n, [](const Tensor& order, const Tensor& x) {
    const Tensor is_derivative = (order > 0.0) & equal(order, floor(order));
    const Tensor above = where(is_derivative, order, 1.0) + 1.0;
    const Tensor sign = where(equal(mod(above, 2.0), 0.0), 1.0, -1.0);
    return where(is_derivative, sign * exp(log_gamma(above)) * zeta(above, x),
                 where(equal(order, 0.0), digamma(x), not_a_number));
  });
}

// ---- Integrals of exponential functions and of logarithms -----------------------------------------------------------

/// The exponential integral Ei, of positive numbers as in TensorFlow: a series, and from 40 on the asymptotic one.
Tensor exponential_integral(const Tensor& x) {
  const Tensor near = where(x > 0.0, minimum(x, 40.0), 1.0), far = maximum(x, 40.0), logarithm = log(near);
  std::vector<double> powers, factors;
  for (int k = 1; k <= 140; ++k) {
    powers.push_back(k);
    factors.push_back(-std::lgamma(k + 1.0) - std::log(k));
  }
  const Tensor series = reduce_sum(exp(expand_dims(logarithm, -1) * tensor(powers) + tensor(factors)), -1);
  Tensor rest = ones_like(x);
  for (int k = 25; k > 0; --k) rest = 1.0 + rest * k / far;
  const Tensor result = where(x < 40.0, euler_gamma + logarithm + series, exp(far) / far * rest);
  return where(x > 0.0, result, where(equal(x, 0.0), -infinity, not_a_number));
}

/// The dilogarithm of 1 - x for x from 1/2 to 2.
Tensor dilogarithm(const Tensor& x) {
  const Tensor u = -1.0 * log(x);
  return u * (polynomial(square(u), {8.92169102e-13, -4.06476164513e-11, 1.0 / 526901760, -1.0 / 10886400, 1.0 / 211680,
                                     -1.0 / 3600, 1.0 / 36, 1}) -
              u * 0.25);
}
Tensor spence(const Tensor& x) {
  // 1 / x instead of x above 2, and then 1 - x below 1/2.
  const Tensor is_large = x > 2.0, low = where(is_large, 1.0 / where(is_large, x, 1.0), where(x > 0.0, x, 1.0));
  const Tensor is_small = low < 0.5, other = where(is_small, 1.0 - low, 0.5), safe = where(is_small, low, 0.5);
  const Tensor inner = where(is_small, pi * pi / 6 - log(safe) * log(other) - dilogarithm(other),
                             dilogarithm(where(is_small, 1.0, low)));
  const Tensor result = where(is_large, -1.0 * inner - 0.5 * square(log(low)), inner);
  return where(x > 0.0, result, where(equal(x, 0.0), pi * pi / 6, not_a_number));
}

/// Dawson's integral: Rybicki's sum over odd numbers around x.
Tensor dawson(const Tensor& x) {
  constexpr double step = 0.2;
  std::vector<double> odd;
  for (int i = -31; i <= 31; i += 2) odd.push_back(i);
  const Tensor center = stop_gradient(2.0 * round(x * (0.5 / step)));
  const Tensor places = expand_dims(center, -1) + tensor(odd);
  return reduce_sum(exp(-1.0 * square(expand_dims(x, -1) - step * places)) / places, -1) / std::sqrt(pi);
}

Tensors read_exponential_integral(const ForeignNode& n) { return in_double(n, exponential_integral); }
Tensors read_spence(const ForeignNode& n) { return in_double(n, spence); }
Tensors read_dawson(const ForeignNode& n) { return in_double(n, dawson); }

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
      return slice(pad(x, borders, {.value = -infinity}), begin, size);
    };
    Tensor x = reverse ? flip(n.in(0), {axis}) : Tensor(n.in(0));
    if (exclusive && count > 0) x = moved(x, 1);
    for (std::int64_t step = 1; step < count; step *= 2) x = log_add(x, moved(x, step));
    return reverse ? flip(x, {axis}) : x;
  });
}

// ---- Fresnel's integrals --------------------------------------------------------------------------------------------

/// Up to 1.6, the series of the integral of the cosine or sine of pi t^2 / 2.
Tensor fresnel_series(const Tensor& x, bool is_cosine) {
  constexpr int terms = 18;
  const Tensor square = x * x, fourth = square * square;
  double factor = is_cosine ? 1 : pi / 2;  // of the term of the power 4 k + 1, or 4 k + 3
  std::vector<double> factors;
  for (int k = 0; k < terms; ++k) {
    const int power = 2 * k + (is_cosine ? 0 : 1);
    factors.push_back(factor / (2 * power + 1));
    factor *= -(pi / 2) * (pi / 2) / ((power + 1) * (power + 2));
  }
  Tensor sum = zeros_like(x) + factors.back();
  for (std::size_t k = factors.size() - 1; k-- > 0;) sum = sum * fourth + factors[k];
  return is_cosine ? sum * x : sum * square * x;
}

/// From 1.6 on, by the auxiliary functions f and g (Abramowitz and Stegun, 7.3.5), which are integrals of a bell curve
/// between poles that are far enough from the line for the trapezoidal rule.
Tensor fresnel_far(const Tensor& x, bool is_cosine) {
  constexpr double step = 0.14;
  constexpr int points = 37;
  std::vector<double> places, weights;
  for (int i = 0; i < points; ++i) {
    places.push_back(i * step);
    weights.push_back((i == 0 ? 1 : 2) * step / (pi * std::numbers::sqrt2) *
                      std::exp(-pi / 2 * places.back() * places.back()));
  }
  const Tensor ratio = square(tensor(places) / expand_dims(x, -1));
  const Tensor parts = tensor(weights) / (1.0 + square(ratio)), angle = pi / 2 * square(x);
  const Tensor f = reduce_sum(parts, -1) / x, g = reduce_sum(parts * ratio, -1) / x;
  return 0.5 + (is_cosine ? f * sin(angle) - g * cos(angle) : -f * cos(angle) - g * sin(angle));
}

Tensors read_fresnel(const ForeignNode& n) {
  const bool is_cosine = n.node.def().op == "FresnelCos";
  return in_double(n, [&](const Tensor& x) {
    constexpr double end = 1.6, farthest = 1e6;  // beyond it, the integral is 1/2
    const Tensor size = abs(x), is_near = size < end;
    const Tensor near = fresnel_series(where(is_near, x, 0.0), is_cosine);
    const Tensor far = fresnel_far(clip(size, end, farthest), is_cosine);
    const Tensor rest = where(is_nan(x), x, where(size > farthest, 0.5, far));
    return where(is_near, near, rest * sign(x));
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
  const auto add = [&ops](std::string_view name, int inputs, Tensors (*read)(const ForeignNode&)) {
    ops.push_back({.name = name, .inputs = inputs, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read});
  };
  for (const char* name :
       {"BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1"})
    add(name, 1, read_other_bessel);
  add("Betainc", 3, read_incomplete_beta);
  add("Dawsn", 1, read_dawson);
  add("Expint", 1, read_exponential_integral);
  for (const char* name : {"FresnelCos", "FresnelSin"}) add(name, 1, read_fresnel);
  add("Igamma", 2, read_incomplete_gamma);
  add("IgammaGradA", 2, read_incomplete_gamma_gradient);
  add("Igammac", 2, read_incomplete_gamma);
  add("Polygamma", 2, read_polygamma);
  add("Spence", 1, read_spence);
  add("Zeta", 2, read_zeta);
  for (const char* name : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
    ops.push_back({.name = name, .inputs = 2, .lacks_sizes = lacks_rank, .outputs = {like(0)}, .read = read_bitwise});
  for (const char* name : {"LeftShift", "RightShift"})
    ops.push_back({.name = name, .inputs = 2, .lacks_sizes = lacks_any_size, .outputs = {like(0)}, .read = read_shift});
  return ops;
}

}  // namespace tapestry::io
