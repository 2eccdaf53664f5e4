#include "backend/cpu/kernels/gemm.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>

#include <cblas.h>
#include <unistd.h>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/kernels/movement.hpp"
#include "core/thread_object.hpp"
#include "tapestry/error.hpp"

// One block of a matrix product, such as a task's tile, in one thread: by our own kernels where the processor has fused
// multiply-adds, and by OpenBLAS elsewhere.
//
// Our own product goes through the depth k in slices, and through the rows in equal blocks of `a` that fit most of the
// second-level cache, beside a strip of b, as wide as a tile, over which the tiles below each other pass. Deep slices
// are measured to be the better ones: c is read and written once for each. Operands are packed, in the order in which
// the tiles read them, only where that costs less than reading them in place.

namespace tapestry::host {
namespace {

template <class T>
const GemmKernels<T>& kernels() {
  static const GemmTable& table = TAPESTRY_PICK_LEVEL(gemm_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

/// op(x): element [i, j] is at i * row + j * column.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t row, column;
  Matrix at(std::int64_t i, std::int64_t j) const { return {data + i * row + j * column, row, column}; }
};

std::int64_t cache_bytes() {
  static const std::int64_t bytes = [] {
#ifdef _SC_LEVEL2_CACHE_SIZE
    const std::int64_t found = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
    constexpr std::int64_t found = 0;
#endif
    constexpr std::int64_t least = 256 << 10, most = 4 << 20;
    return std::clamp(found, least, most);
  }();
  return bytes;
}

std::int64_t parts(std::int64_t size, std::int64_t part) { return (size + part - 1) / part; }

/// What a thread keeps memory for.
enum class Use { packed_operands, turned_product };

/// Memory that each thread keeps for its next product, so that the steps of a plan allocate nothing.
template <Use>
void* thread_bytes(std::size_t needed) {
  constexpr std::align_val_t line{64};
  struct Free {
    void operator()(void* data) const { ::operator delete(data, line); }
  };
  struct Workspace {
    std::unique_ptr<void, Free> data;
    std::size_t bytes = 0;
  };
  Workspace& workspace = detail::thread_object<Workspace>();
  if (needed > workspace.bytes) {
    workspace = Workspace();
    workspace.data.reset(::operator new(needed, line));
    workspace.bytes = needed;
  }
  return workspace.data.get();
}
template <class T, Use use = Use::packed_operands>
T* thread_workspace(std::int64_t count) {
  return static_cast<T*>(thread_bytes<use>(static_cast<std::size_t>(count) * sizeof(T)));
}

/// Copies `depth` x `width` elements, of which `count` per step of the depth exist, to adjacent memory. `pack_whole`
/// does it where all exist, side by side.
template <class T>
void pack(const T* from, std::int64_t deeper, std::int64_t aside, std::int64_t depth, std::int64_t count, T* to,
          std::int64_t width, typename GemmKernels<T>::Pack pack_whole) {
  if (aside == 1 && count == width) return pack_whole(from, deeper, depth, 1, to);
  movement_kernels().move(sizeof(T))(from, deeper, aside, to, width, 1, depth, count);
}

template <class T>
class BlockProduct {
 public:
  BlockProduct(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
               std::int64_t c_row, bool accumulate)
      : m_(m), n_(n), k_(k), a_(a), b_(b), c_(c), c_row_(c_row), accumulate_(accumulate), slice_(slice_depth(k)) {
    const auto room = static_cast<std::int64_t>(cache_bytes() * 5 / 8 / slice_) / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t blocks = parts(m, std::max(room, panel_));
    block_ = parts(parts(m, blocks), panel_) * panel_;
    packs_a_ = n > (a.column == 1 ? widest_in_place : strips_transposed_in_place * strip_);
    packs_b_ = b.column != 1 || m > (share_a_set(b.row) ? kernels_.panels_in_one_set * panel_ : tallest_in_place);
    const std::int64_t a_size = packs_a_ ? block_ * slice_ : 0;
    const std::int64_t b_size = packs_b_ ? (m > block_ ? parts(n, strip_) : 1) * strip_ * slice_ : 0;
    if (a_size + b_size > 0) {
      packed_a_ = thread_workspace<T>(a_size + b_size);
      packed_b_ = packed_a_ + a_size;
    }
  }

  void run() {
    for (std::int64_t p = 0; p < k_; p += slice_) {
      const std::int64_t depth = std::min(slice_, k_ - p);
      for (std::int64_t i = 0; i < m_; i += block_) {
        const std::int64_t rows = std::min(block_, m_ - i);
        if (packs_a_) pack_a(i, p, rows, depth);
        for (std::int64_t j = 0; j < n_; j += strip_) multiply_strip(i, j, p, rows, depth);
      }
    }
  }

 private:
  // Measured: beyond these sizes, packing an operand takes less time than it saves.
  static constexpr std::int64_t widest_in_place = 768, strips_transposed_in_place = 4, tallest_in_place = 128;

  /// Whether elements of one column are in the same set of the first-level cache, which keeps few of them.
  static bool share_a_set(std::int64_t row) {
    constexpr std::int64_t bytes_of_a_way = 4096;
    return row * static_cast<std::int64_t>(sizeof(T)) % bytes_of_a_way == 0;
  }

  /// Packs a block of a: panels whose elements are adjacent in memory several at a time.
  void pack_a(std::int64_t i, std::int64_t p, std::int64_t rows, std::int64_t depth) const {
    constexpr std::int64_t together = 8;
    const std::int64_t whole = a_.row == 1 ? rows / panel_ * panel_ : 0;
    for (std::int64_t r = 0; r < whole; r += together * panel_)
      kernels_.pack_a(a_.at(i + r, p).data, a_.column, depth, std::min(together, (whole - r) / panel_),
                      packed_a_ + r * depth);
    for (std::int64_t r = whole; r < rows; r += panel_)
      pack(a_.at(i + r, p).data, a_.column, a_.row, depth, std::min(panel_, rows - r), packed_a_ + r * depth, panel_,
           kernels_.pack_a);
  }

  /// The product of a block's rows and a strip of b.
  void multiply_strip(std::int64_t i, std::int64_t j, std::int64_t p, std::int64_t rows, std::int64_t depth) const {
    const std::int64_t columns = std::min(strip_, n_ - j);
    const int registers = static_cast<int>(parts(columns, kernels_.lanes));
    GemmTile<T> tile{.a = nullptr,
                     .a_row = a_.row,
                     .a_column = a_.column,
                     .b = b_.at(p, j).data,
                     .b_row = b_.row,
                     .c = nullptr,
                     .c_row = c_row_,
                     .depth = depth,
                     .in_last = columns - (registers - 1) * kernels_.lanes,
                     .accumulate = accumulate_ || p > 0};
    if (packs_b_) {
      T* const strip = packed_b_ + (m_ > block_ ? j * depth : 0);
      if (i == 0) pack(tile.b, b_.row, b_.column, depth, columns, strip, strip_, kernels_.pack_b);
      tile.b = strip;
      tile.b_row = strip_;
    }
    if (packs_a_) {
      tile.a_row = 1;
      tile.a_column = panel_;
    }
    for (std::int64_t r = 0, height = 0; r < rows; r += height) {
      // The last tiles are equally high, since a low one has too few sums to hide the latency of additions.
      height = packs_a_ ? std::min(panel_, rows - r) : parts(rows - r, parts(rows - r, panel_));
      tile.a = packs_a_ ? packed_a_ + r * depth : a_.at(i + r, p).data;
      tile.c = c_ + (i + r) * c_row_ + j;
      kernels_.tile[height - 1][registers - 1](tile);
    }
  }

  const GemmKernels<T>& kernels_ = kernels<T>();
  const std::int64_t panel_ = kernels_.rows;                        ///< rows of a that a tile reads
  const std::int64_t strip_ = kernels_.registers * kernels_.lanes;  ///< columns of b that it reads
  std::int64_t m_, n_, k_;
  const Matrix<T>&a_, &b_;
  T* c_;
  std::int64_t c_row_;
  bool accumulate_;
  std::int64_t slice_, block_;
  bool packs_a_, packs_b_;
  T *packed_a_ = nullptr, *packed_b_ = nullptr;
};

/// Whether b^T a^T takes less time: where a has few rows, which fill registers, to pack these and to turn the product
/// is less than to pack b.
template <class T>
bool pays_to_turn(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& b) {
  constexpr std::int64_t most_rows = 64;  // this and the factors are measured
  const std::int64_t lanes = kernels<T>().lanes, room = parts(m, lanes) * lanes;
  return b.column != 1 && m <= most_rows && 8 * m >= 7 * room && 2 * n * k >= 3 * m * (k + 2 * n);
}

/// c = or += a b, as the turned product of the turned operands, which has the same bits.
template <class T>
void multiply_turned(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<T>& a, const Matrix<T>& b, T* c,
                     std::int64_t c_row, bool accumulate) {
  const auto move = movement_kernels().move(sizeof(T));
  T* const turned = thread_workspace<T, Use::turned_product>(m * n);
  if (accumulate) move(c, 1, c_row, turned, m, 1, n, m);
  const Matrix<T> left{b.data, b.column, b.row}, right{a.data, a.column, a.row};
  BlockProduct<T>(n, m, k, left, right, turned, m, accumulate).run();
  move(turned, 1, m, c, c_row, 1, m, n);
}

/// The products of a matrix and `count` vectors: y[i * y_row + j] = or += the sum over p of matrix[i, p] * x[p, j].
template <class T>
void multiply_vectors(std::int64_t rows, std::int64_t depth, const Matrix<T>& matrix, std::int64_t count, Matrix<T> x,
                      T* y, std::int64_t y_row, bool accumulate) {
  if (x.row != 1) {
    T* const plain = thread_workspace<T>(count * depth);
    movement_kernels().move(sizeof(T))(x.data, x.column, x.row, plain, depth, 1, count, depth);
    x = {plain, 1, depth};
  }
  const bool by_rows = matrix.column == 1;
  const auto multiply = by_rows ? kernels<T>().by_rows : kernels<T>().by_columns;
  // The rows that every vector meets in the cache, but enough of them to read long pieces of columns.
  constexpr std::int64_t least_rows = 256;
  const std::int64_t room = cache_bytes() / 2 / static_cast<std::int64_t>(sizeof(T)) / depth;
  const std::int64_t block = count == 1 ? rows : std::max(by_rows ? gemv_lanes : least_rows, room);
  for (std::int64_t i = 0; i < rows; i += block)
    for (std::int64_t j = 0; j < count; ++j)
      multiply({.matrix = matrix.at(i, 0).data,
                .stride = by_rows ? matrix.row : matrix.column,
                .x = x.data + j * x.column,
                .y = y + i * y_row + j,
                .y_step = y_row,
                .rows = std::min(block, rows - i),
                .depth = depth,
                .accumulate = accumulate});
}

// --- OpenBLAS ------------------------------------------------------------------------------------------------------

int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max())
    throw InvalidArgumentError(
        detail::join("MatMul: ", value, " elements along one side of a matrix are more than BLAS can count"));
  return static_cast<int>(value);
}

template <class T>
void blas_gemm(bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k, const T* a, std::int64_t lda,
               const T* b, std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc) {
  const auto gemm = [] {
    if constexpr (std::is_same_v<T, float>) {
      return cblas_sgemm;
    } else {
      return cblas_dgemm;
    }
  }();
  gemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, blas_int(m), blas_int(n),
       blas_int(k), 1, a, blas_int(lda), b, blas_int(ldb), accumulate ? T(1) : T(0), c, blas_int(ldc));
}

