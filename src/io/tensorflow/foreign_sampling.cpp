// Images whose pixels are sums of pixels of others: resizing by kernels, crops.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "io/tensorflow/foreign_windows.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

// ---- Both axes by matrices of weights -------------------------------------------------------------------------------

/// The weights of the old pixels of an axis for each new one: [to, from].
class AxisWeights {
 public:
  AxisWeights(const ForeignNode& n, std::int64_t from, std::int64_t to) : from_(from), to_(to) {
    if (from < 1 || to < 1 || product(from, to) > most_numbers)
      n.node.refuse(detail::join("it makes the size ", to, " of ", from));
    values_.resize(static_cast<std::size_t>(from * to));
  }
  /// Places outside the axis stand for its ends.
  void add(std::int64_t row, std::int64_t place, double weight) {
    const std::int64_t column = std::clamp<std::int64_t>(place, 0, from_ - 1);
    values_[row * from_ + column] += static_cast<float>(weight);
  }
  Tensor matrix() const { return tensor(values_, Shape{to_, from_}); }

 private:
  std::int64_t from_, to_;
  std::vector<float> values_;
};

/// The images of x, whose rows and columns are weighted.
Tensor weighted(const Tensor& x, const AxisWeights& rows, const AxisWeights& columns) {
  const Shape& shape = x.shape();
  const std::int64_t width = shape.sizes()[2], channels = shape.sizes()[3];
  const Tensor down = rows.matrix(), across = columns.matrix();
  const std::int64_t height = down.shape().sizes()[0];
  const Tensor shorter = matmul(down, reshape(x, {-1, shape.sizes()[1], product(width, channels)}));
  const Tensor narrower = matmul(across, reshape(shorter, {-1, width, channels}));
  return reshape(narrower, {-1, height, across.shape().sizes()[0], channels});
}

/// A kernel by its radius and its value at a distance from the middle.
struct Kernel {
  double radius;
  double (*value)(double x);
};

template <int radius>
double lanczos(double x) {
  if (x > radius) return 0;
  if (x <= 1e-3) return 1;
  constexpr double pi = std::numbers::pi;
  return radius * std::sin(pi * x) * std::sin(pi * x / radius) / (pi * pi * x * x);
}

Kernel kernel_of(const ForeignNode& n) {
  const auto name = n.node.attr_or<std::string>("kernel_type", "lanczos3");
  const std::pair<std::string_view, Kernel> kernels[] = {
      {"lanczos1", {1, lanczos<1>}},
      {"lanczos3", {3, lanczos<3>}},
      {"lanczos5", {5, lanczos<5>}},
      {"gaussian", {1.5, [](double x) { return x >= 1.5 ? 0 : std::exp(-2 * x * x); }}},
      {"box", {1, [](double x) { return x < 0.5    ? 1
                                        : x == 0.5 ? 0.5
                                                   : 0; }}},
      {"triangle", {1, [](double x) { return std::max(0.0, 1 - x); }}},
      {"keyscubic",
       {2,
        [](double x) {
          return x >= 2 ? 0 : x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : (1.5 * x - 2.5) * x * x + 1;
        }}},
      {"mitchellcubic", {2, [](double x) {
                           return x >= 2   ? 0
                                  : x >= 1 ? ((-7.0 / 18 * x + 2) * x - 10.0 / 3) * x + 16.0 / 9
                                           : (7.0 / 6 * x - 2) * x * x + 8.0 / 9;
                         }}}};
  const auto* found =
      std::find_if(std::begin(kernels), std::end(kernels), [&](const auto& each) { return each.first == name; });
  if (found == std::end(kernels)) n.node.refuse("its kernel is " + name);
  return found->second;
}

