#include <limits>

#include "core/call_site.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/linalg.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(pseudo_inverse)

namespace tapestry {
namespace {

/// Which singular values are not 0 but for rounding.
Tensor are_counted(const Tensor& s, const Tensor& x, double rtol) {
  Tensor most = reduce_max(s, -1, {.keep_dims = true});
  if (rtol >= 0) return greater(s, rtol * most);
  const double epsilon = s.dtype() == float64 ? std::numeric_limits<double>::epsilon()
                                              : static_cast<double>(std::numeric_limits<float>::epsilon());
  return greater(s, most * (maximum(size(x, -1), size(x, -2)).cast(s.dtype()) * epsilon));
}

void check_tolerance(const RankOptions& options) {
  if (options.rtol && !(*options.rtol >= 0))
    throw InvalidArgumentError(detail::join("rtol must not be negative, but is ", *options.rtol));
}

Tensors compose_pinv(const Call& call) {
  const Tensor& x = call.input(0);
  const Svd parts = svd(widened(x));
  const Tensor counted = are_counted(parts.s, x, call.attr<double>("rtol"));
  const Tensor factors = where(counted, 1.0 / where(counted, parts.s, 1.0), 0.0);
  return {narrowed(matmul(parts.v * expand_dims(factors, -2), parts.u, {.transpose_b = true}), x)};
}

/// Golub and Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares problems", for matrices
/// that keep their rank. Unlike that of the singular vectors it is finite where two singular values are equal.
Tensors pinv_gradient(const Call& call, const Tensor& g) {
  const Tensor &x = call.input(0), &y = call.output(), back = matrix_transpose(g);
  const Tensor direct = matmul(matmul(y, g, {.transpose_a = true}), y, {.transpose_b = true});
  const Tensor left = matmul(back - matmul(x, matmul(y, back)), matmul(y, y, {.transpose_b = true}));
  const Tensor right = matmul(matmul(y, y, {.transpose_a = true}), back - matmul(matmul(back, y), x));
  return {left + right - direct};
}

TAPESTRY_OP(pinv_op){{
    .name = "PseudoInverse",
    .attrs = {{"rtol", AttrKind::real}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      require_type(x, float_types);
      require_rank_at_least(x, 2);
      Shape shape = x.shape();
      const int rows = x.rank() - 2, columns = x.rank() - 1;
      shape.set(rows, x.shape().sizes()[columns]);
      shape.set(columns, x.shape().sizes()[rows]);
      return {{x.dtype(), shape}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const ExecuteNow now;
          const PauseRecording pause;
          const CallSiteScope site(call.where());
          backend.copy(compose_pinv(call)[0], call.output());
        },
    .composition = compose_pinv,
    .gradient = pinv_gradient,
    .promotion = floating_type,
    .needs = Needs{1, 1},
    .batch = batch_in_front,
}};

}  // namespace

Tensor pinv(In x, const RankOptions& options, std::string_view name) {
  return blaming("pinv", x.where(), [&] {
    check_tolerance(options);
    return apply(pinv_op, {x}, {{"rtol", options.rtol.value_or(-1)}}, name);
  });
}

Tensor lstsq(In a, In b, const RankOptions& options, std::string_view name) {
  return blaming("lstsq", a.where(), [&] { return matmul(pinv(a, options), b, {}, name); });
}

Tensor matrix_rank(In x, const RankOptions& options, std::string_view name) {
  return blaming("matrix_rank", x.where(), [&] {
    check_tolerance(options);
    const Tensor floats = widened(as_floats(x));
    return reduce_sum(are_counted(svd(floats).s, floats, options.rtol.value_or(-1)).cast(int32), -1, name);
  });
}

}  // namespace tapestry
