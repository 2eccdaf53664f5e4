#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(softmax)

namespace tapestry {
namespace {

constexpr ReduceOptions keep_axis{.keep_dims = true};

Specs infer_softmax(const Call& call) {
  require_type(call.input(0), float_types);
  if (call.input(0).rank() < 1)
    throw InvalidArgumentError(detail::join("logits must have >= 1 dimension, got ", call.input(0).shape()));
  return {call.input(0).spec()};
}

template <bool logarithm>
void run_softmax(Backend& backend, const Call& call) {
  backend.softmax(call.input(0), logarithm, call.output());
}

/// dx from the output y and its gradient.
template <bool logarithm>
void run_softmax_grad(Backend& backend, const Call& call) {
  backend.softmax_grad(call.input(0), call.input(1), logarithm, call.output());
}

/// `infer` of an op on an output and its gradient, which have the same shape.
Specs infer_softmax_grad(const Call& call) {
  require_same_shape(call.input(1).shape(), call.input(0).shape());
  return same_shape_of<float_types>(call);
}

// dx = (g - sum(g * y)) * y
TAPESTRY_OP(softmax_grad_op){{
    .name = "SoftmaxGrad",
    .infer = infer_softmax_grad,
    .forward = run_softmax_grad<false>,
    .composition = [](const Call& call) -> Tensors {
      const Tensor &y = call.input(0), &g = call.input(1);
      return {(g - reduce_sum(g * y, -1, keep_axis)) * y};
    },
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      const Tensor &y = call.input(0), &g = call.input(1);
      return wanted(
          call, [&] { return u * (g - reduce_sum(g * y, -1, keep_axis)) - g * reduce_sum(u * y, -1, keep_axis); },
          [&] {
            return apply(call.op(), {y, u});
          });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .batch = batch_in_front,
}};

// dx = g - exp(y) * sum(g)
TAPESTRY_OP(log_softmax_grad_op){{
    .name = "LogSoftmaxGrad",
    .infer = infer_softmax_grad,
    .forward = run_softmax_grad<true>,
    .composition = [](const Call& call) -> Tensors {
      const Tensor &y = call.input(0), &g = call.input(1);
      return {g - exp(y) * reduce_sum(g, -1, keep_axis)};
    },
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      const Tensor p = exp(call.input(0));
      return wanted(
          call, [&] { return -(u * p * reduce_sum(call.input(1), -1, keep_axis)); },
          [&] { return u - reduce_sum(u * p, -1, keep_axis); });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .batch = batch_in_front,
}};

/// Throws where a rank decides along which axis it goes: the gradient waits for the rank, too.
void require_last_axis(const Call& call) {
  if (call.attrs().find("redo")) rank_of(call.input(0));
}

TAPESTRY_OP(softmax_op){{
    .name = "Softmax",
    .infer = infer_softmax,
    .forward = run_softmax<false>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      require_last_axis(call);
      return {apply(softmax_grad_op, {call.output(), g})};
    },
    .promotion = floating_type,
    .needs = needs_outputs,
    .precision = Precision::full,
    .batch = batch_in_front,
}};

TAPESTRY_OP(log_softmax_op){{
    .name = "LogSoftmax",
    .infer = infer_softmax,
    .forward = run_softmax<true>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      require_last_axis(call);
      return {apply(log_softmax_grad_op, {call.output(), g})};
    },
    .promotion = floating_type,
    .needs = needs_outputs,
    .precision = Precision::full,
    .batch = batch_in_front,
}};

/// Applies an op of the last axis along any axis.
Tensor along_axis(const Op& op, In x, std::int64_t axis, std::string_view name) {
  if (axis == -1) return apply(op, {std::move(x)}, {}, name);
  return blaming(op.name, x.where(), [&] {
    if (!x->shape().has_rank()) {
      const auto redo = [&op, axis](const Tensors& known) -> Tensors { return {along_axis(op, known[0], axis, {})}; };
      return apply(op, {x}, with_redo({}, redo), name);
    }
    const int rank = rank_of(x);
    if (rank == 0 || normalize_axis(axis, rank) == rank - 1) return apply(op, {x}, {}, name);
    Ints exchange;
    for (int i = 0; i < rank; ++i) exchange.push_back(i);
    std::swap(exchange[normalize_axis(axis, rank)], exchange.back());
    return transpose(apply(op, {transpose(x, exchange)}), exchange, name);
  });
}

}  // namespace

Tensor softmax(In x, std::int64_t axis, std::string_view name) {
  return along_axis(softmax_op, std::move(x), axis, name);
}
Tensor log_softmax(In x, std::int64_t axis, std::string_view name) {
  return along_axis(log_softmax_op, std::move(x), axis, name);
}

}  // namespace tapestry
