#include "backend/cpu/kernels/batch_norm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

// The last axis holds the channels; all others together are rows. The statistics of a chunk of rows are computed while
// the chunk is in the cache, so x is read from memory once for mean and variance.

namespace tapestry::host {
namespace {

template <class T>
const BatchNormKernels<T>& kernels() {
  static const BatchNormTable& table = TAPESTRY_PICK_LEVEL(batch_norm_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

template <class T>
const T* elements(const Tensor& x) {
  return static_cast<const T*>(x.impl().data);
}
using detail::mutable_data;

/// How rows of channels are cut into tiles: chunks of rows, and of channels where these are many. Several short rows
/// make one that is long enough for the registers: a tile's statistics are repeated for each of them.
struct Tiles {
  static constexpr std::int64_t most_channels = 1024, least_width = 64, elements = 16384;

  explicit Tiles(const Tensor& x)
      : channels(x.shape().sizes().back()),
        rows(x.size() / channels),
        width(std::min(channels, most_channels)),
        repeats(channels < least_width ? least_width / channels : 1),
        grain(std::max<std::int64_t>(elements / (width * repeats), 4) * repeats),
        chunks((rows + grain - 1) / grain),
        across((channels + width - 1) / width) {}

  std::int64_t channels, rows;
  std::int64_t width;    ///< channels of a tile
  std::int64_t repeats;  ///< rows that are treated as one
  std::int64_t grain;    ///< rows of a chunk, a multiple of `repeats`
  std::int64_t chunks, across;
};

struct Tile {
  std::int64_t chunk, first_row, rows, first_channel, width, repeats, stride;

  std::int64_t first() const { return first_row * stride / repeats + first_channel; }
  /// Calls kernel(offset from the tile's first element, rows, elements of a row): once for the rows that are treated as
  /// one, and once for the rest.
  template <class Kernel>
  void run(const Kernel& kernel) const {
    const std::int64_t whole = rows / repeats, rest = rows % repeats;
    if (whole > 0) kernel(std::int64_t{0}, whole, repeats * width);
    if (rest > 0) kernel(whole * stride, std::int64_t{1}, rest * width);
  }
};

template <class Body>
void for_tiles(const Tiles& t, const Body& body) {
  parallel_for(t.chunks * t.across, 1, [&](std::int64_t index, std::int64_t) {
    const std::int64_t chunk = index / t.across, first_channel = index % t.across * t.width;
    const std::int64_t first_row = chunk * t.grain;
    body(Tile{chunk, first_row, std::min(t.grain, t.rows - first_row), first_channel,
              std::min(t.width, t.channels - first_channel), t.repeats, t.channels * t.repeats});
  });
}

constexpr std::int64_t room = Tiles::most_channels;

/// The sums of a tile's repeated rows, added up in the first of them.
template <class T>
void fold(const Tile& tile, T* sums) {
  for (std::int64_t i = 1; i < tile.repeats; ++i)
    for (std::int64_t c = 0; c < tile.width; ++c) sums[c] += sums[i * tile.width + c];
}

/// Statistics of a tile's channels, once for each of the rows that are treated as one.
template <class T>
struct Repeated {
  T values[room];

  Repeated(const Tile& tile, const T* statistics) {
    for (std::int64_t i = 0; i < tile.repeats; ++i)
      std::copy_n(statistics + tile.first_channel, tile.width, values + i * tile.width);
  }
  operator const T*() const { return values; }
};

/// The mean of each channel, and its variance, from those of all chunks (T. Chan et al., 1983).
template <class T>
void moments(const Tiles& tiles, const T* x, T* mean, T* variance) {
  std::vector<T> means(tiles.chunks * tiles.channels), squares(means.size());
  for_tiles(tiles, [&](const Tile& tile) {
    T sums[room] = {}, differences[room] = {};
    const T* from = x + tile.first();
    tile.run([&](std::int64_t at, std::int64_t rows, std::int64_t width) {
      kernels<T>().sum(from + at, rows, tile.stride, width, sums);
    });
    fold(tile, sums);
    T* const middle = means.data() + tile.chunk * tiles.channels;
    for (std::int64_t c = 0; c < tile.width; ++c)
      middle[tile.first_channel + c] = static_cast<T>(sums[c] / static_cast<T>(tile.rows));
    const Repeated<T> repeated(tile, middle);
    tile.run([&](std::int64_t at, std::int64_t rows, std::int64_t width) {
      kernels<T>().squares(from + at, rows, tile.stride, width, repeated, differences);
    });
    fold(tile, differences);
    std::copy_n(differences, tile.width, squares.data() + tile.chunk * tiles.channels + tile.first_channel);
  });

  std::vector<double> middle(tiles.channels), total(tiles.channels);
  for (std::int64_t chunk = 0; chunk < tiles.chunks; ++chunk) {
    const auto before = static_cast<double>(chunk * tiles.grain);
    const auto count = static_cast<double>(std::min(tiles.grain, tiles.rows - chunk * tiles.grain));
    const double part = count / (before + count), weight = before * part;
    for (std::int64_t c = 0; c < tiles.channels; ++c) {
      const double step = static_cast<double>(means[chunk * tiles.channels + c]) - middle[c];
      middle[c] += step * part;
      total[c] += static_cast<double>(squares[chunk * tiles.channels + c]) + step * step * weight;
    }
  }
  for (std::int64_t c = 0; c < tiles.channels; ++c) {
    mean[c] = static_cast<T>(middle[c]);
    variance[c] = static_cast<T>(total[c] / static_cast<double>(tiles.rows));
  }
}

/// 1 / sqrt(variance + epsilon) for each channel.
template <class T>
std::vector<T> deviations(const Tensor& variance, double epsilon) {
  std::vector<T> rstd(variance.size());
  for (std::size_t c = 0; c < rstd.size(); ++c)
    rstd[c] = static_cast<T>(1 / std::sqrt(static_cast<double>(elements<T>(variance)[c]) + epsilon));
  return rstd;
}

template <class T>
void batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon, const Tensor& y,
                     const Tensor& mean, const Tensor& variance) {
  const Tiles tiles(x);
  moments(tiles, elements<T>(x), mutable_data<T>(mean), mutable_data<T>(variance));
  std::vector<T> factor = deviations<T>(variance, epsilon);
  for (std::size_t c = 0; c < factor.size(); ++c) factor[c] *= elements<T>(scale)[c];
  for_tiles(tiles, [&](const Tile& tile) {
    const Repeated<T> middle(tile, elements<T>(mean)), factors(tile, factor.data()), addend(tile, elements<T>(offset));
    tile.run([&](std::int64_t at, std::int64_t rows, std::int64_t width) {
      const std::int64_t first = tile.first() + at;
      kernels<T>().normalize(elements<T>(x) + first, rows, tile.stride, width, middle, factors, addend,
                             mutable_data<T>(y) + first);
    });
  });
}

template <class T>
void batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                          const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                          const Tensor& doffset) {
  const Tiles tiles(x);
  const std::int64_t channels = tiles.channels;
  std::vector<T> of_g(tiles.chunks * channels), of_products(of_g.size());
  for_tiles(tiles, [&](const Tile& tile) {
    T sums[room] = {}, products[room] = {};
    const Repeated<T> middle(tile, elements<T>(mean));
    tile.run([&](std::int64_t at, std::int64_t rows, std::int64_t width) {
      const std::int64_t first = tile.first() + at;
      kernels<T>().products(elements<T>(x) + first, elements<T>(g) + first, rows, tile.stride, width, middle, sums,
                            products);
    });
    fold(tile, sums);
    fold(tile, products);
    std::copy_n(sums, tile.width, of_g.data() + tile.chunk * channels + tile.first_channel);
    std::copy_n(products, tile.width, of_products.data() + tile.chunk * channels + tile.first_channel);
  });

  std::vector<double> total_g(channels), total_products(channels);
  for (std::int64_t chunk = 0; chunk < tiles.chunks; ++chunk)
    for (std::int64_t c = 0; c < channels; ++c) {
      total_g[c] += static_cast<double>(of_g[chunk * channels + c]);
      total_products[c] += static_cast<double>(of_products[chunk * channels + c]);
    }
  std::vector<T> factor = deviations<T>(variance, epsilon), level(channels), slope(channels);
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto rstd = static_cast<double>(factor[c]), count = static_cast<double>(tiles.rows);
    mutable_data<T>(doffset)[c] = static_cast<T>(total_g[c]);
    mutable_data<T>(dscale)[c] = static_cast<T>(total_products[c] * rstd);
    level[c] = static_cast<T>(total_g[c] / count);
    slope[c] = static_cast<T>(total_products[c] * rstd * rstd / count);
    factor[c] *= elements<T>(scale)[c];
  }
  for_tiles(tiles, [&](const Tile& tile) {
    const Repeated<T> middle(tile, elements<T>(mean)), levels(tile, level.data()), slopes(tile, slope.data()),
        factors(tile, factor.data());
    tile.run([&](std::int64_t at, std::int64_t rows, std::int64_t width) {
      const std::int64_t first = tile.first() + at;
      kernels<T>().gradient(elements<T>(x) + first, elements<T>(g) + first, rows, tile.stride, width, middle, levels,
                            slopes, factors, mutable_data<T>(dx) + first);
    });
  });
}

}  // namespace