AxisWeights kernel_weights(const ForeignNode& n, std::int64_t from, std::int64_t to, float scale, float translation) {
  const Kernel kernel = kernel_of(n);
  if (!(scale > 0) || !std::isfinite(scale) || !std::isfinite(translation))
    n.node.refuse(detail::join("its scale is ", scale, ", its translation ", translation));
  AxisWeights weights(n, from, to);
  const float inverse = 1 / scale;
  // A smaller image is smoothed first.
  const float stretch = n.node.attr_or<bool>("antialias", true) ? std::max(inverse, 1.0F) : 1;
  const auto reach = static_cast<float>(kernel.radius) * stretch;
  for (std::int64_t i = 0; i < to; ++i) {
    const float middle = (static_cast<float>(i) + 0.5F) * inverse - inverse * translation;
    if (middle < 0 || middle > static_cast<float>(from)) continue;
    const auto place = [&](float at) {
      return static_cast<std::int64_t>(std::clamp(at, 0.0F, static_cast<float>(from - 1)));
    };
    const std::int64_t first = place(std::ceil(middle - reach - 0.5F)), last = place(std::floor(middle + reach - 0.5F));
    std::vector<double> values;
    double sum = 0;
    for (std::int64_t each = first; each <= last; ++each) {
      const float distance = std::abs((static_cast<float>(each) + 0.5F - middle) / stretch);
      sum += values.emplace_back(kernel.value(static_cast<double>(distance)));
    }
    if (std::abs(sum) < 1e-35) continue;
    for (std::int64_t each = first; each <= last; ++each) weights.add(i, each, values[each - first] / sum);
  }
  return weights;
}

/// Resizes images of that shape by a kernel: an affine map from the old pixels to the new ones.
Tensor scaled(const ForeignNode& n, const Tensor& x, std::int64_t height, std::int64_t width) {
  const auto pair = [&](std::size_t input) {
    std::vector<float> list = n.node.constant(input).cast(float32).to_vector<float>();
    if (list.size() != 2) n.node.refuse(detail::join("its input ", input, " is no pair of numbers"));
    return list;
  };
  const std::vector<float> scale = pair(2), translation = pair(3);
  const Shape& shape = x.shape();
  return weighted(x.cast(float32), kernel_weights(n, shape.sizes()[1], height, scale[0], translation[0]),
                  kernel_weights(n, shape.sizes()[2], width, scale[1], translation[1]));
}

Tensors read_scale(const ForeignNode& n) {
  require_images(n);
  const std::vector<std::int64_t> sizes = n.numbers(1);
  if (sizes.size() != 2) n.node.refuse("it has not two sizes");
  return n.composed([&] { return scaled(n, n.in(0), sizes[0], sizes[1]); });
}

/// From the gradient of the result and the original image.
Tensors read_scale_gradient(const ForeignNode& n) {
  require_images(n);
  require_rank(n, 1, 4);
  const Tensor& g = n.in(0);
  return n.composed([&] {
    return gradients_of({n.in(1)}, [&](const Tensors& x) {
      return Tensors{scaled(n, x[0], g.shape().sizes()[1], g.shape().sizes()[2]) * g};
    });
  });
}

// ---- Crops ----------------------------------------------------------------------------------------------------------

/// The coordinates of the pixels of crops along one axis, [boxes, count]: those of boxes from `begin` to `end`, in
/// which 1 is the last pixel.
Tensor crop_coordinates(const Tensor& begin, const Tensor& end, std::int64_t count, std::int64_t size) {
  const auto last = static_cast<double>(size - 1);
  if (count == 1) return expand_dims((begin + end) * (0.5 * last), 1);
  const Tensor step = expand_dims((end - begin) * (last / static_cast<double>(count - 1)), 1);
  return expand_dims(begin * last, 1) + arange(count, {.dtype = float32}) * step;
}

struct CropOptions {
  std::int64_t height, width;
  bool nearest;
  double outside;
};

