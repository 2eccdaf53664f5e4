// Random numbers that are functions of a seed and of the parameters of a distribution. Each number has a stretch of
// TensorFlow's stream of its own, so that TensorFlow's numbers come whatever is drawn again.

#include <limits>
#include <numeric>

#include "io/tensorflow/generators.hpp"
#include "io/tensorflow/random_generator.hpp"

namespace tapestry::io {
namespace {

constexpr std::uint64_t stretch = 256;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Draws single numbers, the last of each group of a block first.
template <class T>
class DrawnOneByOne {
 public:
  using Group = std::array<T, 16 / sizeof(T)>;
  DrawnOneByOne(Generator& generator, Group (*group)(const Block&)) : generator_(generator), group_(group) {}

  T next() {
    if (left_ == 0) {
      numbers_ = group_(generator_.next());
      left_ = numbers_.size();
    }
    return numbers_[--left_];
  }

 private:
  Generator& generator_;
  Group (*group_)(const Block&);
  Group numbers_{};
  std::size_t left_ = 0;
};

template <class T>
DrawnOneByOne<T> uniform_numbers(Generator& generator) {
  return {generator, uniform_group<T>};
}

// ---- Gamma ----------------------------------------------------------------------------------------------------------

/// Marsaglia and Tsang, A simple method for generating gamma variables, 2000.
double draw_gamma(Generator generator, double alpha) {
  if (!(alpha > 0) || !std::isfinite(alpha)) return not_a_number;
  DrawnOneByOne<double> normal(generator, normal_group<double>), uniform = uniform_numbers<double>(generator);
  if (alpha == 1.0) return -std::log1p(-uniform.next());
  const double d = alpha + (alpha < 1 ? 2.0 / 3 : -1.0 / 3), c = 1.0 / 3 / std::sqrt(d);
  for (;;) {
    const double x = normal.next(), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root, u = uniform.next();
    if (u >= 1 - 0.0331 * (x * x) * (x * x) && std::log(u) >= 0.5 * x * x + d * (1 - v + std::log(v))) continue;
    return alpha < 1 ? d * v * std::pow(uniform.next(), 1 / alpha) : d * v;
  }
}

// ---- Poisson --------------------------------------------------------------------------------------------------------

/// Knuth's method, and for high rates transformed rejection (Hörmann, 1993).
double draw_poisson(Generator generator, double rate) {
  if (!std::isfinite(rate)) return not_a_number;
  DrawnOneByOne<double> uniform = uniform_numbers<double>(generator);
  if (rate < 10) {
    const double end = std::exp(-rate);
    double product = uniform.next(), count = 0;
    for (; product > end; product *= uniform.next()) ++count;
    return count;
  }
  const double log_rate = std::log(rate), b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  for (;;) {
    const double u = uniform.next() - 0.5, v = uniform.next(), edge = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / edge + b) * u + rate + 0.43);
    if (edge >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k < 0 || (edge < 0.013 && v > edge)) continue;
    if (std::log(v * inverse_alpha / (a / (edge * edge) + b)) <= -rate + k * log_rate - std::lgamma(k + 1)) return k;
  }
}

// ---- Binomial -------------------------------------------------------------------------------------------------------

