#include "backend/views.hpp"
#include "dispatch/recorder.hpp"
#include "ops/batching.hpp"
#include "ops/checked_like.hpp"
#include "ops/handles.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"

TAPESTRY_OP_FAMILY(like)

namespace tapestry {
namespace {

TAPESTRY_OP(sum_like_op){{
    .name = "SumLike",
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), number_types);
      require_broadcast(call.input(1).shape(), call.input(0).shape());
      return like_second(call);
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor &x = call.input(0), &y = call.output();
          const int leading = x.rank() - y.rank();
          Shape kept = x.shape();
          std::uint32_t axes = 0;
          for (int i = 0; i < x.rank(); ++i) {
            kept.set(i, i < leading ? 1 : y.shape().sizes()[i - leading]);
            if (kept.sizes()[i] != x.shape().sizes()[i]) axes |= 1U << i;
          }
          // Without axes the elements are copied, because a sum would turn -0 into 0.
          if (axes == 0) return backend.copy(x, view_as(y, kept));
          backend.reduce(ReduceFunction::sum, x, axes, view_as(y, kept));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {broadcast_like(g, call.input(0)), Tensor()};
    },
    .needs = needs_nothing,
    .shape_inputs = 2,
    .batch = [](const BatchedCall& call) -> Tensors {
      // Behind the axis of the batch, axes of size 1 stand for those that are summed away.
      Ints summed;
      for (int axis = 1; axis <= call.rank(0) - call.rank(1); ++axis) summed.push_back(axis);
      if (summed.empty()) return {sum_like(call.all(0), call.all(1))};
      return {squeeze(sum_like(call.all(0), expand_dims(call.all(1), summed)), summed)};
    },
}};

TAPESTRY_OP(broadcast_like_op){{
    .name = "BroadcastLike",
    .infer = [](const Call& call) -> Specs {
      require_broadcast(call.input(0).shape(), call.input(1).shape());
      return like_second(call);
    },
    .view = [](const Call& call, const Spec& spec) { return view_broadcast(call.input(0), spec.shape); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {sum_like(g, call.input(0)), Tensor()};
    },
    .needs = needs_nothing,
    .shape_inputs = 2,
    .movement = Movement::repeats,
    .batch = [](const BatchedCall& call) -> Tensors {
      return {broadcast_like(call.aligned(0, call.rank(1)), call.all(1))};
    },
}};

TAPESTRY_OP(reshape_like_op){{
    .name = "ReshapeLike",
    .infer = [](const Call& call) -> Specs {
      const std::int64_t from = call.input(0).shape().num_elements(), to = call.input(1).shape().num_elements();
      if (!sizes_agree(from, to))
        throw InvalidArgumentError(detail::join("Input to reshape is a tensor with ", from,
                                                " values, but the requested shape ", call.input(1).shape(), " has ",
                                                to));
      return like_second(call);
    },
    .view =
        [](const Call& call, const Spec& spec) {
          const Tensor& x = call.input(0);
          return view_as(backend_of(x.device()).contiguous(x), spec.shape);
        },
    .view_copies = true,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {reshape_like(g, call.input(0)), Tensor()};
    },
    .needs = needs_nothing,
    .shape_inputs = 2,
    .movement = Movement::reshapes,
    .batch = batch_in_front,
}};

TAPESTRY_OP(size_like_op){{
    .name = "SizeLike",
    .infer = [](const Call& call) -> Specs {
      return {{call.input(0).dtype(), {}}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          // The quotient of two empty tensors is 0: there is no element to which it could matter.
          const std::int64_t like = std::max<std::int64_t>(call.input(1).size(), 1);
          backend.fill(static_cast<double>(call.input(0).size()) / static_cast<double>(like), call.output());
        },
    .gradient = no_gradient,
    .shape_inputs = 3,
}};

}  // namespace

Tensor sum_like(In x, In like, std::string_view name) {
  return apply(sum_like_op, {std::move(x), std::move(like)}, {}, name);
}
Tensor broadcast_like(In x, In like, std::string_view name) {
  return apply(broadcast_like_op, {std::move(x), std::move(like)}, {}, name);
}
Tensor reshape_like(In x, In like, std::string_view name) {
  return apply(reshape_like_op, {std::move(x), std::move(like)}, {}, name);
}
Tensor size_like(In x, In like, std::string_view name) {
  return apply(size_like_op, {std::move(x), std::move(like)}, {}, name);
}

Tensor checked_like(const Tensor& x, const Tensor& like) {
  if (x.shape().is_known() && like.shape().is_known()) return is_recorded() ? identity(x) : x;
  // Each is broadcast to the other, which changes neither, or is refused.
  return broadcast_like(broadcast_like(x, like), broadcast_like(like, x));
}
Tensor checked_like(const Tensor& x, const Shape& shape) {
  return checked_like(x, x.shape().is_known() && shape.is_known() ? x : zeros(shape));
}

namespace ops {
const Op &broadcast_like = broadcast_like_op, &sum_like = sum_like_op;
}  // namespace ops

}  // namespace tapestry
