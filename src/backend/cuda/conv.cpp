#include <algorithm>

#include "backend/cuda/convolver.hpp"
#include "backend/cuda/cuda_backend.hpp"
#include "backend/cuda/multiplier.hpp"
#include "backend/cuda/windows.hpp"
#include "core/make_tensor.hpp"

// cuDNN computes a convolution where it can. Otherwise a convolution is a product of matrices, as on the CPU: a row of
// "patches" holds the elements of the image under the window at one output position. Patches are made for some images
// at a time.

namespace tapestry::gpu {
namespace {

constexpr std::int64_t patch_bytes = std::int64_t{256} << 20;

/// Some of the images of a convolution, and the products with their patches.
class ImageBatch {
 public:
  /// The images [first, first + count).
  ImageBatch(const Windows& whole, std::int64_t out, std::int64_t first, std::int64_t count)
      : windows(whole), out_(out), first_(first) {
    windows.batch = count;
  }

  /// y = patches * filter, for each group.
  Product forward(void* patches, void* filter, void* y, std::int64_t bytes) const {
    Product product = sizes(windows.positions(), group_out(), windows.patch());
    product.a = by_position(patches);
    product.b = {filter, out_, group_out(), false};
    product.y = {result(y, bytes), out_, group_out(), false};
    return product;
  }
  /// The patches' gradient = g * filter^T.
  Product backward(void* g, void* filter, void* patches, std::int64_t bytes) const {
    Product product = sizes(windows.positions(), windows.patch(), group_out());
    product.a = {result(g, bytes), out_, group_out(), false};
    product.b = {filter, out_, group_out(), true};
    product.y = by_position(patches);
    return product;
  }
  /// The filter's gradient = patches^T * g.
  Product of_filter(void* patches, void* g, void* filter, std::int64_t bytes) const {
    Product product = sizes(windows.patch(), group_out(), windows.positions());
    product.a = by_position(patches);
    product.a.transposed = true;
    product.b = {result(g, bytes), out_, group_out(), false};
    product.y = {filter, out_, group_out(), false};
    return product;
  }

  /// The batch's first image in an array of all images.
  void* image(void* images, std::int64_t bytes) const {
    return static_cast<std::byte*>(images) + first_ * windows.height * windows.width * windows.channels * bytes;
  }

  Windows windows;

 private:
  std::int64_t group_out() const { return out_ / windows.groups; }
  Product sizes(std::int64_t m, std::int64_t n, std::int64_t k) const {
    Product product;
    product.m = m;
    product.n = n;
    product.k = k;
    product.count = windows.groups;
    return product;
  }
  Product::Matrix by_position(void* patches) const {
    return {patches, windows.patch(), windows.positions() * windows.patch(), false};
  }
  void* result(void* results, std::int64_t bytes) const {
    return static_cast<std::byte*>(results) + first_ * windows.rows * windows.columns * out_ * bytes;
  }

