#include "tapestry/nn/positions.hpp"

#include <cmath>

#include "dispatch/recorder.hpp"
#include "nn/features.hpp"
#include "nn/initial.hpp"
#include "nn/positions.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

Tensor initial_positions(std::int64_t count, std::int64_t features, Where where) {
  require_positive(count, "PositionEmbedding", "count", where);
  require_positive(features, "PositionEmbedding", "features", where);
  return normal_with(0.02, Shape({count, features}, where), where);
}

void require_sequence(const Tensor& x, std::string_view what, Where where) {
  if (x.rank() != 3)
    throw InvalidArgumentError(
        detail::join(what, what.empty() ? "" : ": ", "x must be [batch, time, features], but its shape is ", x.shape()),
        where);
}

/// 0, 1, ... along the time axis of x, int64 [time].
Tensor times(const Tensor& x) { return positions_along(x, 1) - 1; }

}  // namespace

Tensor positions_along(const Tensor& x, int axis) {
  return cumsum(ones({x.shape()[axis]}, {.dtype = int64, .device = x.device()}));
}

PositionEmbedding::PositionEmbedding(std::int64_t count, std::int64_t features, Where where)
    : weight(initial_positions(count, features, where), "weight") {}

std::string PositionEmbedding::size_text() const { return detail::join(weight.shape()[0], ", ", weight.shape()[1]); }

Tensor PositionEmbedding::forward(const Tensor& x) const {
  const Where site = CallSiteScope::current();
  require_sequence(x, {}, site);
  const std::int64_t count = weight.shape()[0], features = weight.shape()[1], time = x.shape().sizes()[1];
  const Tensor fitting = with_features(x, features, "batch, time");
  if (time > count)
    throw InvalidArgumentError(detail::join("there are ", count, " positions, and the shape is ", x.shape()), site);
  return fitting + embedding_lookup(weight, times(x));
}

Tensor SinusoidalPositions::forward(const Tensor& x) const {
  const Where site = CallSiteScope::current();
  require_sequence(x, {}, site);
  const std::int64_t features = x.shape().sizes()[2];
  if (features < 0 || features % 2 != 0)
    throw InvalidArgumentError(
        detail::join("the number of features must be known and even, but the shape is ", x.shape()), site);
  std::vector<double> rates;
  for (std::int64_t i = 0; i < features; i += 2)
    rates.push_back(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(features)));
  const Tensor angles = expand_dims(times(x).cast(float64), 1) * tensor(rates);  // [time, features / 2]
  const Tensor pairs = stack({sin(angles), cos(angles)}, 2);
  return x + reshape(pairs, {-1, features}).cast(x.dtype());
}

Tensor causal_mask(In x) {
  const CallSiteScope site(x.where());
  require_sequence(x, "causal_mask", x.where());
  const Tensor time = times(x);
  return less_equal(expand_dims(time, 0), expand_dims(time, 1));
}

Tensor padding_mask(In lengths, In x) {
  const CallSiteScope site(lengths.where());
  require_sequence(x, "padding_mask", lengths.where());
  if ((lengths->dtype() != int32 && lengths->dtype() != int64) || lengths->rank() != 1)
    throw InvalidArgumentError(detail::join("padding_mask: lengths must be int32 or int64 [batch], but are ",
                                            to_string(lengths->dtype()), lengths->shape()),
                               lengths.where());
  const Tensor ends = expand_dims(lengths->cast(int64), {1, 2, 3});
  return less(times(x), ends);
}

}  // namespace tapestry::nn
