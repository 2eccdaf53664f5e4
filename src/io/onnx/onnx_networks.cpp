// Products, normalizations, losses, and what layers are made of.

#include <algorithm>
#include <cmath>

#include "io/onnx/onnx_ops.hpp"
#include "tapestry/random.hpp"

namespace tapestry::io {
namespace {

// ---- Products

Tensor times(const Tensor& x, double factor) { return factor == 1 ? x : factor * x; }

Tensors read_gemm(const OnnxCall& c) {
  const Tensor product = matmul(c[0], c[1], {c.flag("transA"), c.flag("transB")});
  const Tensor scaled = times(product, c.real("alpha", 1));
  return {c.has(2) ? scaled + times(c[2], c.real("beta", 1)) : scaled};
}
int rank_of_matrix(const OnnxCall&) { return 2; }

Tensors read_matmul(const OnnxCall& c) { return {matmul(c[0], c[1])}; }

Tensors read_einsum(const OnnxCall& c) {
  std::string equation = c.text("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < c.places(); ++i) operands.push_back(c[i]);
  return {einsum(equation, InList(operands))};
}

// ---- Softmax

/// Before version 13, a softmax goes over all axes from `axis` on, as if they were one.
Ints axes_of_softmax(const OnnxCall& c) {
  if (c.version() >= 13) return {c.axis("axis", -1)};
  const std::int64_t axis = c.whole("axis", 1);
  if (axis == c.rank() || c.rank() == 0) return {};
  return onnx_range(c.axis(axis), c.rank());
}

Tensors read_log_softmax(const OnnxCall& c) {
  const Ints axes = axes_of_softmax(c);
  if (axes.size() == 1) return {log_softmax(c[0], axes[0])};
  if (axes.empty()) return {zeros_like(c[0])};
  return {c[0] - reduce_logsumexp(c[0], axes, {.keep_dims = true})};
}
Tensors read_softmax(const OnnxCall& c) {
  const Ints axes = axes_of_softmax(c);
  if (axes.size() == 1) return {softmax(c[0], axes[0])};
  return {exp(read_log_softmax(c)[0])};
}

/// Ones at the first of the largest elements along an axis.
Tensors read_hardmax(const OnnxCall& c) {
  const Ints axes = axes_of_softmax(c);
  const Tensor& x = c[0];
  Shape rows;
  for (int i = 0; i + static_cast<int>(axes.size()) < c.rank(); ++i) rows.push_back(c.size(i));
  rows.push_back(-1);
  const Tensor flat = axes.size() == 1 ? x : reshape(x, rows);
  const auto axis = static_cast<int>(axes.size() == 1 ? axes[0] : flat.shape().rank() - 1);
  const Tensor places = cumsum(ones_like(flat).cast(int64), axis, {.exclusive = true});
  const Tensor ones = equal(places, expand_dims(argmax(flat, axis), axis)).cast(x.dtype());
  return {axes.size() == 1 ? ones : reshape_like(ones, x)};
}
bool hardmax_lacks(const OnnxCall& c) { return c.version() >= 13 ? onnx_lacks_rank(c) : onnx_lacks_sizes(c); }

// ---- Normalization

/// A vector of the channels, to be combined with an image.
Tensor for_channels(const OnnxCall& c, const Tensor& vector) {
  return c.rank() > 2 ? expand_dims(vector, onnx_range(1, c.rank() - 1)) : vector;
}

Tensors read_batch_norm(const OnnxCall& c) {
  const Tensor& x = c[0];
  if (c.rank() < 2) c.refuse(detail::join("its input has the shape ", x.shape()));
  if (c.version() < 9 && !c.flag("spatial", true)) c.lack("its 'spatial' of 0");
  const double epsilon = c.real("epsilon", 1e-5), momentum = c.real("momentum", 0.9);
  const bool trains = c.version() >= 14  ? c.flag("training_mode")
                      : c.version() >= 7 ? c.outputs() > 1
                                         : !c.flag("is_test");
  const Tensor scale = for_channels(c, c[1]), offset = for_channels(c, c[2]);
  if (!trains) return {batch_norm(x, for_channels(c, c[3]), for_channels(c, c[4]), offset, scale, epsilon)};
  Ints axes{0};
  for (int i = 2; i < c.rank(); ++i) axes.push_back(i);
  const auto [mean, variance] = moments(x, axes);
  const auto running = [&](const Tensor& before, const Tensor& now) {
    return momentum * before + (1 - momentum) * now.cast(before.dtype());
  };
  Tensors results{batch_norm(x, for_channels(c, mean), for_channels(c, variance), offset, scale, epsilon),
                  running(c[3], mean), running(c[4], variance)};
  if (c.version() < 14)
    for (const Tensor& each : {mean, variance}) results.push_back(each);  // those of the batch
  return results;
}

Tensors read_instance_norm(const OnnxCall& c) {
  if (c.rank() < 3) c.refuse(detail::join("its input has the shape ", c.shape()));
  const auto [mean, variance] = moments(c[0], onnx_range(2, c.rank()), {.keep_dims = true});
  return {batch_norm(c[0], mean, variance, for_channels(c, c[2]), for_channels(c, c[1]), c.real("epsilon", 1e-5))};
}

/// Normalizes over all axes from `axis` on. The parameters are broadcast to these axes.
Tensors read_layer_norm(const OnnxCall& c) {
  const Tensor& x = c[0];
  const int axis = c.axis("axis", -1);
  const double epsilon = c.real("epsilon", 1e-5);
  const bool is_last = axis == c.rank() - 1 && c.outputs() == 1 && c.rank(1) == 1 && c.has(2) && c.rank(2) == 1;
  if (is_last && x.dtype() == c.dtype(1)) return {layer_norm(x, c[1], c[2], {epsilon})};
  const Tensor wide = is_half(x.dtype()) ? x.cast(float32) : x;
  const auto [mean, variance] = moments(wide, onnx_range(axis, c.rank()), {.keep_dims = true});
  const Tensor inverse = rsqrt(variance + epsilon);
  Tensor y = ((wide - mean) * inverse).cast(x.dtype()) * c[1];
  if (c.has(2)) y = y + c[2];
  return {y, mean, inverse};
}

Tensors read_simplified_layer_norm(const OnnxCall& c) {
  const Tensor& x = c[0];
  const Tensor wide = is_half(x.dtype()) ? x.cast(float32) : x;
  const Ints axes = onnx_range(c.axis("axis", -1), c.rank());
  const Tensor inverse = rsqrt(reduce_mean(square(wide), axes, {.keep_dims = true}) + c.real("epsilon", 1e-5));
  return {(wide * inverse).cast(x.dtype()) * c[1], inverse};
}

/// Before version 21, each group of channels has one pair of parameters; since then, each channel has one.
Tensors read_group_norm(const OnnxCall& c) {
  const Tensor& x = c[0];
  const std::int64_t groups = c.whole("num_groups"), channels = c.size(1);
  if (c.rank() < 2 || groups < 1 || channels % groups != 0)
    c.refuse(detail::join("it has ", groups, " groups for ", x.shape()));
  Shape cut{-1, groups, channels / groups};
  for (int i = 2; i < c.rank(); ++i) cut.push_back(c.size(i));
  const Tensor parts = reshape(x, cut);
  const auto [mean, variance] = moments(parts, onnx_range(2, cut.rank()), {.keep_dims = true});
  const Tensor normal = (parts - mean) * rsqrt(variance + c.real("epsilon", 1e-5));
  if (c.version() < 21) {
    const Ints behind = onnx_range(1, cut.rank() - 1);
    return {reshape_like(normal * expand_dims(c[1], behind) + expand_dims(c[2], behind), x)};
  }
  return {reshape_like(normal, x) * for_channels(c, c[1]) + for_channels(c, c[2])};
}

Tensors read_lp_norm(const OnnxCall& c) {
  const int axis = c.axis("axis", -1);
  const std::int64_t p = c.whole("p", 2);
  if (p != 1 && p != 2) c.refuse(detail::join("its p is ", p));
  const Tensor size = p == 1 ? reduce_sum(abs(c[0]), axis, {.keep_dims = true})
                             : sqrt(reduce_sum(square(c[0]), axis, {.keep_dims = true}));
  return {divide_no_nan(c[0], size)};
}

Tensors read_mean_variance(const OnnxCall& c) {
  const auto [mean, variance] = moments(c[0], Axes(c.ints("axes", {0, 2, 3})), {.keep_dims = true});
  return {(c[0] - mean) / (sqrt(variance) + 1e-9)};
}

// ---- Losses

/// The classes are ONNX's second axis. Examples of the ignored class have the weight 0.
Tensors read_nll(const OnnxCall& c, const Tensor& log_probabilities) {
  const Tensor labels = c[1].cast(int64);
  const bool ignores = c.has_attr("ignore_index");
  const Tensor ignored = ignores ? equal(labels, c.whole("ignore_index")) : Tensor();
  const Tensor used = ignores ? where(ignored, 0, labels) : labels;
  const Tensor picked = squeeze(take_along_axis(log_probabilities, expand_dims(used, 1), 1), 1);
  Tensor weight = c.has(2) ? gather(c[2], used) : ones_like(picked);
  if (ignores) weight = where(ignored, 0, weight);
  const Tensor loss = negative(picked) * weight;
  const std::string reduction = c.text("reduction", "mean");
  if (reduction == "none") return {loss};
  const Tensor sum = reduce_sum(loss);
  if (reduction == "sum") return {sum};
  if (reduction != "mean") c.refuse(detail::join("its reduction is '", reduction, "'"));
  return {sum / reduce_sum(weight)};
}
Tensors read_nll_loss(const OnnxCall& c) { return read_nll(c, c[0]); }
Tensors read_cross_entropy(const OnnxCall& c) {
  const Tensor log_probabilities = log_softmax(c[0], 1);
  Tensors results = read_nll(c, log_probabilities);
  results.push_back(log_probabilities);
  return results;
}

// ---- Randomness

bool trains_by_dropout(const OnnxCall& c) {
  if (c.version() >= 12) return c.has(2) && c.value(2).size() == 1 && c.value(2).cast(boolean).item<bool>();
  return c.version() < 7 && !c.flag("is_test");
}

Tensors read_dropout(const OnnxCall& c) {
  const double ratio = c.version() >= 12 && c.has(1) ? c.real(1) : c.real("ratio", 0.5);
  if (!trains_by_dropout(c) || ratio == 0) return {c[0], ones_like(c[0]).cast(boolean)};
  if (!(ratio > 0 && ratio < 1)) c.refuse(detail::join("its ratio is ", ratio));
  const Tensor mask = dropout(ones_like(c[0]), ratio);
  return {c[0] * mask, not_equal(mask, 0)};
}
std::vector<DType> types_of_dropout(const OnnxCall& c) { return {c.dtype(), boolean}; }

DType type_of_random(const OnnxCall& c) {
  if (c.has_attr("dtype")) return c.type("dtype");
  return c.places() > 0 ? c.dtype() : float32;
}
std::vector<DType> types_of_random(const OnnxCall& c) { return {type_of_random(c)}; }

/// A tensor of numbers is drawn in the shape of an input, of which the sizes need not be known, or in one that is told.
template <class Draw, class DrawLike>
Tensors read_random(const OnnxCall& c, Draw draw, DrawLike draw_like) {
  const DType dtype = type_of_random(c);
  if (c.places() > 0) return {draw_like(is_floating(c.dtype()) ? c[0] : c[0].cast(dtype), dtype)};
  const Shape shape(c.ints("shape"));
  if (!shape.is_known()) c.refuse(detail::join("its shape is ", shape));
  return {draw(shape, dtype)};
}
Tensors read_random_normal(const OnnxCall& c) {
  const double mean = c.real("mean", 0), scale = c.real("scale", 1);
  return read_random(
      c,
      [&](const Shape& shape, DType dtype) {
        return random::normal(shape, {mean, scale, dtype});
      },
      [&](const Tensor& x, DType dtype) {
        return random::normal_like(x, {mean, scale}).cast(dtype);
      });
}
Tensors read_random_uniform(const OnnxCall& c) {
  const double low = c.real("low", 0), high = c.real("high", 1);
  return read_random(
      c,
      [&](const Shape& shape, DType dtype) {
        return random::uniform(shape, {low, high, dtype});
      },
      [&](const Tensor& x, DType dtype) {
        return random::uniform_like(x, {low, high}).cast(dtype);
      });
}
Tensors read_bernoulli(const OnnxCall& c) { return {less(random::uniform_like(c[0]), c[0]).cast(type_of_random(c))}; }
Tensors read_multinomial(const OnnxCall& c) {
  const std::int64_t samples = c.whole("sample_size", 1);
  if (samples > most_numbers) c.refuse(detail::join("it has ", samples, " samples"));
  const Tensor drawn = random::categorical(c[0], samples);
  return {drawn.cast(c.has_attr("dtype") ? c.type("dtype") : int32)};
}
std::vector<DType> types_of_multinomial(const OnnxCall& c) { return {c.has_attr("dtype") ? c.type("dtype") : int32}; }
Tensors read_determinant(const OnnxCall& c) { return {det(c[0])}; }

}  // namespace

OnnxOps onnx_networks() {
  constexpr auto lacks = onnx_lacks_rank;
  constexpr auto ranks = onnx_lacks_ranks;
  constexpr auto same_rank = onnx_rank_of_input;
  return {
      {"BatchNormalization", 5, 5, read_batch_norm, {}, lacks, nullptr, same_rank, {3, 4}},
      {"Bernoulli", 1, 1, read_bernoulli, {}, nullptr, types_of_random, same_rank},
      {"Det", 1, 1, read_determinant, {}, lacks},
      {"Dropout", 1, 3, read_dropout, {1, 2}, nullptr, types_of_dropout, same_rank},
      {"Einsum", 1, any_inputs, read_einsum, {}, ranks},
      {"Gemm", 2, 3, read_gemm, {}, ranks, nullptr, rank_of_matrix},
      {"GroupNormalization", 3, 3, read_group_norm, {}, onnx_lacks_plane, nullptr, same_rank},
      {"Hardmax", 1, 1, read_hardmax, {}, hardmax_lacks, nullptr, same_rank},
      {"InstanceNormalization", 3, 3, read_instance_norm, {}, lacks, nullptr, same_rank},
      {"LayerNormalization", 2, 3, read_layer_norm, {}, ranks, nullptr, same_rank},
      {"LogSoftmax", 1, 1, read_log_softmax, {}, lacks, nullptr, same_rank},
      {"LpNormalization", 1, 1, read_lp_norm, {}, lacks, nullptr, same_rank},
      {"MatMul", 2, 2, read_matmul, {}, ranks},
      {"MeanVarianceNormalization", 1, 1, read_mean_variance, {}, lacks, nullptr, same_rank},
      {"Multinomial", 1, 1, read_multinomial, {}, lacks, types_of_multinomial, same_rank},
      {"NegativeLogLikelihoodLoss", 2, 3, read_nll_loss, {}, ranks},
      {"RMSNormalization", 2, 2, read_simplified_layer_norm, {}, ranks, nullptr, same_rank},
      {"RandomNormal", 0, 0, read_random_normal, {}, nullptr, types_of_random},
      {"RandomNormalLike", 1, 1, read_random_normal, {}, nullptr, types_of_random, same_rank},
      {"RandomUniform", 0, 0, read_random_uniform, {}, nullptr, types_of_random},
      {"RandomUniformLike", 1, 1, read_random_uniform, {}, nullptr, types_of_random, same_rank},
      {"SimplifiedLayerNormalization", 2, 2, read_simplified_layer_norm, {}, ranks, nullptr, same_rank},
      {"Softmax", 1, 1, read_softmax, {}, lacks, nullptr, same_rank},
      {"SoftmaxCrossEntropyLoss", 2, 3, read_cross_entropy, {}, ranks},
  };
}

}  // namespace tapestry::io
