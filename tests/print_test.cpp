#include <limits>
#include <numeric>
#include <sstream>
#include <vector>

#include <doctest/doctest.h>

#include "core/make_tensor.hpp"
#include "expect.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::print_test {

using test::infinity, test::not_a_number, test::printed;

namespace {

std::vector<std::int64_t> count_to(std::int64_t n) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Sets print options until the end of a test.
struct With {
  explicit With(const PrintOptions& options) { set_print_options(options); }
  ~With() { set_print_options({}); }
};

}  // namespace

TEST_CASE("prints as NumPy 2.4's str()") {
  struct Case {
    Tensor tensor;
    const char* text;
  };
  const Case cases[] = {
      // Whole numbers.
      {tensor({2, -1}), "[ 2 -1]"},
      {tensor({1, 10, -100}), "[   1   10 -100]"},
      {tensor<std::int64_t>({-9223372036854775807, 0, 7}),
       "[-9223372036854775807                    0                    7]"},
      {tensor<std::uint8_t>({0, 7, 255}), "[  0   7 255]"},
      {tensor(7), "7"},
      {tensor({{0, 1, 2}, {3, 4, 5}}), "[[0 1 2]\n [3 4 5]]"},
      {tensor({{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}}), "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]"},
      {tensor({{{{0, 1}, {2, 3}}}, {{{4, 5}, {6, 7}}}}), "[[[[0 1]\n   [2 3]]]\n\n\n [[[4 5]\n   [6 7]]]]"},
      // Truth values.
      {tensor({true, false, true}), "[ True False  True]"},
      {tensor({true, true}), "[ True  True]"},
      {tensor({false, false}), "[False False]"},
      {tensor(true), "True"},
      {tensor({{true, false}, {false, true}}), "[[ True False]\n [False  True]]"},
      // Floats with a common place for the point.
      {tensor<double>({1, 2, 3}), "[1. 2. 3.]"},
      {tensor({1.5, -2.25}), "[ 1.5  -2.25]"},
      {tensor<double>({0.1, 0.25, 1.0 / 3}), "[0.1        0.25       0.33333333]"},
      {tensor<float>({0.1, 0.25, 1.0 / 3}), "[0.1        0.25       0.33333334]"},
      {tensor<double>({-0.0, 0.0}), "[-0.  0.]"},
      {tensor<double>({0.123456789012, 10}), "[ 0.12345679 10.        ]"},
      {tensor<double>({0.000123456789, 0.0123}), "[0.00012346 0.0123    ]"},
      {tensor<double>({123456.789, 120000}), "[123456.789 120000.   ]"},
      {tensor<double>({99999999, 12345678}), "[99999999. 12345678.]"},
      {tensor<float>({999999, 250000}), "[999999. 250000.]"},
      {tensor<double>({1e-4, 0.1}), "[0.0001 0.1   ]"},
      {tensor({{0.5, -0.5}, {12.125, 3.0}}), "[[ 0.5   -0.5  ]\n [12.125  3.   ]]"},
      // Floats with exponents: very large, very small, or far apart.
      {tensor<double>({1e8, 1e8}), "[1.e+08 1.e+08]"},
      {tensor<float>({1e6, 1e6}), "[1.e+06 1.e+06]"},
      {tensor<double>({1e-5, 1}), "[1.e-05 1.e+00]"},
      {tensor<double>({1000.5, 1}), "[1.0005e+03 1.0000e+00]"},
      {tensor<double>({1000, 1}), "[1000.    1.]"},
      {tensor<double>({2.5e-9, 1}), "[2.5e-09 1.0e+00]"},
      {tensor<double>({1e-7, 123456.789}), "[1.00000000e-07 1.23456789e+05]"},
      {tensor<double>({1.5e300, -2.25e-300}), "[ 1.50e+300 -2.25e-300]"},
      {tensor<double>({5e-324, 1.7976931348623157e308}), "[4.94065646e-324 1.79769313e+308]"},
      {tensor<float>({1e-45, 3.4028235e38}), "[1.4012985e-45 3.4028235e+38]"},
      {tensor<double>({{1, 2, 3}, {4.5, 1e-3, 6}}), "[[1.0e+00 2.0e+00 3.0e+00]\n [4.5e+00 1.0e-03 6.0e+00]]"},
      // Neither numbers nor finite.
      {tensor<double>({not_a_number, 1, infinity}), "[nan  1. inf]"},
      {tensor<double>({not_a_number, not_a_number}), "[nan nan]"},
      {tensor<double>({-infinity, not_a_number}), "[-inf  nan]"},
      {tensor<double>({-infinity, 1.25}), "[-inf 1.25]"},
      {tensor<float>({not_a_number, 123456.5, -infinity}), "[     nan 123456.5     -inf]"},
      {tensor<double>({infinity, 1e-9}), "[   inf 1.e-09]"},
      // Scalars, as Python prints a number.
      {tensor<double>(0.1), "0.1"},
      {tensor<float>(0.1), "0.1"},
      {tensor<double>(1), "1.0"},
      {tensor<double>(1e-5), "1e-05"},
      {tensor<double>(1e16), "1e+16"},
      {tensor<double>(123456789012345.6), "123456789012345.6"},
      {tensor<float>(1.0 / 3), "0.33333334"},
      {tensor<float>(16777216), "1.6777216e+07"},
      {tensor<float>(-2.5e-7), "-2.5e-07"},
      {tensor<double>(not_a_number), "nan"},
      {tensor<double>(-infinity), "-inf"},
      {tensor<double>(-0.0), "-0.0"},
      // Nothing.
      {tensor(std::vector<double>{}), "[]"},
      {tensor(std::vector<int>{}, Shape{2, 0}), "[]"},
      {tensor(std::vector<float>{}, Shape{0, 3}), "[]"},
  };
  for (const Case& example : cases) CHECK(printed(example.tensor) == example.text);
}