template <class T>
void blas_gemv(std::int64_t rows, std::int64_t depth, const Matrix<T>& matrix, const T* x, std::int64_t x_step, T* y,
               std::int64_t y_step, bool accumulate) {
  const auto gemv = [] {
    if constexpr (std::is_same_v<T, float>) {
      return cblas_sgemv;
    } else {
      return cblas_dgemv;
    }
  }();
  const bool by_rows = matrix.column == 1;
  const std::int64_t stored_rows = by_rows ? rows : depth, stored_columns = by_rows ? depth : rows;
  // The distance between rows means nothing where there is one row, but BLAS checks it.
  const std::int64_t leading = std::max(by_rows ? matrix.row : matrix.column, stored_columns);
  gemv(CblasRowMajor, by_rows ? CblasNoTrans : CblasTrans, blas_int(stored_rows), blas_int(stored_columns), 1,
       matrix.data, blas_int(leading), x, blas_int(x_step), accumulate ? T(1) : T(0), y, blas_int(y_step));
}

}  // namespace

template <class T>
void gemm_block(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
                std::int64_t lda, const T* b, std::int64_t ldb, bool accumulate, T* c, std::int64_t ldc) {
  const Matrix<T> left{a, transpose_a ? 1 : lda, transpose_a ? lda : 1};
  const Matrix<T> right{b, transpose_b ? 1 : ldb, transpose_b ? ldb : 1}, right_turned{b, right.column, right.row};
  const bool own = kernels<T>().rows > 0;
  const bool in_lanes = sums_in_lanes(m, n, k);
  if (own && in_lanes && m == 1) {
    multiply_vectors(n, k, right_turned, 1, {a, left.column, 1}, c, 1, accumulate);
  } else if (own && in_lanes) {
    multiply_vectors(m, k, left, n, right, c, ldc, accumulate);
  } else if (own && pays_to_turn(m, n, k, right)) {
    multiply_turned(m, n, k, left, right, c, ldc, accumulate);
  } else if (own) {
    BlockProduct<T>(m, n, k, left, right, c, ldc, accumulate).run();
  } else if (m == 1) {
    blas_gemv(n, k, right_turned, a, left.column, c, 1, accumulate);
  } else if (n == 1) {
    blas_gemv(m, k, left, b, right.row, c, ldc, accumulate);
  } else {
    blas_gemm(transpose_a, transpose_b, m, n, k, a, lda, b, ldb, accumulate, c, ldc);
  }
}
template void gemm_block(bool, bool, std::int64_t, std::int64_t, std::int64_t, const float*, std::int64_t, const float*,
                         std::int64_t, bool, float*, std::int64_t);
template void gemm_block(bool, bool, std::int64_t, std::int64_t, std::int64_t, const double*, std::int64_t,
                         const double*, std::int64_t, bool, double*, std::int64_t);

}  // namespace tapestry::host