  std::int64_t out_, first_;
};

/// Calls body(batch, memory for its patches) for batches of as many images as `patch_bytes` has room for, at least one.
template <class Body>
void for_each_batch(const Windows& windows, std::int64_t out, const Tensor& like, const Body& body) {
  const std::int64_t bytes = size_of(like.dtype());
  const std::int64_t elements = windows.groups * windows.rows * windows.columns * windows.patch();
  const std::int64_t images = std::clamp<std::int64_t>(patch_bytes / (elements * bytes), 1, windows.batch);
  const Tensor patches = detail::make_tensor(like.dtype(), {images * elements}, like.device());
  for (std::int64_t first = 0; first < windows.batch; first += images)
    body(ImageBatch(windows, out, first, std::min(images, windows.batch - first)), patches.impl().data);
}

std::int64_t bytes_of(const Tensor& x) { return size_of(x.dtype()); }

/// A view of a filter HWIO as OHWI, which is cuDNN's order.
Tensor output_first(const Tensor& filter) {
  const Shape& shape = filter.shape();
  const auto strides = filter.strides();
  const std::int64_t turned[] = {strides[3], strides[0], strides[1], strides[2]};
  return detail::make_view(filter, {shape.sizes()[3], shape.sizes()[0], shape.sizes()[1], shape.sizes()[2]}, turned);
}

}  // namespace

Convolver& CudaBackend::convolver() {
  Context& gpu = context();
  std::call_once(convolver_once_, [&] {
    gpu.require_execution();
    convolver_ = new Convolver(gpu);
  });
  return *convolver_;
}

void CudaBackend::conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) {
  if (y.size() == 0) return;
  if (filter.size() == 0) return fill(0, y);
  const Windows windows = windows_on(x.shape(), y.shape(), window);
  const std::int64_t out = y.shape().sizes()[3];
  const Tensor image = contiguous(x);
  Convolver::Plan* plan = convolver().plan(Convolver::Kind::forward, windows, out, y.dtype());
  if (plan && convolver().run(*plan, image, contiguous(output_first(filter)), y)) return;
  if (is_half(y.dtype())) return Backend::conv2d(x, filter, window, y);

  Context& gpu = context();
  const Tensor weights = contiguous(filter);
  for_each_batch(windows, out, y, [&](const ImageBatch& images, void* patches) {
    read_patches(gpu.stream(), type_of(x), images.windows, images.image(image.impl().data, bytes_of(x)), patches);
    gpu.started("conv2d");
    multiplier().multiply(images.forward(patches, weights.impl().data, y.impl().data, bytes_of(y)), y.dtype());
  });
}

void CudaBackend::conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) {
  if (dx.size() == 0) return;
  if (g.size() == 0 || filter.size() == 0) return fill(0, dx);
  const Windows windows = windows_on(dx.shape(), g.shape(), window);
  const std::int64_t out = g.shape().sizes()[3];
  const Tensor gradient = contiguous(g);
  Convolver::Plan* plan = convolver().plan(Convolver::Kind::input_gradient, windows, out, dx.dtype());
  if (plan && convolver().run(*plan, contiguous(output_first(filter)), gradient, dx)) return;
  if (is_half(dx.dtype())) return Backend::conv2d_grad_input(g, filter, window, dx);

  Context& gpu = context();
  const Tensor weights = contiguous(filter);
  for_each_batch(windows, out, dx, [&](const ImageBatch& images, void* patches) {
    multiplier().multiply(images.backward(gradient.impl().data, weights.impl().data, patches, bytes_of(g)), dx.dtype());
    add_patches(gpu.stream(), type_of(dx), images.windows, patches, images.image(dx.impl().data, bytes_of(dx)));
    gpu.started("conv2d_grad_input");
  });
}

void CudaBackend::conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) {
  if (dfilter.size() == 0) return;
  if (g.size() == 0) return fill(0, dfilter);
  const Windows windows = windows_on(x.shape(), g.shape(), window);
  const std::int64_t out = g.shape().sizes()[3];
  const Tensor image = contiguous(x), gradient = contiguous(g);
  if (Convolver::Plan* plan = convolver().plan(Convolver::Kind::filter_gradient, windows, out, dfilter.dtype())) {
    const Tensor turned = detail::make_tensor(dfilter.dtype(), output_first(dfilter).shape(), dfilter.device());
    if (convolver().run(*plan, image, gradient, turned)) return copy(turned, output_first(dfilter));
  }
  if (is_half(dfilter.dtype())) return Backend::conv2d_grad_filter(x, g, window, dfilter);

  Context& gpu = context();
  bool accumulate = false;
  for_each_batch(windows, out, x, [&](const ImageBatch& images, void* patches) {
    read_patches(gpu.stream(), type_of(x), images.windows, images.image(image.impl().data, bytes_of(x)), patches);
    gpu.started("conv2d_grad_filter");
    multiplier().multiply(images.of_filter(patches, gradient.impl().data, dfilter.impl().data, bytes_of(g)), x.dtype(),
                          accumulate);
    accumulate = true;
  });
}

}  // namespace tapestry::gpu