void CpuBackend::batch_normalize(const Tensor& x, const Tensor& scale, const Tensor& offset, double epsilon,
                                 const Tensor& y, const Tensor& mean, const Tensor& variance) {
  if (is_half(x.dtype()) || x.size() == 0)
    return Backend::batch_normalize(x, scale, offset, epsilon, y, mean, variance);
  const Tensor from = contiguous(x), factor = contiguous(scale), addend = contiguous(offset);
  const auto run = x.dtype() == DType::float32 ? host::batch_normalize<float> : host::batch_normalize<double>;
  run(from, factor, addend, epsilon, y, mean, variance);
}

void CpuBackend::batch_normalize_grad(const Tensor& x, const Tensor& scale, const Tensor& mean, const Tensor& variance,
                                      const Tensor& g, double epsilon, const Tensor& dx, const Tensor& dscale,
                                      const Tensor& doffset) {
  if (is_half(x.dtype()) || x.size() == 0)
    return Backend::batch_normalize_grad(x, scale, mean, variance, g, epsilon, dx, dscale, doffset);
  const Tensor from = contiguous(x), factor = contiguous(scale), middle = contiguous(mean),
               spread = contiguous(variance), gradient = contiguous(g);
  const auto run = x.dtype() == DType::float32 ? host::batch_normalize_grad<float> : host::batch_normalize_grad<double>;
  run(from, factor, middle, spread, gradient, epsilon, dx, dscale, doffset);
}

}  // namespace tapestry::host
