// Where something is in images: windows around places, and drawn boxes.

#include <algorithm>

#include "io/tensorflow/foreign_parts.hpp"
#include "tapestry/random.hpp"

namespace tapestry::io {
namespace {

// ---- Glimpses -------------------------------------------------------------------------------------------------------

/// For each image the first of the rows, or columns, that its glimpse has. TensorFlow's first version counts from the
/// middle of the glimpse in all cases, the second one only where places are parts of the distance to the border.
Tensor glimpse_begin(const ForeignNode& n, std::int64_t axis, std::int64_t size, std::int64_t own) {
  const bool centered = n.node.attr_or<bool>("centered", true), normalized = n.node.attr_or<bool>("normalized", true);
  const bool is_first_version = n.node.def().op == "ExtractGlimpse";
  const auto whole = static_cast<float>(size), part = static_cast<float>(own);
  Tensor place = squeeze(slice(n.in(2), {0, axis}, {-1, 1}), 1);
  if (normalized) place = place * whole;
  if (centered && (normalized || is_first_version)) place = place / 2.0F;
  if (centered) place = place + whole / 2.0F;
  if (is_first_version || (centered && normalized)) place = place - part / 2.0F;
  return place.cast(int64);
}

/// What stands where a glimpse reaches beyond its image.
Tensor glimpse_border(const ForeignNode& n, const Shape& shape) {
  const auto noise = n.node.attr_or<std::string>("noise", "uniform");
  const Tensor& image = n.in(0);
  if (noise == "zero") return zeros(shape, {.dtype = image.dtype()});
  if (noise == "gaussian") {
    const Tensor mean = reduce_mean(image, {1, 2}, {.keep_dims = true});
    const Tensor deviation = sqrt(reduce_mean(square(image - mean), {1, 2}, {.keep_dims = true}));
    return mean + deviation * tapestry::random::normal(shape, {.dtype = image.dtype()});
  }
  if (noise != "uniform") n.node.refuse("its noise is '" + noise + "'");
  const Tensor least = reduce_min(image, {1, 2, 3}, {.keep_dims = true}),
               most = reduce_max(image, {1, 2, 3}, {.keep_dims = true});
  return least + (most - least) * tapestry::random::uniform(shape, {.dtype = image.dtype()});
}

Tensors read_glimpse(const ForeignNode& n) {
  require_images(n);
  require_rank(n, 2, 2);
  const std::vector<std::int64_t> own = n.numbers(1);
  const Shape& shape = n.in(0).shape();
  const std::int64_t images = shape.sizes()[0], height = shape.sizes()[1], width = shape.sizes()[2],
                     channels = shape.sizes()[3];
  if (own.size() != 2 || std::min(own[0], own[1]) < 1 || std::max(own[0], own[1]) > most_places)
    n.node.refuse(detail::join("its glimpses have the size ", Shape(own)));
  if (n.in(2).shape() != Shape{images, 2})
    n.node.refuse(detail::join("its places have the shape ", n.in(2).shape(), " for ", images, " images"));
  return n.composed([&] {
    const auto line = [&](std::int64_t axis, std::int64_t size) {
      return expand_dims(glimpse_begin(n, axis, size, own[axis]), 1) + arange(own[axis], {.dtype = int64});
    };
    const Tensor rows = expand_dims(line(0, height), 2), columns = expand_dims(line(1, width), 1);
    const Tensor is_inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width);
    const Tensor first = reshape(arange(images, {.dtype = int64}) * (height * width), {images, 1, 1});
    const Tensor places = first + clip(rows, 0, height - 1) * width + clip(columns, 0, width - 1);
    const Tensor found = gather(reshape(n.in(0), {images * height * width, channels}), places);
    return where(expand_dims(is_inside, 3), found, glimpse_border(n, {images, own[0], own[1], channels}));
  });
}

// ---- Boxes ----------------------------------------------------------------------------------------------------------

/// The colours of boxes for which a graph has none: red, green, blue and opacity.
constexpr float default_colours[][4] = {{1, 1, 0, 1},       {0, 0, 1, 1},       {1, 0, 0, 1},    {0, 1, 0, 1},
                                        {0.5F, 0, 0.5F, 1}, {0.5F, 0.5F, 0, 1}, {0.5F, 0, 0, 1}, {0, 0, 0.5F, 1},
                                        {0, 1, 1, 1},       {1, 0, 1, 1}};

Tensor colour_of(const ForeignNode& n, std::int64_t box, std::int64_t channels) {
  if (n.inputs.size() > 2 && n.in(2).shape().sizes()[0] > 0)
    return squeeze(slice(n.in(2), {box % n.in(2).shape().sizes()[0], 0}, {1, channels}), 0).cast(n.in(0).dtype());
  if (channels == 1) return ones({1}, {.dtype = n.in(0).dtype()});
  const auto& colour = default_colours[static_cast<std::size_t>(box) % std::size(default_colours)];
  return Tensor(tensor(std::vector<float>(colour, colour + channels))).cast(n.in(0).dtype());
}

/// Draws the border of each box, one after the other.
Tensors read_drawn_boxes(const ForeignNode& n) {
  require_images(n);
  require_rank(n, 1, 3);
  if (n.inputs.size() > 2) require_rank(n, 2, 2);
  const Shape& shape = n.in(0).shape();
  const std::int64_t images = shape.sizes()[0], height = shape.sizes()[1], width = shape.sizes()[2],
                     channels = shape.sizes()[3], count = n.in(1).shape().sizes()[1];
  if (n.in(1).shape() != Shape{images, count, 4} || count > most_blocks)
    n.node.refuse(detail::join("its boxes have the shape ", n.in(1).shape()));
  const bool has_colours = n.inputs.size() > 2 && n.in(2).shape().sizes()[0] > 0;
  if (channels < 1 || (has_colours ? n.in(2).shape().sizes()[1] < channels : channels > 4))
    n.node.refuse(detail::join("it has no colours of ", channels, " channels"));
  return n.composed([&] {
    const Tensor rows = reshape(arange(height, {.dtype = int64}), {height, 1}),
                 columns = arange(width, {.dtype = int64});
    Tensor image = n.in(0);
    for (std::int64_t box = 0; box < count; ++box) {
      const auto edge = [&](std::int64_t side, std::int64_t size) {
        const Tensor place = slice(n.in(1), {0, box, side}, {-1, 1, 1}) * static_cast<float>(size - 1);
        return place.cast(int64);
      };
      const Tensor top = edge(0, height), left = edge(1, width), bottom = edge(2, height), right = edge(3, width);
      const Tensor is_there = (rows >= top) & (rows <= bottom) & (columns >= left) & (columns <= right);
      const Tensor is_edge = equal(rows, top) | equal(rows, bottom) | equal(columns, left) | equal(columns, right);
      image = where(expand_dims(is_there & is_edge, 3), colour_of(n, box, channels), image);
    }
    return identity(image);
  });
}

}  // namespace

ForeignOps foreign_glimpses() {
  ForeignOps ops;
  for (const char* name : {"ExtractGlimpse", "ExtractGlimpseV2"})
    ops.push_back({.name = name,
                   .inputs = 3,
                   .values = {1},
                   .lacks_sizes = lacks_any_size,
                   .outputs = {like(0)},
                   .read = read_glimpse});
  ops.push_back({.name = "DrawBoundingBoxes",
                 .inputs = 2,
                 .lacks_sizes = lacks_any_size,
                 .specs = specs_like_first,
                 .read = read_drawn_boxes});
  ops.push_back({.name = "DrawBoundingBoxesV2",
                 .inputs = 3,
                 .lacks_sizes = lacks_any_size,
                 .specs = specs_like_first,
                 .read = read_drawn_boxes});
  return ops;
}

}  // namespace tapestry::io