TEST_CASE("breaks lines at 75 characters") {
  CHECK(printed(tensor(std::vector<double>(9, 3.14159265358979))) ==
        "[3.14159265 3.14159265 3.14159265 3.14159265 3.14159265 3.14159265\n"
        " 3.14159265 3.14159265 3.14159265]");
  auto cubes = count_to(30);
  for (auto& i : cubes) i = i * i * i;
  CHECK(printed(tensor(cubes)) ==
        "[    0     1     8    27    64   125   216   343   512   729  1000  1331\n"
        "  1728  2197  2744  3375  4096  4913  5832  6859  8000  9261 10648 12167\n"
        " 13824 15625 17576 19683 21952 24389]");
}

TEST_CASE("summarises above 1000 elements") {
  CHECK(printed(tensor(count_to(1000))).find("...") == std::string::npos);
  CHECK(printed(tensor(count_to(1001))) == "[   0    1    2 ...  998  999 1000]");
  const auto halves = tensor(std::vector<double>(2048, 0.5), {2, 1024});
  CHECK(printed(halves) == "[[0.5 0.5 0.5 ... 0.5 0.5 0.5]\n [0.5 0.5 0.5 ... 0.5 0.5 0.5]]");
  CHECK(printed(tensor(std::vector<bool>(1002, true), {2, 501})) ==
        "[[ True  True  True ...  True  True  True]\n [ True  True  True ...  True  True  True]]");

  With fewer({.threshold = 10, .edge_items = 1});
  CHECK(printed(tensor(count_to(27), {3, 3, 3})) ==
        "[[[ 0 ...  2]\n  ...\n  [ 6 ...  8]]\n\n ...\n\n [[18 ... 20]\n  ...\n  [24 ... 26]]]");
}

TEST_CASE("print options") {
  const Tensor wide = tensor<double>({1e-10, 1.0 / 3, 1000});
  CHECK(printed(wide) == "[1.00000000e-10 3.33333333e-01 1.00000000e+03]");
  {
    With options({.precision = 3, .suppress = true});
    CHECK(printed(wide) == "[   0.       0.333 1000.   ]");
  }
  {
    With options({.precision = 0});
    CHECK(printed(tensor<double>({0.5, 1.5, 2.25})) == "[0. 2. 2.]");
  }
  {
    With options({.line_width = 20});
    CHECK(printed(tensor({123456, 123456, 123456, 123456})) == "[123456 123456\n 123456 123456]");
  }
  CHECK(printed(wide) == "[1.00000000e-10 3.33333333e-01 1.00000000e+03]");
  CHECK_THROWS_AS(set_print_options({.edge_items = 0}), InvalidArgumentError);
  CHECK_THROWS_AS(set_print_options({.precision = -1}), InvalidArgumentError);
  CHECK(print_options().edge_items == 3);
}

TEST_CASE("prints views, and of one that has more elements than memory only the corners") {
  CHECK(printed(transpose(tensor({{1, 2, 3}, {4, 5, 6}}))) == "[[1 4]\n [2 5]\n [3 6]]");
  CHECK(printed(flip(tensor({1, 2, 3}), {0})) == "[3 2 1]");
  const std::string row = "[7 7 7 ... 7 7 7]";
  CHECK(printed(broadcast_to(tensor(7), {1 << 30, 1 << 30})) ==
        "[" + row + "\n " + row + "\n " + row + "\n ...\n " + row + "\n " + row + "\n " + row + "]");
}

TEST_CASE("prints what has no elements") {
  CHECK(printed(Tensor()) == "None");
  CHECK(printed(detail::make_symbolic(float32, {-1, 784})) == "Tensor(shape=[?,784], dtype=float32)");
}

TEST_CASE("describe") {
  CHECK(tensor({{-0.42, 2.8}, {0.5, -0.5}}).describe() == "float32[2,2] cpu min -0.5 max 2.8 mean 0.595");
  CHECK(tensor({1, 2, -9}).describe() == "int32[3] cpu min -9 max 2 mean -2");
  CHECK(tensor<double>({1, not_a_number, 2, not_a_number}).describe() == "float64[4] cpu min 1 max 2 mean 1.5 nan 2");
  CHECK(tensor<double>({not_a_number, not_a_number}).describe() == "float64[2] cpu nan 2");
  CHECK(tensor<double>({1, -infinity}).describe() == "float64[2] cpu min -inf max 1 mean -inf");
  CHECK(tensor({true, false, true}).describe() == "bool[3] cpu 2 of 3 true");
  CHECK(tensor(0.5).describe() == "float32[] cpu 0.5");
  CHECK(tensor(std::vector<float>{}, Shape{0, 3}).describe() == "float32[0,3] cpu empty");
  CHECK(detail::make_symbolic(float32, {-1, 2}).describe() == "float32[?,2] cpu symbolic");
  CHECK(Tensor().describe() == "None");
}

}  // namespace tapestry::print_test
