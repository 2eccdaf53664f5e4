#include "tapestry/ops/volume.hpp"

#include <algorithm>
#include <optional>

#include "core/make_tensor.hpp"
#include "ops/merged.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

namespace tapestry {
namespace {

void require_axes(const Tensor& x, int rank, std::string_view what, std::string_view axes) {
  if (rank_of(x) != rank)
    throw InvalidArgumentError(detail::join(what, " must be [", axes, "], but its shape is ", x.shape()));
}

void require_volumes(const Tensor& x) { require_axes(x, 5, "x", "batch, depth, height, width, channels"); }

void require_positive(std::int64_t size, std::string_view what) {
  if (size < 1) throw InvalidArgumentError(detail::join(what, " must be at least 1, but is ", size));
}

/// The images of volumes, those of all volumes in one batch.
Tensor as_images(const Tensor& x) { return merged(x, {2, 1, 1, 1}); }

/// Images as volumes of that many images each.
Tensor as_volumes(const Tensor& images, const Dimension& batch, const Dimension& depth) {
  const Shape& shape = images.shape();
  return reshape(images, {batch, depth, shape[1], shape[2], shape[3]});
}

struct Border {
  std::int64_t before, after;
};

/// The border along the depth.
Border border_of(const Padding3d& padding, std::int64_t size, std::int64_t reach, std::int64_t stride) {
  if (padding.image().scheme() == "VALID") return {0, 0};
  if (padding.image().scheme() != "SAME") return {padding.depth(), padding.depth()};
  if (size < 0 && stride != 1)
    throw InvalidArgumentError("the depth must be known for \"SAME\" with a stride; a number of zeros does without");
  const std::int64_t positions = size < 0 ? 0 : (size - 1) / stride + 1;
  const std::int64_t missing =
      size < 0 ? reach - 1 : std::max<std::int64_t>((positions - 1) * stride + reach - size, 0);
  return {missing / 2, missing - missing / 2};
}

}  // namespace

Tensor conv3d(In x, In filter, const Conv3dOptions& options, std::string_view name) {
  return blaming("conv3d", x.where(), [&] {
    require_volumes(x);
    require_axes(filter, 5, "filter", "depth, height, width, in, out");
    const std::int64_t window = filter->shape().sizes()[0], stride = options.strides.depth,
                       rate = options.dilations.depth, size = x->shape().sizes()[1];
    require_positive(window, "the depth of the filter, which must be known,");
    require_positive(stride, "the stride of the depth");
    require_positive(rate, "the dilation of the depth");
    const std::int64_t reach = add_sizes(multiply_sizes(window - 1, rate), 1);
    const Border border = border_of(options.padding, size, reach, stride);
    if (std::min(border.before, border.after) < 0)
      throw InvalidArgumentError(detail::join("the padding must not be negative, but is ", border.before));
    const bool gives_nothing = size == 0 && options.padding.image().scheme() == "SAME";  // as of an image
    if (size >= 0 && !gives_nothing && add_sizes(size, add_sizes(border.before, border.after)) < reach)
      throw InvalidArgumentError(detail::join("a filter that reaches over a depth of ", reach,
                                              " does not fit the depth ", size, " with a padding of ", border.before,
                                              " and ", border.after));
    const Tensor bordered =
        border.before + border.after == 0 ? x.tensor() : pad(x, {{}, {border.before, border.after}, {}, {}, {}});
    const Conv2dOptions of_images{.strides = {options.strides.height, options.strides.width},
                                  .padding = options.padding.image(),
                                  .dilations = {options.dilations.height, options.dilations.width},
                                  .groups = options.groups};
    // A sum of convolutions of images, one for each depth of the filter.
    Tensor sum;
    std::optional<Dimension> depth;
    for (std::int64_t k = 0; k < window; ++k) {
      const std::int64_t first = k * rate, behind = reach - 1 - first;
      const Tensor images =
          bordered(all, behind == 0 ? range(first, std::nullopt, stride) : range(first, -behind, stride));
      depth.emplace(images.shape()[1]);
      const Tensor part = conv2d(as_images(images), filter.tensor()(k), of_images);
      sum = bool(sum) ? sum + part : part;
    }
    return named(as_volumes(sum, x->shape()[0], *depth), name);
  });
}

namespace {

using Pool = Tensor (*)(In x, const Pool2dOptions& options, std::string_view name);

/// Volumes are pooled first as images, then along their depth.
Tensor pooled(const Tensor& x, const Pool3dOptions& options, Pool pool) {
  require_volumes(x);
  const Padding2d& border = options.padding.image();
  const Tensor images = pool(
      as_images(x),
      {{options.window.height, options.window.width}, {options.strides.height, options.strides.width}, border}, {});
  const Dimension &batch = x.shape()[0], height = images.shape()[1], width = images.shape()[2];
  const Tensor columns = merged(as_volumes(images, batch, x.shape()[1]), {1, 1, 2, 1});
  const Padding2d ends = border.scheme() == "EXPLICIT" ? Padding2d(options.padding.depth(), 0) : border;
  const Tensor whole =
      pool(columns, {{options.window.depth, 1}, {options.strides.depth, options.strides.depth == 0 ? 0 : 1}, ends}, {});
  return reshape(whole, {batch, whole.shape()[1], height, width, x.shape()[4]});
}

}  // namespace

Tensor max_pool3d(In x, const Pool3dOptions& options, std::string_view name) {
  return blaming("max_pool3d", x.where(), [&] { return named(pooled(x, options, max_pool2d), name); });
}
Tensor avg_pool3d(In x, const Pool3dOptions& options, std::string_view name) {
  return blaming("avg_pool3d", x.where(), [&] { return named(pooled(x, options, avg_pool2d), name); });
}

namespace {

/// The parts of an axis of size `from`: for each one its elements, the last one again where others have more.
struct AxisParts {
  AxisParts(std::int64_t from, std::int64_t to, Device device) {
    const auto begin = [&](std::int64_t i) { return i * from / to; };
    const auto end = [&](std::int64_t i) { return ((i + 1) * from + to - 1) / to; };
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < to; ++i) most = std::max(most, end(i) - begin(i));
    std::vector<std::int32_t> list;
    std::vector<double> sizes;
    for (std::int64_t k = 0; k < most; ++k)
      for (std::int64_t i = 0; i < to; ++i)
        list.push_back(static_cast<std::int32_t>(std::min(begin(i) + k, end(i) - 1)));
    for (std::int64_t i = 0; i < to; ++i) sizes.push_back(static_cast<double>(end(i) - begin(i)));
    places = reshape(tensor(list), {most, to}).to(device);
    counts = tensor(sizes).to(device);
    numbers = reshape(arange(most, {.dtype = float64, .device = device}), {most, 1});
  }
  Tensor places;   ///< [most elements, parts]
  Tensor counts;   ///< [parts]
  Tensor numbers;  ///< [most elements, 1]
};

/// The largest elements, or the means, of the parts of an axis.
Tensor by_parts(const Tensor& x, int axis, std::int64_t to, bool largest) {
  const std::int64_t from = x.shape().sizes()[axis];
  const ReduceOptions keep{.keep_dims = true};
  if (to == 1 && from != 0) return largest ? reduce_max(x, axis, keep) : reduce_mean(x, axis, keep);
  if (from < 0)
    throw InvalidArgumentError(
        detail::join("height and width must be known for more than one part, but the shape of x is ", x.shape()));
  if (from == to) return x;
  if (from % to == 0) {
    const std::int64_t window = from / to;
    const Pool2dOptions options{.window = axis == 1 ? Size2d(window, 1) : Size2d(1, window)};
    return largest ? max_pool2d(x, options) : avg_pool2d(x, options);
  }
  const AxisParts parts(from, to, x.device());
  const Tensor found = gather(x, parts.places, axis);
  if (largest) return reduce_max(found, axis);
  const auto column = [&](const Tensor& numbers) {
    Shape shape = numbers.shape();
    for (int i = axis + 1; i < rank_of(x); ++i) shape.push_back(1);
    return reshape(numbers, shape);
  };
  const Tensor counted = column(less(parts.numbers, parts.counts));
  return reduce_sum(where(counted, found, 0), axis) / column(parts.counts).cast(x.dtype());
}

Tensor adapted(const Tensor& x, Size2d size, bool largest) {
  require_axes(x, 4, "x", "batch, height, width, channels");
  if (std::min({size.height, size.width}) < 1 || x.shape().sizes()[1] == 0 || x.shape().sizes()[2] == 0)
    throw InvalidArgumentError(
        detail::join("images of ", x.shape(), " cannot be divided into ", size.height, " and ", size.width, " parts"));
  constexpr std::int64_t most = 1 << 30;
  for (const std::int64_t each : {x.shape().sizes()[1], x.shape().sizes()[2], size.height, size.width})
    if (each > most) throw InvalidArgumentError(detail::join("a size of ", each, " is too large"));
  return by_parts(by_parts(x, 2, size.width, largest), 1, size.height, largest);
}

}  // namespace

Tensor adaptive_max_pool2d(In x, Size2d size, std::string_view name) {
  return blaming("adaptive_max_pool2d", x.where(), [&] { return named(adapted(x, size, true), name); });
}
Tensor adaptive_avg_pool2d(In x, Size2d size, std::string_view name) {
  return blaming("adaptive_avg_pool2d", x.where(),
                 [&] { return narrowed(adapted(widened(as_floats(x)), size, false), as_floats(x), name); });
}

}  // namespace tapestry
