// Convolutions and local normalization. ONNX's images have the channels before the rows and columns, ours behind.

#include <algorithm>

#include "io/onnx/onnx_ops.hpp"
#include "io/onnx/onnx_windows.hpp"

namespace tapestry::io {

// ---- Windows ---------------------------------------------------------------------------------------------------------

namespace {

std::vector<std::int64_t> listed_for_axes(const OnnxCall& c, std::string_view attr, std::size_t count,
                                          std::int64_t otherwise, std::int64_t least) {
  std::vector<std::int64_t> list = c.ints(attr, std::vector<std::int64_t>(count, otherwise));
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count) c.refuse(detail::join("its '", attr, "' has ", list.size(), " numbers, not ", count));
  for (const std::int64_t each : list)
    if (each < least || each > most_places) c.refuse(detail::join("its '", attr, "' has the number ", each));
  return list;
}

bool is_automatic(const OnnxCall& c) {
  const std::string scheme = c.text("auto_pad", "NOTSET");
  return scheme == "SAME_UPPER" || scheme == "SAME_LOWER";
}

}  // namespace

OnnxWindows onnx_windows(const OnnxCall& c, const std::vector<std::int64_t>& kernel) {
  const std::size_t count = kernel.size();
  if (c.rank() != static_cast<int>(count) + 2 || count < 1 || count > 3)
    c.refuse(detail::join("a window of ", count, " axes does not fit ", c.shape()));
  for (const std::int64_t each : kernel)
    if (each < 1 || each > most_places) c.refuse(detail::join("its window has the size ", each));
  OnnxWindows w{.size = kernel,
                .strides = listed_for_axes(c, "strides", count, 1, 1),
                .dilations = listed_for_axes(c, "dilations", count, 1, 1)};
  const std::vector<std::int64_t> pads = listed_for_axes(c, "pads", 2 * count, 0, 0);
  const std::string scheme = c.text("auto_pad", "NOTSET");
  if (scheme != "NOTSET" && scheme != "VALID" && !scheme.empty() && !is_automatic(c))
    c.refuse(detail::join("its auto_pad is '", scheme, "'"));
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_automatic(c)) {
      w.before.push_back(scheme == "VALID" ? 0 : pads[i]);
      w.after.push_back(scheme == "VALID" ? 0 : pads[i + count]);
      continue;
    }
    const std::int64_t size = c.size(static_cast<int>(i) + 2), stride = w.strides[i];
    w.is_same |= size < 0 && stride > 1;
    // With stride 1 it does not depend on the size.
    const std::int64_t total = std::max<std::int64_t>(w.reach(i) - (stride > 1 ? (size - 1) % stride + 1 : 1), 0);
    const std::int64_t less = total / 2, more = total - less;
    w.before.push_back(scheme == "SAME_UPPER" ? less : more);
    w.after.push_back(scheme == "SAME_UPPER" ? more : less);
  }
  return w;
}

bool onnx_windows_lack(const OnnxCall& c) {
  if (onnx_lacks_ranks(c)) return true;
  if (c.rank() == 5) return onnx_lacks_plane(c);
  const std::vector<std::int64_t> strides = c.ints("strides");
  for (int i = 2; is_automatic(c) && i < c.rank(); ++i)
    if (c.size(i) < 0 && i - 2 < static_cast<int>(strides.size()) && strides[static_cast<std::size_t>(i) - 2] != 1 &&
        (c.text("auto_pad", "") == "SAME_LOWER" || c.has_attr("dilations") || c.rank() == 3))
      return true;
  return false;
}

Tensor onnx_channels_last(const Tensor& x) {
  const int rank = x.shape().rank();
  return transpose(x, onnx_moved(rank, 1, rank - 1));
}
Tensor onnx_channels_first(const Tensor& x) {
  const int rank = x.shape().rank();
  return transpose(x, onnx_moved(rank, rank - 1, 1));
}

Tensor onnx_bordered(const Tensor& image, const OnnxWindows& w, double value) {
  std::vector<Padding> widths(w.axes() + 2);
  bool any = false;
  for (std::size_t i = 0; i < w.axes(); ++i) {
    widths[i + 1] = {w.before[i], w.after[i]};
    any |= w.before[i] > 0 || w.after[i] > 0;
  }
  return any ? pad(image, widths, {.value = value}) : image;
}

