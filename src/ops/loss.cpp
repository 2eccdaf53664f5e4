#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/checked_like.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(loss)

namespace tapestry {
namespace {

// Both cross-entropies on logits have, as in TensorFlow, a second output: the gradient of the loss with respect to the
// logits, which the forward pass gets almost for free.

Shape without_last(const Shape& shape) { return Shape(std::span(shape.sizes().begin(), shape.sizes().end() - 1)); }

bool shapes_agree(const Shape& a, const Shape& b) { return std::ranges::equal(a.sizes(), b.sizes(), sizes_agree); }

Tensor temporary(const Tensor& like) { return detail::make_tensor(like.dtype(), like.shape(), like.device()); }

void softmax_cross_entropy_forward(Backend& backend, const Call& call) {
  const Tensor &logits = call.input(0), &labels = call.input(1), &backprop = call.output(1);
  const Tensor log_p = temporary(backprop), minus_labels = temporary(backprop), products = temporary(backprop);
  backend.softmax(logits, true, log_p);
  backend.unary(Unary::negative, labels, 0, minus_labels);
  backend.softmax_grad(log_p, minus_labels, true, backprop);
  backend.binary(Binary::multiply, minus_labels, log_p, 0, products);
  backend.reduce(ReduceFunction::sum, products, 1U << (logits.rank() - 1), call.output(0));
}

TAPESTRY_OP(softmax_cross_entropy_op){{
    .name = "SoftmaxCrossEntropyWithLogits",
    .infer = [](const Call& call) -> Specs {
      const Tensor &logits = call.input(0), &labels = call.input(1);
      require_type(logits, float_types);
      require_rank_at_least(logits, 1);
      if (!shapes_agree(logits.shape(), labels.shape()))
        throw InvalidArgumentError(detail::join("logits and labels must have the same shape: logits_size=",
                                                logits.shape(), " labels_size=", labels.shape()));
      return {{logits.dtype(), without_last(logits.shape())}, logits.spec()};
    },
    .forward = softmax_cross_entropy_forward,
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      const Tensor &logits = call.input(0), &labels = call.input(1), &backprop = call.output(1);
      constexpr ReduceOptions keep{.keep_dims = true};
      const auto of_logits = [&] {
        Tensor sum;
        if (g[0]) sum = expand_dims(g[0], -1) * backprop;
        if (g[1]) {  // through backprop = p * sum(labels) - labels
          const Tensor p = softmax(logits), weighted = g[1] * p * reduce_sum(labels, -1, keep);
          const Tensor part = weighted - p * reduce_sum(weighted, -1, keep);
          sum = sum ? sum + part : part;
        }
        return sum;
      };
      const auto of_labels = [&] {
        Tensor sum;
        if (g[0]) sum = -(expand_dims(g[0], -1) * log_softmax(logits));
        if (g[1]) {
          const Tensor part = reduce_sum(g[1] * softmax(logits), -1, keep) - g[1];
          sum = sum ? sum + part : part;
        }
        return sum;
      };
      return wanted(call, of_logits, of_labels);
    },
    .promotion = floating_type,
    .needs = Needs{3, 2},
    .precision = Precision::full,
    .outputs = 2,
    .batch = batch_in_front,
}};

/// Checks the type of the labels. TensorFlow's text names an attribute; the text behind it says which argument is
/// meant, and what it should be.
void require_classes(const Tensor& labels, const Tensor& logits) {
  try {
    require_type(labels, index_types, "Tlabels");
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(detail::join(error.message(), ". The labels are ", to_string(labels.dtype()),
                                            labels.shape(), "; they must be the numbers of classes, int32 or int64 ",
                                            without_last(logits.shape())));
  }
}

/// One-hot labels in the shape and dtype of `like`, whose last axis is the classes.
Tensor one_hot_like(const Tensor& labels, const Tensor& like) {
  const Tensor classes = cumsum(ones_like(like).cast(labels.dtype()), -1, {.exclusive = true});
  return equal(expand_dims(labels, -1), classes).cast(like.dtype());
}

TAPESTRY_OP(sparse_softmax_cross_entropy_op){{
    .name = "SparseSoftmaxCrossEntropyWithLogits",
    .infer = [](const Call& call) -> Specs {
      const Tensor &logits = call.input(0), &labels = call.input(1);
      require_type(logits, float_types);
      require_rank_at_least(logits, 1);
      require_classes(labels, logits);
      if (!shapes_agree(without_last(logits.shape()), labels.shape()))
        throw InvalidArgumentError(
            detail::join("logits and labels must have the same first dimension, got logits shape ", logits.shape(),
                         " and labels shape ", labels.shape()));
      return {{logits.dtype(), without_last(logits.shape())}, logits.spec()};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.sparse_softmax_cross_entropy(call.input(0), call.input(1), call.output(0), call.output(1));
        },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      const Tensor& backprop = call.output(1);
      Tensor sum;
      if (g[0]) sum = expand_dims(g[0], -1) * backprop;
      if (g[1]) {  // through backprop = p - one_hot(labels), so that the logits need not be kept
        const Tensor p = backprop + one_hot_like(call.input(1), backprop), weighted = g[1] * p;
        const Tensor part = weighted - p * reduce_sum(weighted, -1, {.keep_dims = true});
        sum = sum ? sum + part : part;
      }
      return {sum, Tensor()};
    },
    .needs = Needs{2, 2},
    .precision = Precision::full,
    .outputs = 2,
    .batch = batch_in_front,
}};

}  // namespace

Tensor softmax_cross_entropy(In labels, In logits, std::string_view name) {
  // This is checked before whole numbers become floats, so that the error names the dtype that was given.
  return blaming(softmax_cross_entropy_op.name, labels.where(), [&] {
    const DType dtype = labels->dtype();
    if (dtype != DType::unknown && !is_floating(dtype) && !shapes_agree(logits->shape(), labels->shape()))
      throw InvalidArgumentError(
          detail::join("The labels are ", to_string(dtype), labels->shape(),
                       "; they must be distributions, of a float type and in the shape of the logits, ",
                       logits->shape(), ". The numbers of classes are for sparse_softmax_cross_entropy"));
    return apply_all(softmax_cross_entropy_op, {logits.tensor(), labels.tensor()}, {}, name, labels.where())[0];
  });
}

Tensor sparse_softmax_cross_entropy(In labels, In logits, std::string_view name) {
  const std::string& type = sparse_softmax_cross_entropy_op.name;
  return blaming(type, labels.where(), [&] {
    return apply_all(sparse_softmax_cross_entropy_op, {as_floats(logits), labels.tensor()}, {}, name,
                     labels.where())[0];
  });
}

Tensor sigmoid_cross_entropy(In labels, In logits, std::string_view name) {
  return blaming("SigmoidCrossEntropyWithLogits", labels.where(), [&] {
    if (!shapes_agree(labels->shape(), logits->shape()))
      throw InvalidArgumentError(detail::join("`logits` and `labels` must have the same shape, received (",
                                              logits->shape(), " vs ", labels->shape(), ")"));
    const Tensor target = checked_like(labels, logits);
    // Two terms of one sign, both smooth: no digit cancels, and derivatives of any order are right everywhere.
    return add(target * softplus(-logits), (1.0 - target) * softplus(logits), name);
  });
}

}  // namespace tapestry