/// What Stirling's formula for the logarithm of k! lacks.
double stirling_rest(double k) {
  static constexpr double first[] = {0.0810614667953272,  0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                     0.0166446911898211,  0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                     0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return first[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

/// How many geometric numbers fit into the count.
double draw_binomial_by_gaps(Generator generator, double count, double probability) {
  DrawnOneByOne<double> uniform = uniform_numbers<double>(generator);
  double successes = -1;
  for (double sum = 0; sum <= count; ++successes) sum += std::ceil(std::log(uniform.next()) / std::log1p(-probability));
  return successes;
}

/// Transformed rejection (Hörmann, The generation of binomial random variates, 1993).
double draw_binomial_by_rejection(Generator generator, double count, double probability) {
  DrawnOneByOne<double> uniform = uniform_numbers<double>(generator);
  const double deviation = std::sqrt(count * probability * (1 - probability));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * probability;
  const double odds = probability / (1 - probability), alpha = (2.83 + 5.1 / b) * deviation;
  const double mode = std::floor((count + 1) * probability);
  for (;;) {
    const double u0 = uniform.next(), v = uniform.next(), u = u0 - 0.5, edge = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / edge + b) * u + (count * probability + 0.5));
    if (edge >= 0.07 && v <= 0.92 - 4.2 / b) return k;
    if (k < 0 || k > count) continue;
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_rest(mode) +
                         stirling_rest(count - mode) - stirling_rest(k) - stirling_rest(count - k);
    if (std::log(v * alpha / (a / (edge * edge) + b)) <= bound) return k;
  }
}

/// `T`: the type of the parameters, in which the method is chosen.
template <class T>
double draw_binomial(const Generator& start, std::uint64_t place, T count, T probability) {
  if (count <= 0 || probability <= 0) return 0;
  if (probability >= 1) return static_cast<double>(count);
  if (!std::isfinite(count) || std::isnan(probability)) return not_a_number;
  const T rarer = probability <= T(0.5) ? probability : T(1) - probability;
  const auto trials = static_cast<double>(count), rare = static_cast<double>(rarer);
  constexpr std::uint64_t short_stretch = 42;
  const double drawn = count * rarer >= T(10) ? draw_binomial_by_rejection(start.after(stretch * place), trials, rare)
                                              : draw_binomial_by_gaps(start.after(short_stretch * place), trials, rare);
  return probability <= T(0.5) ? drawn : trials - drawn;
}

// ---- Normal numbers between bounds ----------------------------------------------------------------------------------

/// Normal numbers are tried until they are between the bounds or, where few would be, uniform or exponential ones
/// (Robert, Simulation of truncated normal variables, 1995).
template <class T>
std::vector<T> draw_bounded(const ForeignNode& n, Generator& generator, std::int64_t count, T mean, T deviation, T low,
                            T high) {
  if (!(deviation > 0) || !(low < high) || (!std::isfinite(low) && !std::isfinite(high)))
    n.node.refuse("Invalid parameters");
  if ((std::isinf(low) && low < 0) || high < mean) {
    std::swap(low, high);
    deviation = -deviation;
  }
  const T least = (low - mean) / deviation, most = (high - mean) / deviation, range = most - least;
  const T root = std::sqrt(least * least + 4);
  const T widest = 2 * std::exp(T(0.5) + least * (least - root) / 4) / (least + root);
  constexpr T inside = static_cast<T>(1.3);
  const bool by_normal = (least < -inside && most >= 0) || (most > inside && least <= 0);
  std::vector<T> drawn;
  int rejected = 0;
  const auto attempt = [&](T number, bool fits) {
    constexpr int most_rejected = 1000;
    if (std::cmp_equal(drawn.size(), count)) return;
    if (!fits && ++rejected >= most_rejected) n.node.refuse("its numbers are too rarely between the bounds");
    if (!fits) return;
    rejected = 0;
    drawn.push_back(number * deviation + mean);
  };
  while (std::cmp_less(drawn.size(), count)) {
    const auto numbers = by_normal ? normal_group<T>(generator.next()) : uniform_group<T>(generator.next());
    if (by_normal) {
      for (const T each : numbers) attempt(each, each >= least && each <= most);
    } else if (range < widest) {
      const auto chances = uniform_group<T>(generator.next());
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const T each = numbers[i] * range + least, nearest = least < 0 ? T(0) : least * least;
        attempt(each, chances[i] <= std::exp((nearest - each * each) / 2));
      }
    } else {
      const T rate = (least + root) / 2;
      for (std::size_t i = 0; i < numbers.size(); i += 2) {
        const T each = -std::log(numbers[i]) / rate + least, x = least < rate ? rate - each : least - rate;
        attempt(each, numbers[i + 1] <= std::exp(-x * x / 2) && each < most);
      }
    }
  }
  return drawn;
}

// ---- Places of a permutation ----------------------------------------------------------------------------------------

/// The Simon cipher (Beaulieu and others, 2013) of few rounds, for numbers of any even count of bits.
class NumberCipher {
 public:
  NumberCipher(int bits, const std::array<std::uint32_t, 3>& seed, std::size_t rounds) : half_(bits / 2) {
    constexpr std::uint64_t constant = 0xfffffffc;
    std::uint64_t sequence = 0x7369f885192c0ef5 & mask();
    for (const std::uint32_t each : seed) keys_.push_back(each & mask());
    for (std::size_t i = keys_.size(); i < rounds; ++i, sequence >>= 1)
      keys_.push_back((constant & mask()) ^ (sequence & 1) ^ keys_[i - 3] ^ rotated(keys_[i - 1], half_ - 3) ^
                      rotated(keys_[i - 1], half_ - 4));
  }