namespace {

Padding2d padding_of(const OnnxWindows& w) {
  if (w.is_same) return "SAME";
  if (w.axes() == 1) return {0, 0, w.before[0], w.after[0]};
  return {w.before[0], w.after[0], w.before[1], w.after[1]};
}
Size2d size_of_two(const std::vector<std::int64_t>& sizes) {
  return sizes.size() == 1 ? Size2d(1, sizes[0]) : Size2d(sizes[0], sizes[1]);
}

std::vector<std::int64_t> kernel_of_filter(const OnnxCall& c) {
  std::vector<std::int64_t> kernel;
  for (int i = 2; i < c.rank(1); ++i) kernel.push_back(c.size(i, 1));
  const std::vector<std::int64_t> told = c.ints("kernel_shape", kernel);
  if (told.size() != kernel.size() || !std::equal(told.begin(), told.end(), kernel.begin()))
    c.refuse(detail::join("its kernel_shape does not fit its filter, ", c.shape(1)));
  return kernel;
}

/// A filter [out, in, ...] as ours, [..., in, out].
Tensor filter_last(const Tensor& filter) {
  const int rank = filter.shape().rank();
  Ints perm = onnx_range(2, rank);
  perm.push_back(1);
  perm.push_back(0);
  return transpose(filter, perm);
}

/// A convolution of volumes is a sum of convolutions of images, one for each depth of the filter.
Tensor convolved_volume(const OnnxCall& c, const Tensor& image, const Tensor& filter, OnnxWindows w,
                        std::int64_t groups) {
  const Tensor x = onnx_bordered(image, w, 0);
  const Shape& shape = x.shape();
  const auto size = [&](int axis) { return shape.sizes()[axis]; };
  const std::int64_t count = (size(1) - w.reach(0)) / w.strides[0] + 1;
  if (size(1) < w.reach(0)) c.refuse(detail::join("its filter is deeper than ", c.shape()));
  Tensor sum;
  for (std::int64_t k = 0; k < w.size[0]; ++k) {
    const std::int64_t first = k * w.dilations[0];
    const Tensor layers = onnx_cut(x, {{1, first, first + (count - 1) * w.strides[0] + 1, w.strides[0]}});
    const Tensor part = conv2d(
        reshape(layers, {-1, size(2), size(3), size(4)}), squeeze(onnx_cut(filter, {{0, k, k + 1}}), 0),
        {.strides = {w.strides[1], w.strides[2]}, .dilations = {w.dilations[1], w.dilations[2]}, .groups = groups});
    sum = bool(sum) ? sum + part : part;
  }
  const Shape& plane = sum.shape();
  return reshape(sum, {-1, count, plane.sizes()[1], plane.sizes()[2], plane.sizes()[3]});
}

Tensors read_conv(const OnnxCall& c) {
  const OnnxWindows w = onnx_windows(c, kernel_of_filter(c));
  const std::int64_t groups = c.whole("group", 1);
  const Tensor image = onnx_channels_last(c[0]), filter = filter_last(c[1]);
  if (c.dtype() != c.dtype(1)) c.refuse("its inputs have several types");
  Tensor y;
  if (w.axes() == 3) {
    y = convolved_volume(c, image, filter, w, groups);
  } else {
    const bool row = w.axes() == 1;
    y = conv2d(row ? expand_dims(image, 1) : image, row ? expand_dims(filter, 0) : filter,
               {.strides = size_of_two(w.strides),
                .padding = padding_of(w),
                .dilations = size_of_two(w.dilations),
                .groups = groups});
    if (row) y = squeeze(y, 1);
  }
  if (c.has(2)) y = bias_add(y, c[2]);
  return {onnx_channels_first(y)};
}

/// The reverse of a convolution of volumes: each depth of the filter makes images of the layers, which come to lie
/// `strides[0]` apart.
Tensor transposed_volume(const OnnxCall& c, const Tensor& image, const Tensor& filter, const OnnxWindows& w,
                         const std::vector<std::int64_t>& more, std::int64_t groups) {
  const auto size = [](const Tensor& x, int axis) { return x.shape().sizes()[axis]; };
  const std::int64_t layers = size(image, 1), stride = w.strides[0], own = (layers - 1) * stride + 1,
                     depth = own - 1 + w.reach(0) + more[0], end = depth - w.after[0];
  if (layers < 1 || w.before[0] >= end) c.refuse(detail::join("its result for ", c.shape(), " is empty"));
  const Tensor flat = reshape(image, {-1, size(image, 2), size(image, 3), size(image, 4)});
  Tensor sum;
  for (std::int64_t k = 0; k < w.size[0]; ++k) {
    const Tensor plane = conv2d_transpose(flat, squeeze(onnx_cut(filter, {{0, k, k + 1}}), 0),
                                          {.strides = {w.strides[1], w.strides[2]},
                                           .padding = {w.before[1], w.after[1], w.before[2], w.after[2]},
                                           .output_padding = {more[1], more[2]},
                                           .dilations = {w.dilations[1], w.dilations[2]},
                                           .groups = groups});
    const std::int64_t height = size(plane, 1), width = size(plane, 2), channels = size(plane, 3);
    const Tensor apart = pad(reshape(plane, {-1, 1, height, width, channels}), {{}, {0, stride - 1}, {}, {}, {}});
    const Tensor spread =
        onnx_cut(reshape(apart, {-1, product(layers, stride), height, width, channels}), {{1, 0, own}});
    const std::int64_t first = k * w.dilations[0];
    const Tensor part = pad(spread, {{}, {first, depth - own - first}, {}, {}, {}});
    sum = bool(sum) ? sum + part : part;
  }
  return onnx_cut(sum, {{1, w.before[0], end}});
}

/// The size of the result does not follow from the input alone: the model gives `output_padding`, or an `output_shape`,
/// from which the padding follows.
Tensors read_conv_transpose(const OnnxCall& c) {
  const std::vector<std::int64_t> kernel = kernel_of_filter(c);
  OnnxWindows w = onnx_windows(c, kernel);
  const std::size_t axes = kernel.size();
  const bool same = is_automatic(c), upper = c.text("auto_pad", "") == "SAME_UPPER";
  std::vector<std::int64_t> more = listed_for_axes(c, "output_padding", axes, 0, 0), wanted = c.ints("output_shape");
  if (wanted.size() == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != axes) c.refuse("its output_shape does not fit");
  for (const std::int64_t each : wanted)
    if (each < 1 || each > most_numbers) c.refuse(detail::join("its output_shape has the size ", each));
  for (std::size_t i = 0; i < axes && (same || !wanted.empty()); ++i) {
    const std::int64_t before = c.size(static_cast<int>(i) + 2);
    const std::int64_t whole = (before - 1) * w.strides[i] + w.reach(i) + more[i];
    const std::int64_t cut = whole - (wanted.empty() ? before * w.strides[i] : wanted[i]);
    w.before[i] = w.after[i] = 0;
    if (cut < 0) {
      more[i] -= cut;
    } else {
      w.before[i] = upper ? cut / 2 : cut - cut / 2;
      w.after[i] = cut - w.before[i];
    }
  }
  w.is_same = false;
  const Tensor image = onnx_channels_last(c[0]), filter = filter_last(c[1]);
  const std::int64_t groups = c.whole("group", 1);
  const bool row = axes == 1;
  Tensor y;
  if (axes == 3) {
    y = transposed_volume(c, image, filter, w, more, groups);
  } else {
    y = conv2d_transpose(row ? expand_dims(image, 1) : image, row ? expand_dims(filter, 0) : filter,
                         {.strides = size_of_two(w.strides),
                          .padding = padding_of(w),
                          .output_padding = row ? Size2d(0, more[0]) : size_of_two(more),
                          .dilations = size_of_two(w.dilations),
                          .groups = groups});
    if (row) y = squeeze(y, 1);
  }
  if (c.has(2)) y = bias_add(y, c[2]);
  return {onnx_channels_first(y)};
}
bool conv_lacks(const OnnxCall& c) {
  if (onnx_windows_lack(c)) return true;
  for (int i = 2; i < c.rank(1); ++i)
    if (c.size(i, 1) < 0) return true;
  return false;
}
bool conv_transpose_lacks(const OnnxCall& c) {
  if (onnx_lacks_ranks(c) || !c.shape(1).is_known()) return true;
  return (is_automatic(c) || c.has_attr("output_shape") || c.rank() == 5) && onnx_lacks_plane(c);
}

/// The elements of a pool go where they came from, the others are 0. Their places count in the plane that the windows
/// covered, all images and channels one after the other; a larger result is that with a border.
Tensors read_max_unpool(const OnnxCall& c) {
  const OnnxWindows w = onnx_windows(c, c.ints("kernel_shape"));
  if (c.shape() != c.shape(1)) c.refuse(detail::join("its places have the shape ", c.shape(1), ", not ", c.shape()));
  if (c.dtype(1) != int64) c.refuse("its places are not int64");
  Shape covered{c.size(0), c.size(1)};
  std::int64_t count = product(c.size(0), c.size(1));
  for (std::size_t i = 0; i < w.axes(); ++i) {
    const std::int64_t size =
        (c.size(static_cast<int>(i) + 2) - 1) * w.strides[i] + w.size[i] - w.before[i] - w.after[i];
    if (size < 1) c.refuse(detail::join("axis ", i + 2, " becomes one of ", size, " elements"));
    covered.push_back(size);
    count = product(count, size);
  }
  const Tensor places = reshape(c[1], {-1, 1}), last = onnx_last_of_equal(reshape(c[1], {-1}));
  const Tensor values = where(last, reshape(c[0], {-1}), detail::make_scalar(0, c.dtype()));
  const Tensor found = reshape(tensor_scatter_nd_add(zeros({count}, {.dtype = c.dtype()}), places, values), covered);
  if (!c.has(2)) return {found};
  const std::vector<std::int64_t> wanted = c.numbers(2);
  std::vector<Padding> borders(static_cast<std::size_t>(c.rank()));
  if (wanted.size() != borders.size()) c.refuse(detail::join("its output_shape is ", Shape(wanted)));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::int64_t size = covered.sizes()[static_cast<int>(i)];
    if (wanted[i] < size || wanted[i] > most_numbers)
      c.refuse(detail::join("its output_shape has the size ", wanted[i]));
    borders[i].after = wanted[i] - size;
  }
  return {pad(found, borders)};
}

