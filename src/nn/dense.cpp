#include "tapestry/nn/dense.hpp"

#include <cmath>

#include "dispatch/recorder.hpp"
#include "nn/bias.hpp"
#include "nn/features.hpp"
#include "nn/initial.hpp"
#include "nn/layer_call.hpp"
#include "nn/names.hpp"
#include "ops/merged.hpp"
#include "tapestry/nn/activations.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

/// The bound of the initial weights and biases, that of PyTorch's Linear: kaiming_uniform with a = sqrt(5).
double bound_of(std::int64_t in) { return 1 / std::sqrt(static_cast<double>(in)); }

Tensor initial_weight(std::int64_t in, std::int64_t out, Where where) {
  require_positive(in, "Dense", "in", where);
  require_positive(out, "Dense", "out", where);
  return uniform_within(bound_of(in), Shape({out, in}, where), where);
}

Tensor initial_bilinear(std::int64_t first, std::int64_t second, std::int64_t out, Where where) {
  require_positive(first, "Bilinear", "first", where);
  require_positive(second, "Bilinear", "second", where);
  require_positive(out, "Bilinear", "out", where);
  return uniform_within(bound_of(first), Shape({out, first, second}, where), where);
}

Tensor initial_slopes(std::int64_t count, double initial, Where where) {
  require_positive(count, "PReLU", "count", where);
  return filled(initial, {count}, where);
}

}  // namespace

Dense::Dense(std::int64_t in, std::int64_t out, const DenseOptions& options, Where where)
    : weight(initial_weight(in, out, where), "weight") {
  if (options.bias) bias.emplace(uniform_within(bound_of(in), {out}, where), "bias");
}

Tensor Dense::forward(const Tensor& x) const { return with_bias(matmul(x, weight, {.transpose_b = true}), bias); }

std::string Dense::size_text() const { return detail::join(weight.shape()[1], ", ", weight.shape()[0]); }

Bilinear::Bilinear(std::int64_t first, std::int64_t second, std::int64_t out, const DenseOptions& options, Where where)
    : weight(initial_bilinear(first, second, out, where), "weight") {
  if (options.bias) bias.emplace(uniform_within(bound_of(first), {out}, where), "bias");
}

std::string Bilinear::size_text() const {
  const Shape& shape = weight.shape();
  return detail::join(shape[1], ", ", shape[2], ", ", shape[0]);
}

Tensor Bilinear::operator()(In a, In b) const {
  const LayerCall call(*this, a.where());
  return naming(*this, {a.tensor(), b.tensor()}, [&] {
    const Tensor x = with_features(a, weight.shape()[1]), y = with_features(b, weight.shape()[2]);
    return call.gives(with_bias(einsum("...i,oij,...j->...o", x, weight, y), bias));
  });
}

PReLU::PReLU(std::int64_t count, double initial, Where where)
    : weight(initial_slopes(count, initial, where), "weight") {}

std::string PReLU::size_text() const { return detail::join(weight.shape()[0]); }

Tensor PReLU::forward(const Tensor& x) const {
  const Tensor y = weight.shape()[0] == 1 ? x : with_features(x, weight.shape()[0]);
  return relu(y) - Tensor(weight) * relu(-y);
}

Tensor Flatten::forward(const Tensor& x) const {
  if (x.rank() < 1) throw InvalidArgumentError("x must have a batch axis", {}, CallSiteScope::current());
  Ints channels_first{0, x.rank() - 1};
  for (int axis = 1; axis + 1 < x.rank(); ++axis) channels_first.push_back(axis);
  const Tensor ordered = options_.channels_first && x.rank() > 2 ? transpose(x, channels_first) : x;
  const std::int64_t width = Shape(x.shape().sizes().subspan(1)).num_elements();
  if (width < 0) return merged(ordered, {1, x.rank() - 1});
  return reshape(ordered, width == 0 ? Shape{x.shape()[0], 0} : Shape{-1, width});
}

}  // namespace tapestry::nn
