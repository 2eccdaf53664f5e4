#include "backend/cpu/kernels/matmul.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <cblas.h>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/kernels/gemm.hpp"
#include "backend/cpu/threads.hpp"
#include "backend/cpu/tiles.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"

// OpenBLAS chooses its kernels with these. They are not part of its interface, so they may be missing.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_quit();
__attribute__((weak)) void gotoblas_dynamic_init();
}

namespace tapestry::host {
namespace {

/// Tells OpenBLAS which of its kernels the processor runs. On processors newer than itself it falls back to its SSE
/// kernels, which are five times slower. A user who sets OPENBLAS_CORETYPE keeps that choice.
void choose_blas_kernels() {
  const std::string_view name = openblas_get_corename();
  const bool v4 = name == "SkylakeX" || name == "Cooperlake" || name == "Sapphirerapids" || name == "SapphireRapids";
  const bool v3 = v4 || name == "Haswell" || name == "Zen" || name == "Excavator";
  const Level level = cpu_level();
  const char* better = level == Level::v4 && !v4 ? "SKYLAKEX" : level == Level::v3 && !v3 ? "HASWELL" : nullptr;
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  if (!better || std::getenv(variable) || !gotoblas_dynamic_quit || !gotoblas_dynamic_init) return;
  setenv(variable, better, 0);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(variable);
}

struct Sizes {
  std::int64_t m, n, k;
  double work() const { return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k); }
};

/// op(x): x[..., i, j] is at i * row + j * column. For BLAS, this is one of the two layouts that it reads.
struct Operand {
  const void* data;
  std::int64_t row, column;
  std::array<std::int64_t, Shape::max_rank> batch;  ///< strides of the leading axes
  Tensor copy;                                      ///< of an input in any other layout; keeps `data` alive
};

Operand read_in_place(const Tensor& x, bool transpose) {
  const auto last = static_cast<std::size_t>(x.rank() - 1);
  const auto& strides = x.impl().strides;
  Operand operand{x.impl().data, strides[last - 1], strides[last], {}, {}};
  if (transpose) std::swap(operand.row, operand.column);
  std::copy_n(strides.begin(), last - 1, operand.batch.begin());
  return operand;
}

/// The operand of a copy, which it keeps alive.
Operand copied(const Tensor& copy, bool transpose) {
  Operand operand = read_in_place(copy, transpose);
  operand.copy = copy;
  return operand;
}

/// Whether a matrix is row-major: its rows are contiguous and do not overlap.
bool by_rows(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return (column == 1 || columns == 1) && (row >= columns || rows == 1);
}

/// Whether BLAS reads a matrix with these strides, as it is or as a transposed one.
bool is_readable(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  return by_rows(rows, columns, row, column) || by_rows(columns, rows, column, row);
}

Operand read(Backend& backend, const Tensor& x, bool transpose, std::int64_t rows, std::int64_t columns) {
  Operand operand = read_in_place(x, transpose);
  if (is_readable(rows, columns, operand.row, operand.column)) return operand;
  // Matrices that the batch repeats are copied once.
  const Tensor once = backend.contiguous(view_without_repeats(x, x.rank() - 2));
  return copied(view_broadcast(once, x.shape()), transpose);
}

/// The product of one pair of matrices, or one tile of it.
template <class T>
struct Product {
  const T *a, *b;
  T* y;
  std::int64_t a_row, a_column, b_row, b_column, y_row;

  void operator()(const Sizes& sizes) const {
    const std::int64_t m = sizes.m, n = sizes.n, k = sizes.k;
    const bool ta = !by_rows(m, k, a_row, a_column), tb = !by_rows(k, n, b_row, b_column);
    gemm_block(ta, tb, m, n, k, a, leading(ta, m, k, a_row, a_column), b, leading(tb, k, n, b_row, b_column), false, y,
               y_row);
  }

  Product tile(std::int64_t i, std::int64_t j) const {
    return {a + i * a_row, b + j * b_column, y + i * y_row + j, a_row, a_column, b_row, b_column, y_row};
  }

