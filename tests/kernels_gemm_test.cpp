#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/kernels/gemm.hpp"
#include "environment.hpp"

namespace kernels_gemm_test {

using namespace tapestry;
using namespace tapestry::host;

namespace {

/// Elements that end where the memory ends: to read or write behind them is a fault.
template <class T>
class AtTheEnd {
 public:
  explicit AtTheEnd(std::int64_t count) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)),
               bytes = static_cast<std::size_t>(count) * sizeof(T);
    const std::size_t kept = (bytes + page - 1) / page * page;
    length_ = kept + page;
    memory_ = mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(mprotect(static_cast<std::byte*>(memory_) + kept, page, PROT_NONE) == 0);
    data = reinterpret_cast<T*>(static_cast<std::byte*>(memory_) + kept - bytes);
  }
  ~AtTheEnd() { munmap(memory_, length_); }
  AtTheEnd(const AtTheEnd&) = delete;
  AtTheEnd& operator=(const AtTheEnd&) = delete;
  T* data;

 private:
  void* memory_;
  std::size_t length_;
};

/// A matrix as BLAS stores it, with NaN, infinities and huge numbers between its rows.
template <class T>
struct Stored {
  Stored(std::int64_t stored_rows, std::int64_t stored_columns, bool is_transposed, std::int64_t gap,
         std::mt19937& generator)
      : transposed(is_transposed),
        leading(stored_columns + gap),
        memory(stored_rows > 0 ? (stored_rows - 1) * leading + stored_columns : 0) {
    constexpr T strange[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                             -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::max()};
    std::uniform_real_distribution<T> number(-1, 1);
    for (std::int64_t i = 0; i < stored_rows; ++i)
      for (std::int64_t j = 0; j < (i + 1 < stored_rows ? leading : stored_columns); ++j)
        memory.data[i * leading + j] = j < stored_columns ? number(generator) : strange[generator() % 4];
  }
  T at(std::int64_t i, std::int64_t j) const {
    return transposed ? memory.data[j * leading + i] : memory.data[i * leading + j];
  }
  bool transposed;
  std::int64_t leading;
  AtTheEnd<T> memory;
};

/// An element of a product in the order of summation that kernels/gemm.hpp defines, added to *before if that is given.
template <class T>
T in_order(const Stored<T>& a, const Stored<T>& b, std::int64_t i, std::int64_t j, std::int64_t k, bool in_lanes,
           const T* before) {
  if (in_lanes) {
    T lanes[gemv_lanes] = {};
    for (std::int64_t p = 0; p < k; ++p)
      lanes[p % gemv_lanes] = std::fma(a.at(i, p), b.at(p, j), lanes[p % gemv_lanes]);
    for (std::int64_t half = gemv_lanes / 2; half > 0; half /= 2)
      for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    return before ? *before + lanes[0] : lanes[0];
  }
  T total = before ? *before : 0;
  for (std::int64_t begin = 0; begin < k; begin += slice_depth(k)) {
    T sum = 0;
    for (std::int64_t p = begin; p < std::min(begin + slice_depth(k), k); ++p)
      sum = std::fma(a.at(i, p), b.at(p, j), sum);
    total = begin == 0 && !before ? sum : total + sum;
  }
  return total;
}

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

