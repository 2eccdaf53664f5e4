#include "tapestry/ops/check.hpp"

#include <cmath>

#include "ops/batching.hpp"
#include "ops/support.hpp"

TAPESTRY_OP_FAMILY(check)

namespace tapestry {
namespace {

/// The kinds of elements that are not finite: "Inf", "NaN", "Inf and NaN", or "". The elements are read on the host.
std::string_view not_finite(const Tensor& x) {
  const Tensor host = detail::on_host(x);
  bool inf = false, nan = false;
  detail::visit_dtype(host.dtype(), [&]<class T>() {
    const auto* values = static_cast<const T*>(host.impl().data);
    for (std::int64_t i = 0; i < host.size(); ++i) {
      const auto value = static_cast<double>(values[i]);
      inf |= std::isinf(value);
      nan |= std::isnan(value);
    }
  });
  return inf && nan ? "Inf and NaN" : inf ? "Inf" : nan ? "NaN" : "";
}

TAPESTRY_OP(check_numerics_op){{
    .name = "CheckNumerics",
    .attrs = {{"message", AttrKind::text}},
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), float_types);
      return same_shape(call);
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const std::string_view found = not_finite(call.input(0));
          if (!found.empty())
            throw InvalidArgumentError(
                detail::join(call.attr<std::string>("message"), " : Tensor had ", found, " values"));
          backend.copy(call.input(0), call.output(0));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      // TensorFlow's text.
      return {check_numerics(g, detail::join("Not a number (NaN) or infinity (Inf) values detected in gradient. ",
                                             call.attr<std::string>("message")))};
    },
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

}  // namespace

Tensor check_numerics(In x, std::string_view message, std::string_view name) {
  return apply(check_numerics_op, {std::move(x)}, {{"message", std::string(message)}}, name);
}

}  // namespace tapestry
