// Pools: the largest element or the mean of each window.

#include <algorithm>
#include <limits>
#include <vector>

#include "io/onnx/onnx_windows.hpp"

namespace tapestry::io {
namespace {

/// By axis, how many windows there are, of an image whose size is known. With `ceil_mode` the last one may reach beyond
/// the border, but begins within the image or before it.
std::int64_t count_of_windows(const OnnxCall& c, const OnnxWindows& w, std::size_t axis) {
  const std::int64_t size = c.size(static_cast<int>(axis) + 2), stride = w.strides[axis];
  const std::int64_t rest = size + w.before[axis] + w.after[axis] - w.reach(axis);
  if (rest < 0) c.refuse(detail::join("its window does not fit ", c.shape()));
  const std::int64_t count = rest / stride + 1;
  const bool more = c.flag("ceil_mode") && rest % stride != 0 && count * stride < size + w.before[axis];
  return count + (more ? 1 : 0);
}

bool is_plain(const OnnxCall& c, const OnnxWindows& w) {
  if (w.axes() > 2) return false;
  bool plain = !c.flag("ceil_mode");
  for (std::size_t i = 0; i < w.axes(); ++i)
    plain &= w.dilations[i] == 1 && w.before[i] < w.size[i] && w.after[i] < w.size[i];
  return plain;
}

Pool2dOptions pool_options(const OnnxWindows& w) {
  if (w.axes() == 1)
    return {.window = {1, w.size[0]}, .strides = {1, w.strides[0]}, .padding = {0, 0, w.before[0], w.after[0]}};
  return {.window = {w.size[0], w.size[1]},
          .strides = {w.strides[0], w.strides[1]},
          .padding = w.is_same ? Padding2d("SAME") : Padding2d(w.before[0], w.after[0], w.before[1], w.after[1])};
}

/// Combines the elements of the windows over an image. `border` is wide enough for the last windows, too.
struct WindowWalk {
  OnnxWindows border;
  std::vector<std::int64_t> counts{};

  WindowWalk(const OnnxCall& c, const OnnxWindows& w) : border(w) {
    for (std::size_t i = 0; i < w.axes(); ++i) {
      counts.push_back(count_of_windows(c, w, i));
      const std::int64_t size = c.size(static_cast<int>(i) + 2);
      border.after[i] =
          std::max<std::int64_t>((counts[i] - 1) * w.strides[i] + w.reach(i) - size - w.before[i], w.after[i]);
    }
  }

  /// Calls f(part) for each element of the windows along an axis, of an image with its border.
  template <class F>
  void for_elements(const OnnxCall& c, const Tensor& whole, std::size_t axis, F f) const {
    if (border.size[axis] > most_blocks) c.refuse(detail::join("its window has the size ", border.size[axis]));
    for (std::int64_t i = 0; i < border.size[axis]; ++i) {
      const std::int64_t first = i * border.dilations[axis];
      const std::int64_t stop = first + (counts[axis] - 1) * border.strides[axis] + 1;
      f(onnx_cut(whole, {{static_cast<int>(axis) + 1, first, stop, border.strides[axis]}}));
    }
  }

