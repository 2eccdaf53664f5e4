// Sizes that nobody can have: products beyond 64 bits, more memory than there is. An error with the size that was asked
// for, at once, and everything works on.

#include <tapestry/tapestry.hpp>

#include "refused.hpp"
#include "sanitizers.hpp"

namespace tapestry::test::bad_size_test {
namespace {

constexpr std::int64_t big = std::int64_t{1} << 40, huge = std::int64_t{1} << 62;
constexpr auto most = std::numeric_limits<std::int64_t>::max();

#define TAPESTRY_INVALID(text, ...) TAPESTRY_REFUSED(InvalidArgumentError, text, __VA_ARGS__)
#define TAPESTRY_EXHAUSTED(text, ...) TAPESTRY_REFUSED(ResourceExhaustedError, text, __VA_ARGS__)

TEST_CASE("products of sizes beyond 64 bits") {
  const Tensor x = ones({2, 3});
  TAPESTRY_INVALID("Shape [1099511627776,1099511627776] is too large", zeros({big, big}));
  TAPESTRY_INVALID("Shape [4611686018427387904,4611686018427387904,0] is too large", zeros({huge, huge, 0}));
  TAPESTRY_INVALID("is too large", random::normal({big, big}));
  TAPESTRY_INVALID("is too large", reshape(x, {big, big}));
  TAPESTRY_INVALID("is too large", broadcast_to(x, {big, big, 2, 3}));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:BroadcastTo]", broadcast_to(broadcast_to(1.0, {big, 1}), {-1, big}));
  TAPESTRY_INVALID("2 * 4611686018427387904 is too large [Op:Tile]", tile(x, {huge, 1}));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:Tile]", tile(x, {big, big}));
  TAPESTRY_INVALID("2 * 4611686018427387904 is too large [Op:Repeat]", repeat(x, huge, 0));
  TAPESTRY_INVALID("is too large [Op:PadV2]", pad(x, {{huge, huge}, {0, 0}}));
  TAPESTRY_INVALID("no tensor can hold the numbers from 0.000000 to 4611686018427387904.000000 [Op:Range]",
                   arange(huge));
  TAPESTRY_INVALID("no tensor can hold the numbers", one_hot({0}, huge));
  // A count that no double holds.
  TAPESTRY_INVALID("the numbers from 0 to 9007199254740993 [Op:Range]", arange((std::int64_t{1} << 53) + 1));
  TAPESTRY_INVALID("the numbers from 1 to 9223372036854775807 [Op:Range]", arange(std::int64_t{1}, most, 3));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:Multinomial]", random::categorical(x, most));
  // The op that makes the mask applies others; the line is that of the caller.
  TAPESTRY_INVALID("no tensor can hold the numbers", sequence_mask(tensor<std::int64_t>({huge})));
}

TEST_CASE("products of views that cost nothing") {
  const Tensor column = broadcast_to(1.0, {big, 1}), row = broadcast_to(1.0, {1, big}), line = broadcast_to(0, {big});
  TAPESTRY_INVALID("Shape [1099511627776,1099511627776] is too large", column + row);
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:MatMul]", matmul(column, row));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:Mul]", einsum("i,j->ij", line, line));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:GatherV2]", gather(broadcast_to(1.0, {2, big}), line));
  TAPESTRY_INVALID("is too large [Op:ConcatV2]", concat({broadcast_to(1.0, {huge}), broadcast_to(1.0, {huge})}));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:Pack]", stack({broadcast_to(1.0, {huge}), broadcast_to(1.0, {huge})}));
  check_values(line(range(0, 3)), {0, 0, 0});
}