  std::uint64_t operator()(std::uint64_t number) const {
    std::uint64_t left = number >> half_ & mask(), right = number & mask();
    for (const std::uint64_t key : keys_) {
      left ^= (rotated(right, 1) & rotated(right, 8)) ^ rotated(right, 2) ^ key;
      std::swap(left, right);
    }
    return left << half_ | right;
  }

 private:
  std::uint64_t mask() const { return (std::uint64_t{1} << half_) - 1; }
  std::uint64_t rotated(std::uint64_t x, int by) const { return (x << by | x >> (half_ - by)) & mask(); }

  int half_;
  std::vector<std::uint64_t> keys_;
};

std::uint64_t place_of(std::uint64_t index, std::uint64_t last, const std::array<std::uint32_t, 3>& seed,
                       std::size_t rounds) {
  if (last == 0) return 0;
  constexpr int fewest_bits = 16;
  const int bits = static_cast<int>(std::ceil(std::log2(last)));
  const NumberCipher cipher(std::max(bits + bits % 2, fewest_bits), seed, rounds);
  do index = cipher(index);
  while (index > last);
  return index;
}

// ---- Nodes ----------------------------------------------------------------------------------------------------------

std::vector<double> reals(const ForeignNode& n, std::size_t input) {
  return n.node.constant(input).cast(float64).to_vector<double>();
}

/// Numbers of a shape that ends with that of the parameters, by `draw(parameter, place)`. All numbers of a parameter
/// come one after the other.
template <class F>
Tensors drawn(const ForeignNode& n, const Shape& parameters, F draw) {
  const Shape shape = n.shape(0);
  const std::int64_t count = parameters.size();
  bool fits = shape.rank() >= parameters.rank() && shape.size() <= most_numbers && count > 0;
  for (int i = 0; fits && i < parameters.rank(); ++i)
    fits = shape.sizes()[shape.rank() - parameters.rank() + i] == parameters.sizes()[i];
  if (!fits) n.node.refuse(detail::join("its shape is ", shape, ", and that of its parameters ", parameters));
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("dtype", code_of(float32)));
  if (!is_floating(dtype) && dtype != int32 && dtype != int64) lack(n, "type");
  std::vector<double> numbers(static_cast<std::size_t>(shape.size()));
  const std::int64_t samples = shape.size() / count;
  for (std::int64_t k = 0; k < count; ++k)
    for (std::int64_t i = 0; i < samples; ++i)
      numbers[static_cast<std::size_t>(i * count + k)] =
          draw(static_cast<std::size_t>(k), static_cast<std::uint64_t>(k * samples + i));
  return {constant_node(reshape(tensor(numbers), shape).cast(dtype), n.name(), n.where)};
}

/// A parameter of each number of this shape.
std::vector<double> parameters(const ForeignNode& n, std::size_t input, const Shape& shape) {
  return broadcast_to(n.node.constant(input).cast(float64), shape).to_vector<double>();
}

/// The numbers of each mean come one after the other, of one stream. (Of many numbers TensorFlow draws parts side by
/// side, how many depends on the processor.)
template <class T>
Tensors drawn_bounded(const ForeignNode& n) {
  constexpr std::size_t first = 2, count = 4;
  Shape shape;
  for (std::size_t i = first; i < first + count; ++i) shape = broadcast_shapes(shape, n.node.constant(i).shape());
  std::vector<std::vector<double>> lists;
  for (std::size_t i = first; i < first + count; ++i) lists.push_back(parameters(n, i, shape));
  Generator generator = generator_of(n, 1, true);
  std::vector<T> row;
  std::size_t next = 0;
  return drawn(n, shape, [&](std::size_t k, std::uint64_t) {
    if (next == row.size()) {
      const auto of = [&](std::size_t i) { return static_cast<T>(lists[i][k]); };
      row = draw_bounded<T>(n, generator, n.shape(0).size() / shape.size(), of(0), of(1), of(2), of(3));
      next = 0;
    }
    return static_cast<double>(row[next++]);
  });
}