Tensor crops(const Tensor& image, const Tensor& boxes, const Tensor& of_image, const CropOptions& options) {
  const Shape& shape = image.shape();
  const std::int64_t count = shape.sizes()[0], height = shape.sizes()[1], width = shape.sizes()[2];
  const std::vector<Tensor> edges = unstack(boxes, 1);
  const Tensor y = expand_dims(crop_coordinates(edges[0], edges[2], options.height, height), 2);
  const Tensor x = expand_dims(crop_coordinates(edges[1], edges[3], options.width, width), 1);
  const Tensor inside =
      (y >= 0) & (y <= static_cast<double>(height - 1)) & (x >= 0) & (x <= static_cast<double>(width - 1));
  const Tensor pixels = reshape(image.cast(float32), {-1, shape.sizes()[3]});
  // The first pixels are looked up in a table, so that an image that does not exist is an error.
  const Tensor first = reshape(gather(arange(count, {.dtype = int64}) * product(height, width), of_image), {-1, 1, 1});
  const auto at = [&](const Tensor& row, const Tensor& column) {
    const auto place = [](const Tensor& coordinate, std::int64_t size) {
      return clip(coordinate, 0, static_cast<double>(size - 1)).cast(int64);
    };
    return gather(pixels, first + place(row, height) * width + place(column, width));
  };
  const auto border = [&](const Tensor& crop) { return where(expand_dims(inside, 3), crop, options.outside); };
  if (options.nearest) return border(at(floor(y + 0.5), floor(x + 0.5)));
  const Tensor top = floor(y), left = floor(x);
  const Tensor down = expand_dims(y - top, 3), across = expand_dims(x - left, 3);
  const auto row = [&](const Tensor& of) {
    const Tensor begin = at(of, left);
    return begin + (at(of, ceil(x)) - begin) * across;
  };
  const Tensor upper = row(top);
  return border(upper + (row(ceil(y)) - upper) * down);
}

bool is_nearest(const ForeignNode& n) {
  const auto method = n.node.attr_or<std::string>("method", "bilinear");
  if (method != "bilinear" && method != "nearest") n.node.refuse("its method is " + method);
  return method == "nearest";
}

void require_boxes(const ForeignNode& n, std::size_t boxes) {
  require_rank(n, boxes, 2);
  require_rank(n, boxes + 1, 1);
  if (n.in(boxes).shape().sizes()[1] != 4) n.node.refuse("its boxes have not four edges");
}

Tensors read_crops(const ForeignNode& n) {
  require_images(n);
  require_boxes(n, 1);
  const std::vector<std::int64_t> sizes = n.numbers(3);
  if (sizes.size() != 2 || std::min(sizes[0], sizes[1]) < 1 || product(sizes[0], sizes[1]) > most_numbers)
    n.node.refuse("it has not two sizes");
  const CropOptions options{sizes[0], sizes[1], is_nearest(n), n.node.attr_or<float>("extrapolation_value", 0)};
  return n.composed([&] { return crops(n.in(0), n.in(1), n.in(2), options); });
}

Tensors read_crop_gradient_by_image(const ForeignNode& n) {
  require_images(n);
  require_boxes(n, 1);
  const Shape sizes = n.shape(3), &shape = n.in(0).shape();
  if (sizes.rank() != 4 || sizes.size() > most_numbers) n.node.refuse(detail::join("its image has the shape ", sizes));
  const CropOptions options{shape.sizes()[1], shape.sizes()[2], is_nearest(n), 0};
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("T", code_of(float32)));
  return n.composed([&] {
    return gradients_of({shape_only(n, sizes, dtype)}, [&](const Tensors& image) {
      return Tensors{crops(image[0], n.in(1), n.in(2), options) * n.in(0)};
    });
  });
}

Tensors read_crop_gradient_by_boxes(const ForeignNode& n) {
  require_images(n);
  require_rank(n, 1, 4);
  require_boxes(n, 2);
  const Shape& shape = n.in(0).shape();
  const CropOptions options{shape.sizes()[1], shape.sizes()[2], is_nearest(n), 0};
  return n.composed([&] {
    return gradients_of(
        {n.in(2)}, [&](const Tensors& boxes) { return Tensors{crops(n.in(1), boxes[0], n.in(3), options) * n.in(0)}; });
  });
}

// ---- Projections ----------------------------------------------------------------------------------------------------

