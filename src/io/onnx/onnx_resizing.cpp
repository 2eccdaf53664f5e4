// Resize and its older forms: every axis is a sum of taps.

#include <algorithm>
#include <cmath>

#include "io/onnx/onnx_windows.hpp"

namespace tapestry::io {
namespace {

/// How the elements of one axis are found.
struct ResizedAxis {
  std::int64_t from, to;
  double scale, width;        ///< the width is `to`, as it is before it is rounded
  double start = 0, end = 1;  ///< of the region that is cut out, as parts of the axis
};

/// The position of a new element in the old axis.
double place_in_old(const OnnxCall& c, const ResizedAxis& a, const std::string& centers, std::int64_t i) {
  const auto x = static_cast<double>(i), from = static_cast<double>(a.from), to = static_cast<double>(a.to);
  if (centers == "asymmetric") return x / a.scale;
  if (centers == "align_corners") return a.width > 1 ? x * (from - 1) / (a.width - 1) : 0;
  if (centers == "pytorch_half_pixel") return a.to > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
  if (centers == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (centers == "tf_crop_and_resize")
    return a.to > 1 ? a.start * (from - 1) + x * (a.end - a.start) * (from - 1) / (to - 1)
                    : 0.5 * (a.start + a.end) * (from - 1);
  if (centers == "half_pixel_symmetric") {
    const double adjustment = to / (a.scale * from), center = from / 2;
    return center * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
  }
  if (centers != "half_pixel") c.refuse(detail::join("its coordinates are '", centers, "'"));
  return (x + 0.5) / a.scale - 0.5;
}

double nearest_place(const OnnxCall& c, double place, const std::string& mode) {
  if (mode == "floor") return std::floor(place);
  if (mode == "ceil") return std::ceil(place);
  if (mode == "round_prefer_floor") return std::ceil(place - 0.5);
  if (mode != "round_prefer_ceil") c.refuse(detail::join("its nearest_mode is '", mode, "'"));
  return std::floor(place + 0.5);
}

/// The taps of an axis. A position outside of the image counts as the element at its edge.
Taps onnx_taps(const OnnxCall& c, const ResizedAxis& axis) {
  const std::string mode = c.text("mode", "nearest"),
                    centers = c.version() < 11 ? "asymmetric" : c.text("coordinate_transformation_mode", "half_pixel");
  const bool nearest = mode == "nearest", cubic = mode == "cubic";
  if (!nearest && !cubic && mode != "linear" && mode != "bilinear") c.refuse(detail::join("its mode is '", mode, "'"));
  if (axis.to > most_numbers) c.refuse(detail::join("it has an axis of ", axis.to, " elements"));
  const bool cuts = centers == "tf_crop_and_resize";
  if (cuts && c.real("extrapolation_value", 0) != 0) c.lack("its extrapolation_value");
  const auto bounded = [&](double place) {
    return static_cast<std::int32_t>(std::clamp(place, 0.0, static_cast<double>(axis.from - 1)));
  };
  // Smaller images are smoothed: the kernel becomes wider by the scale.
  const double stretch = c.flag("antialias") && axis.scale < 1 && !nearest ? 1 / axis.scale : 1;
  const auto reach = static_cast<int>(std::ceil((cubic ? 2 : 1) * stretch));
  const int first = nearest ? 0 : 1 - reach, last = nearest ? 0 : reach;
  if (last - first > most_blocks) c.refuse("its scale is too small");
  Taps taps(static_cast<std::size_t>(last - first + 1));
  for (std::int64_t i = 0; i < axis.to; ++i) {
    const double place = place_in_old(c, axis, centers, i);
    const bool outside = cuts && (place < 0 || place > static_cast<double>(axis.from - 1));
    if (nearest) {
      const std::string rounding = c.version() < 11 ? "floor" : c.text("nearest_mode", "round_prefer_floor");
      taps[0].places.push_back(bounded(nearest_place(c, place, rounding)));
      if (cuts) taps[0].factors.push_back(outside ? 0 : 1);
      continue;
    }
    const double left = std::floor(place), x = place - left;
    std::vector<double> factors;
    double sum = 0;
    for (int k = first; k <= last; ++k) {
      const double distance = std::abs(k - x) / stretch, a = c.real("cubic_coeff_a", -0.75);
      double factor = cubic ? (distance < 1   ? ((a + 2) * distance - (a + 3)) * distance * distance + 1
                               : distance < 2 ? ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
                                              : 0)
                            : std::max(1 - distance, 0.0);
      const double at = left + k;
      if (c.flag("exclude_outside") && (at < 0 || at >= static_cast<double>(axis.from))) factor = 0;
      factors.push_back(factor);
      sum += factor;
    }
    const bool divides = c.flag("exclude_outside") || stretch > 1;
    for (int k = first; k <= last; ++k) {
      const auto at = static_cast<std::size_t>(k - first);
      taps[at].places.push_back(bounded(left + k));
      taps[at].factors.push_back(static_cast<float>(outside ? 0 : divides ? factors[at] / sum : factors[at]));
    }
  }
  return taps;
}

/// The axes that change, with their sizes.
std::vector<std::pair<int, ResizedAxis>> resized_axes(const OnnxCall& c) {
  const bool is_old = c.version() < 11;  // Upsample and the first Resize have scales only
  const std::size_t scales_at = is_old ? 1 : 2;
  std::vector<double> scales, region;
  if (c.has(scales_at)) scales = c.value(scales_at).cast(float64).to_vector<double>();
  if (const auto* list = c.node().find<ListDef>("scales")) scales.assign(list->floats.begin(), list->floats.end());
  std::vector<std::int64_t> sizes, axes = c.ints("axes");
  if (!is_old && c.has(3)) sizes = c.numbers(3);
  if (!is_old && c.has(1)) region = c.value(1).cast(float64).to_vector<double>();
  if (axes.empty())
    for (int i = 0; i < c.rank(); ++i) axes.push_back(i);
  const std::size_t count = axes.size();
  if (scales.empty() == sizes.empty() || (scales.empty() ? sizes.size() : scales.size()) != count)
    c.refuse("its scales or sizes do not fit its input");
  const bool cuts = c.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if (cuts && region.size() != 2 * count) c.refuse("its region does not fit its input");
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  std::vector<std::pair<int, ResizedAxis>> resized;
  std::optional<double> common;
  for (std::size_t i = 0; policy != "stretch" && !sizes.empty() && i < count; ++i) {
    const double scale = static_cast<double>(sizes[i]) / static_cast<double>(c.size(c.axis(axes[i])));
    common = !common ? scale : policy == "not_larger" ? std::min(*common, scale) : std::max(*common, scale);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const int axis = c.axis(axes[i]);
    ResizedAxis a{.from = c.size(axis), .to = 0, .scale = 1, .width = 0};
    if (a.from < 0 && !cuts && sizes.empty() && scales[i] == 1) continue;  // the batch
    const auto from = static_cast<double>(a.from);
    if (cuts) {
      a.start = region[i];
      a.end = region[i + count];
    }
    double to = 0;
    if (!sizes.empty()) {
      to = common ? std::floor(*common * from + 0.5) : static_cast<double>(sizes[i]);
      a.scale = common ? *common : to / from;
    } else {
      a.scale = scales[i];
      a.width = from * (cuts ? a.end - a.start : 1) * a.scale;
      to = std::floor(a.width);
    }
    if (!sizes.empty()) a.width = to;
    if (!(to >= 1 && to <= static_cast<double>(most_numbers)) || a.from < 1 || !(a.scale > 0))
      c.refuse(detail::join("axis ", axis, " of ", a.from, " elements becomes one of ", to));
    a.to = static_cast<std::int64_t>(to);
    if (a.from != a.to || a.scale != 1 || (cuts && (a.start != 0 || a.end != 1))) resized.emplace_back(axis, a);
  }
  return resized;
}

Tensors read_resize(const OnnxCall& c) {
  Tensor x = c[0];
  const bool nearest = c.text("mode", "nearest") == "nearest";
  const bool cuts = c.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
  if ((!nearest || cuts) && x.dtype() != float32) x = x.cast(float32);
  for (const auto& [axis, how] : resized_axes(c)) x = resized(x, axis, onnx_taps(c, how));
  return {x.dtype() == c.dtype() ? x : x.cast(c.dtype())};
}

/// An axis whose scale is 1 needs no size.
bool resize_lacks(const OnnxCall& c) {
  if (c.shape().is_known() || !c.shape().has_rank()) return !c.shape().has_rank();
  const std::size_t scales_at = c.version() < 11 ? 1 : 2;
  std::vector<double> scales;
  if (c.has(scales_at)) scales = c.value(scales_at).cast(float64).to_vector<double>();
  if (scales.size() != static_cast<std::size_t>(c.rank()) || c.has_attr("axes")) return true;
  for (int i = 0; i < c.rank(); ++i)
    if (c.size(i) < 0 && scales[i] != 1) return true;
  return c.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
}

}  // namespace

OnnxOps onnx_resizing() {
  return {
      {"Resize", 2, 4, read_resize, {1, 2, 3}, resize_lacks, nullptr, onnx_rank_of_input},
      {"Upsample", 1, 2, read_resize, {1}, resize_lacks, nullptr, onnx_rank_of_input},
  };
}

}  // namespace tapestry::io