Tensors read_bounded(const ForeignNode& n) {
  const DType dtype = n.node.constant(2).dtype();
  if (dtype != float32 && dtype != float64) lack(n, "type");
  return dtype == float64 ? drawn_bounded<double>(n) : drawn_bounded<float>(n);
}

/// Where numbers are after a permutation of those up to a last one, for each number, seed and last one.
Tensors read_index_shuffle(const ForeignNode& n) {
  const Tensor seed = n.node.constant(1);
  const std::vector<std::int64_t> indices = n.numbers(0), lasts = n.numbers(2),
                                  seeds = reshape(seed, {-1}).to_vector<std::int64_t>();
  const auto rounds = n.node.attr_or<std::int64_t>("rounds", 4);
  constexpr std::int64_t most_rounds = 1 << 10;
  if (seeds.size() % 3 != 0 || rounds < 4 || rounds % 2 != 0 || rounds > most_rounds)
    n.node.refuse(detail::join("its seed is ", seed.shape(), ", with ", rounds, " rounds"));
  const std::size_t count = std::max({indices.size(), lasts.size(), seeds.size() / 3});
  const auto of = [&](const std::vector<std::int64_t>& list, std::size_t i, std::size_t width) {
    if (list.size() != width && list.size() != count * width) n.node.refuse(detail::join("it has ", count, " numbers"));
    return list.size() == width ? i % width : i;
  };
  std::vector<std::int64_t> places;
  std::uint64_t most_steps = std::uint64_t{1} << 30;  // of the cipher: of few places, most numbers are none
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[of(indices, i, 1)], last = lasts[of(lasts, i, 1)];
    if (index < 0 || index > last) n.node.refuse(detail::join("the index ", index, " is not up to ", last));
    const std::uint64_t steps = (std::uint64_t{1} << 16) / (static_cast<std::uint64_t>(last) + 1) + 4;
    if (steps > most_steps) n.node.refuse(detail::join("it has ", count, " indices of too few places"));
    most_steps -= steps;
    std::array<std::uint32_t, 3> key{};
    for (std::size_t k = 0; k < 3; ++k) key[k] = static_cast<std::uint32_t>(seeds[of(seeds, 3 * i + k, 3)]);
    places.push_back(static_cast<std::int64_t>(place_of(
        static_cast<std::uint64_t>(index), static_cast<std::uint64_t>(last), key, static_cast<std::size_t>(rounds))));
  }
  const bool is_one = n.node.constant(0).rank() == 0 && n.node.constant(2).rank() == 0 && seed.rank() == 1;
  const Tensor all = vector_of(places, n.node.constant(0).dtype());
  return {constant_node(is_one ? reshape(all, {}) : all, n.name(), n.where)};
}

Tensors read_gamma(const ForeignNode& n) {
  const bool is_seed = n.node.def().op.ends_with("V2");
  const std::size_t last = n.inputs.size() - 1;
  const Generator start = generator_of(n, 1, is_seed);
  const std::vector<double> alpha = reals(n, last);
  return drawn(n, n.node.constant(last).shape(),
               [&](std::size_t k, std::uint64_t place) { return draw_gamma(start.after(stretch * place), alpha[k]); });
}

Tensors read_poisson(const ForeignNode& n) {
  const Generator start = generator_of(n, 1, true);
  const std::vector<double> rate = reals(n, 2);
  return drawn(n, n.node.constant(2).shape(),
               [&](std::size_t k, std::uint64_t place) { return draw_poisson(start.after(stretch * place), rate[k]); });
}

Tensors read_binomial(const ForeignNode& n) {
  const std::size_t first = n.inputs.size() - 2;
  const Generator start = generator_of(n, 1, first == 2);
  const bool is_double = n.node.constant(first).dtype() == float64;
  const Shape shape = broadcast_shapes(n.node.constant(first).shape(), n.node.constant(first + 1).shape());
  const std::vector<double> counts = parameters(n, first, shape), probabilities = parameters(n, first + 1, shape);
  return drawn(n, shape, [&](std::size_t k, std::uint64_t place) {
    if (is_double) return draw_binomial(start, place, counts[k], probabilities[k]);
    return draw_binomial(start, place, static_cast<float>(counts[k]), static_cast<float>(probabilities[k]));
  });
}

