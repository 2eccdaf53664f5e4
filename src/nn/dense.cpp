#include "tapestry/nn/dense.hpp"

#include <cmath>

#include "dispatch/recorder.hpp"
#include "nn/bias.hpp"
#include "nn/initial.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

/// The bound of the initial weights and biases, that of PyTorch's Linear: kaiming_uniform with a = sqrt(5).
double bound_of(std::int64_t in) { return 1 / std::sqrt(static_cast<double>(in)); }

Tensor initial_weight(std::int64_t in, std::int64_t out, Where where) {
  require_positive(in, "Dense", "in", where);
  require_positive(out, "Dense", "out", where);
  return uniform_within(bound_of(in), {out, in}, where);
}

}  // namespace

Dense::Dense(std::int64_t in, std::int64_t out, const DenseOptions& options, Where where)
    : weight(initial_weight(in, out, where), "weight") {
  if (options.bias) bias.emplace(uniform_within(bound_of(in), {out}, where), "bias");
}

Tensor Dense::forward(const Tensor& x) const { return with_bias(matmul(x, weight, {.transpose_b = true}), bias); }

std::string Dense::size_text() const { return detail::join(weight.shape()[1], ", ", weight.shape()[0]); }

Tensor Flatten::forward(const Tensor& x) const {
  if (x.rank() < 1) throw InvalidArgumentError("x must have a batch axis", {}, CallSiteScope::current());
  Ints channels_first{0, x.rank() - 1};
  for (int axis = 1; axis + 1 < x.rank(); ++axis) channels_first.push_back(axis);
  const Tensor ordered = options_.channels_first && x.rank() > 2 ? transpose(x, channels_first) : x;
  const std::int64_t width = Shape(x.shape().sizes().subspan(1)).num_elements();
  return reshape(ordered, width < 0 ? Shape{x.shape()[0], -1} : Shape{-1, width});
}

}  // namespace tapestry::nn