/// Divides each channel of a pixel by a power of the mean square of the channels around it.
Tensors read_lrn(const OnnxCall& c) {
  const Tensor& x = c[0];
  const std::int64_t size = c.whole("size"), before = (size - 1) / 2;
  if (size < 1 || size > most_blocks || c.rank() < 2) c.refuse(detail::join("its size is ", size, " for ", c.shape()));
  std::vector<Padding> widths(static_cast<std::size_t>(c.rank()));
  widths[1] = {before, size - 1 - before};
  const Tensor squares = pad(square(x), widths);
  Tensor sum;
  for (std::int64_t i = 0; i < size; ++i) {
    const Tensor part = onnx_cut(squares, {{1, i, i + c.size(1)}});
    sum = bool(sum) ? sum + part : part;
  }
  const double scale = c.real("alpha", 1e-4) / static_cast<double>(size);
  return {x / power(c.real("bias", 1) + scale * sum, c.real("beta", 0.75))};
}
bool channels_lack(const OnnxCall& c) { return !c.shape().has_rank() || c.rank() < 2 || c.size(1) < 0; }

}  // namespace

OnnxOps onnx_images() {
  constexpr auto same_rank = onnx_rank_of_input;
  OnnxOps ops{
      {"Conv", 2, 3, read_conv, {}, conv_lacks, nullptr, same_rank},
      {"ConvTranspose", 2, 3, read_conv_transpose, {}, conv_transpose_lacks, nullptr, same_rank},
      {"MaxUnpool", 2, 3, read_max_unpool, {2}, onnx_lacks_any_size, nullptr, same_rank},
      {"LRN", 1, 1, read_lrn, {}, channels_lack, nullptr, same_rank},
  };
  for (const OnnxOps& more : {onnx_pools(), onnx_resizing(), onnx_sampling()})
    ops.insert(ops.end(), more.begin(), more.end());
  return ops;
}

}  // namespace tapestry::io
