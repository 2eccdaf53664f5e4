#include "nn/initial.hpp"

#include "dispatch/recorder.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/random.hpp"

namespace tapestry::nn {

Tensor uniform_within(double bound, const Shape& shape, Where where, DType dtype) {
  const CallSiteScope site(where);
  const ExecuteNow now;
  const PauseRecording pause;
  return random::uniform(shape, {.low = -bound, .high = bound, .dtype = dtype});
}

Tensor normal_with(double deviation, const Shape& shape, Where where, DType dtype) {
  const CallSiteScope site(where);
  const ExecuteNow now;
  const PauseRecording pause;
  return random::normal(shape, {.stddev = deviation, .dtype = dtype});
}

Tensor filled(double value, const Shape& shape, Where where) {
  const CallSiteScope site(where);
  const ExecuteNow now;
  const PauseRecording pause;
  return full(shape, value);
}

void require_positive(std::int64_t value, std::string_view layer, std::string_view what, Where where) {
  if (value < 1)
    throw InvalidArgumentError(detail::join(layer, ": ", what, " must be at least 1, but is ", value), where);
  // Multiples of it, such as those for the gates of a cell, fit 64 bits.
  constexpr std::int64_t most = std::int64_t{1} << 48;
  if (value > most)
    throw InvalidArgumentError(detail::join(layer, ": ", what, " must be at most ", most, ", but is ", value), where);
}

void require_rate(double value, std::string_view layer, std::string_view what, Where where) {
  if (!(value >= 0 && value < 1))
    throw InvalidArgumentError(detail::join(layer, ": ", what, " must be in [0, 1), but is ", value), where);
}

}  // namespace tapestry::nn