TEST_CASE("more results than anybody can hold") {
  const auto many = std::to_string(big);
  TAPESTRY_INVALID("at most 1048576 results, not " + many + " [Op:Unpack]", unstack(broadcast_to(1.0, {big})));
  TAPESTRY_INVALID("at most 1048576 results, not " + many + " [Op:Split]", split(zeros({0}), big));
  TAPESTRY_INVALID("at most 1048576 results, not " + many + " [Op:DynamicPartition]",
                   dynamic_partition(tensor({1.0}), {0}, big));
  const auto open = [](auto f) { trace([f](const Tensor& t) { return f(t); }, {spec(float32, {-1})}); };
  TAPESTRY_INVALID("not " + many + " [Op:Split]", open([](const Tensor& t) { return split(t, big); }));
  TAPESTRY_INVALID("of unknown size cannot be split into no parts [Op:SplitV]",
                   open([](const Tensor& t) { return split(t, std::vector<std::int64_t>{}); }));
  TAPESTRY_INVALID("at most 10000 differences of axis -1 of unknown size, but n is " + many + " [Op:diff]",
                   open([](const Tensor& t) { return diff(t, big); }));
  CHECK(diff(ones({3}), big).shape() == Shape{0});
}

TEST_CASE("windows of absurd sizes") {
  const Tensor image = ones({1, 4, 4, 1}), filter = ones({2, 2, 1, 1});
  TAPESTRY_INVALID("Negative dimension size caused by subtracting 4611686018427387905 from 4 [Op:Conv2D]",
                   conv2d(image, filter, {.dilations = huge}));
  TAPESTRY_INVALID("9223372036854775807 + 1 is too large [Op:Conv2D]", conv2d(image, filter, {.dilations = most}));
  TAPESTRY_INVALID("is too large [Op:Conv2D]", conv2d(image, filter, {.padding = huge}));
  TAPESTRY_INVALID("exceeds 2^63 - 1 [Op:Conv2D]", conv2d(image, filter, {.padding = big}));
  TAPESTRY_INVALID("1 vs. 4611686018427387904 * 1 [Op:Conv2D]", conv2d(image, filter, {.groups = huge}));
  TAPESTRY_INVALID("subtracting 9223372036854775807 from 4 [Op:MaxPool]", max_pool2d(image, {.window = most}));
  TAPESTRY_INVALID("is too large [Op:AvgPool]", avg_pool2d(image, {.window = most, .padding = most - 1}));
  const Tensor volume = ones({1, 4, 4, 4, 1}), block = ones({2, 2, 2, 1, 1});
  TAPESTRY_INVALID("does not fit the depth 4", conv3d(volume, block, {.dilations = huge}));
  TAPESTRY_INVALID("is too large [Op:conv3d]", conv3d(volume, block, {.padding = huge}));
  TAPESTRY_INVALID("the stride of the depth must be at least 1, but is 0", conv3d(volume, block, {.strides = 0}));
  TAPESTRY_INVALID("a size of 9223372036854775807 is too large", adaptive_avg_pool2d(image, {most, 1}));
  // These have one output, of the only window that there is.
  for (const std::int64_t size : {big, most}) {
    check_values(conv2d(image, filter, {.strides = size}), {4});
    check_values(conv2d(image, filter, {.strides = size, .padding = "SAME"}), {4});
    check_values(max_pool2d(image, {.window = size, .padding = "SAME"}), {1});
    check_values(avg_pool2d(image, {.window = size, .padding = "SAME"}), {1});
    check_values(grad([&](const Tensor& x) { return avg_pool2d(x, {.window = size, .padding = "SAME"}); })(image),
                 std::vector<double>(16, 1.0 / 16));
    check_values(max_pool2d(ones({1, 4, 4, 3}), {.window = size, .padding = "SAME"}), {1, 1, 1});
    check_values(conv2d(image, ones({1, 1, 1, 1}), {.strides = size, .padding = 2, .dilations = size}), {0});
  }
}