  /// Combines the elements of each window, axis by axis.
  template <class F>
  Tensor combined(const OnnxCall& c, Tensor whole, F f) const {
    for (std::size_t axis = border.axes(); axis-- > 0;) {
      Tensor result;
      for_elements(c, whole, axis, [&](const Tensor& part) { result = bool(result) ? f(result, part) : part; });
      whole = result;
    }
    return whole;
  }
  Tensor total(const OnnxCall& c, const Tensor& whole) const {
    return combined(c, whole, [](const Tensor& a, const Tensor& b) { return a + b; });
  }
};

double lowest_of(DType dtype) {
  return is_floating(dtype) ? -std::numeric_limits<double>::infinity()
         : dtype == int64   ? static_cast<double>(std::numeric_limits<std::int64_t>::min())
         : dtype == int32   ? static_cast<double>(std::numeric_limits<std::int32_t>::min())
                            : 0;
}

/// The positions of the elements in the input, as a tensor like its image: all axes together are counted, row by row or
/// with `storage_order` column by column. How many images there are need not be known.
Tensor positions_of(const OnnxCall& c) {
  Shape shape = c.shape();
  shape.set(0, 1);
  Shape turned = shape;
  Ints perm = onnx_range(0, c.rank());
  if (c.flag("storage_order")) std::reverse(perm.begin() + 2, perm.end());
  for (int i = 2; i < c.rank(); ++i) turned.set(i, shape.sizes()[perm[i]]);
  const Tensor of_first = transpose(reshape(arange(shape.size(), {.dtype = int64}), turned), perm);
  std::vector<OnnxCut> one;
  for (int i = 1; i < c.rank(); ++i) one.push_back({i, 0, 1});
  const Tensor images = cumsum(ones_like(onnx_cut(c[0], one)).cast(int64), 0, {.exclusive = true});
  return onnx_channels_last(of_first + images * shape.size());
}

Tensors read_max_pool(const OnnxCall& c) {
  const OnnxWindows w = onnx_windows(c, c.ints("kernel_shape"));
  const Tensor image = onnx_channels_last(c[0]);
  if (c.outputs() < 2 && is_plain(c, w) && is_floating(c.dtype())) {
    const Tensor y = max_pool2d(w.axes() == 1 ? expand_dims(image, 1) : image, pool_options(w));
    return {onnx_channels_first(w.axes() == 1 ? squeeze(y, 1) : y)};
  }
  const WindowWalk walk(c, w);
  Tensor y = onnx_bordered(image, walk.border, lowest_of(c.dtype()));
  if (c.outputs() < 2)
    return {onnx_channels_first(walk.combined(c, y, [](const Tensor& a, const Tensor& b) { return maximum(a, b); }))};
  // Of equal elements the first one counts: columns come before rows.
  Tensor at = onnx_bordered(positions_of(c), walk.border, 0);
  for (std::size_t axis = w.axes(); axis-- > 0;) {
    std::vector<Tensor> places;
    walk.for_elements(c, at, axis, [&](const Tensor& part) { places.push_back(part); });
    std::size_t next = 0;
    Tensor largest;
    walk.for_elements(c, y, axis, [&](const Tensor& part) {
      const Tensor& place = places[next++];
      at = bool(largest) ? where(greater(part, largest), place, at) : place;
      largest = bool(largest) ? maximum(largest, part) : part;
    });
    y = largest;
  }
  return {onnx_channels_first(y), onnx_channels_first(at)};
}
std::vector<DType> types_of_max_pool(const OnnxCall& c) { return {c.dtype(), int64}; }

Tensors read_average_pool(const OnnxCall& c) {
  OnnxWindows w = onnx_windows(c, c.ints("kernel_shape"));
  Tensor image = onnx_channels_last(c[0]);
  const bool counts_border = c.flag("count_include_pad");
  if (is_plain(c, w)) {
    if (counts_border && !w.is_same) {
      image = onnx_bordered(image, w, 0);
      w.before.assign(w.axes(), 0);
      w.after = w.before;
    }
    const Tensor y = avg_pool2d(w.axes() == 1 ? expand_dims(image, 1) : image, pool_options(w));
    return {onnx_channels_first(w.axes() == 1 ? squeeze(y, 1) : y)};
  }
  // The sum over the number of the elements that count. What lies beyond the border that was asked for does not.
  const WindowWalk walk(c, w);
  Shape one = image.shape();
  one.set(0, 1);
  one.set(one.rank() - 1, 1);
  Tensor counted = ones(one, {.dtype = c.dtype()});
  OnnxWindows beyond = walk.border;
  if (counts_border) {
    counted = onnx_bordered(counted, w, 1);
    for (std::size_t i = 0; i < w.axes(); ++i) {
      beyond.before[i] = 0;
      beyond.after[i] -= w.after[i];
    }
  }
  const Tensor sum = walk.total(c, onnx_bordered(image, walk.border, 0));
  return {onnx_channels_first(sum / walk.total(c, onnx_bordered(counted, beyond, 0)))};
}

bool pool_lacks(const OnnxCall& c) {
  if (onnx_windows_lack(c)) return true;
  const OnnxWindows w = onnx_windows(c, c.ints("kernel_shape"));
  if (is_plain(c, w) && c.outputs() < 2 && is_floating(c.dtype())) return w.is_same && c.flag("count_include_pad");
  return onnx_lacks_plane(c);
}

// ---- Of the whole image

/// All axes behind the channels.
Axes plane_of_image(const OnnxCall& c) {
  if (c.rank() < 2) c.refuse(detail::join("its input has the shape ", c.shape()));
  return onnx_range(2, c.rank());
}
Tensors read_global_average(const OnnxCall& c) { return {reduce_mean(c[0], plane_of_image(c), {.keep_dims = true})}; }
Tensors read_global_max(const OnnxCall& c) { return {reduce_max(c[0], plane_of_image(c), {.keep_dims = true})}; }

/// The p-norm of the elements of each window.
Tensor root_of(const Tensor& sum, double p) { return p == 2 ? sqrt(sum) : power(sum, 1 / p); }
double order_of(const OnnxCall& c) { return c.version() < 2 ? c.real("p", 2) : static_cast<double>(c.whole("p", 2)); }
Tensors read_global_lp(const OnnxCall& c) {
  const double p = order_of(c);
  return {root_of(reduce_sum(power(abs(c[0]), p), plane_of_image(c), {.keep_dims = true}), p)};
}
Tensors read_lp_pool(const OnnxCall& c) {
  const OnnxWindows w = onnx_windows(c, c.ints("kernel_shape"));
  const double p = order_of(c);
  const WindowWalk walk(c, w);
  const Tensor powers = power(abs(onnx_channels_last(c[0])), p);
  return {onnx_channels_first(root_of(walk.total(c, onnx_bordered(powers, walk.border, 0)), p))};
}
bool lp_pool_lacks(const OnnxCall& c) { return onnx_lacks_plane(c); }

}  // namespace

OnnxOps onnx_pools() {
  constexpr auto same_rank = onnx_rank_of_input;
  constexpr auto lacks = onnx_lacks_rank;
  return {
      {"AveragePool", 1, 1, read_average_pool, {}, pool_lacks, nullptr, same_rank},
      {"GlobalAveragePool", 1, 1, read_global_average, {}, lacks, nullptr, same_rank},
      {"GlobalLpPool", 1, 1, read_global_lp, {}, lacks, nullptr, same_rank},
      {"GlobalMaxPool", 1, 1, read_global_max, {}, lacks, nullptr, same_rank},
      {"LpPool", 1, 1, read_lp_pool, {}, lp_pool_lacks, nullptr, same_rank},
      {"MaxPool", 1, 1, read_max_pool, {}, pool_lacks, types_of_max_pool, same_rank},
  };
}

}  // namespace tapestry::io
