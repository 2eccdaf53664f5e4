#include "autodiff/points.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::detail {

Tensor own_argument(const Tensor& x, Where where) { return identity(In(x, where)); }
std::vector<Tensor> own_argument(const std::vector<Tensor>& xs, Where where) {
  std::vector<Tensor> own;
  own.reserve(xs.size());
  for (const Tensor& each : xs) own.push_back(own_argument(each, where));
  return own;
}

Tensors flat_hessian(const ListFunction& f, const std::vector<Value>& points, Where where) {
  const Tensors xs = own_points(points, where);
  GradientTape outer({.persistent = xs.size() > 1});
  outer.watch(xs, where);
  std::vector<Tensor> gradients;
  {
    GradientTape inner;
    inner.watch(xs, where);
    const Tensor value = locating({}, where, [&] { return f(xs); });
    if (value.shape().is_known() && value.size() != 1)
      throw InvalidArgumentError(join("A hessian is that of a function with one value, not ", value.shape()), where);
    gradients = inner.gradient({value, where}, xs, {.unconnected = Unconnected::zero});
  }
  Tensors rows;
  for (const Tensor& gradient : gradients)
    for (const Tensor& x : xs) {
      const Tensor second = outer.jacobian({gradient, where}, x);
      rows.push_back(second ? second
                            : zeros(joined(gradient.shape(), x.shape()), {.dtype = x.dtype(), .device = x.device()}));
    }
  return rows;
}

std::pair<Tensor, std::function<Tensors(const Value&)>> flat_vjp(const ListFunction& f,
                                                                 const std::vector<Value>& points, Where where) {
  const Tensors xs = own_points(points, where);
  auto tape = std::make_shared<GradientTape>(TapeOptions{.persistent = true});
  tape->watch(xs, where);
  Tensor y = locating({}, where, [&] { return f(xs); });
  // The pullback may be called much later: until then the tape must record nothing.
  std::shared_ptr<GradientTape::Pause> asleep(new GradientTape::Pause(tape->stop_recording()));
  auto pullback = [tape, asleep, y, xs, where](const Value& v) -> Tensors {
    return tape->gradient({y, where}, xs, {.output_gradients = like(v, y, where), .unconnected = Unconnected::zero});
  };
  return {y, pullback};
}

std::pair<Tensor, Tensors> flat_vjp(const ListFunction& f, const std::vector<Value>& points, const Value& v,
                                    Where where) {
  const Tensors xs = own_points(points, where);
  GradientTape tape;
  tape.watch(xs, where);
  Tensor y = locating({}, where, [&] { return f(xs); });
  Tensors gradients =
      tape.gradient({y, where}, xs, {.output_gradients = like(v, y, where), .unconnected = Unconnected::zero});
  return {y, gradients};
}

}  // namespace tapestry::detail
