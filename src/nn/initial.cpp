#include "nn/initial.hpp"

#include "dispatch/recorder.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/random.hpp"

namespace tapestry::nn {

Tensor uniform_within(double bound, const Shape& shape, DType dtype) {
  const ExecuteNow now;
  const PauseRecording pause;
  return random::uniform(shape, {.low = -bound, .high = bound, .dtype = dtype});
}

Tensor normal_with(double deviation, const Shape& shape, DType dtype) {
  const ExecuteNow now;
  const PauseRecording pause;
  return random::normal(shape, {.stddev = deviation, .dtype = dtype});
}

Tensor filled(double value, const Shape& shape) {
  const ExecuteNow now;
  const PauseRecording pause;
  return full(shape, value);
}

void require_positive(std::int64_t value, std::string_view layer, std::string_view what, Where where) {
  if (value < 1)
    throw InvalidArgumentError(detail::join(layer, ": ", what, " must be at least 1, but is ", value), where);
}

}  // namespace tapestry::nn