/// The place of an axis that stands for one outside of it.
double place_of(std::string_view mode, double at, double length) {
  if (mode == "CONSTANT") return at;
  if (length == 1) return 0;
  if (mode == "REFLECT" && at < 0) {
    const double first = at + 2 * length * std::floor(-at / (2 * length));
    at = first < -length ? first + 2 * length : -first - 1;
  } else if (mode == "REFLECT" && at > length - 1) {
    const double last = at - 2 * length * std::floor(at / (2 * length));
    at = last >= length ? 2 * length - last - 1 : last;
  } else if (mode == "WRAP" && at < 0) {
    at += length * (std::floor(-at / (length - 1)) + 1);
  } else if (mode == "WRAP" && at > length - 1) {
    at -= length * std::floor(at / (length - 1));
  }
  return std::clamp<double>(at, 0, length - 1);
}

/// Each pixel of a result is that of the image at a place that a projective transform tells, or is between four.
Tensors read_projection(const ForeignNode& n) {
  require_images(n);
  const Shape& shape = n.in(0).shape();
  const std::int64_t count = shape.sizes()[0], height = shape.sizes()[1], width = shape.sizes()[2];
  const std::vector<std::int64_t> sizes = n.numbers(2);
  const Tensor given = n.node.constant(1);
  if (sizes.size() != 2 || std::min(sizes[0], sizes[1]) < 1 ||
      product(product(sizes[0], sizes[1]), count) > most_numbers)
    n.node.refuse("it has not two sizes");
  if (given.shape() != Shape{1, 8} && given.shape() != Shape{count, 8})
    n.node.refuse(detail::join("its images are ", shape, ", its transforms ", given.shape()));
  const auto mode = n.node.attr_or<std::string>("fill_mode", "CONSTANT");
  const bool nearest = n.node.attr<std::string>("interpolation") == "NEAREST";
  if (!nearest && !is_floating(n.in(0).dtype())) lack(n, "type");
  const std::vector<float> transforms = given.cast(float32).to_vector<float>();
  std::vector<std::int64_t> places;  // of pixels; the one that fills follows the last
  std::vector<float> weights;
  const auto add = [&](std::int64_t image, double row, double column, double weight) {
    const bool inside =
        row >= 0 && row < static_cast<double>(height) && column >= 0 && column < static_cast<double>(width);
    places.push_back(inside
                         ? (image * height + static_cast<std::int64_t>(row)) * width + static_cast<std::int64_t>(column)
                         : count * height * width);
    weights.push_back(static_cast<float>(weight));
  };
  for (std::int64_t image = 0; image < count; ++image) {
    const float* t = transforms.data() + (given.shape().sizes()[0] == 1 ? 0 : image * 8);
    for (std::int64_t i = 0; i < sizes[0] * sizes[1]; ++i) {
      // NOLINTNEXTLINE(bugprone-integer-division): the whole quotient is the row of the pixel
      const auto x = static_cast<float>(i % sizes[1]), y = static_cast<float>(i / sizes[1]);
      const float scale = t[6] * x + t[7] * y + 1;
      const double column =
          place_of(mode, static_cast<double>((t[0] * x + t[1] * y + t[2]) / scale), static_cast<double>(width));
      const double row =
          place_of(mode, static_cast<double>((t[3] * x + t[4] * y + t[5]) / scale), static_cast<double>(height));
      const double top = std::floor(row), left = std::floor(column), down = row - top, across = column - left;
      if (scale == 0) {
        for (int k = 0; k < (nearest ? 1 : 4); ++k) add(image, -1, -1, k == 0 ? 1 : 0);
      } else if (nearest) {
        add(image, std::round(row), std::round(column), 1);
      } else {
        for (const int lower : {0, 1})
          for (const int right : {0, 1})
            add(image, top + lower, left + right, (lower == 1 ? down : 1 - down) * (right == 1 ? across : 1 - across));
      }
    }
  }
  return n.composed([&] {
    const Tensor pixels = reshape(n.in(0), {-1, shape.sizes()[3]}), fill = zeros_like(slice(pixels, {0, 0}, {1, -1}));
    const Tensor all = concat({pixels, n.inputs.size() > 3 ? fill + n.in(3).cast(fill.dtype()) : fill}, 0);
    const Tensor found = gather(all, reshape(vector_of(places, int64), {count, sizes[0], sizes[1], -1}));
    if (nearest) return squeeze(found, 3);
    const Tensor parts = reshape(tensor(weights), {count, sizes[0], sizes[1], 4, 1});
    return reduce_sum(found * parts.cast(found.dtype()), 3);
  });
}