 private:
  static std::int64_t leading(bool transposed, std::int64_t rows, std::int64_t columns, std::int64_t row,
                              std::int64_t column) {
    // The distance between rows means nothing where there is one row, but BLAS checks it.
    return transposed ? (columns == 1 ? rows : column) : (rows == 1 ? columns : row);
  }
};

/// How a product is cut into tiles. No number of threads decides this, and an element's bits do not depend on it.
struct Tiling {
  std::int64_t rows, columns;  ///< of a tile
  std::int64_t down, across;   ///< numbers of tiles
};

/// `a_row` and `b_column` are the distances between rows of a and columns of b.
Tiling cut(const Sizes& sizes, std::int64_t a_row, std::int64_t b_column) {
  // Tiles should be few: four as soon as that pays, more only to keep their sides short. Those below each other pack
  // the same columns of b, while a is packed for wide tiles only, so they should rather be high than wide. A product
  // with a vector is bound by reading the matrix; where a tile cuts the matrix across its adjacent elements, it should
  // leave long pieces of them.
  constexpr double vector_work = 131072;
  constexpr std::int64_t highest = 1024, widest = 512, narrow = 128;
  std::int64_t unit = 16;
  const std::int64_t m = sizes.m, n = sizes.n;
  std::int64_t down = 1, across = 1;
  if (m == 1 || n == 1) {
    if ((m == 1 ? b_column : a_row) == 1) unit = 256;
    (m == 1 ? across : down) = std::clamp<std::int64_t>(static_cast<std::int64_t>(sizes.work() / vector_work), 1, 64);
  } else if (sizes.work() >= large_product) {
    while (m / down > highest) ++down;
    while (n / across > widest) ++across;
    while (down * across < 4) ++(n / across > narrow ? across : down);
  }
  const auto part = [=](std::int64_t size, std::int64_t parts) {
    return ((size + parts - 1) / parts + unit - 1) / unit * unit;
  };
  const std::int64_t rows = part(m, down), columns = part(n, across);
  return {rows, columns, (m + rows - 1) / rows, (n + columns - 1) / columns};
}

/// The kernel for a product whose k and n are known to the compiler, or nullptr.
template <class T>
TinyProduct<T> tiny_product(std::int64_t k, std::int64_t n) {
  const auto* sizes = std::begin(tiny_sizes);
  const auto row = std::find(sizes, std::end(tiny_sizes), k) - sizes;
  const auto column = std::find(sizes, std::end(tiny_sizes), n) - sizes;
  constexpr auto count = std::size(tiny_sizes);
  if (row == count || column == count) return nullptr;
  static const MatmulTable& table = TAPESTRY_PICK_LEVEL(matmul_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.tiny_f32[row][column];
  } else {
    return table.tiny_f64[row][column];
  }
}

/// A function that is called with each tile of a product as soon as it is computed, while it is in the cache.
using Then = FunctionRef<void(const Tile&)>;
constexpr auto nothing = [](const Tile&) {};

/// Multiplies a contiguous matrix by a tiny one. Returns false where the operands are not that.
template <class T>
bool multiply_tiny(const Tensor& x, const Tensor& z, bool transpose_x, bool transpose_z, const Sizes& sizes,
                   const Tensor& y, Then then) {
  if (y.rank() != 2 || transpose_x || !x.is_contiguous()) return false;
  const TinyProduct<T> product = tiny_product<T>(sizes.k, sizes.n);
  if (!product) return false;
  const auto row = z.strides()[transpose_z ? 1 : 0], column = z.strides()[transpose_z ? 0 : 1];
  const T* a = static_cast<const T*>(x.impl().data);
  const T* b = static_cast<const T*>(z.impl().data);
  T* to = detail::mutable_data<T>(y);
  parallel_for(sizes.m, 4096, [&](std::int64_t i, std::int64_t end) {
    product(a + i * sizes.k, b, row, column, to + i * sizes.n, end - i);
    then({i, 0, end - i, sizes.n});
  });
  return true;
}

std::int64_t batch_size(const Tensor& y) {
  return y.size() / (y.shape().sizes()[y.rank() - 2] * y.shape().sizes()[y.rank() - 1]);
}

std::int64_t batch_offset(const Shape& shape, const Operand& operand, std::int64_t index) {
  std::int64_t offset = 0;
  for (int i = shape.rank() - 3; i >= 0; --i) {
    offset += index % shape.sizes()[i] * operand.batch[i];
    index /= shape.sizes()[i];
  }
  return offset;
}

/// Whether x has the same matrix throughout a batch of this shape.
bool is_shared(const Shape& shape, const Operand& x) {
  for (int i = 0; i < shape.rank() - 2; ++i)
    if (shape.sizes()[i] != 1 && x.batch[i] != 0) return false;
  return true;
}

/// Merges a batch that multiplies a's matrices by the same matrix into one tall product. Returns false, and changes
/// nothing, unless all rows of a are one stride apart, in a layout that BLAS reads.
bool merge_batch(const Shape& shape, Operand& a, Sizes& sizes) {
  std::int64_t rows = sizes.m, row = a.row;
  for (int i = shape.rank() - 3; i >= 0; --i) {
    const auto axis = i;
    if (shape.sizes()[i] == 1) continue;
    if (rows == 1) {
      row = a.batch[axis];  // a.row means nothing so far: there is no second row
    } else if (a.batch[axis] != row * rows) {
      return false;
    }
    rows *= shape.sizes()[i];
  }
  if (!is_readable(rows, sizes.k, row, a.column)) return false;
  a.row = row;
  sizes.m = rows;
  return true;
}

template <class T>
void multiply(Backend& backend, const Tensor& x, const Tensor& z, bool transpose_x, bool transpose_z, Sizes sizes,
              const Tensor& y, Then then) {
  if (multiply_tiny<T>(x, z, transpose_x, transpose_z, sizes, y, then)) return;
  Operand a = read(backend, x, transpose_x, sizes.m, sizes.k);
  const Operand b = read(backend, z, transpose_z, sizes.k, sizes.n);
  std::int64_t batch = batch_size(y);
  // Whether a batch is merged depends on layouts, which shall not decide in which order an element is summed.
  const bool same_order = sums_in_lanes(sizes.m, sizes.n, sizes.k) == sums_in_lanes(sizes.m * batch, sizes.n, sizes.k);
  if (batch > 1 && same_order && is_shared(y.shape(), b)) {
    bool merged = merge_batch(y.shape(), a, sizes);
    // A copy takes less time than a call for each of many small matrices.
    constexpr double small_work = 2048;
    if (!merged && !transpose_x && sizes.work() <= small_work) {
      a = copied(backend.contiguous(x), false);
      merged = merge_batch(y.shape(), a, sizes);
    }
    if (merged) batch = 1;
  }
  const std::int64_t m = sizes.m, n = sizes.n, k = sizes.k;
  const Product<T> whole{static_cast<const T*>(a.data),
                         static_cast<const T*>(b.data),
                         detail::mutable_data<T>(y),
                         a.row,
                         a.column,
                         b.row,
                         b.column,
                         n};
  prepare_blas();
  const Tiling tiling = cut(sizes, a.row, b.column);
  const std::int64_t count = tiling.down * tiling.across;
  constexpr double task_work = 500000;
  const auto grain = std::max<std::int64_t>(1, static_cast<std::int64_t>(task_work / sizes.work()));
  parallel_for(batch * count, count > 1 ? 1 : grain, [&](std::int64_t task, std::int64_t end) {
    for (; task < end; ++task) {
      const std::int64_t index = task / count, number = task % count;
      const std::int64_t i = number / tiling.across * tiling.rows, j = number % tiling.across * tiling.columns;
      Product<T> product = whole.tile(i, j);
      if (batch > 1) {
        product.a += batch_offset(y.shape(), a, index);
        product.b += batch_offset(y.shape(), b, index);
        product.y += index * m * n;
      }
      const Tile tile{i, j, std::min(tiling.rows, m - i), std::min(tiling.columns, n - j)};
      product({tile.rows, tile.columns, k});
      then(tile);
    }
  });
}

/// Computes a product with k = 1 as an elementwise one, a column times a row.
void multiply_outer(Backend& backend, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                    const Tensor& y) {
  backend.binary(Binary::multiply, transpose_a ? view_transposed(a) : a, transpose_b ? view_transposed(b) : b, 0, y);
}

/// Multiplies integers by a plain blocked loop.
void multiply_whole(Backend& backend, const Tensor& x, const Tensor& z, bool transpose_x, bool transpose_z,
                    const Sizes& sizes, const Tensor& y) {
  static const MatmulTable& table = TAPESTRY_PICK_LEVEL(matmul_table);
  const WholeProduct kernel = y.dtype() == DType::int32 ? table.i32 : y.dtype() == DType::int64 ? table.i64 : table.u8;
  const std::int64_t m = sizes.m, n = sizes.n, k = sizes.k;
  const auto bytes = static_cast<std::int64_t>(size_of(y.dtype()));
  const Operand a = read_in_place(x, transpose_x);
  const Operand b_in_place = read_in_place(z, transpose_z);
  Tensor plain = z;
  if (b_in_place.column != 1 || b_in_place.row != n) plain = backend.contiguous(transpose_z ? view_transposed(z) : z);
  const Operand b = read_in_place(plain, false);
  constexpr double task_work = 100000;
  const auto rows = std::clamp<std::int64_t>(static_cast<std::int64_t>(task_work / static_cast<double>(n * k)), 1, m);
  const std::int64_t parts = (m + rows - 1) / rows;
  parallel_for(batch_size(y) * parts, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t index = task / parts, i = task % parts * rows;
    kernel(static_cast<const std::byte*>(a.data) + (batch_offset(y.shape(), a, index) + i * a.row) * bytes, a.row,
           a.column, static_cast<const std::byte*>(b.data) + batch_offset(y.shape(), b, index) * bytes,
           static_cast<std::byte*>(y.impl().data) + (index * m + i) * n * bytes, std::min(rows, m - i), n, k);
  });
}

}  // namespace

