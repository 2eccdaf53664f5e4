// Colours of images: TensorFlow's conversions and adjustments. The channels are the last axis.

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

void require_colours(const ForeignNode& n) {
  const Shape& shape = n.in(0).shape();
  if (shape.rank() < 1 || shape.sizes()[shape.rank() - 1] != 3)
    n.node.refuse(detail::join("its input has no three colours: ", shape));
}

bool lacks_colours(const NodeReader&, const Tensors& inputs) {
  const Shape& shape = inputs[0].shape();
  return !shape.has_rank() || (shape.rank() > 0 && shape.sizes()[shape.rank() - 1] < 0);
}

/// Hue, saturation and value, each from 0 to 1.
struct Hsv {
  Tensor hue, saturation, value;
};

Hsv hsv_of(const Tensor& rgb) {
  const std::vector<Tensor> parts = unstack(rgb, -1);
  const Tensor &red = parts[0], &green = parts[1], &blue = parts[2];
  const Tensor value = maximum(maximum(red, green), blue), range = value - minimum(minimum(red, green), blue);
  const Tensor saturation = where(value > 0, range / where(value > 0, value, 1), 0);
  const Tensor sixth = 1.0 / (6.0 * where(range > 0, range, 1));
  const Tensor hue =
      where(equal(red, value), sixth * (green - blue),
            where(equal(green, value), sixth * (blue - red) + 2.0 / 6.0, sixth * (red - green) + 4.0 / 6.0));
  const Tensor known = where(range > 0, hue, 0);
  return {where(known < 0, known + 1.0, known), saturation, value};
}

Tensor rgb_of(const Hsv& hsv) {
  const Tensor chroma = hsv.saturation * hsv.value, least = hsv.value - chroma, place = hsv.hue * 6.0;
  const auto colour = [&](const Tensor& share) { return clip(share, 0, 1) * chroma + least; };
  return stack({colour(abs(place - 3.0) - 1.0), colour(2.0 - abs(place - 2.0)), colour(2.0 - abs(place - 4.0))}, -1);
}

Tensors read_rgb_to_hsv(const ForeignNode& n) {
  require_colours(n);
  return n.composed([&] {
    const Hsv hsv = hsv_of(n.in(0));
    return stack({hsv.hue, hsv.saturation, hsv.value}, -1);
  });
}

Tensors read_hsv_to_rgb(const ForeignNode& n) {
  require_colours(n);
  return n.composed([&] {
    const std::vector<Tensor> parts = unstack(n.in(0), -1);
    return rgb_of({parts[0], parts[1], parts[2]});
  });
}

Tensors read_adjust_hue(const ForeignNode& n) {
  require_colours(n);
  return n.composed([&] {
    Hsv hsv = hsv_of(n.in(0));
    hsv.hue = mod(hsv.hue + n.in(1).cast(n.in(0).dtype()), 1.0);
    return rgb_of(hsv);
  });
}

Tensors read_adjust_saturation(const ForeignNode& n) {
  require_colours(n);
  return n.composed([&] {
    Hsv hsv = hsv_of(n.in(0));
    hsv.saturation = clip(hsv.saturation * n.in(1).cast(n.in(0).dtype()), 0, 1);
    return rgb_of(hsv);
  });
}

/// Moves each channel of each image away from its mean. The old op also has bounds for the result.
Tensors read_adjust_contrast(const ForeignNode& n) {
  if (n.in(0).shape().rank() < 3) n.node.refuse(detail::join("its input is no image: ", n.in(0).shape()));
  return n.composed([&] {
    const bool old = n.node.def().op == "AdjustContrast";
    const Tensor x = old ? n.in(0).cast(float32) : Tensor(n.in(0)), factor = n.in(1).cast(x.dtype());
    const Tensor mean = reduce_mean(x, {-3, -2}, {.keep_dims = true});
    const Tensor moved = (x - mean) * factor + mean;
    return old ? minimum(maximum(moved, n.in(2)), n.in(3)) : moved;
  });
}

}  // namespace

ForeignOps foreign_colours() {
  return {
      {.name = "AdjustContrast",
       .inputs = 4,
       .lacks_sizes = lacks_rank,
       .outputs = {typed(float32)},
       .read = read_adjust_contrast},
      {.name = "AdjustContrastv2",
       .inputs = 2,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_adjust_contrast},
      {.name = "AdjustHue", .inputs = 2, .lacks_sizes = lacks_colours, .outputs = {like(0)}, .read = read_adjust_hue},
      {.name = "AdjustSaturation",
       .inputs = 2,
       .lacks_sizes = lacks_colours,
       .outputs = {like(0)},
       .read = read_adjust_saturation},
      {.name = "HSVToRGB", .inputs = 1, .lacks_sizes = lacks_colours, .outputs = {like(0)}, .read = read_hsv_to_rgb},
      {.name = "RGBToHSV", .inputs = 1, .lacks_sizes = lacks_colours, .outputs = {like(0)}, .read = read_rgb_to_hsv},
  };
}

}  // namespace tapestry::io
