#include "tapestry/random.hpp"

#include <mutex>
#include <random>

#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"

TAPESTRY_OP_FAMILY(random)

namespace tapestry::random {
namespace {

// ---- The stream --------------------------------------------------------------------------------------------------------

struct Stream {
  std::mutex mutex;
  State state;

  Stream() {
    std::random_device entropy;
    state.seed = std::uint64_t{entropy()} << 32 | entropy();
  }
};

/// Never destroyed: a static object's destructor may still draw.
Stream& stream() {
  static Stream& instance = *new Stream;
  return instance;
}

/// Reserves `count` numbers of the stream. Returns the position of the first.
State take(std::int64_t count) {
  const std::lock_guard lock(stream().mutex);
  const State first = stream().state;
  stream().state.offset += count;
  return first;
}

void draw(Backend& backend, Distribution f, double a, double b, const Tensor& y) {
  const State place = take(y.size());
  backend.random(f, place.seed, place.offset, a, b, y);
}

// ---- Ops ---------------------------------------------------------------------------------------------------------------

/// The least and the greatest bound that a uniform distribution may have in a dtype.
std::pair<double, double> bounds_of(DType dtype) {
  if (dtype == int32) return {-0x1p31, 0x1p31};
  if (dtype == int64) return {-0x1p53, 0x1p53};  // exact as a double, which the kernels take
  if (dtype == float16) return {-65504, 65504};
  // The distance between the bounds must be finite as well, in the type in which it is computed.
  const double most = dtype == float64 ? 0x1p1022 : 0x1p126;
  return {-most, most};
}

/// Throws InvalidArgumentError unless the distribution may have these two numbers. Some have only the first.
void check_distribution(Distribution f, DType dtype, double a, double b) {
  if (f == Distribution::bernoulli) {
    if (!(a >= 0 && a <= 1)) throw InvalidArgumentError(detail::join("A probability must be in [0, 1], but is ", a));
  } else if (f == Distribution::uniform) {
    if (!(a < b)) throw InvalidArgumentError(detail::join("Need minval < maxval, got ", a, " >= ", b));
    const auto [least, most] = bounds_of(dtype);
    if (a < least || b > most)
      throw InvalidArgumentError(
          detail::join("The bounds ", a, " and ", b, " are not within the range of ", to_string(dtype)));
  } else if (!(b >= 0)) {
    throw InvalidArgumentError(detail::join("stddev must be at least 0, but is ", b));
  }
}

/// Random ops take the shape and dtype of their result from attributes, or from the one input that they have.
Specs infer_random(const Call& call, TypeSet allowed) {
  const Spec spec =
      call.inputs().empty() ? Spec{call.attr<DType>("dtype"), call.attr<Shape>("shape")} : call.input(0).spec();
  require_type(spec.dtype, allowed, "dtype");
  return {spec};
}

double second_number(const Call& call, std::string_view attr) { return attr.empty() ? 0 : call.attr<double>(attr); }

/// Other numbers for each example.
Tensors draw_for_batch(const BatchedCall& call) {
  const Attrs& attrs = call.one().attrs();
  if (call.size() > 0) return call.apply(call.all(), attrs);
  const Shape shape = call.with_batch(attrs.get<Shape>("shape"));
  if (shape.is_known()) return call.apply({}, with_attr(attrs, "shape", shape));
  const Device* device = attrs.find<Device>("device");
  const Tensor like = zeros(shape, {attrs.get<DType>("dtype"), device ? *device : cpu()}, {}, call.one().where());
  std::vector<Attr> of_distribution;
  for (const Attr& each : attrs)
    if (std::holds_alternative<double>(each.value)) of_distribution.push_back(each);
  return call.apply({like}, Attrs(of_distribution));
}

/// A random op. `a` and `b` name the attributes of the distribution's two numbers; `b` may be empty.
template <Distribution f>
Op random_op(const char* name, TypeSet allowed, std::string_view a, std::string_view b) {
  std::vector<OpAttr> attrs{{"shape", AttrKind::shape, optional},
                            {"dtype", AttrKind::type, optional},
                            {"device", AttrKind::device, optional},
                            {a, AttrKind::real}};
  if (!b.empty()) attrs.emplace_back(b, AttrKind::real);
  return {
      .name = name,
      .attrs = std::move(attrs),
      .infer = [allowed, a, b](const Call& call) -> Specs {
        Specs specs = infer_random(call, allowed);
        check_distribution(f, specs[0].dtype, call.attr<double>(a), second_number(call, b));
        return specs;
      },
      .forward =
          [a, b](Backend& backend, const Call& call) {
            draw(backend, f, call.attr<double>(a), second_number(call, b), call.output());
          },
      .gradient = no_gradient,
      .shape_inputs = 1,
      .stateful = true,
      .batch = draw_for_batch,
  };
}

TAPESTRY_OP(normal_op)
(random_op<Distribution::normal>("RandomStandardNormal", float_types, "mean", "stddev"));
TAPESTRY_OP(truncated_normal_op)
(random_op<Distribution::truncated_normal>("TruncatedNormal", float_types, "mean", "stddev"));
TAPESTRY_OP(uniform_op)(random_op<Distribution::uniform>("RandomUniform", float_types, "minval", "maxval"));
TAPESTRY_OP(uniform_int_op)(random_op<Distribution::uniform>("RandomUniformInt", index_types, "minval", "maxval"));
TAPESTRY_OP(bernoulli_op)(random_op<Distribution::bernoulli>("RandomBernoulli", float_types, "probability", {}));

/// Sorts random keys. Two equal keys, among 2^53 possible ones, keep their order, which is too rare to matter.
TAPESTRY_OP(permutation_op){{
    .name = "RandomPermutation",
    .attrs = {{"n", AttrKind::number, optional}, {"device", AttrKind::device, optional}},
    .infer = [](const Call& call) -> Specs {
      if (call.inputs().empty()) return {{int64, {call.attr<std::int64_t>("n")}}};
      require_rank_at_least(call.input(0), 1);
      return {{int64, {call.input(0).shape().sizes()[0]}}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          const Tensor keys = detail::make_tensor(float64, y.shape(), y.device());
          const Tensor sorted = detail::make_tensor(float64, y.shape(), y.device());
          draw(backend, Distribution::uniform, 0, 1, keys);
          backend.top_k(keys, y.size(), false, sorted, y);
        },
    .gradient = no_gradient,
    .shape_inputs = 1,
    .stateful = true,
}};

Specs infer_multinomial(const Call& call) {
  const Tensor& logits = call.input(0);
  const auto samples = call.attr<std::int64_t>("num_samples");
  require_type(logits, float_types);
  if (logits.rank() != 2)
    throw InvalidArgumentError(detail::join("logits should be a matrix, got shape ", logits.shape()));
  if (logits.shape().sizes()[1] == 0) throw InvalidArgumentError("num_classes should be positive, got 0");
  if (samples < 0) throw InvalidArgumentError(detail::join("num_samples should be nonnegative, got ", samples));
  return {{int64, {logits.shape().sizes()[0], samples}}};
}

/// Inverts the distribution function: draws a number between 0 and the sum of the probabilities, and takes the first
/// class up to which the probabilities add up to more.
void draw_classes(Backend& backend, const Call& call) {
  const Tensor &logits = call.input(0), &y = call.output();
  const std::int64_t rows = y.shape().sizes()[0], samples = y.shape().sizes()[1], classes = logits.shape().sizes()[1];
  const auto make = [&](DType dtype, const Shape& shape) { return detail::make_tensor(dtype, shape, y.device()); };
  const Tensor exact = make(float64, logits.shape()), probabilities = make(float64, logits.shape());
  const Tensor sums = make(float64, logits.shape()), uniform = make(float64, y.shape()),
               height = make(float64, y.shape());
  backend.copy(logits, exact);
  backend.softmax(exact, false, probabilities);
  backend.scan(Scan::sum, probabilities, 1, false, false, sums);
  draw(backend, Distribution::uniform, 0, 1, uniform);
  // `height` is less than the last sum, which may differ from 1 by rounding: a uniform number is at most 1 - 2^-53.
  backend.binary(Binary::multiply, uniform, view_part(sums, 1, classes - 1, 1), 0, height);
  const Tensor above = make(boolean, {rows, samples, classes});
  backend.binary(Binary::greater, view_as(sums, {rows, 1, classes}), view_as(height, {rows, samples, 1}), 0, above);
  backend.arg_reduce(ArgReduce::max, above, 2, y);
}

TAPESTRY_OP(multinomial_op){{
    .name = "Multinomial",
    .attrs = {{"num_samples", AttrKind::number}},
    .infer = infer_multinomial,
    .forward = draw_classes,
    .gradient = no_gradient,
    .promotion = floating_type,
    .stateful = true,
    .batch = [](const BatchedCall& call) -> Tensors {
      const Tensor logits = call.all(0);
      const Shape& shape = logits.shape();
      const Tensor rows = reshape(logits, {-1, shape[2]});
      return {reshape(call.apply({rows}, call.one().attrs())[0],
                      {shape[0], shape[1], call.one().attr<std::int64_t>("num_samples")})};
    },
}};

/// Applies a random op with a result of this shape. `a` and `b` are the numbers of its distribution; `b` may be empty.
Tensor draw_of(const Op& op, const Shape& shape, DType dtype, Device device, const Attr& a, const Attr& b,
               std::string_view name, Where where) {
  const bool one = b.name.empty();
  if (shape.is_known()) {
    const Attr natural[]{{"shape", shape}, {"dtype", dtype}, {"device", device}, a, b};
    return apply_all(op, {}, Attrs(std::vector(std::begin(natural), std::end(natural) - one)), name, where)[0];
  }
  const Tensor like = fill_like(shape, 0, {dtype, device}, {}, {}, where);
  return apply_all(op, {like}, one ? Attrs{a} : Attrs{a, b}, name, where)[0];
}

Tensor any_normal(const Op& op, const Shape& shape, const NormalOptions& options, std::string_view name, Where where) {
  return draw_of(op, shape, options.dtype, options.device, {"mean", options.mean}, {"stddev", options.stddev}, name,
                 where);
}

Tensor any_uniform(const Op& op, const Shape& shape, const UniformOptions& options, std::string_view name,
                   Where where) {
  return draw_of(op, shape, options.dtype, options.device, {"minval", options.low}, {"maxval", options.high}, name,
                 where);
}

}  // namespace

void seed(std::uint64_t seed) { set_state({seed, 0}); }

State state() {
  const std::lock_guard lock(stream().mutex);
  return stream().state;
}

void set_state(const State& state) {
  const std::lock_guard lock(stream().mutex);
  stream().state = state;
}

Tensor normal(const Shape& shape, const NormalOptions& options, std::string_view name, Where where) {
  return any_normal(normal_op, shape, options, name, where);
}

Tensor truncated_normal(const Shape& shape, const NormalOptions& options, std::string_view name, Where where) {
  return any_normal(truncated_normal_op, shape, options, name, where);
}

Tensor uniform(const Shape& shape, const UniformOptions& options, std::string_view name, Where where) {
  return any_uniform(is_integer(options.dtype) ? uniform_int_op : uniform_op, shape, options, name, where);
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Device device,
               std::string_view name, Where where) {
  constexpr std::int64_t limit = std::int64_t{1} << 53;  // exact as a double, which the kernels take
  if (low < -limit || high > limit)
    throw InvalidArgumentError(detail::join("Bounds must be within 2^53, but are ", low, " and ", high),
                               uniform_int_op.name, where);
  const UniformOptions options{static_cast<double>(low), static_cast<double>(high), dtype, device};
  return any_uniform(uniform_int_op, shape, options, name, where);
}

Tensor bernoulli(const Shape& shape, double probability, const BernoulliOptions& options, std::string_view name,
                 Where where) {
  return draw_of(bernoulli_op, shape, options.dtype, options.device, {"probability", probability}, {}, name, where);
}

Tensor normal_like(In like, const NormalLikeOptions& options, std::string_view name) {
  return apply(normal_op, {std::move(like)}, {{"mean", options.mean}, {"stddev", options.stddev}}, name);
}

Tensor uniform_like(In like, const UniformLikeOptions& options, std::string_view name) {
  const Op& op = bool(like.tensor()) && is_integer(like->dtype()) ? uniform_int_op : uniform_op;
  return apply(op, {like}, {{"minval", options.low}, {"maxval", options.high}}, name);
}

Tensor bernoulli_like(In like, double probability, std::string_view name) {
  return apply(bernoulli_op, {std::move(like)}, {{"probability", probability}}, name);
}

Tensor categorical(In logits, std::int64_t num_samples, std::string_view name) {
  const Attrs attrs{{"num_samples", num_samples}};
  if (!logits.tensor() || !logits->shape().has_rank() || logits->rank() != 1)
    return apply(multinomial_op, {logits}, attrs, name);
  const CallSiteScope site(logits.where());
  return squeeze(apply(multinomial_op, {expand_dims(logits, 0)}, attrs), 0, name);
}

Tensor permutation(std::int64_t n, Device device, std::string_view name, Where where) {
  if (n < 0) throw InvalidArgumentError(detail::join("n must be at least 0, but is ", n), permutation_op.name, where);
  return apply_all(permutation_op, {}, {{"n", n}, {"device", device}}, name, where)[0];
}

Tensor shuffle(In x, std::string_view name) {
  const CallSiteScope site(x.where());
  return gather(x, apply(permutation_op, {x}), 0, name);
}

}  // namespace tapestry::random

namespace tapestry {

Tensor dropout(In x, double rate, std::string_view name) {
  return blaming("Dropout", x.where(), [&] {
    if (!(rate >= 0 && rate < 1))
      throw InvalidArgumentError(
          detail::join("`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate=", rate));
    const Tensor floats = as_floats(x);
    if (rate == 0) return named(floats, name);
    const Tensor kept = random::bernoulli_like(floats, 1 - rate);
    return multiply(floats, kept * (1 / (1 - rate)), name);
  });
}

}  // namespace tapestry
