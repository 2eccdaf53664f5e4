// What is read from images between their elements.

#include <cmath>

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {
namespace {

/// Elements of one axis of an image, one for each point of a grid: their places, as real numbers, which may lie
/// outside, and the factors by which they count. Without a factor they count once.
struct SampledTap {
  Tensor place, factor{};
};

/// How the points of a grid find the elements of one axis, whose size is a real number.
struct SampledAxis {
  Tensor size;
  bool aligns_corners;
  std::string padding;

  /// From [-1, 1] to the places of elements. Both ends are the centers of elements, or their outer edges.
  Tensor places(const Tensor& x) const { return aligns_corners ? (x + 1) / 2 * (size - 1) : ((x + 1) * size - 1) / 2; }
  /// A place that exists: one outside is moved to the edge, or mirrored at it. A place that is no number becomes 0.
  Tensor inside(Tensor place) const {
    if (padding == "reflection") {
      const Tensor first = aligns_corners ? Tensor(zeros_like(size)) : Tensor(zeros_like(size) - 0.5);
      const Tensor width = size - 1 - 2 * first, turned = mod(place - first, 2 * width);
      place = first + where(greater(turned, width), 2 * width - turned, turned);
    }
    return where(greater(place, 0), minimum(place, size - 1), 0);
  }
  Tensor is_inside(const Tensor& place) const { return logical_and(greater(place, -1), less(place, size)); }
};

/// The weight of an element at a distance between 0 and 2.
Tensor cubic_factor(const Tensor& distance, bool is_near) {
  constexpr double a = -0.75;
  return is_near ? ((a + 2) * distance - (a + 3)) * square(distance) + 1
                 : ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a;
}

std::vector<SampledTap> sampled_taps(const std::string& mode, const Tensor& place) {
  if (mode == "nearest") return {{round(place)}};
  const Tensor left = floor(place), x = place - left;
  if (mode == "linear") return {{left, 1 - x}, {left + 1, x}};
  return {{left - 1, cubic_factor(x + 1, false)},
          {left, cubic_factor(x, true)},
          {left + 1, cubic_factor(1 - x, true)},
          {left + 2, cubic_factor(2 - x, false)}};
}

std::string mode_of_sampling(const OnnxCall& c) {
  std::string mode = c.text("mode", c.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "nearest" && mode != "linear" && mode != "cubic") c.refuse(detail::join("its mode is '", mode, "'"));
  return mode;
}

/// Adds up the elements that one tap of each axis finds. Where the border is 0, those outside do not count.
Tensor sampled(const Tensor& image, const Tensor& example, const std::vector<SampledAxis>& axes,
               const std::vector<SampledTap>& taps) {
  std::vector<Tensor> coordinates{example};
  Tensor factor, counts;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Tensor place = stop_gradient(taps[i].place);
    coordinates.push_back(axes[i].inside(place).cast(int64));
    if (axes[i].padding == "zeros") {
      const Tensor is_inside = axes[i].is_inside(place);
      counts = bool(counts) ? logical_and(counts, is_inside) : is_inside;
    }
    if (taps[i].factor) factor = bool(factor) ? factor * taps[i].factor : taps[i].factor;
  }
  Tensor found = gather_nd(image, stack(InList(coordinates), -1));
  if (factor) found = found * expand_dims(factor.cast(found.dtype()), -1);
  return bool(counts) ? where(expand_dims(counts, -1), found, zeros_like(found)) : found;
}

/// The points of the grid have their coordinates in the opposite order of the image's axes.
Tensors read_grid_sample(const OnnxCall& c) {
  const Tensor& grid = c[1];
  const int count = c.rank() - 2;
  const std::string mode = mode_of_sampling(c), padding = c.text("padding_mode", "zeros");
  if (count < 1 || c.rank(1) != c.rank() || c.size(count + 1, 1) != count)
    c.refuse(detail::join("its grid of shape ", c.shape(1), " does not fit ", c.shape()));
  if (c.size(0) >= 0 && c.size(0, 1) >= 0 && c.size(0) != c.size(0, 1))
    c.refuse(detail::join("it has ", c.size(0), " images and ", c.size(0, 1), " grids"));
  if (count > 3 || (mode == "cubic" && count > 2)) c.lack(detail::join("'", mode, "' for ", count, " axes"));
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    c.refuse(detail::join("its padding_mode is '", padding, "'"));
  if (!is_floating(c.dtype(1))) c.refuse(detail::join("its grid is ", to_string(c.dtype(1))));
  if (!is_floating(c.dtype()) && mode != "nearest") c.lack(detail::join("'", mode, "' for ", to_string(c.dtype())));
  const Tensor points = is_half(grid.dtype()) ? grid.cast(float32) : grid;
  const Tensor wide = is_half(c.dtype()) ? c[0].cast(float32) : c[0];
  const Tensor image = transpose(wide, onnx_moved(c.rank(), 1, count + 1));
  std::vector<SampledAxis> axes;
  std::vector<std::vector<SampledTap>> taps;
  Tensor example;
  for (int i = 0; i < count; ++i) {
    axes.push_back({tapestry::size(c[0], i + 2).cast(points.dtype()), c.flag("align_corners"), padding});
    const Tensor x = squeeze(onnx_cut(points, {{count + 1, count - 1 - i, count - i}}), count + 1);
    taps.push_back(sampled_taps(mode, axes.back().places(x)));
    if (i == 0) example = cumsum(ones_like(x).cast(int64), 0, {.exclusive = true});
  }
  // All combinations of the axes' taps.
  Tensor sum;
  std::vector<std::size_t> chosen(axes.size());
  for (std::size_t at = 0; at < axes.size();) {
    std::vector<SampledTap> own;
    for (std::size_t i = 0; i < axes.size(); ++i) own.push_back(taps[i][chosen[i]]);
    const Tensor part = sampled(image, example, axes, own);
    sum = bool(sum) ? sum + part : part;
    for (at = 0; at < axes.size() && ++chosen[at] == taps[at].size(); ++at) chosen[at] = 0;
  }
  return {transpose(sum, onnx_moved(c.rank(), count + 1, 1)).cast(c.dtype())};
}

bool grid_sample_lacks(const OnnxCall& c) { return onnx_lacks_ranks(c) || c.size(c.rank(1) - 1, 1) < 0; }

}  // namespace

OnnxOps onnx_sampling() {
  return {
      {"GridSample", 2, 2, read_grid_sample, {}, grid_sample_lacks, nullptr, onnx_rank_of_input},
  };
}

}  // namespace tapestry::io