// ---- Dilation -------------------------------------------------------------------------------------------------------

/// The largest sum of a pixel and an element of the filter, for each place of the filter and each channel. The gradient
/// is that of the first one where several are the largest.
Tensor dilated(const ForeignNode& n, const Tensor& x, const Tensor& filter) {
  const auto strides = for_axes(n, "strides", 4), rates = for_axes(n, "rates", 4);
  const Shape &shape = x.shape(), &sizes = filter.shape();
  const Track rows = track(n, shape.sizes()[1], sizes.sizes()[0], strides[1], rates[1]);
  const Track columns = track(n, shape.sizes()[2], sizes.sizes()[1], strides[2], rates[2]);
  const Tensor flat = reshape(filter, {product(sizes.sizes()[0], sizes.sizes()[1]), sizes.sizes()[2]});
  const Tensor sums = windows(x, {rows, columns}, -std::numeric_limits<double>::infinity()) + flat;
  return squeeze(take_along_axis(sums, expand_dims(argmax(sums, 3), 3), 3), 3);
}

void require_dilation(const ForeignNode& n) {
  require_images(n);
  require_rank(n, 1, 3);
  require_one_type(n);
  if (!is_floating(n.in(0).dtype())) lack(n, "type");
}

Tensors read_dilation(const ForeignNode& n) {
  require_dilation(n);
  return n.composed([&] { return dilated(n, n.in(0), n.in(1)); });
}

Tensors read_dilation_gradient(const ForeignNode& n) {
  require_dilation(n);
  const bool by_filter = n.node.def().op == "Dilation2DBackpropFilter";
  return n.composed([&] {
    return gradients_of({n.in(by_filter ? 1 : 0)}, [&](const Tensors& source) {
      return Tensors{(by_filter ? dilated(n, n.in(0), source[0]) : dilated(n, source[0], n.in(1))) * n.in(2)};
    });
  });
}

}  // namespace

ForeignOps foreign_sampling() {
  ForeignOps ops{
      {.name = "CropAndResize",
       .inputs = 4,
       .values = {3},
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(float32)},
       .read = read_crops},
      {.name = "CropAndResizeGradBoxes",
       .inputs = 4,
       .lacks_sizes = lacks_any_size,
       .outputs = {typed(float32)},
       .read = read_crop_gradient_by_boxes},
      {.name = "CropAndResizeGradImage",
       .inputs = 4,
       .values = {3},
       .lacks_sizes = lacks_any_size,
       .outputs = {told_by("T", float32)},
       .read = read_crop_gradient_by_image},
      {.name = "Dilation2D",
       .inputs = 2,
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_dilation},
      {.name = "ImageProjectiveTransformV2",
       .inputs = 3,
       .values = {1, 2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_projection},
      {.name = "ImageProjectiveTransformV3",
       .inputs = 4,
       .values = {1, 2},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_projection},
      {.name = "ScaleAndTranslate",
       .inputs = 4,
       .values = {1, 2, 3},
       .lacks_sizes = lacks_image_sizes,
       .outputs = {typed(float32)},
       .read = read_scale},
      {.name = "ScaleAndTranslateGrad",
       .inputs = 4,
       .values = {2, 3},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_scale_gradient},
  };
  for (const char* name : {"Dilation2DBackpropFilter", "Dilation2DBackpropInput"})
    ops.push_back({.name = name,
                   .inputs = 3,
                   .lacks_sizes = lacks_any_size,
                   .outputs = {like(0)},
                   .read = read_dilation_gradient});
  return ops;
}

}  // namespace tapestry::io
