#include "onnx_conformance/ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::onnx_case {
namespace {

/// The axes come as an attribute or, newer, as an input; none are all, or with `noop_with_empty_axes` really none.
Function reduction(const std::function<Tensor(const Tensor&, const Axes&, const ReduceOptions&)>& f) {
  return [f](const Node& node, const Inputs& in) -> Outputs {
    const Ints list = optional_input(in, 1) ? ints_of(in[1]) : node.ints("axes");
    const ReduceOptions options{.keep_dims = node.whole("keepdims", 1) != 0};
    if (list.empty() && node.whole("noop_with_empty_axes", 0) != 0) return {in.at(0)};
    return {f(in.at(0), list.empty() ? Axes() : Axes(list), options)};
  };
}

/// The position of the first extreme element, or of the last one.
Function position(Tensor (*f)(In, std::int64_t, std::string_view)) {
  return [f](const Node& node, const Inputs& in) -> Outputs {
    const Tensor& x = in.at(0);
    const int axis = normalize_axis(node.whole("axis", 0), x.rank());
    Tensor found =
        node.whole("select_last_index", 0) != 0 ? x.shape()[axis] - 1 - f(flip(x, axis), axis, {}) : f(x, axis, {});
    if (node.whole("keepdims", 1) != 0) found = expand_dims(found, axis);
    return {found};
  };
}

}  // namespace

Functions reduction_functions() {
  using Options = const ReduceOptions&;
  Functions table;
  table["ReduceSum"] = reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_sum(x, a, o); });
  table["ReduceMean"] = reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_mean(x, a, o); });
  table["ReduceProd"] = reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_prod(x, a, o); });
  table["ReduceMax"] = reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_max(x, a, o); });
  table["ReduceMin"] = reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_min(x, a, o); });
  table["ReduceL1"] = reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_sum(abs(x), a, o); });
  table["ReduceL2"] =
      reduction([](const Tensor& x, const Axes& a, Options o) { return sqrt(reduce_sum(square(x), a, o)); });
  table["ReduceLogSum"] = reduction([](const Tensor& x, const Axes& a, Options o) { return log(reduce_sum(x, a, o)); });
  table["ReduceLogSumExp"] =
      reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_logsumexp(x, a, o); });
  table["ReduceSumSquare"] =
      reduction([](const Tensor& x, const Axes& a, Options o) { return reduce_sum(square(x), a, o); });
  table["ArgMax"] = position(argmax);
  table["ArgMin"] = position(argmin);
  table["CumSum"] = [](const Node& node, const Inputs& in) -> Outputs {
    const ScanOptions options{.exclusive = node.whole("exclusive", 0) != 0, .reverse = node.whole("reverse", 0) != 0};
    return {cumsum(in.at(0), in.at(1).item<std::int64_t>(), options)};
  };
  table["TopK"] = [](const Node& node, const Inputs& in) -> Outputs {
    const Tensor& x = in.at(0);
    node.whole("sorted", 1);  // ours are always in order
    const int axis = normalize_axis(node.whole("axis", -1), x.rank()), last = x.rank() - 1;
    Ints swap;
    for (int i = 0; i <= last; ++i) swap.push_back(i == axis ? last : i == last ? axis : i);
    const bool largest = node.whole("largest", 1) != 0;
    const Tensor rows = transpose(x, swap);
    const auto [values, indices] = top_k(largest ? rows : negative(rows), in.at(1).item<std::int64_t>());
    return {transpose(largest ? values : negative(values), swap), transpose(indices, swap).cast(int64)};
  };
  return table;
}

}  // namespace tapestry::test::onnx_case
