#include "tapestry/nn/init.hpp"

#include <cmath>

#include "dispatch/recorder.hpp"
#include "nn/initial.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"

namespace tapestry::nn::init {
namespace {

struct Fans {
  double in, out;
};

template <class Options>
void check(const Options& options, Where where) {
  if (!(options.gain >= 0 && std::isfinite(options.gain)))
    throw InvalidArgumentError(detail::join("gain must be a finite number >= 0, but is ", options.gain), where);
  if (!is_floating(options.dtype))
    throw InvalidArgumentError(detail::join("A weight is of a float type, not ", to_string(options.dtype)), where);
}

Fans fans_of(const Shape& shape, Where where) {
  if (shape.rank() < 2 || !shape.is_known())
    throw InvalidArgumentError(
        detail::join("A weight has at least two dimensions, [out, in, ...]; this one has the shape ", shape), where);
  double window = 1;
  for (int i = 2; i < shape.rank(); ++i) window *= static_cast<double>(shape[i]);
  return {static_cast<double>(shape[1]) * window, static_cast<double>(shape[0]) * window};
}

double fan_of(const Shape& shape, Fan fan, Where where) {
  const Fans fans = fans_of(shape, where);
  return fan == Fan::in ? fans.in : fans.out;
}

}  // namespace

Tensor xavier_uniform(const Shape& shape, const XavierOptions& options, Where where) {
  check(options, where);
  const Fans fans = fans_of(shape, where);
  return uniform_within(options.gain * std::sqrt(6 / (fans.in + fans.out)), shape, where, options.dtype);
}

Tensor xavier_normal(const Shape& shape, const XavierOptions& options, Where where) {
  check(options, where);
  const Fans fans = fans_of(shape, where);
  return normal_with(options.gain * std::sqrt(2 / (fans.in + fans.out)), shape, where, options.dtype);
}

Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options, Where where) {
  check(options, where);
  return uniform_within(options.gain * std::sqrt(3 / fan_of(shape, options.fan, where)), shape, where, options.dtype);
}

Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options, Where where) {
  check(options, where);
  return normal_with(options.gain / std::sqrt(fan_of(shape, options.fan, where)), shape, where, options.dtype);
}

Tensor orthogonal(const Shape& shape, const OrthogonalOptions& options, Where where) {
  check(options, where);
  fans_of(shape, where);
  const ExecuteNow now;
  const PauseRecording pause;
  const std::int64_t rows = shape[0], columns = shape[0] > 0 ? shape.size() / shape[0] : 0;
  // The nearest orthogonal matrix to one of independent normal numbers, which has no preferred direction.
  const Svd parts = svd(random::normal({rows, columns}, {.dtype = float64}));
  const Tensor nearest = matmul(parts.u, parts.v, {.transpose_b = true});
  return reshape(nearest * options.gain, shape).cast(options.dtype);
}

}  // namespace tapestry::nn::init
