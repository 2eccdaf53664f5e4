// What combines the elements of axes, and orders them.

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

using OnnxReduction = Tensor (*)(const Tensor& x, const Axes& axes, const ReduceOptions& options);

Tensor summed(const Tensor& x, const Axes& axes, const ReduceOptions& o) { return reduce_sum(x, axes, o); }
Tensor averaged(const Tensor& x, const Axes& axes, const ReduceOptions& o) { return reduce_mean(x, axes, o); }
Tensor multiplied(const Tensor& x, const Axes& axes, const ReduceOptions& o) { return reduce_prod(x, axes, o); }
Tensor largest_of(const Tensor& x, const Axes& axes, const ReduceOptions& o) {
  return x.dtype() == boolean ? reduce_any(x, axes, o) : reduce_max(x, axes, o);
}
Tensor smallest_of(const Tensor& x, const Axes& axes, const ReduceOptions& o) {
  return x.dtype() == boolean ? reduce_all(x, axes, o) : reduce_min(x, axes, o);
}
Tensor norm_one(const Tensor& x, const Axes& axes, const ReduceOptions& o) { return reduce_sum(abs(x), axes, o); }
Tensor norm_two(const Tensor& x, const Axes& axes, const ReduceOptions& o) {
  return sqrt(reduce_sum(square(x), axes, o));
}
Tensor log_of_sum(const Tensor& x, const Axes& axes, const ReduceOptions& o) { return log(reduce_sum(x, axes, o)); }
Tensor log_sum_exp(const Tensor& x, const Axes& axes, const ReduceOptions& o) { return reduce_logsumexp(x, axes, o); }
Tensor sum_of_squares(const Tensor& x, const Axes& axes, const ReduceOptions& o) {
  return reduce_sum(square(x), axes, o);
}

/// The axes are an attribute or, in newer versions, an input. Without axes, an op reduces all of them, or none if
/// `noop_with_empty_axes` is set.
template <OnnxReduction f>
Tensors onnx_reduced(const OnnxCall& c) {
  const std::vector<std::int64_t> list = c.numbers("axes", 1);
  const ReduceOptions options{.keep_dims = c.flag("keepdims", true)};
  if (list.empty() && c.flag("noop_with_empty_axes")) return {f(c[0], Axes(std::vector<std::int64_t>()), options)};
  const Tensor y = f(c[0], list.empty() ? Axes() : Axes(list), options);
  return {y.dtype() == c.dtype() || y.dtype() == DType::unknown ? y : cast(y, c.dtype())};
}
int rank_of_reduced(const OnnxCall& c) {
  if (c.flag("keepdims", true) || c.rank() < 0) return c.rank();
  if (!c.has(1)) return c.has_attr("axes") ? c.rank() - static_cast<int>(c.ints("axes").size()) : 0;
  return c.is_known(1) ? c.rank() - static_cast<int>(c.value(1).size()) : -1;
}

using OnnxPosition = Tensor (*)(In, std::int64_t, std::string_view);

/// The position of the first extreme element, or of the last one.
template <OnnxPosition f>
Tensors onnx_position(const OnnxCall& c) {
  const Tensor& x = c[0];
  const int axis = c.axis("axis", 0);
  Tensor found;
  if (c.flag("select_last_index")) {
    const std::int64_t size = c.size(axis);
    const Tensor last =
        size >= 0 ? detail::make_scalar(static_cast<double>(size - 1), int64) : tapestry::size(x, axis).cast(int64) - 1;
    found = last - f(flip(x, axis), axis, {});
  } else {
    found = f(x, axis, {});
  }
  return {c.flag("keepdims", true) ? expand_dims(found, axis) : found};
}

Tensors read_cumsum(const OnnxCall& c) {
  return {cumsum(c[0], c.axis(c.number(1)), {.exclusive = c.flag("exclusive"), .reverse = c.flag("reverse")})};
}

/// x in the opposite order. The negative of a whole number may not exist.
Tensor opposite(const Tensor& x) {
  if (x.dtype() == uint8) return (255 - x.cast(int32)).cast(uint8);
  return is_floating(x.dtype()) ? negative(x) : -1 - x;
}

Tensors read_top_k(const OnnxCall& c) {
  const Tensor& x = c[0];
  const std::int64_t k = c.version() < 10 ? c.whole("k") : c.number(1);
  const int axis = c.axis("axis", -1), last = c.rank() - 1;
  const bool largest = c.flag("largest", true);
  const Ints front = onnx_moved(c.rank(), axis, last), back = onnx_moved(c.rank(), last, axis);
  const Tensor rows = axis == last ? x : transpose(x, front);
  const auto [values, indices] = top_k(largest ? rows : opposite(rows), k);
  const Tensor ordered = largest ? values : opposite(values), places = indices.cast(int64);
  if (axis == last) return {ordered, places};
  return {transpose(ordered, back), transpose(places, back)};
}
std::vector<DType> types_of_top_k(const OnnxCall& c) { return {c.dtype(), int64}; }

}  // namespace

OnnxOps onnx_reductions() {
  constexpr auto lacks = onnx_lacks_rank;
  const auto reduction = [](std::string_view name, Tensors (*read)(const OnnxCall&)) -> OnnxOp {
    return {name, 1, 2, read, {1}, lacks, nullptr, rank_of_reduced};
  };
  return {
      reduction("ReduceL1", onnx_reduced<norm_one>),
      reduction("ReduceL2", onnx_reduced<norm_two>),
      reduction("ReduceLogSum", onnx_reduced<log_of_sum>),
      reduction("ReduceLogSumExp", onnx_reduced<log_sum_exp>),
      reduction("ReduceMax", onnx_reduced<largest_of>),
      reduction("ReduceMean", onnx_reduced<averaged>),
      reduction("ReduceMin", onnx_reduced<smallest_of>),
      reduction("ReduceProd", onnx_reduced<multiplied>),
      reduction("ReduceSum", onnx_reduced<summed>),
      reduction("ReduceSumSquare", onnx_reduced<sum_of_squares>),
      {"ArgMax", 1, 1, onnx_position<argmax>, {}, lacks, onnx_type_int64},
      {"ArgMin", 1, 1, onnx_position<argmin>, {}, lacks, onnx_type_int64},
      {"CumSum", 2, 2, read_cumsum, {1}, lacks, nullptr, onnx_rank_of_input},
      {"TopK", 1, 2, read_top_k, {1}, lacks, types_of_top_k, onnx_rank_of_input},
  };
}

}  // namespace tapestry::io
