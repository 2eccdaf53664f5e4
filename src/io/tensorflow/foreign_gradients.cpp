// The gradients that TensorFlow adds to a graph, where they are ops of their own.

#include <algorithm>
#include <utility>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

// ---- Elementwise: of a result y or of an argument x -----------------------------------------------------------------

template <class F>
Tensors gradient(const ForeignNode& n, F f) {
  require_one_type(n);
  return n.composed([&] { return f(n.in(0), n.in(1)); });
}

// Of what does not arrive at a root they pass nothing on, also where the slope is infinite.
Tensors read_sqrt_gradient(const ForeignNode& n) {
  return gradient(n, [](const Tensor& y, const Tensor& g) { return where(equal(g, 0), g, g * 0.5 / y); });
}
Tensors read_rsqrt_gradient(const ForeignNode& n) {
  return gradient(n, [](const Tensor& y, const Tensor& g) { return where(equal(g, 0), g, g * -0.5 * square(y) * y); });
}
Tensors read_reciprocal_gradient(const ForeignNode& n) {
  return gradient(n, [](const Tensor& y, const Tensor& g) { return -g * square(y); });
}
Tensors read_relu6_gradient(const ForeignNode& n) {
  return gradient(n, [](const Tensor& g, const Tensor& x) { return where((x > 0) & (x < 6), g, 0); });
}
Tensors read_selu_gradient(const ForeignNode& n) {
  // As in read_selu.
  constexpr double scale = 1.0507009873554804934193349852946, alpha = 1.6732632423543772848170429916717;
  return gradient(n, [](const Tensor& g, const Tensor& y) { return g * where(y < 0, y + scale * alpha, scale); });
}
Tensors read_softsign_gradient(const ForeignNode& n) {
  return gradient(n, [](const Tensor& g, const Tensor& x) { return g / square(abs(x) + 1); });
}

// ---- Sums of what was taken -----------------------------------------------------------------------------------------

/// Adds up along an axis what `resized` took: the gradient of an axis of that size.
Tensor spread(const ForeignNode& n, const Tensor& g, int axis, const Taps& taps, std::int64_t size) {
  Shape shape = g.shape();
  shape.set(axis, size);
  Tensor sum;
  for (const Tap& tap : taps) {
    Tensor part = g;
    if (!tap.factors.empty()) {
      Shape line(std::vector<std::int64_t>(shape.rank() - axis, 1));
      line.set(0, static_cast<std::int64_t>(tap.factors.size()));
      part = part * reshape(tensor(tap.factors), line);
    }
    const Tensor added =
        make_op(*rule_of("UnsortedSegmentSum"), n.node, {tensor(tap.places), part, shape_only(n, shape, g.dtype())},
                {{"axis", std::int64_t{axis}}}, n.where, "Sum")[0];
    sum = bool(sum) ? sum + added : added;
  }
  return sum;
}

/// The gradient of resizing. The old sizes are those of the original image, or, for the nearest pixels, a list.
Tensors read_resize_gradient(const ForeignNode& n) {
  require_images(n);
  const bool nearest = n.node.def().op == "ResizeNearestNeighborGrad";
  const auto old = [&](int axis) { return nearest ? n.numbers(1)[axis - 1] : n.in(1).shape().sizes()[axis]; };
  if (nearest ? n.numbers(1).size() != 2 : n.in(1).shape().rank() != 4) n.node.refuse("it has not two sizes");
  if (!nearest && n.in(0).dtype() != float32) n.node.refuse("its input is not float32");
  return n.composed([&] {
    Tensor g = n.in(0);
    for (const int axis : {1, 2}) g = spread(n, g, axis, resize_taps(n, old(axis), g.shape().sizes()[axis]), old(axis));
    return nearest ? g : g.cast(n.in(1).dtype());
  });
}

Tensors read_mirror_pad_gradient(const ForeignNode& n) {
  const std::string& mode = n.node.attr<std::string>("mode");
  if (mode != "REFLECT" && mode != "SYMMETRIC") n.node.refuse("its mode is " + mode);
  const std::vector<Padding> paddings = paddings_of(n);
  const Shape& shape = n.in(0).shape();
  if (std::cmp_not_equal(paddings.size(), shape.rank())) n.node.refuse("its paddings are not for all axes");
  return n.composed([&] {
    Tensor g = n.in(0);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto [before, after] = paddings[axis];
      if (before == 0 && after == 0) continue;
      const std::int64_t edge = mode == "REFLECT" ? 1 : 0, widest = shape.sizes()[axis];
      const bool wide = before < 0 || after < 0 || before > widest || after > widest - before;
      const std::int64_t size = wide ? 0 : widest - before - after;
      if (std::max(before, after) > size - edge || widest > most_places)
        n.node.refuse(detail::join("its paddings do not fit ", shape));
      std::vector<std::int32_t> places;
      for (std::int64_t i = -before; i < size + after; ++i)
        places.push_back(static_cast<std::int32_t>(i < 0 ? -i - 1 + edge : i >= size ? 2 * size - 1 - i - edge : i));
      g = spread(n, g, axis, {{places, {}}}, size);
    }
    return g;
  });
}

/// The second output is the gradient with respect to the logits. TensorFlow takes for granted that each row of labels
/// sums to 1, and so do the programs that mask rows with zeros. What this library writes has its own gradient.
Tensors read_cross_entropy(const ForeignNode& n) {
  require_one_type(n);
  return n.composed([&]() -> Tensors {
    const Tensor &logits = n.in(0), &labels = n.in(1);
    return {softmax_cross_entropy(labels, logits), softmax(logits) - labels};
  });
}
bool is_of_others(const NodeDef& node) { return !node.attrs.contains(hint_any_sum); }

}  // namespace

ForeignOps foreign_gradients() {
  return {
      {.name = "InvGrad", .inputs = 2, .read = read_reciprocal_gradient},
      {.name = "MirrorPadGrad",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_mirror_pad_gradient},
      {.name = "ReciprocalGrad", .inputs = 2, .read = read_reciprocal_gradient},
      {.name = "Relu6Grad", .inputs = 2, .read = read_relu6_gradient},
      {.name = "ResizeBicubicGrad",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_resize_gradient},
      {.name = "ResizeBilinearGrad",
       .inputs = 2,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_resize_gradient},
      {.name = "ResizeNearestNeighborGrad",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_resize_gradient},
      {.name = "RsqrtGrad", .inputs = 2, .read = read_rsqrt_gradient},
      {.name = "SeluGrad", .inputs = 2, .read = read_selu_gradient},
      {.name = "SoftmaxCrossEntropyWithLogits", .inputs = 2, .applies = is_of_others, .read = read_cross_entropy},
      {.name = "SoftsignGrad", .inputs = 2, .read = read_softsign_gradient},
      {.name = "SqrtGrad", .inputs = 2, .read = read_sqrt_gradient},
  };
}

}  // namespace tapestry::io
