#include "tapestry/train/clip.hpp"

#include <cmath>

#include "dispatch/recorder.hpp"
#include "ops/sparse.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"
#include "train/arguments.hpp"

namespace tapestry {
namespace {

/// The square root of a sum of squares. Its gradient at 0 is 0, not NaN: there the root is never taken.
Tensor root(const Tensor& sum) {
  const Tensor positive = greater(sum, 0.0);
  return tapestry::where(positive, sqrt(tapestry::where(positive, sum, 1.0)), sum);
}

/// A result of `widened(given)` in the type of `given`, if that is a half.
Tensor as_given(const Tensor& result, const Tensor& given) {
  return is_half(given.dtype()) ? result.cast(given.dtype()) : result;
}

void check_limit(double clip_norm, Where where) {
  train::require(clip_norm > 0 && std::isfinite(clip_norm), "clip_norm", clip_norm, "a positive, finite number", where);
}

Tensor norm_of(const Tensors& tensors) {
  Tensor sum;
  for (const Tensor& tensor : tensors) {
    if (!tensor) continue;
    const Tensor part = reduce_sum(square(widened(elements_of(tensor))));
    sum = sum ? add(sum, part) : part;
  }
  return sum ? root(sum) : zeros({});
}

}  // namespace

Tensor clip_by_norm(In x, double clip_norm) {
  check_limit(clip_norm, x.where());
  const CallSiteScope site(x.where());
  // The product comes before the division, as in TensorFlow. Infinite elements become NaN and the others 0.
  const Tensor divisor = maximum(root(reduce_sum(square(widened(elements_of(x))))), clip_norm);
  return map_rows(
      x, [&](const Tensor& each) { return as_given(divide(multiply(widened(each), clip_norm), divisor), each); });
}

Tensor global_norm(const InList& tensors) {
  const CallSiteScope site(tensors.where());
  return norm_of(tensors.tensors());
}

std::pair<std::vector<Tensor>, Tensor> clip_by_global_norm(const InList& tensors, double clip_norm) {
  check_limit(clip_norm, tensors.where());
  const CallSiteScope site(tensors.where());
  const Tensor norm = norm_of(tensors.tensors());
  // The difference is 0, but NaN where the norm is not finite. Its gradients are 0, and would take digits of the
  // others.
  const Tensor constant = stop_gradient(norm);
  const Tensor scale = add(divide(clip_norm, maximum(norm, clip_norm)), subtract(constant, constant));
  std::vector<Tensor> clipped;
  const auto scaled = [&](const Tensor& each) { return as_given(multiply(widened(each), scale), each); };
  for (const Tensor& tensor : tensors.tensors()) clipped.push_back(tensor ? map_rows(tensor, scaled) : Tensor());
  return {std::move(clipped), norm};
}

}  // namespace tapestry
