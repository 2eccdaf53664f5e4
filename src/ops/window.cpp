#include "ops/window.hpp"

namespace tapestry {
namespace {

/// A window along one axis of the images.
struct Sweep {
  std::int64_t image, window, stride, dilation;
  std::int64_t before = 0, after = 0;
  bool same = false;

  /// The number of pixels from the first element of the window to the last one.
  std::int64_t reach() const { return add_sizes(multiply_sizes(window - 1, dilation), 1); }

  std::int64_t padded() const { return add_sizes(add_sizes(image, before), after); }

  std::int64_t outputs() const {
    if (image < 0 || (window < 0 && !same)) return -1;
    if (same) return image == 0 ? 0 : (image - 1) / stride + 1;
    const std::int64_t room = padded() - reach();
    return room < 0 ? room : room / stride + 1;
  }

  /// Distributes the padding of "SAME"; the odd pixel goes behind the image.
  void pad_same() {
    const std::int64_t total = std::max<std::int64_t>(reach() - (image - (outputs() - 1) * stride), 0);
    before = total / 2;
    after = total - before;
  }
};

/// The sweep along the axis (1: height, 2: width).
Sweep sweep_of(const Call& call, int axis, std::int64_t image, std::int64_t window) {
  const auto i = static_cast<std::size_t>(axis);
  const Ints* dilations = call.attrs().find<Ints>("dilations");
  Sweep sweep{image, window, call.attr<Ints>("strides")[i], dilations ? (*dilations)[i] : 1};
  const auto& scheme = call.attr<std::string>("padding");
  sweep.same = scheme == "SAME";
  if (scheme == "EXPLICIT") {
    const Ints& widths = call.attr<Ints>("explicit_paddings");
    sweep.before = widths[2 * i];
    sweep.after = widths[2 * i + 1];
  }
  return sweep;
}

}  // namespace

Ints four(std::string_view what, const Size2d& size) {
  if (size.height < 1 || size.width < 1)
    throw InvalidArgumentError(
        detail::join("'", what, "' must be at least 1, but is {", size.height, ", ", size.width, "}"));
  return {1, size.height, size.width, 1};
}

namespace {

constexpr bool small = true;

std::vector<OpAttr> window_attrs(std::initializer_list<OpAttr> own) {
  std::vector<OpAttr> attrs{{"strides", AttrKind::numbers, required, 4, small},
                            {"padding", AttrKind::text},
                            {"explicit_paddings", AttrKind::numbers, optional, -1, small}};
  attrs.insert(attrs.end(), own);
  return attrs;
}

}  // namespace

std::vector<OpAttr> conv_attrs() {
  return window_attrs(
      {{"dilations", AttrKind::numbers, optional, 4, small}, {"groups", AttrKind::number, optional, -1, small}});
}

std::vector<OpAttr> pool_attrs() { return window_attrs({{"ksize", AttrKind::numbers, required, 4, small}}); }

void check_window_attrs(const Call& call) {
  for (const std::string_view name : {"strides", "dilations", "ksize"}) {
    const Ints* value = call.attrs().find<Ints>(name);
    if (!value) continue;
    const Ints& sizes = *value;
    if (sizes.size() != 4 || sizes[0] != 1 || sizes[3] != 1 || sizes[1] < 1 || sizes[2] < 1)
      throw InvalidArgumentError(
          detail::join("The attribute '", name, "' must be [1, height, width, 1] with sizes of at least 1"));
  }
  const auto& scheme = call.attr<std::string>("padding");
  if (scheme != "SAME" && scheme != "VALID" && scheme != "EXPLICIT")
    throw InvalidArgumentError(detail::join("padding must be SAME, VALID or EXPLICIT, but is ", scheme));
  if (scheme != "EXPLICIT") return;
  const Ints& widths = call.attr<Ints>("explicit_paddings");
  if (widths.size() != 8 || std::any_of(widths.begin(), widths.end(), [](std::int64_t width) { return width < 0; }))
    throw InvalidArgumentError("explicit_paddings must be eight numbers of at least 0");
}

Window2d window_of(const Call& call, const Shape& image, const Size2d& window) {
  Sweep y = sweep_of(call, 1, image.sizes()[1], window.height), x = sweep_of(call, 2, image.sizes()[2], window.width);
  if (y.same) y.pad_same();
  if (x.same) x.pad_same();
  return {.height = y.window,
          .width = x.window,
          .stride_y = y.stride,
          .stride_x = x.stride,
          .dilation_y = y.dilation,
          .dilation_x = x.dilation,
          .pad_top = y.before,
          .pad_bottom = y.after,
          .pad_left = x.before,
          .pad_right = x.after};
}

Shape window_output(const Call& call, const Shape& image, const Size2d& window) {
  Shape shape = image;
  for (const int axis : {1, 2}) {
    const Sweep sweep = sweep_of(call, axis, image.sizes()[axis], axis == 1 ? window.height : window.width);
    const std::int64_t outputs = sweep.outputs();
    if (outputs < 0 && sweep.image >= 0 && sweep.window >= 0)
      throw InvalidArgumentError(
          detail::join("Negative dimension size caused by subtracting ", sweep.reach(), " from ", sweep.padded()));
    shape.set(axis, std::max<std::int64_t>(outputs, -1));
  }
  return shape;
}

Padding2d::Padding2d(const char* scheme, Where where) : scheme_(scheme) {
  if (scheme_ != "SAME" && scheme_ != "VALID")
    throw InvalidArgumentError(detail::join("padding must be \"SAME\", \"VALID\" or widths, but is \"", scheme_, "\""),
                               where);
}

}  // namespace tapestry
