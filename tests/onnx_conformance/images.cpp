#include <doctest/doctest.h>

#include "onnx_conformance/ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::onnx_case {
namespace {

/// ONNX's images are [batch, channels, height, width]; a row of pixels is an image of height 1.
Tensor channels_last(const Tensor& x) {
  if (x.rank() == 3) return channels_last(expand_dims(x, 2));
  if (x.rank() != 4) throw Inexpressible{"images of three dimensions"};
  return transpose(x, {0, 2, 3, 1});
}
Tensor channels_first(const Tensor& y, int rank) {
  const Tensor image = transpose(y, {0, 3, 1, 2});
  return rank == 3 ? squeeze(image, 2) : image;
}

/// How a window moves over an image.
struct Windows {
  Size2d size, strides, dilations;
  std::int64_t top = 0, left = 0, bottom = 0, right = 0;

  Padding2d padding() const { return {top, bottom, left, right}; }
};

Size2d size_of(const Ints& sizes) { return sizes.size() == 1 ? Size2d(1, sizes[0]) : Size2d(sizes[0], sizes[1]); }

/// Before and behind an axis, so that there are ceil(size / stride) windows; `upper`: the odd one behind.
std::pair<std::int64_t, std::int64_t> same(std::int64_t size, std::int64_t window, std::int64_t stride, bool upper) {
  const std::int64_t total = std::max<std::int64_t>(((size - 1) / stride) * stride + window - size, 0);
  return upper ? std::pair{total / 2, total - total / 2} : std::pair{total - total / 2, total / 2};
}

Windows windows_of(const Node& node, const Tensor& image, const Ints& kernel) {
  const Ints ones(kernel.size(), 1);
  Windows w{.size = size_of(kernel),
            .strides = size_of(node.ints("strides", ones)),
            .dilations = size_of(node.ints("dilations", ones))};
  const std::string scheme = node.text("auto_pad", "NOTSET");
  const Ints pads = node.ints("pads", Ints(2 * kernel.size(), 0));
  if (scheme == "SAME_UPPER" || scheme == "SAME_LOWER") {
    const bool upper = scheme == "SAME_UPPER";
    const std::int64_t height = (w.size.height - 1) * w.dilations.height + 1;
    const std::int64_t width = (w.size.width - 1) * w.dilations.width + 1;
    std::tie(w.top, w.bottom) = same(image.shape()[1], height, w.strides.height, upper);
    std::tie(w.left, w.right) = same(image.shape()[2], width, w.strides.width, upper);
  } else if (pads.size() == 2) {
    w.left = pads[0], w.right = pads[1];
  } else {
    w.top = pads[0], w.left = pads[1], w.bottom = pads[2], w.right = pads[3];
  }
  return w;
}

Outputs convolved(const Node& node, const Inputs& in) {
  const Tensor &x = in.at(0), &weight = in.at(1);
  const Tensor image = channels_last(x),
               filter = transpose(weight.rank() == 3 ? expand_dims(weight, 2) : weight, {2, 3, 1, 0});
  const Shape& s = weight.shape();
  Ints kernel;
  for (int i = 2; i < s.rank(); ++i) kernel.push_back(s[i]);
  const Windows w = windows_of(node, image, node.ints("kernel_shape", kernel));
  Tensor y = conv2d(
      image, filter,
      {.strides = w.strides, .padding = w.padding(), .dilations = w.dilations, .groups = node.whole("group", 1)});
  if (optional_input(in, 2)) y = y + in[2];
  return {channels_first(y, x.rank())};
}

/// The size of the result is open: it follows from `output_padding`, or that from an `output_shape`, which also says
/// how much is cut off.
Outputs convolved_transposed(const Node& node, const Inputs& in) {
  const Tensor &x = in.at(0), &weight = in.at(1);
  const Tensor image = channels_last(x);
  if (weight.rank() != x.rank()) throw Inexpressible{"images of three dimensions"};
  const Tensor filter = transpose(weight.rank() == 3 ? expand_dims(weight, 2) : weight, {2, 3, 1, 0});
  const Size2d size(filter.shape()[0], filter.shape()[1]);
  const std::size_t axes = static_cast<std::size_t>(x.rank()) - 2;
  const Ints kernel = axes == 1 ? Ints{size.width} : Ints{size.height, size.width}, none(axes, 0);
  const bool same = node.text("auto_pad", "NOTSET") != "NOTSET";
  CHECK(node.ints("kernel_shape", kernel) == kernel);
  const Ints strides = node.ints("strides", Ints(axes, 1)), dilations = node.ints("dilations", Ints(axes, 1));
  Ints more = node.ints("output_padding", none), pads = node.ints("pads", Ints(2 * axes, 0)),
       wanted = node.ints("output_shape");
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t size_before = x.shape()[static_cast<int>(i) + 2];
    const std::int64_t whole = (size_before - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + more[i];
    if (wanted.empty() && !same) continue;
    const std::int64_t cut = whole - (same ? size_before * strides[i] : wanted[i]);
    if (cut < 0) {
      more[i] -= cut;
    } else {
      pads[i] = cut / 2;
      pads[i + axes] = cut - cut / 2;
    }
  }
  Tensor y = conv2d_transpose(
      image, filter,
      {.strides = size_of(strides),
       .padding = axes == 1 ? Padding2d(0, 0, pads[0], pads[1]) : Padding2d(pads[0], pads[2], pads[1], pads[3]),
       .output_padding = axes == 1 ? Size2d(0, more[0]) : size_of(more),
       .dilations = size_of(dilations),
       .groups = node.whole("group", 1)});
  if (optional_input(in, 2)) y = y + in[2];
  return {channels_first(y, x.rank())};
}

/// The windows of a pool, where ours can do what is asked for.
Windows pool_windows(const Node& node, const Tensor& image) {
  if (node.whole("ceil_mode", 0) != 0) throw Inexpressible{"pools whose last window reaches beyond the image"};
  const Windows w = windows_of(node, image, node.ints("kernel_shape"));
  if (w.dilations.height != 1 || w.dilations.width != 1) throw Inexpressible{"pools with holes"};
  return w;
}

Outputs average_pool(const Node& node, const Inputs& in) {
  Tensor image = channels_last(in.at(0));
  Windows w = pool_windows(node, image);
  if (node.whole("count_include_pad", 0) != 0) {
    image = pad(image, {{0, 0}, {w.top, w.bottom}, {w.left, w.right}, {0, 0}});
    w.top = w.bottom = w.left = w.right = 0;
  }
  const Tensor y = avg_pool2d(image, {.window = w.size, .strides = w.strides, .padding = w.padding()});
  return {channels_first(y, in[0].rank())};
}

Outputs max_pool(const Node& node, const Inputs& in) {
  if (node.outputs.size() > 1) throw Inexpressible{"the positions of the maxima"};
  const Tensor image = channels_last(in.at(0));
  const Windows w = pool_windows(node, image);
  const Tensor y = max_pool2d(image, {.window = w.size, .strides = w.strides, .padding = w.padding()});
  return {channels_first(y, in[0].rank()).cast(in[0].dtype())};
}

/// Along all axes behind the channels.
Ints plane_of(const Tensor& x) {
  Ints axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  return axes;
}

/// Each pixel's channels divided by a power of the mean of the squares of those around them.
Outputs local_response(const Node& node, const Inputs& in) {
  const Tensor& x = in.at(0);
  const std::int64_t size = node.whole("size", 0), before = (size - 1) / 2;
  const Tensor squares = pad(square(x), {{0, 0}, {before, size - 1 - before}, {0, 0}, {0, 0}});
  Tensor sum = zeros_like(x);
  for (std::int64_t i = 0; i < size; ++i) sum = sum + squares(all, range(i, i + x.shape()[1]));
  const double scale = node.real("alpha", 1e-4) / static_cast<double>(size);
  return {x / power(node.real("bias", 1) + scale * sum, node.real("beta", 0.75))};
}

Outputs upsampled(const Node& node, const Inputs& in) {
  if (node.text("mode", "nearest") != "nearest") throw Inexpressible{"images between their pixels"};
  Tensor y = in.at(0);
  for (int axis = 0; axis < y.rank(); ++axis) y = repeat(y, in.at(1)(axis).item<std::int64_t>(), axis);
  return {y};
}

}  // namespace

Functions image_functions() {
  constexpr ReduceOptions keep{.keep_dims = true};
  Functions table;
  table["AveragePool"] = average_pool;
  table["Conv"] = convolved;
  table["ConvTranspose"] = convolved_transposed;
  table["GlobalAveragePool"] = [=](const Node&, const Inputs& in) -> Outputs {
    return {reduce_mean(in.at(0), plane_of(in[0]), keep)};
  };
  table["GlobalMaxPool"] = [=](const Node&, const Inputs& in) -> Outputs {
    return {reduce_max(in.at(0), plane_of(in[0]), keep)};
  };
  table["LRN"] = local_response;
  table["MaxPool"] = max_pool;
  table["Upsample"] = upsampled;
  return table;
}

}  // namespace tapestry::test::onnx_case
