#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"

TAPESTRY_OP_FAMILY(bias)

namespace tapestry {
namespace {

TAPESTRY_OP(bias_add_op){{
    .name = "BiasAdd",
    .infer = [](const Call& call) -> Specs {
      const Tensor &x = call.input(0), &bias = call.input(1);
      require_type(x, number_types);
      if (x.rank() < 2) throw InvalidArgumentError(detail::join("Input tensor must be at least 2D: ", x.shape()));
      if (bias.rank() != 1) throw InvalidArgumentError(detail::join("Biases must be 1D: ", bias.shape()));
      if (!sizes_agree(bias.shape().sizes()[0], x.shape().sizes().back()))
        throw InvalidArgumentError(
            detail::join("Must provide as many biases as the last dimension of the input tensor: ", bias.shape(),
                         " vs. ", x.shape()));
      return {x.spec()};
    },
    .forward = binary<Binary::add>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return wanted(
          call, [&] { return g; }, [&] { return sum_over_rows(g, call.input(1)); });
    },
    .promotion = common_type,
    .needs = needs_nothing,
    .precision = Precision::low,
    .batch = [](const BatchedCall& call) -> Tensors { return {add(call.all(0), call.aligned(1, call.rank(0)))}; },
}};

}  // namespace

Tensor bias_add(In x, In bias, std::string_view name) {
  const std::string_view node = detail::plain_name(name, detail::Worded::layout, x.where());
  return apply(bias_add_op, {std::move(x), std::move(bias)}, {}, node);
}

}  // namespace tapestry