TEST_CASE("more memory than there is") {
  const std::int64_t used = memory_stats().in_use;
  const Tensor view = broadcast_to(1.0, {big});
  TAPESTRY_EXHAUSTED("OOM when allocating 4398046511104 bytes on the CPU", zeros({big}));
  TAPESTRY_EXHAUSTED("[Op:Fill]", full({big}, 1.0));
  TAPESTRY_EXHAUSTED("shape [4611686018427387904] and type float [Op:Fill]", zeros({huge}));
  TAPESTRY_EXHAUSTED("8796093022208 bytes", arange(0, big));
  TAPESTRY_EXHAUSTED("[Op:LinSpace]", linspace(0, 1, big));
  TAPESTRY_EXHAUSTED("8796093022208 bytes", eye(big));
  TAPESTRY_EXHAUSTED("[Op:RandomStandardNormal]", random::normal({big}));
  TAPESTRY_EXHAUSTED("[Op:RandomPermutation]", random::permutation(big));
  TAPESTRY_EXHAUSTED("[Op:AddV2]", view + 1);
  TAPESTRY_EXHAUSTED("[Op:Snapshot]", view.contiguous());
  TAPESTRY_EXHAUSTED("8796093022208 bytes on the CPU", view.cast(float64));
  TAPESTRY_EXHAUSTED("[Op:Tile]", tile({1.0}, {big}));
  TAPESTRY_EXHAUSTED("[Op:PadV2]", pad({1.0}, {{big, big}}));
  TAPESTRY_EXHAUSTED("[Op:Pack]", stack({view, view}));
  TAPESTRY_EXHAUSTED("4611686018427387904 elements of 4 bytes", broadcast_to(1.0, {huge}).to_vector<float>());
  if (!address_sanitizer && !thread_sanitizer)  // whose operator new ends the program instead
    TAPESTRY_EXHAUSTED("elements of 1 bytes", broadcast_to(true, {huge}).to_vector<bool>());
  CHECK(memory_stats().in_use == used);
  check_values(reduce_sum(ones({1000, 1000})), {1e6});
}

TEST_CASE("a tensor without elements costs nothing, however large its other sizes are") {
  constexpr std::int64_t wide = std::int64_t{1} << 60;
  const TensorOptions indices{.dtype = int64};
  using Function = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<const char*, Function>> functions{
      {"take_along_axis", [&](const Tensor& x) { return take_along_axis(x, zeros(x.shape(), indices), 0); }},
      {"along the second axis", [&](const Tensor& x) { return take_along_axis(x, zeros(x.shape(), indices), 1); }},
      {"gather", [&](const Tensor& x) { return gather(x, zeros({0}, indices), 0); }},
      {"gather columns", [&](const Tensor& x) { return gather(x, zeros({0}, indices), 1); }},
      {"gather_nd",
       [&](const Tensor& x) {
         return gather_nd(x, zeros({0, 1}, indices));
       }},
      {"top_k", [](const Tensor& x) { return top_k(x, 0).values; }},
      {"sort", [](const Tensor& x) { return sort(x); }},
      {"band_part", [](const Tensor& x) { return band_part(x, 1, 1); }},
      {"softmax", [](const Tensor& x) { return softmax(x); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 1); }},
      {"cummax", [](const Tensor& x) { return cummax(x, 1); }},
      {"concat",
       [](const Tensor& x) {
         return concat({x, x}, 1);
       }},
      {"transpose", [](const Tensor& x) { return exp(transpose(x)); }},
      {"reduce_sum", [](const Tensor& x) { return reduce_sum(x); }},
      {"matmul", [](const Tensor& x) {
         return matmul(x, zeros({x.shape().back(), 0}));
       }}};
  for (const Shape& shape : {Shape{wide, 0}, Shape{0, wide}, Shape{wide, 4, 0}, Shape{0, 4, wide}, Shape{4, 0, wide}})
    for (const auto& function : functions) {
      INFO(function.first, " of ", to_string(shape));
      const Tensor x = zeros(shape);
      GradientTape tape;
      tape.watch(x);
      std::int64_t size = 0;
      try {
        size = tape.gradient(function.second(x), x).size();
      } catch (const Error& error) {
        CHECK(error.code() != Code::internal);  // what it makes has too many elements, or no such axes
      }
      CHECK(size == 0);
    }
}

TEST_CASE("a tape, a Variable and an optimizer survive it") {
  Variable w({1.0, 2.0});
  GradientTape tape;
  const Tensor loss = reduce_sum(w * w);
  TAPESTRY_EXHAUSTED("[Op:Mul]", w(0) * broadcast_to(1.0, {big}));
  TAPESTRY_INVALID("the shapes must be equal", w.assign(broadcast_to(1.0, {big})));
  train::GradientDescentOptimizer opt(0.5);
  opt.apply_gradients(tape.gradient(loss, std::vector<Variable>{w}), {w});
  check_values(w, {0, 0});
}

}  // namespace
}  // namespace tapestry::test::bad_size_test