/// The classes in which uniform numbers fall, where each has a part of the line.
Tensors read_multinomial(const ForeignNode& n) {
  const Tensor logits = n.node.constant(0);
  const std::int64_t samples = n.number(1);
  if (logits.rank() != 2 || logits.shape().sizes()[1] < 1) n.node.refuse("its logits are no matrix");
  const std::int64_t rows = logits.shape().sizes()[0], classes = logits.shape().sizes()[1];
  if (samples < 0 || product(rows, samples) > most_numbers)
    n.node.refuse(detail::join("it draws ", samples, " samples"));
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("output_dtype", code_of(int64)));
  if (dtype != int32 && dtype != int64) lack(n, "type");
  Generator generator = generator_of(n, 2, true);
  const std::vector<double> values = reals(n, 0);
  std::vector<std::int64_t> found;
  std::vector<double> ends(static_cast<std::size_t>(classes));
  std::size_t used = 4;
  Block block{};
  const auto word = [&] {
    if (used == 4) block = generator.next();
    used %= 4;
    return block.words[used++];
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* logit = values.data() + row * classes;
    double most = std::numeric_limits<double>::lowest(), total = 0;
    for (std::int64_t k = 0; k < classes; ++k)
      if (std::isfinite(logit[k])) most = std::max(most, logit[k]);
    for (std::int64_t k = 0; k < classes; ++k)
      ends[static_cast<std::size_t>(k)] = total += std::isfinite(logit[k]) ? std::exp(logit[k] - most) : 0;
    for (std::int64_t i = 0; i < samples; ++i) {
      const Word first = word(), second = word();
      found.push_back(std::upper_bound(ends.begin(), ends.end(), unit_double(first, second) * total) - ends.begin());
    }
  }
  return {constant_node(reshape(vector_of(found, dtype), {rows, samples}), n.name(), n.where)};
}

/// Each element changes places with one that does not stand before it.
Tensors read_stateless_shuffle(const ForeignNode& n) {
  if (n.in(0).rank() == 0) return {identity(n.in(0), n.name())};
  const std::int64_t size = n.in(0).shape().sizes()[0];
  if (size > most_numbers) n.node.refuse(detail::join("it has ", size, " elements"));
  Generator generator = generator_of(n, 1, false);
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  Block block{};
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    if (i % 4 == 0) block = generator.next();
    std::swap(order[i], order[i + block.words[i % 4] % (order.size() - i)]);
  }
  return n.composed([&] { return gather(n.in(0), vector_of(order, int64)); });
}

bool lacks_rows(const NodeReader&, const Tensors& inputs) {
  const Shape& shape = inputs[0].shape();
  return !shape.has_rank() || (shape.rank() > 0 && shape.sizes()[0] < 0);
}

}  // namespace

ForeignOps foreign_distributions() {
  ForeignOps ops{{.name = "StatelessShuffle",
                  .inputs = 4,
                  .values = {1, 2, 3},
                  .lacks_sizes = lacks_rows,
                  .outputs = {like(0)},
                  .read = read_stateless_shuffle}};
  const auto add = [&](std::string_view name, int inputs, std::string_view type, DType otherwise,
                       Tensors (*read)(const ForeignNode&)) {
    ops.push_back({.name = name,
                   .inputs = inputs,
                   .all_values = true,
                   .outputs = {told_by(type, otherwise)},
                   .takes_reals = true,
                   .read = read});
  };
  add("StatelessRandomGammaV2", 3, "dtype", float32, read_gamma);
  add("StatelessRandomGammaV3", 5, "dtype", float32, read_gamma);
  add("StatelessRandomPoisson", 3, "dtype", float32, read_poisson);
  add("StatelessRandomBinomial", 4, "dtype", int64, read_binomial);
  add(binomial_of_generator, 6, "dtype", int64, read_binomial);
  add("StatelessParameterizedTruncatedNormal", 6, "dtype", float32, read_bounded);
  add("RandomIndexShuffle", 3, "dtype", int64, read_index_shuffle);
  add("StatelessMultinomial", 3, "output_dtype", int64, read_multinomial);
  return ops;
}

}  // namespace tapestry::io