template <class T>
void check(const Case& c, std::mt19937& generator) {
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(c.transpose_a);
  CAPTURE(c.transpose_b);
  CAPTURE(c.accumulate);
  CAPTURE(sizeof(T));
  const auto gap = [&] { return static_cast<std::int64_t>(generator() % 3 == 0 ? generator() % 70 : 0); };
  const auto stored = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
    return Stored<T>(transposed ? columns : rows, transposed ? rows : columns, transposed, gap(), generator);
  };
  const Stored<T> a = stored(c.m, c.k, c.transpose_a), b = stored(c.k, c.n, c.transpose_b);
  const Stored<T> y = stored(c.m, c.n, false);
  const auto size = static_cast<std::size_t>((c.m - 1) * y.leading + c.n);
  const std::vector<T> before(y.memory.data, y.memory.data + size);
  gemm_block(c.transpose_a, c.transpose_b, c.m, c.n, c.k, a.memory.data, a.leading, b.memory.data, b.leading,
             c.accumulate, y.memory.data, y.leading);
  const bool exact = cpu_level() >= Level::v3;  // elsewhere OpenBLAS sums, in an order of its own
  const bool in_lanes = sums_in_lanes(c.m, c.n, c.k);
  std::int64_t wrong = 0, touched = 0;
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < (i + 1 < c.m ? y.leading : c.n); ++j) {
      const auto at = static_cast<std::size_t>(i * y.leading + j);
      const T got = y.memory.data[at];
      if (j >= c.n) {
        touched += std::memcmp(&got, &before[at], sizeof(T)) != 0 ? 1 : 0;
      } else if (exact) {
        const T expected = in_order(a, b, i, j, c.k, in_lanes, c.accumulate ? &before[at] : nullptr);
        wrong += std::memcmp(&got, &expected, sizeof(T)) == 0 ? 0 : 1;
      } else {
        double sum = c.accumulate ? static_cast<double>(before[at]) : 0;
        for (std::int64_t p = 0; p < c.k; ++p) sum += static_cast<double>(a.at(i, p)) * static_cast<double>(b.at(p, j));
        const double allowed = static_cast<double>(std::numeric_limits<T>::epsilon()) * static_cast<double>(c.k + 1);
        wrong += std::abs(static_cast<double>(got) - sum) <= allowed ? 0 : 1;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(touched == 0);
}

}  // namespace

TEST_CASE("a block of a product has the bits of its definition, and no other memory is read or written") {
  prepare_blas();
  std::mt19937 generator(1);
  // Around the sizes of tiles and of slices, and where an operand begins to be packed.
  constexpr std::int64_t sizes[] = {1,  1,  2,  3,  4,  5,  7,  8,  9,  12, 15, 16,
                                    17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 65};
  constexpr std::int64_t large[] = {95, 97, 129, 130, 144, 255, 257, 272, 350, 511, 512, 513, 1025};
  const auto size = [&] {
    return generator() % 4 == 0 ? large[generator() % std::size(large)] : sizes[generator() % std::size(sizes)];
  };
  const long cases = test::number_of_cases(700);
  for (long i = 0; i < cases; ++i) {
    CAPTURE(i);
    Case c{size(), size(), size(), generator() % 2 == 0, generator() % 2 == 0, generator() % 3 == 0};
    if (c.m * c.n * c.k > 2000000) (c.m > c.n ? c.m : c.n) = sizes[generator() % std::size(sizes)];
    check<float>(c, generator);
    check<double>(c, generator);
  }
}

TEST_CASE("so has a block of several slices and blocks of rows, or one with a long vector") {
  prepare_blas();
  std::mt19937 generator(2);
  for (const Case& c : {Case{1100, 70, 530, false, false, false}, Case{1100, 70, 530, true, true, true},
                        Case{140, 270, 1100, false, true, false}, Case{500, 260, 512, true, false, false},
                        Case{30, 780, 60, false, false, false}, Case{1, 1200, 1300, false, false, false},
                        Case{1, 1200, 1300, false, true, true}, Case{1200, 1, 1300, true, false, false},
                        Case{16, 100, 600, true, true, false}, Case{32, 520, 300, false, true, true},
                        Case{48, 200, 1100, false, true, true}, Case{61, 1024, 130, false, false, true},
                        Case{700, 3, 900, true, false, true}, Case{700, 4, 900, false, true, false}}) {
    check<float>(c, generator);
    check<double>(c, generator);
  }
}

TEST_CASE("NaN and infinities in the operands reach the sums that they belong to, and no others") {
  prepare_blas();
  std::mt19937 generator(3);
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t m : {1, 3, 8, 21})
    for (const std::int64_t n : {1, 3, 16, 50})
      for (const std::int64_t k : {1, 5, 33, 400})
        for (const double strange : {inf, nan}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          Stored<double> a(m, k, false, 0, generator), b(k, n, false, 0, generator), y(m, n, false, 0, generator);
          const auto row = static_cast<std::int64_t>(generator()) % m,
                     column = static_cast<std::int64_t>(generator()) % n;
          a.memory.data[row * k + k - 1] = strange;
          b.memory.data[column] = strange;
          gemm_block(false, false, m, n, k, a.memory.data, k, b.memory.data, n, false, y.memory.data, n);
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j)
              wrong += std::isfinite(y.at(i, j)) == (i != row && j != column) ? 0 : 1;
          CHECK(wrong == 0);
        }
}

}  // namespace kernels_gemm_test
