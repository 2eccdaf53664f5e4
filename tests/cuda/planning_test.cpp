// How CUDA kernels find their elements: division by multiplication, broadcasting and joined axes, pieces within reach
// of 32-bit indices, and reductions; all of it runs on the host.

#include <random>
#include <set>

#include <doctest/doctest.h>

#include "backend/cuda/epilogues.hpp"
#include "backend/cuda/pieces.hpp"
#include "backend/cuda/products.hpp"
#include "backend/cuda/reductions.hpp"
#include "backend/cuda/windows.hpp"
#include "kernels_support.hpp"

namespace tapestry::testing {
namespace {

using gpu::Elements;
using gpu::View;

/// Element i of operand k (0: y), as a kernel would find it.
std::int32_t* find(const Elements& e, std::int64_t i, int k) {
  const void* data = k == 0 ? e.y : e.x[k - 1];
  auto* first = static_cast<std::int32_t*>(const_cast<void*>(data));
  if (e.flat) return first + (k == 0 ? i : i * e.step[k - 1]);
  std::int32_t offset[gpu::max_operands];
  e.layout.locate(static_cast<std::uint32_t>(i), offset);
  return first + offset[k];
}

/// Copies by pieces, and returns how many there were.
int copy_by_pieces(const Tensor& x, const Tensor& y) {
  int pieces = 0;
  const View input(x);
  gpu::for_each_piece(View(y), {&input, 1}, [&](const Elements& e) {
    ++pieces;
    for (std::int64_t i = 0; i < e.n; ++i) *find(e, i, 0) = *find(e, i, 1);
  });
  return pieces;
}

Elements only_piece(const View& y, std::vector<View> inputs) {
  Elements found;
  int pieces = 0;
  gpu::for_each_piece(y, inputs, [&](const Elements& e) {
    found = e;
    ++pieces;
  });
  CHECK(pieces == 1);
  return found;
}

Tensor numbered(const Shape& shape) {
  Tensor x = empty(int32, shape);
  for (std::int64_t i = 0; i < x.size(); ++i) detail::mutable_data<std::int32_t>(x)[i] = static_cast<std::int32_t>(i);
  return x;
}

TEST_SUITE("CUDA planning") {
  TEST_CASE("a Divider divides") {
    std::mt19937 random(1);
    const std::uint32_t most = 0x7fffffff;
    for (const std::uint32_t divisor :
         {1U, 2U, 3U, 5U, 7U, 10U, 641U, 65535U, 65536U, 65537U, 1U << 30, most - 1, most}) {
      const gpu::Divider by(divisor);
      for (const std::uint32_t n : {0U, 1U, divisor - 1, divisor, divisor + 1, most - 1, most})
        if (n <= most) CHECK(by.quotient(n) == n / divisor);
    }
    for (int i = 0; i < 200000; ++i) {
      const std::uint32_t n = random() & most,
                          divisor = std::max(1U, static_cast<std::uint32_t>(random() & most) >> random() % 31);
      REQUIRE(gpu::Divider(divisor).quotient(n) == n / divisor);
    }
  }

  TEST_CASE("arrays without gaps are one axis, with vectors where they are aligned") {
    const Tensor x = numbered({4, 6, 8}), y = empty(int32, {4, 6, 8});
    const Elements flat = only_piece(View(y), {View(x)});
    CHECK(flat.flat);
    CHECK(flat.n == 192);
    CHECK(flat.step[0] == 1);
    CHECK(copy_by_pieces(x, y) == 1);
    CHECK(values(y) == values(x));
    // One element on is not aligned to 16 bytes.
    const std::int64_t strides[] = {1};
    const Tensor shifted = detail::make_view(x, {100}, strides, 1), to = empty(int32, {100});
    CHECK_FALSE(only_piece(View(to), {View(shifted)}).flat);
    copy_by_pieces(shifted, to);
    CHECK(values(to) == values(shifted));
  }

  TEST_CASE("one element stands for all") {
    const Tensor one = numbered({1}), y = empty(int32, {3, 50});
    const Elements e = only_piece(View(y), {View(one), View(numbered({3, 50}))});
    CHECK(e.flat);
    CHECK(e.step[0] == 0);
    CHECK(e.step[1] == 1);
    CHECK(only_piece(View(empty(int32, {})), {View(one)}).n == 1);
  }

  TEST_CASE("no elements, no piece") {
    const Tensor x = empty(int32, {0, 4}), y = empty(int32, {3, 0, 4});
    CHECK(copy_by_pieces(x, y) == 0);
  }

  TEST_CASE("views of every kind, and broadcasting, are found") {
    const Tensor base = numbered({4, 6, 8});
    struct Case {
      Shape shape;
      std::vector<std::int64_t> strides;
      std::int64_t offset;
      Shape to;
    };
    const std::vector<Case> cases = {
        {{8, 6, 4}, {1, 8, 48}, 0, {8, 6, 4}},       // transposed
        {{4, 6, 8}, {-48, -8, -1}, 191, {4, 6, 8}},  // backwards
        {{2, 3, 4}, {96, 16, 2}, 1, {2, 3, 4}},      // every other element
        {{6, 8}, {8, 1}, 48, {5, 6, 8}},             // repeated along a new axis
        {{4, 1, 8}, {48, 8, 1}, 0, {2, 4, 7, 8}},    // and along one of size 1
        {{1, 1}, {0, 0}, 3, {3, 5}},
        {{4, 6, 8}, {48, 0, 1}, 0, {4, 6, 8}},  // stride 0
        {{2, 2, 2, 3, 2, 1, 2, 2}, {96, 48, 24, 8, 4, 4, 2, 1}, 0, {2, 2, 2, 3, 2, 1, 2, 2}},
    };
    for (const Case& c : cases) {
      const Tensor x = detail::make_view(base, c.shape, c.strides, c.offset), y = empty(int32, c.to),
                   expected = empty(int32, c.to);
      INFO(to_string(c.shape), " to ", to_string(c.to));
      CHECK(copy_by_pieces(x, y) == 1);
      cpu_backend().copy(x, expected);
      CHECK(values(y) == values(expected));
    }
    // y may have gaps, too.
    const Tensor room = numbered({6, 8});
    const std::int64_t columns[] = {1, 8};
    const Tensor y = detail::make_view(room, {8, 6}, columns);
    copy_by_pieces(numbered({8, 6}), y);
    CHECK(values(y) == values(numbered({8, 6})));
  }

  TEST_CASE("axes are joined") {
    const Tensor x = numbered({4, 6, 8}), y = empty(int32, {4, 6, 8});
    const std::int64_t repeated[] = {48, 8, 0};
    const Elements e = only_piece(View(y), {View(detail::make_view(x, {4, 6, 8}, repeated))});
    CHECK(e.layout.axes == 2);
    const std::int64_t turned[] = {1, 8, 48};
    CHECK(only_piece(View(empty(int32, {8, 6, 4})), {View(detail::make_view(x, {8, 6, 4}, turned))}).layout.axes == 3);
  }

  TEST_CASE("large transpositions are known as such") {
    const Tensor x = numbered({3, 20, 40}), y = empty(int32, {3, 40, 20});
    const std::int64_t turned[] = {800, 1, 40}, outer[] = {1, 40, 800};
    const auto transposition =
        gpu::transposition_of(only_piece(View(y), {View(detail::make_view(x, {3, 40, 20}, turned))}));
    REQUIRE(transposition);
    CHECK(transposition->rows == 40);
    CHECK(transposition->columns == 20);
    CHECK(transposition->batch == 3);
    CHECK(transposition->x_column == 40);
    CHECK(transposition->y_row == 20);
    CHECK(transposition->layout.stride[0][0] == 800);
    CHECK(transposition->layout.stride[1][0] == 800);
    // Too narrow for tiles, and none at all.
    CHECK_FALSE(gpu::transposition_of(
        only_piece(View(empty(int32, {40, 20, 3})), {View(detail::make_view(x, {40, 20, 3}, outer))})));
    const std::int64_t apart[] = {80, 2};
    CHECK_FALSE(
        gpu::transposition_of(only_piece(View(empty(int32, {20, 20})), {View(detail::make_view(x, {20, 20}, apart))})));
  }

  TEST_CASE("what 32-bit indices do not reach comes in pieces") {
    // Nobody touches the elements, so that they need no memory.
    const auto view = [](const Shape& shape, std::vector<std::int64_t> strides) {
      View v;
      v.data = nullptr;
      v.element_bytes = 4;
      v.shape = shape;
      std::copy(strides.begin(), strides.end(), v.stride.begin());
      return v;
    };
    constexpr std::int64_t many = std::int64_t{3} << 31;
    const View flat = view({many}, {1});
    CHECK(only_piece(flat, {flat}).n == many);
    const View wide = view({3, 1 << 20, 2048}, {std::int64_t{1} << 31, 2048, 1});
    const View turned = view({3, 1 << 20, 2048}, {1, 3, 3 << 20});
    std::int64_t total = 0, pieces = 0;
    std::set<const void*> places;
    gpu::for_each_piece(wide, {&turned, 1}, [&](const Elements& e) {
      CHECK_FALSE(e.flat);
      CHECK(e.n < std::int64_t{1} << 31);
      total += e.n;
      places.insert(e.y);
      ++pieces;
      std::int32_t offset[2];
      e.layout.locate(static_cast<std::uint32_t>(e.n - 1), offset);
      CHECK(offset[0] > 0);
      CHECK(offset[1] > 0);
    });
    CHECK(total == std::int64_t{3} << 31);
    CHECK(pieces >= 4);
    CHECK(static_cast<std::int64_t>(places.size()) == pieces);
    // Two elements that are far apart.
    const View far = view({2}, {std::int64_t{1} << 40}), near = view({2}, {1});
    int parts = 0;
    gpu::for_each_piece(near, {&far, 1}, [&](const Elements& e) { parts += e.n == 1; });
    CHECK(parts == 2);
  }

  TEST_CASE("a reduction visits every element of each result once") {
    const Tensor base = numbered({4, 6, 8});
    const std::int64_t turned[] = {1, 8, 48}, back[] = {48, -8, 1};
    const std::vector<Tensor> inputs = {base, detail::make_view(base, {8, 6, 4}, turned),
                                        detail::make_view(base, {4, 6, 8}, back, 40), numbered({1, 500, 1})};
    for (const Tensor& x : inputs) {
      for (std::uint32_t axes = 1; axes < 8; ++axes) {
        const gpu::Reduction plan = gpu::plan_reduction(View(x), axes);
        Shape kept = x.shape();
        for (int i = 0; i < 3; ++i)
          if ((axes >> i & 1) != 0) kept.set(i, 1);
        const Tensor expected = empty(int32, kept);
        cpu_backend().reduce(ReduceFunction::sum, x, axes, expected);
        CHECK(plan.outputs * plan.count == x.size());
        std::vector<double> sums;
        for (std::int64_t o = 0; o < plan.outputs; ++o) {
          double sum = 0;
          std::int32_t first[1], offset[1];
          plan.kept.locate(static_cast<std::uint32_t>(o), first);
          for (std::int64_t i = 0; i < plan.count; ++i) {
            plan.reduced.locate(static_cast<std::uint32_t>(i), offset);
            sum += static_cast<const std::int32_t*>(plan.x)[first[0] + offset[0]];
          }
          sums.push_back(sum);
        }
        CHECK(sums == values(expected));
      }
    }
  }

  TEST_CASE("threads of a reduction read neighbours, and blocks share long ones") {
    const auto plan = [](const Shape& shape, std::uint32_t axes) {
      View v;
      v.shape = shape;
      v.stride = row_major_strides(shape);
      return gpu::plan_reduction(v, axes);
    };
    const gpu::Reduction all = plan({1 << 20}, 1);
    CHECK(all.along);
    CHECK(all.lanes == 256);
    CHECK(all.splits == 512);
    const gpu::Reduction rows = plan({4096, 1024}, 2);
    CHECK(rows.along);
    CHECK(rows.splits == 1);
    const gpu::Reduction columns = plan({4096, 1024}, 1);
    CHECK_FALSE(columns.along);
    CHECK(columns.lanes == 8);
    CHECK(columns.splits > 8);
    const gpu::Reduction few = plan({100000, 3}, 1);
    CHECK_FALSE(few.along);
    CHECK(few.lanes == 128);
    for (const gpu::Reduction& each : {all, rows, columns, few}) {
      CHECK(gpu::block_threads % each.lanes == 0);
      CHECK(each.splits <= 65535);  // blocks along a grid's second axis
    }
    CHECK_THROWS_AS(plan({3, 1 << 30}, 3), UnimplementedError);
  }

  TEST_CASE("products find their matrices, in batches") {
    const Tensor base = numbered({2, 3, 4, 6});
    const std::int64_t turned[] = {72, 24, 1, 6}, row_of_all[] = {0, 0, 0, 1}, swapped[] = {24, 72, 6, 1};
    const std::int64_t spread[] = {72, 24, 12, 2}, of_rows[] = {6, 1};
    struct Case {
      Tensor a, b;
      bool transpose_a, transpose_b;
      int batches;
    };
    const std::vector<Case> cases = {
        {base, numbered({6, 5}), false, false, 1},
        {base, numbered({4, 5}), true, false, 1},
        {base, numbered({2, 3, 5, 6}), false, true, 1},
        {base, detail::make_view(base, {2, 3, 6, 4}, turned), false, false, 1},
        {base, detail::make_view(base, {2, 3, 6, 4}, turned), true, true, 1},
        {detail::make_view(base, {4, 6}, of_rows, 7), numbered({3, 1, 6, 1}), false, false, 1},
        {base, numbered({2, 1, 6, 5}), false, false, 2},
        {numbered({1, 6}), numbered({6, 1}), false, false, 1},
        {numbered({1, 1}), numbered({1, 7}), true, false, 1},
    };
    for (const Case& c : cases) {
      CHECK(gpu::is_readable(View(c.a)));
      CHECK(gpu::is_readable(View(c.b)));
      const int rank = std::max(c.a.rank(), c.b.rank());
      Shape shape;
      for (int i = 0; i < rank - 2; ++i) {
        const int in_a = i - rank + c.a.rank(), in_b = i - rank + c.b.rank();
        shape.push_back(std::max(in_a < 0 ? 1 : c.a.shape().sizes()[in_a], in_b < 0 ? 1 : c.b.shape().sizes()[in_b]));
      }
      shape.push_back(c.a.shape()[c.a.rank() - (c.transpose_a ? 1 : 2)]);
      shape.push_back(c.b.shape()[c.b.rank() - (c.transpose_b ? 2 : 1)]);
      const Tensor y = empty(int32, shape), expected = empty(int32, shape);
      int batches = 0;
      gpu::for_each_product(View(c.a), View(c.b), c.transpose_a, c.transpose_b, View(y), [&](const gpu::Product& p) {
        ++batches;
        const auto element_of = [](const gpu::Product::Matrix& m, std::int64_t batch, std::int64_t i, std::int64_t j) {
          if (m.transposed) std::swap(i, j);
          return static_cast<std::int32_t*>(m.data) + batch * m.batch + i * m.row + j;
        };
        for (std::int64_t batch = 0; batch < p.count; ++batch)
          for (std::int64_t i = 0; i < p.m; ++i)
            for (std::int64_t j = 0; j < p.n; ++j) {
              std::int32_t sum = 0;
              for (std::int64_t k = 0; k < p.k; ++k)
                sum += *element_of(p.a, batch, i, k) * *element_of(p.b, batch, k, j);
              *element_of(p.y, batch, i, j) = sum;
            }
      });
      CHECK(batches == c.batches);
      const auto stretched = [&](const Tensor& x) {
        Shape to = shape;
        to.set(rank - 2, x.shape()[x.rank() - 2]);
        to.set(rank - 1, x.shape().back());
        Tensor copy = empty(int32, to);
        cpu_backend().copy(x, copy);
        return copy;
      };
      cpu_backend().gemm(stretched(c.a), stretched(c.b), c.transpose_a, c.transpose_b, expected);
      CHECK(values(y) == values(expected));
    }
    // What lies backwards has to be copied.
    const std::int64_t backwards[] = {-24, 6, 1};
    CHECK_FALSE(gpu::is_readable(View(detail::make_view(base, {6, 4, 6}, backwards, 120))));
    // So have matrices with gaps in both directions, and one row that stands for all.
    CHECK_FALSE(gpu::is_readable(View(detail::make_view(base, {2, 3, 2, 3}, spread))));
    CHECK_FALSE(gpu::is_readable(View(detail::make_view(base, {2, 3, 4, 6}, row_of_all))));
    // A batch whose matrices are not equally far apart, as the heads of an attention, would take many calls.
    CHECK_FALSE(gpu::is_readable(View(detail::make_view(base, {3, 2, 4, 6}, swapped))));
  }

  TEST_CASE("cuDNN is asked for what equal padding on both sides can do") {
    const auto is_asked = [](const Shape& image, const Shape& result, const Window2d& window, DType dtype = float32) {
      return gpu::is_for_cudnn(gpu::windows_on(image, result, window), result[3], dtype);
    };
    constexpr std::int64_t large = std::int64_t{1} << 32;
    CHECK(is_asked({2, 8, 9, 4}, {2, 6, 7, 5}, {.height = 3, .width = 3}));
    CHECK(is_asked({2, 8, 9, 4}, {2, 8, 9, 5},
                   {.height = 3, .width = 3, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}));
    // One row more at the end: read by a position of its own, or, with a stride of 2, by none.
    CHECK_FALSE(is_asked({2, 8, 9, 4}, {2, 7, 7, 5}, {.height = 3, .width = 3, .pad_bottom = 1}));
    CHECK_FALSE(is_asked({2, 8, 9, 4}, {2, 6, 8, 5}, {.height = 3, .width = 3, .pad_right = 1}));
    CHECK(is_asked({2, 9, 9, 4}, {2, 4, 7, 5}, {.height = 3, .width = 3, .stride_y = 2, .pad_bottom = 1}));
    // One row more in front.
    CHECK_FALSE(is_asked({2, 8, 9, 4}, {2, 7, 7, 5}, {.height = 3, .width = 3, .pad_top = 1}));
    CHECK_FALSE(is_asked({2, 8, 9, 4}, {2, 6, 7, 5}, {.height = 3, .width = 3}, float64));
    CHECK_FALSE(is_asked({2, 0, 9, 4}, {2, 1, 7, 5}, {.height = 2, .width = 3, .pad_top = 1, .pad_bottom = 1}));
    CHECK_FALSE(is_asked({large / 4, 1, 1, 4}, {large / 4, 1, 1, 1}, {}));
    CHECK_FALSE(is_asked({2, 8, 9, 4}, {2, 1, 9, 5}, {.stride_y = large}));
  }

  TEST_CASE("programs that are a bias and an activation are epilogues") {
    using Function = gpu::Epilogue::Function;
    const Tensor y = empty(float32, {5, 8}), row = empty(float32, {8}), column = empty(float32, {5, 1});
    const std::int64_t every_second[] = {2}, all_one[] = {0}, one[] = {1};
    const Tensor long_row = empty(float32, {16});
    // The operands: the inputs x, then the output y, then a register r.
    const auto add = [](std::uint8_t a, std::uint8_t b, std::uint8_t result) {
      return Program::Instruction{Binary::add, {a, b}, result, float32};
    };
    const auto unary = [](Unary f, std::uint8_t a, std::uint8_t result) {
      return Program::Instruction{f, {a}, result, float32};
    };
    struct Case {
      std::vector<Program::Instruction> instructions;
      std::size_t product;
      std::vector<Tensor> others;
      std::optional<Function> function;
      int outputs = 1;
      Tensor result{};
    };
    const std::vector<Case> cases{
        {{add(0, 1, 2)}, 0, {row}, Function::none},
        {{add(0, 1, 2)}, 1, {row}, Function::none},
        {{add(1, 0, 2)}, 0, {empty(float32, {1, 8})}, Function::none},
        {{add(0, 1, 3), unary(Unary::relu, 3, 2)}, 1, {row}, Function::relu},
        {{add(0, 1, 2), unary(Unary::relu, 2, 2)}, 0, {row}, Function::relu},
        {{add(0, 1, 3), unary(Unary::gelu_tanh, 3, 2)}, 0, {row}, Function::gelu_tanh},
        {{unary(Unary::relu, 0, 1)}, 0, {}, Function::relu},
        {{unary(Unary::gelu_tanh, 0, 1)}, 0, {}, Function::gelu_tanh},
        // Other rows: a column, one number, every second of a row, one that stands for all, one that no vector reads.
        {{add(0, 1, 2)}, 0, {column}, {}},
        {{add(0, 1, 2)}, 0, {empty(float32, {})}, {}},
        {{add(0, 1, 2)}, 0, {empty(float32, {1})}, {}},
        {{add(0, 1, 2)}, 0, {empty(float32, {5, 8})}, {}},
        {{add(0, 1, 2)}, 0, {detail::make_view(long_row, {8}, every_second)}, {}},
        {{add(0, 1, 2)}, 0, {detail::make_view(long_row, {8}, all_one)}, {}},
        {{add(0, 1, 2)}, 0, {detail::make_view(long_row, {8}, one, 1)}, {}},
        {{add(0, 1, 2)}, 0, {detail::make_view(long_row, {8}, one, 4)}, Function::none},
        // Other programs.
        {{add(0, 0, 1)}, 0, {}, {}},
        {{add(1, 1, 2)}, 0, {row}, {}},
        {{add(0, 1, 3), add(3, 1, 2)}, 0, {row}, {}},
        {{add(0, 1, 3), unary(Unary::relu, 0, 2)}, 0, {row}, {}},
        {{unary(Unary::relu, 0, 3), add(3, 1, 2)}, 0, {row}, {}},
        {{add(0, 1, 3), unary(Unary::gelu, 3, 2)}, 0, {row}, {}},
        {{add(0, 1, 3), unary(Unary::relu, 3, 3), unary(Unary::relu, 3, 2)}, 0, {row}, {}},
        {{add(0, 1, 2), unary(Unary::relu, 2, 3)}, 0, {row}, {}, 2},
        // Other results.
        {{add(0, 1, 2)}, 0, {empty(float64, {8})}, {}, 1, empty(float64, {5, 8})},
        {{add(0, 1, 2)}, 0, {row}, {}, 1, empty(float32, {2, 5, 8})},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
      INFO("case ", i);
      const Case& each = cases[i];
      const Program program{.instructions = each.instructions,
                            .inputs = static_cast<int>(each.others.size()) + 1,
                            .outputs = each.outputs,
                            .registers = 1};
      const auto found =
          gpu::epilogue_of({.transpose_a = false, .transpose_b = false, .product = each.product, .into = 0}, program,
                           each.others, each.result ? each.result : y);
      REQUIRE(found.has_value() == each.function.has_value());
      if (!found) continue;
      CHECK(found->function == *each.function);
      CHECK(found->bias == (each.others.empty() ? nullptr : each.others[0].impl().data));
    }
  }
}

}  // namespace
}  // namespace tapestry::testing
