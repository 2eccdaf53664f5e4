#include "backend/cpu/kernels/winograd.hpp"

#include <algorithm>
#include <cstdint>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/conv.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

const WinogradTable& kernels() {
  static const WinogradTable& table = TAPESTRY_PICK_LEVEL(winograd_table);
  return table;
}

std::int64_t parts(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

bool pays(const ConvGeometry& g) {
  const Window2d& w = g.window;
  constexpr std::int64_t fewest_channels = 16, most_channels = 256, fewest_tiles = 16;
  const bool applies = w.height == 3 && w.width == 3 && w.stride_y == 1 && w.stride_x == 1 && w.dilation_y == 1 &&
                       w.dilation_x == 1 && w.groups == 1;
  // With few channels the transforms outweigh the products, with many the transformed filter does not fit the caches.
  return applies && std::min(g.in, g.out) >= fewest_channels && g.in + g.out <= most_channels &&
         g.positions() >= fewest_tiles * winograd_tile * winograd_tile;
}

/// The tiles of a convolution's output, with the windows of the image that they read.
class Tiling {
 public:
  explicit Tiling(const ConvGeometry& g)
      : g_(g), down_(parts(g.rows, winograd_tile)), across_(parts(g.columns, winograd_tile)) {}

  std::int64_t count() const { return g_.batch * down_ * across_; }
  /// The number of tiles for which the second-level cache has room, in multiples of the rows of a product's tile.
  std::int64_t grain() const {
    constexpr std::int64_t cache_floats = 300000, rows = 8;
    return cache_floats / (winograd_products * (g_.in + g_.out)) / rows * rows;
  }

  /// Computes the transformed windows of the tiles [begin, end), as [36, tiles, in].
  void read_windows(const float* x, std::int64_t begin, std::int64_t end, float* to) const {
    const std::int64_t plane = (end - begin) * g_.in;
    for (std::int64_t i = begin; i < end; ++i, to += g_.in) {
      const TileOrigin at = origin(i);
      const std::int64_t top = at.row - g_.window.pad_top, left = at.column - g_.window.pad_left;
      const auto inside = [](std::int64_t edge) { return std::clamp<std::int64_t>(edge, 0, winograd_window); };
      const Extent extent{inside(-top), inside(g_.height - top), inside(-left), inside(g_.width - left)};
      const std::int64_t corner = ((at.image * g_.height + top) * g_.width + left) * g_.in;
      kernels().input(x, corner, g_.width * g_.in, g_.in, extent, to, plane);
    }
  }
  /// Computes the tiles [begin, end) of y from their products [36, tiles, out].
  void write_tiles(const float* products, std::int64_t begin, std::int64_t end, float* y) const {
    for (std::int64_t i = begin; i < end; ++i, products += g_.out)
      kernels().output(products, (end - begin) * g_.out, g_.columns * g_.out, g_.out, extent(i), y + corner(i));
  }
  /// Computes the gradients of the products of the tiles [begin, end), as [36, tiles, out], from the gradient g of y.
  void read_gradients(const float* g, std::int64_t begin, std::int64_t end, float* to) const {
    for (std::int64_t i = begin; i < end; ++i, to += g_.out)
      kernels().output_gradient(g + corner(i), g_.columns * g_.out, g_.out, extent(i), to, (end - begin) * g_.out);
  }

 private:
  struct TileOrigin {
    std::int64_t image, row, column;  ///< of the tile's first output
  };
  TileOrigin origin(std::int64_t tile) const {
    return {tile / (down_ * across_), tile / across_ % down_ * winograd_tile, tile % across_ * winograd_tile};
  }
  std::int64_t corner(std::int64_t tile) const {
    const TileOrigin at = origin(tile);
    return ((at.image * g_.rows + at.row) * g_.columns + at.column) * g_.out;
  }
  Extent extent(std::int64_t tile) const {
    const TileOrigin at = origin(tile);
    return {0, std::min<std::int64_t>(winograd_tile, g_.rows - at.row), 0,
            std::min<std::int64_t>(winograd_tile, g_.columns - at.column)};
  }

  const ConvGeometry& g_;
  std::int64_t down_, across_;
};

Tensor floats(const Shape& shape) { return detail::make_tensor(DType::float32, shape, cpu()); }

}  // namespace

bool winograd(const ConvGeometry& g, const float* x, const float* filter, float* y) {
  if (!pays(g)) return false;
  const Tensor transformed = floats({winograd_products * g.in * g.out});
  float* factors = detail::mutable_data<float>(transformed);
  kernels().filter(filter, g.in * g.out, factors);
  const Tiling tiling(g);
  parallel_for(tiling.count(), tiling.grain(), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t count = end - begin;
    const Tensor buffer = floats({winograd_products * count * (g.in + g.out)});
    float* windows = detail::mutable_data<float>(buffer);
    float* products = windows + winograd_products * count * g.in;
    tiling.read_windows(x, begin, end, windows);
    for (std::int64_t p = 0; p < winograd_products; ++p)
      gemm_block(false, false, count, g.out, g.in, windows + p * count * g.in, g.in, factors + p * g.in * g.out, g.out,
                 false, products + p * count * g.out, g.out);
    tiling.write_tiles(products, begin, end, y);
  });
  return true;
}

bool winograd_grad_filter(Backend& backend, const ConvGeometry& g, const float* x, const float* gradient,
                          float* dfilter) {
  if (!pays(g)) return false;
  const Tiling tiling(g);
  const std::int64_t size = winograd_products * g.in * g.out, tasks = parts(tiling.count(), tiling.grain());
  // Each partial sum is over a share of the tiles. The number of sums depends on the shape alone, and so do the bits of
  // the result.
  constexpr std::int64_t most = 8;
  const std::int64_t share = parts(tasks, std::min(most, tasks)) * tiling.grain(), count = parts(tiling.count(), share);
  const Tensor sums = floats({count, size}), total = floats({size});
  parallel_for(count, 1, [&](std::int64_t part, std::int64_t) {
    float* sum = detail::mutable_data<float>(sums) + part * size;
    const Tensor buffer = floats({winograd_products * tiling.grain() * (g.in + g.out)});
    float* windows = detail::mutable_data<float>(buffer);
    float* products = windows + winograd_products * tiling.grain() * g.in;
    const std::int64_t first = part * share, last = std::min(first + share, tiling.count());
    for (std::int64_t begin = first; begin < last; begin += tiling.grain()) {
      const std::int64_t end = std::min(begin + tiling.grain(), last), tiles = end - begin;
      tiling.read_windows(x, begin, end, windows);
      tiling.read_gradients(gradient, begin, end, products);
      for (std::int64_t p = 0; p < winograd_products; ++p)
        gemm_block(true, false, g.in, g.out, tiles, windows + p * tiles * g.in, g.in, products + p * tiles * g.out,
                   g.out, begin != first, sum + p * g.in * g.out, g.out);
    }
  });
  backend.reduce(ReduceFunction::sum, sums, 1, total);
  kernels().filter_gradient(detail::mutable_data<float>(total), g.in * g.out, dfilter);
  return true;
}

}  // namespace tapestry::host
