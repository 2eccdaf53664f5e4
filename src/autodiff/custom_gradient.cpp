#include "tapestry/custom_gradient.hpp"

#include "autodiff/custom_gradient_ops.hpp"
#include "dispatch/recorder.hpp"
#include "ops/checked_like.hpp"
#include "ops/handles.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {
namespace {

/// While it lives, random ops and assignments throw: the function runs a second time, and would draw other numbers and
/// change Variables again.
class NoEffects final : public Recorder {
 public:
  NoEffects() { recorders().push_back(this); }
  ~NoEffects() override { recorders().pop_back(); }
  NoEffects(const NoEffects&) = delete;
  NoEffects& operator=(const NoEffects&) = delete;
  void record(Call&&) override {}
  bool replay(Call& call) override {
    throw UnimplementedError(
        "custom_gradient: a function that draws random numbers cannot run again, in a vmap, for arguments whose rank "
        "was not known when the graph was made, or for a file; draw the numbers outside, or give the placeholder a "
        "shape",
        call.type(), call.where());
  }
  bool replay_change(const Variable& variable, Tensor&) override {
    throw UnimplementedError(
        join("custom_gradient: a function that changes a Variable, here '", variable.name(),
             "', cannot run again, in a vmap, for arguments whose rank was not known when the graph was made, or for a "
             "file; change it outside, or give the placeholder a shape"));
  }
  void read(const Variable&, Tensor&) override {}
};

}  // namespace

Tensor custom_gradient(const std::function<CustomGradient(const Tensors&)>& f, const Tensors& arguments, Where where) {
  // In a branch or the body of a loop, the gradient may only use tensors of that graph.
  Tensors inputs = arguments;
  for (Tensor& each : inputs)
    if (open_sink() && each.is_symbolic() && sink_of(each) != open_sink()) each = identity(In(each, where));
  const CustomGradient result = locating({}, where, [&] { return f(inputs); });
  if (!result.value || !result.gradient)
    throw InvalidArgumentError(result.value ? "custom_gradient: there is no function that computes the gradient"
                                            : "custom_gradient: the value is an empty Tensor",
                               where);
  // A value that no argument decides belongs to no graph, but its gradient may use them.
  auto graph = sink_of(result.value);
  for (const Tensor& each : inputs)
    if (!graph && each.is_symbolic()) graph = sink_of(each);
  auto gradient = [f, backward = result.gradient, graph](const Tensors& all) -> Tensors {
    // `backward` has captured tensors of the graph in which f ran. Another graph is a copy of it, which is made once
    // the ranks are known. There f runs again.
    Tensors gradients;
    if (!graph || sink_of(all.back()) == graph || open_sink() == graph) {
      gradients = backward(all.back());
    } else {
      const NoEffects none;
      gradients = f(Tensors(all.begin(), all.end() - 1)).gradient(all.back());
    }
    for (std::size_t i = 0; i < gradients.size() && i + 1 < all.size(); ++i)
      if (bool(gradients[i]) && agree(gradients[i].shape(), all[i].shape()))
        gradients[i] = checked_like(gradients[i], all[i]);
    return gradients;
  };
  return record_result(custom_gradient_op, result.value, inputs, gradient, where);
}

namespace {

/// What stands for a value of which only dtype and shape are used: a tensor without memory, if that can be.
Tensor outline_of(const Tensor& value) {
  if (value.is_symbolic()) return value;
  return broadcast_to(zeros({}, {.dtype = value.dtype(), .device = value.device()}), value.shape());
}

/// All floats in one vector, of the widest type.
Tensor pack(const std::vector<Tensor>& values) {
  DType dtype = float16;
  Tensors parts;
  for (const Tensor& each : values)
    if (is_floating(each.dtype()))
      dtype = parts.empty() ? each.dtype() : promote(dtype, each.dtype()), parts.push_back(each);
  if (parts.empty()) throw InvalidArgumentError("custom_gradient: none of the values is a float");
  for (Tensor& each : parts) each = reshape(each, {-1}).cast(dtype);
  return concat(parts);
}

/// The parts of such a vector, in the shapes of the floats among the values; empty Tensors in place of others.
std::vector<Tensor> unpack(const Tensor& packed, const std::vector<Tensor>& values) {
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  Tensor begin_then;  // where sizes are unknown
  for (const Tensor& each : values) {
    if (!is_floating(each.dtype())) {
      parts.emplace_back();
      continue;
    }
    if (!begin_then && each.shape().is_known()) {
      parts.push_back(reshape(slice(packed, {begin}, {each.size()}), each.shape()).cast(each.dtype()));
      begin += each.size();
      continue;
    }
    if (!begin_then) begin_then = full({}, begin, {.dtype = int64, .device = packed.device()});
    const Tensor places = cumsum(ones_like(reshape(each, {-1})).cast(int64), 0, {.exclusive = true});
    parts.push_back(reshape_like(gather(packed, places + begin_then), each).cast(each.dtype()));
    begin_then = begin_then + size(each).cast(int64);
  }
  return parts;
}

}  // namespace

std::vector<Tensor> custom_gradients(const std::function<CustomGradients(const Tensors&)>& f, const Tensors& arguments,
                                     Where where) {
  // The values are one, in a vector, of which the op has the gradient: a gradient function that is not linear needs
  // those of all values at once.
  struct First {
    bool is_over = false;
    std::vector<Tensor> values;
  };
  const auto first = std::make_shared<First>();
  const auto packed = [f, first, where](const Tensors& inputs) -> CustomGradient {
    const CustomGradients result = f(inputs);
    for (const Tensor& each : result.values)
      if (!each) throw InvalidArgumentError("custom_gradient: a value is an empty Tensor", where);
    if (result.values.empty() || !result.gradient)
      throw InvalidArgumentError(result.gradient ? "custom_gradient: there are no values"
                                                 : "custom_gradient: there is no function that computes the gradient",
                                 where);
    if (!std::exchange(first->is_over, true)) first->values = result.values;
    std::vector<Tensor> outlines;
    for (const Tensor& each : result.values) outlines.push_back(outline_of(each));
    return {pack(result.values), [backward = result.gradient, outlines](const Tensor& g) -> Tensors {
              return backward(unpack(g, outlines));
            }};
  };
  const Tensor all = custom_gradient(packed, arguments, where);
  const std::vector<Tensor> values = std::exchange(first->values, {});
  const CallSiteScope site(where);
  std::vector<Tensor> results = unpack(all, values);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i]) results[i] = stop_gradient(values[i]);
  return results;
}

}  // namespace tapestry::detail
