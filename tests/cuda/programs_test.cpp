// The texts that programs become, and how their arrays are told from one another; no device needed.

#include <map>
#include <set>

#include <doctest/doctest.h>

#include "backend/cuda/program_text.hpp"
#include "program_cases.hpp"

namespace tapestry::testing {
namespace {

using gpu::Access;
using gpu::ProgramPiece;

std::vector<ProgramPiece> pieces_of(const List& inputs, const List& outputs) {
  std::vector<ProgramPiece> pieces;
  gpu::for_each_piece(inputs, outputs, [&](const ProgramPiece& piece) { pieces.push_back(piece); });
  return pieces;
}
ProgramPiece piece_of(const List& inputs, const Shape& shape) {
  const std::vector<ProgramPiece> pieces = pieces_of(inputs, {empty(float32, shape)});
  REQUIRE(pieces.size() == 1);
  return pieces[0];
}
std::vector<Access> places_of(const List& inputs, const Shape& shape) {
  const auto place = piece_of(inputs, shape).form.access;
  return {place.begin(), place.begin() + static_cast<std::ptrdiff_t>(inputs.size()) + 1};
}
std::string text_of(const Program& program, const List& inputs, const Shape& shape) {
  const ProgramPiece piece = pieces_of(inputs, outputs_of(program, shape)).at(0);
  return gpu::text_of({program, inputs, piece.form});
}
Tensor view(const Tensor& x, const Shape& shape, const std::vector<std::int64_t>& strides, std::int64_t offset = 0) {
  return detail::make_view(x, shape, strides, offset);
}

TEST_SUITE("programs for CUDA") {
  TEST_CASE("the text of a program") {
    const Shape shape{33, 64};
    const Tensor full = random_tensor(float32, shape), row = random_tensor(float32, {64}),
                 column = random_tensor(float32, {33, 1}), one = random_tensor(float32, {});
    CHECK(text_of(sample(), {full, row, column, one}, shape) == R"(#include "backend/cuda/kernels/program.cuh"

using namespace tapestry::gpu;

extern "C" __global__ void __launch_bounds__(block_threads)
    program(const float* x0, const float* x1, const float* x2, const float* x3, float* x4, double* x5, bool* x6, std::int64_t n, const __grid_constant__ LayoutOf<2> layout) {
  const float a3 = *x3;
  for (std::int64_t i = global_thread() * 2; i < n; i += grid_threads() * 2) {
    std::int32_t at[2];
    layout.locate(static_cast<std::uint32_t>(i), at);
    float a0[2];
    load_flat(x0, i, n, a0);
    float a1[2];
    load(x1 + at[0], a1);
    const float a2 = *(x2 + at[1]);
    float a4[2];
    double a5[2];
    bool a6[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float v0 = static_cast<float>(binary::multiply::apply<float, float>(a0[j], a1[j], 0, 0));
      const float v1 = static_cast<float>(unary::tanh::apply<float, float>(v0, 0, 0, 0));
      const bool v2 = static_cast<bool>(binary::less::apply<float, float>(v1, a2, 0, 0));
      const float v3 = static_cast<float>(ternary::select::apply<bool, float>(v2, a3, v0, 0));
      const double v4 = convert<double>(v3);
      const bool v5 = static_cast<bool>(unary::logical_not::apply<bool, bool>(v2, 0, 0, 0));
      a4[j] = v1;
      a5[j] = v4;
      a6[j] = v5;
    }
    store_flat(a4, x4, i, n);
    store_flat(a5, x5, i, n);
    store_flat(a6, x6, i, n);
  }
}
)");
    Program slope{.instructions = {}, .inputs = 1, .outputs = 1};
    slope.instructions = {{Unary::leaky_relu, {0}, 1, float32, 0.25}, {Binary::add, {1, 0}, 1, float32, 0}};
    CHECK(text_of(slope, {view(full, {33, 32}, {64, 2})}, {33, 32}) ==
          R"(#include "backend/cuda/kernels/program.cuh"

using namespace tapestry::gpu;

extern "C" __global__ void __launch_bounds__(block_threads)
    program(const float* x0, float* x1, std::int64_t n, double p0, const __grid_constant__ LayoutOf<1> layout) {
  for (std::int64_t i = global_thread() * 4; i < n; i += grid_threads() * 4) {
    std::int32_t at[1];
    layout.locate(static_cast<std::uint32_t>(i), at);
    float a0[4];
    load_strided(x0 + at[0], layout.stride[0][layout.axes - 1], a0);
    float a1[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float v0 = static_cast<float>(unary::leaky_relu::apply<float, float>(a0[j], 0, 0, static_cast<float>(p0)));
      const float v1 = static_cast<float>(binary::add::apply<float, float>(v0, a0[j], 0, 0));
      a1[j] = v1;
    }
    store_flat(a1, x1, i, n);
  }
}
)");
  }

  TEST_CASE("where arrays have a thread's elements") {
    const Shape shape{6, 8};
    const Tensor full = random_tensor(float32, shape);
    const auto place = [&](const Tensor& x) { return places_of({x}, shape)[0]; };
    CHECK(place(full) == Access::flat);
    CHECK(place(random_tensor(float32, {})) == Access::scalar);
    CHECK(place(random_tensor(float32, {1, 1})) == Access::scalar);
    CHECK(place(random_tensor(float32, {8})) == Access::row);
    CHECK(place(random_tensor(float32, {6, 1})) == Access::column);
    CHECK(place(view(random_tensor(float32, {8, 6}), shape, {1, 6})) == Access::strided);
    CHECK(place(view(random_tensor(float32, {6, 16}), shape, {16, 2})) == Access::strided);
    CHECK(place(view(random_tensor(float32, {6, 12}), shape, {12, 1})) == Access::row);
    CHECK(place(view(random_tensor(float32, {6, 9}), shape, {9, 1})) == Access::strided);        // no vectors in row 1
    CHECK(place(view(random_tensor(float32, {6, 12}), shape, {12, 1}, 1)) == Access::strided);   // nor here
    CHECK(place(view(random_tensor(float32, {6, 8}), shape, {-8, -1}, 47)) == Access::strided);  // backwards
    CHECK(places_of({full, random_tensor(float32, {8})}, shape) ==
          std::vector{Access::flat, Access::row, Access::flat});
  }

  TEST_CASE("how many elements a thread computes at once") {
    const auto width = [](const List& inputs, const Shape& shape) { return piece_of(inputs, shape).form.width; };
    CHECK(width({random_tensor(float32, {100})}, {100}) == 4);
    CHECK(width({random_tensor(float32, {101})}, {101}) == 4);  // the last ones alone
    CHECK(width({random_tensor(uint8, {101})}, {101}) == 4);    // the output's are larger
    CHECK(width({random_tensor(float64, {100})}, {100}) == 2);
    CHECK(width({random_tensor(float32, {3})}, {3}) == 1);
    CHECK(width({random_tensor(float32, {8})}, {6, 8}) == 4);
    CHECK(width({random_tensor(float32, {10})}, {6, 10}) == 1);  // a vector would be in two rows
    const Tensor x = random_tensor(float32, {101});
    CHECK(width({view(x, {100}, {1}, 1)}, {100}) == 1);
    CHECK(width({view(x, {96}, {1}, 4)}, {96}) == 4);
    CHECK(width(List(16, x), {101}) == 2);  // no more than registers hold
    CHECK(width(List(40, x), {101}) == 1);
    const List bools{random_tensor(boolean, {100})};
    CHECK(pieces_of(bools, {empty(boolean, {100})}).at(0).form.width == 16);
  }

  TEST_CASE("the form of a program does not depend on sizes, and its signature is its text's") {
    const auto inputs = [](std::int64_t rows, std::int64_t columns) {
      return List{random_tensor(float32, {rows, columns}), random_tensor(float32, {columns}),
                  random_tensor(float32, {rows, 1}), random_tensor(float32, {})};
    };
    CHECK(text_of(sample(), inputs(33, 64), {33, 64}) == text_of(sample(), inputs(7, 128), {7, 128}));
    std::map<std::string, std::string> signatures;  // by text
    std::set<std::string> texts;
    const auto check = [&](const Program& program, const List& values, const Shape& shape) {
      for (const ProgramPiece& piece : pieces_of(values, outputs_of(program, shape))) {
        const std::string signature = gpu::signature_of({program, values, piece.form}),
                          text = gpu::text_of({program, values, piece.form});
        CHECK(signatures.emplace(signature, text).first->second == text);
        texts.insert(text);
      }
    };
    for_each_layout([&](const List& values, const Shape& shape) { check(sample(), values, shape); });
    for_each_random_program(100, check);
    for (const double slope : {0.0, -0.0, 1.0, 2.0}) {
      Program program{.instructions = {}, .inputs = 1, .outputs = 1};
      program.instructions = {{Unary::leaky_relu, {0}, 1, float32, slope}};
      check(program, {random_tensor(float32, {8})}, {8});
    }
    CHECK(texts.size() == signatures.size());
    MESSAGE(texts.size(), " texts");
  }

  TEST_CASE("pieces are within reach of 32-bit indices, and make up all") {
    CHECK(pieces_of({random_tensor(float32, {4})}, {empty(float32, {0, 4})}).empty());
    // Never touched: only where they would lie counts.
    constexpr std::int64_t rows = 1 << 17, columns = 1 << 16;
    const Tensor one = random_tensor(float32, {1});
    const auto far = [&](const std::vector<std::int64_t>& strides) { return view(one, {rows, columns}, strides); };
    const Tensor y = far({columns, 1}), flat = far({columns, 1}), row = far({0, 1}), turned = far({1, rows});
    CHECK(pieces_of({flat, far({0, 0})}, {y}).size() == 1);
    for (const Tensor& x : {row, turned}) {
      std::int64_t sum = 0;
      for (const ProgramPiece& piece : pieces_of({flat, x}, {y})) {
        sum += piece.n;
        CHECK(piece.n < std::int64_t{1} << 31);
        std::int32_t at[Program::max_operands];
        piece.layout.locate(static_cast<std::uint32_t>(piece.n - 1), at);
        // The same element of all arrays: y's says which one it is.
        const auto index = [&](std::size_t k, int place) {
          const auto bytes = static_cast<std::byte*>(piece.data[k]) - static_cast<std::byte*>(one.impl().data);
          return bytes / 4 + (is_located(piece.form.access[k]) ? at[place] : piece.n - 1);
        };
        const int before = is_located(piece.form.access[0]) ? 1 : 0;
        const std::int64_t element = index(0, 0);
        CHECK(index(2, before + 1) == element);
        const std::int64_t i = element / columns, j = element % columns;
        CHECK(index(1, before) == x.strides()[0] * i + x.strides()[1] * j);
      }
      CHECK(sum == rows * columns);
    }
  }
}

}  // namespace
}  // namespace tapestry::testing