void prepare_blas() {
  [[maybe_unused]] static const bool prepared = [] {
    choose_blas_kernels();
    openblas_set_num_threads(1);
    return true;
  }();
}

namespace {

/// Whether BLAS or the tiny kernels compute the product, which work tile by tile.
bool is_tiled(const Sizes& sizes, DType dtype) {
  return sizes.k > 0 && is_floating(dtype) && (sizes.k > 1 || sizes.n <= std::end(tiny_sizes)[-1]);
}

Sizes sizes_of(const Tensor& a, bool transpose_a, const Tensor& y) {
  const int rank = y.rank();
  return {y.shape().sizes()[rank - 2], y.shape().sizes()[rank - 1],
          a.shape().sizes()[transpose_a ? rank - 2 : rank - 1]};
}

void multiply_floats(Backend& backend, const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                     const Sizes& sizes, const Tensor& y, Then then) {
  if (y.dtype() == DType::float32) {
    multiply<float>(backend, a, b, transpose_a, transpose_b, sizes, y, then);
  } else {
    multiply<double>(backend, a, b, transpose_a, transpose_b, sizes, y, then);
  }
}

}  // namespace

void CpuBackend::gemm(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::gemm(a, b, transpose_a, transpose_b, y);
  if (y.size() == 0) return;
  const Sizes sizes = sizes_of(a, transpose_a, y);
  if (is_tiled(sizes, y.dtype())) {
    multiply_floats(*this, a, b, transpose_a, transpose_b, sizes, y, nothing);
  } else if (sizes.k == 0) {
    fill(0, y);
  } else if (!is_floating(y.dtype())) {
    multiply_whole(*this, a, b, transpose_a, transpose_b, sizes, y);
  } else {
    multiply_outer(*this, a, b, transpose_a, transpose_b, y);
  }
}

void CpuBackend::gemm_program(const FusedProduct& fused, const Tensor& a, const Tensor& b, const Program& program,
                              std::span<const Tensor> others, std::span<const Tensor> outputs) {
  const Tensor& y = outputs[fused.into];
  const Sizes sizes = sizes_of(a, fused.transpose_a, y);
  if (y.size() == 0 || is_half(y.dtype()) || !is_tiled(sizes, y.dtype()))
    return Backend::gemm_program(fused, a, b, program, others, outputs);
  const ProgramInputs inputs = with_product(others, fused.product, y);
  in_tiles(program, {inputs.data(), inputs.size()}, outputs,
           [&](RunTile then) { multiply_floats(*this, a, b, fused.transpose_a, fused.transpose_b, sizes, y, then); });
}

}  // namespace tapestry::host
