// Shapes, indexing, joining, gathering: values, views, gradients, unknown sizes and errors.

#include "core/make_tensor.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "same_bits.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/trace.hpp"

namespace ops_array_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// 0, 1, 2, ... of a shape, in float64.
Tensor counted(const Shape& shape) { return reshape(arange(shape.size(), {.dtype = float64}), shape); }

void check(const Tensor& actual, const Shape& shape, const std::vector<double>& expected, DType dtype = float64) {
  CHECK(to_string(actual.shape()) == to_string(shape));
  CHECK(to_string(actual.dtype()) == to_string(dtype));
  check_values(actual, expected, 1e-12);
}

bool shares_memory(const Tensor& a, const Tensor& b) { return a.impl().storage.get() == b.impl().storage.get(); }

std::string inferred_shape(std::string_view op, const std::vector<Spec>& inputs, const Attrs& attrs = {}) {
  Tensors symbolic;
  for (const Spec& input : inputs) symbolic.push_back(detail::make_symbolic(input.dtype, input.shape));
  const Op* found = find_op(op);
  REQUIRE_MESSAGE(found, op);
  std::string shapes;
  for (const Spec& spec : found->infer(Call(*found, symbolic, attrs, {}))) shapes += to_string(spec.shape);
  return shapes;
}

/// The derivative of the sum of f(x) weighted by 1, 2, 3, ...
template <class F>
Tensor derivative(F f, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Tensor y = f(x);
  return tape.gradient(y * (counted(y.shape()) + 1.0), x);
}

}  // namespace

// ---- Shapes -----------------------------------------------------------------------------------------------------------

TEST_CASE("changes of shape are views") {
  const Tensor x = counted({2, 3});
  for (const Tensor& view : {reshape(x, {3, 2}), transpose(x), squeeze(expand_dims(x, 0)), broadcast_to(x, {2, 2, 3}),
                             flip(x), slice(x, {0, 1}, {2, 1}), x(0), identity(x), stop_gradient(x)})
    CHECK(shares_memory(view, x));
  check(reshape(x, {-1, 2}), {3, 2}, {0, 1, 2, 3, 4, 5});
  check(reshape(x, {6}), {6}, {0, 1, 2, 3, 4, 5});
  check(reshape(ones({1}), {}), {}, {1}, float32);
  check(reshape(transpose(x), {6}), {6}, {0, 3, 1, 4, 2, 5});
  check(transpose(x), {3, 2}, {0, 3, 1, 4, 2, 5});
  check(transpose(counted({2, 1, 3}), {2, 0, 1}), {3, 2, 1}, {0, 3, 1, 4, 2, 5});
  check(transpose(counted({2, 1, 3}), {-1, 0, 1}), {3, 2, 1}, {0, 3, 1, 4, 2, 5});
  CHECK(to_string(squeeze(ones({1, 2, 1, 3})).shape()) == "[2,3]");
  CHECK(to_string(squeeze(ones({1, 2, 1, 3}), -2).shape()) == "[1,2,3]");
  CHECK(to_string(expand_dims(x, {0, -1}).shape()) == "[1,2,3,1]");
  CHECK(expand_dims(x, 1).is_contiguous());
  check(broadcast_to(counted({2, 1}), {2, 2, -1}), {2, 2, 1}, {0, 1, 0, 1});
  check(broadcast_to(counted({2, 1}), {2, 3}), {2, 3}, {0, 0, 0, 1, 1, 1});
  check(flip(x, 1), {2, 3}, {2, 1, 0, 5, 4, 3});
  check(flip(x), {2, 3}, {5, 4, 3, 2, 1, 0});
  CHECK(flip(zeros({0, 2})).size() == 0);
  check(tapestry::shape(x), {2}, {2, 3}, int64);
  check(tapestry::shape(ones({})), {0}, {}, int64);
  check(tapestry::size(x), {}, {6}, int64);
  CHECK(transpose(x).contiguous().is_contiguous());
  check(transpose(x).contiguous(), {3, 2}, {0, 3, 1, 4, 2, 5});
  CHECK(x.contiguous().is(x));
  CHECK(x.to(cpu()).is(x));
}

TEST_CASE("gradients of changes of shape") {
  const Tensor x = counted({2, 3});
  check_values(derivative([](const Tensor& t) { return reshape(t, {3, -1}); }, x), {1, 2, 3, 4, 5, 6});
  check_values(derivative([](const Tensor& t) { return transpose(t); }, x), {1, 3, 5, 2, 4, 6});
  check_values(derivative(
                   [](const Tensor& t) {
                     return transpose(expand_dims(t, 0), {2, 0, 1});
                   },
                   x),
               {1, 3, 5, 2, 4, 6});
  check_values(derivative([](const Tensor& t) { return squeeze(t); }, counted({1, 2})), {1, 2});
  check_values(derivative([](const Tensor& t) { return broadcast_to(t, {2, 2}); }, counted({2, 1})), {3, 7});
  check_values(derivative([](const Tensor& t) { return flip(t, 1); }, x), {3, 2, 1, 6, 5, 4});
  check_values(derivative([](const Tensor& t) { return transpose(t).contiguous(); }, x), {1, 3, 5, 2, 4, 6});
  GradientTape tape;
  tape.watch(x);
  CHECK_FALSE(tape.gradient(stop_gradient(x), x));
}

TEST_CASE("errors of changes of shape") {
  const Tensor x = ones({2, 3});
  auto error = caught<InvalidArgumentError>([&] { reshape(x, {4, 2}); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "Reshape");
  CHECK(error.message() == "Input to reshape is a tensor with 6 values, but the requested shape [4,2] has 8");
  error = caught<InvalidArgumentError>([&] { reshape(x, {4, -1}); });
  CHECK(place(error) == line_before());
  CHECK(error.message() ==
        "Input to reshape is a tensor with 6 values, but the requested shape [4,?] requires a multiple of 4");
  error = caught<InvalidArgumentError>([&] { squeeze(x, 0); });
  CHECK(error.message() == "Can not squeeze dim[0], expected a dimension of 1, got 2");
  CHECK_THROWS_AS(reshape(x, {-1, -1}), InvalidArgumentError);
  CHECK_THROWS_AS(reshape(zeros({0}), {-1, 0}), InvalidArgumentError);
  CHECK_THROWS_AS(transpose(x, {0}), InvalidArgumentError);
  CHECK_THROWS_AS(transpose(x, {0, 0}), InvalidArgumentError);
  CHECK_THROWS_AS(transpose(x, {0, 2}), InvalidArgumentError);
  CHECK_THROWS_AS(expand_dims(x, 3), InvalidArgumentError);
  CHECK_THROWS_AS(expand_dims(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0), InvalidArgumentError);
  CHECK_THROWS_AS(broadcast_to(x, {3, 3}), InvalidArgumentError);
  CHECK_THROWS_AS(broadcast_to(x, {3}), InvalidArgumentError);
  CHECK_THROWS_AS(broadcast_to(x, {-1, 2, 3}), InvalidArgumentError);
  const auto empty = caught<FailedPreconditionError>([] { Tensor().cast(float64); });
  CHECK(place(empty) == line_before());
}

TEST_CASE("shapes with unknown sizes") {
  const Spec x{float32, {-1, 3}};
  CHECK(inferred_shape("Reshape", {x}, {{"shape", Shape{-1, 1}}}) == "[?,1]");
  CHECK(inferred_shape("Transpose", {x}) == "[3,?]");
  CHECK(inferred_shape("Squeeze", {{float32, {1, -1}}}, {{"axis", Ints{0}}}) == "[?]");
  CHECK_THROWS_AS(inferred_shape("Squeeze", {x}), InvalidArgumentError);
  CHECK(inferred_shape("ExpandDims", {x}, {{"axis", Ints{-1}}}) == "[?,3,1]");
  CHECK(inferred_shape("BroadcastTo", {x}, {{"shape", Shape{4, -1, 3}}}) == "[4,?,3]");
  CHECK(inferred_shape("SumLike", {x, {float32, {3}}}) == "[3]");
  CHECK(inferred_shape("BroadcastLike", {{float32, {3}}, x}) == "[?,3]");
  CHECK(inferred_shape("Shape", {x}) == "[2]");
}

// ---- Indexing ---------------------------------------------------------------------------------------------------------

TEST_CASE("indexing follows NumPy") {
  const Tensor x = counted({3, 4});
  check(x(1), {4}, {4, 5, 6, 7});
  check(x(-1), {4}, {8, 9, 10, 11});
  check(x(1, 2), {}, {6});
  check(x(all, 0), {3}, {0, 4, 8});
  check(x(ellipsis, 0), {3}, {0, 4, 8});
  check(x(ellipsis), {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  check(x(0, newaxis, range(0, 2)), {1, 2}, {0, 1});
  check(x(newaxis, 0, ellipsis, newaxis), {1, 4, 1}, {0, 1, 2, 3});
  check(x(range(1, 3), range(0, 4, 3)), {2, 2}, {4, 7, 8, 11});
  check(x(0, range(1)), {1}, {0});
  check(x(0, range(-3, std::nullopt)), {3}, {1, 2, 3});
  check(x(0, range(std::nullopt, std::nullopt, -1)), {4}, {3, 2, 1, 0});
  check(x(0, range(2, 0, -1)), {2}, {2, 1});
  check(x(0, range(-1, -10, -2)), {2}, {3, 1});
  check(x(range(1, 100)), {2, 4}, {4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(x(range(2, 1)).size() == 0);
  CHECK(x(range(5, 9), 0).size() == 0);
  CHECK(x(range(0, 3, std::numeric_limits<std::int64_t>::max())).size() == 4);
  CHECK(x(range(std::nullopt, std::nullopt, std::numeric_limits<std::int64_t>::min())).size() == 4);
  CHECK(zeros({0, 2})(range(std::nullopt, std::nullopt, -1)).size() == 0);
  check(slice(x, {1, 1}, {-1, 2}), {2, 2}, {5, 6, 9, 10});
}

TEST_CASE("slice_update puts a value in place of a part") {
  const Tensor x = zeros({2, 3}, {.dtype = float64});
  check(slice_update(x, 1.5, all, 0), {2, 3}, {1.5, 0, 0, 1.5, 0, 0});
  check(slice_update(x, counted({3}), -1), {2, 3}, {0, 0, 0, 0, 1, 2});
  check(slice_update(x, counted({2}), all, range(0, 3, 2)), {2, 3}, {0, 0, 1, 0, 0, 1});
  check(x, {2, 3}, {0, 0, 0, 0, 0, 0});
  check_values(derivative([](const Tensor& t) { return slice_update(t, 0, all, 1); }, x), {1, 0, 3, 4, 0, 6});
  check_values(derivative([&](const Tensor& t) { return slice_update(x, t, all, 1); }, counted({})), {7});
}

TEST_CASE("slice_update keeps the dtype of floats, as masked_assign does") {
  const Tensor x = zeros({2}), wide = tensor<double>({0.5, 2.0});
  CHECK(slice_update(x, wide, all).dtype() == float32);
  CHECK(slice_update(x, tensor(7), 0).dtype() == float32);
  CHECK(slice_update(x.cast(float16), wide(0), 0).dtype() == float16);
  CHECK(slice_update(x.cast(float64), x(0), 0).dtype() == float64);
  CHECK(slice_update(x.cast(int32), wide(0), 0).dtype() == float64);
  const auto f = [&](const Tensor& a) { return slice_update(a, wide, all); };
  CHECK(trace(f, {spec(float32, {-1})})(x).dtype() == float32);
  const Tensor slope = grad([&](const Tensor& v) { return reduce_sum(slice_update(x, v, all) * 3.0); })(wide);
  CHECK(slope.dtype() == float64);
  check_values(slope, {3, 3});
}

TEST_CASE("gradients of indexing") {
  const Tensor x = counted({2, 3});
  check_values(derivative([](const Tensor& t) { return t(1); }, x), {0, 0, 0, 1, 2, 3});
  check_values(derivative([](const Tensor& t) { return t(all, range(2, std::nullopt, -2)); }, x), {2, 0, 1, 4, 0, 3});
  check_values(derivative([](const Tensor& t) { return slice(t, {0, 1}, {-1, 1}); }, x), {0, 1, 0, 0, 2, 0});
  check_values(derivative([](const Tensor& t) { return t(newaxis, 0, newaxis, 1) * t(0, 1); }, x), {0, 2, 0, 0, 0, 0});
}

TEST_CASE("errors of indexing name the user's line") {
  const Tensor x = ones({3, 4});
  auto error = caught<InvalidArgumentError>([&] { x(5); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "StridedSlice");
  CHECK(error.message() == "slice index 5 of dimension 0 out of bounds.");
  error = caught<InvalidArgumentError>([&] { x(all, -5); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "slice index -5 of dimension 1 out of bounds.");
  CHECK_THROWS_AS(x(0, 0, 0), InvalidArgumentError);
  CHECK_THROWS_AS(x(ellipsis, 0, ellipsis), InvalidArgumentError);
  CHECK_THROWS_AS(x(range(0, 3, 0)), InvalidArgumentError);
  error = caught<InvalidArgumentError>([&] { slice(x, {0, 3}, {1, 2}); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "Slice");
  CHECK(error.message() == "Expected size[1] in [0, 1], but got 2");
  CHECK_THROWS_AS(slice(x, {0}, {1}), InvalidArgumentError);
  error = caught<InvalidArgumentError>([&] { slice_update(x, ones({3}), 0); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "TensorStridedSliceUpdate");
  CHECK(error.message() == "Incompatible shapes: [3] vs. [4]");
}

TEST_CASE("indexing with unknown sizes") {
  const Spec x{float32, {-1, 4}};
  const auto expression = [](std::int64_t begin, std::int64_t end, const Ints& masks) {
    return Attrs{{"begin", Ints{begin}}, {"end", Ints{end}}, {"strides", Ints{1}}, {"masks", masks}};
  };
  CHECK(inferred_shape("StridedSlice", {x}, expression(0, 5, {0, 0, 0, 0, 0})) == "[?,4]");
  CHECK(inferred_shape("StridedSlice", {x}, expression(7, 0, {0, 1, 0, 0, 1})) == "[4]");
  const std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  CHECK(inferred_shape("StridedSlice", {x}, expression(lowest, lowest, {0, 0, 0, 0, 1})) == "[4]");
  CHECK(inferred_shape("Slice", {x}, {{"begin", Ints{0, 1}}, {"size", Ints{-1, -1}}}) == "[?,3]");
  CHECK(inferred_shape("Slice", {x}, {{"begin", Ints{9, 1}}, {"size", Ints{2, 2}}}) == "[2,2]");
}

// ---- Joining and splitting --------------------------------------------------------------------------------------------

TEST_CASE("concat, stack and their inverses") {
  const Tensor a = counted({2, 2}), b = counted({2, 1});
  check(concat({a, b}, 1), {2, 3}, {0, 1, 0, 2, 3, 1});
  check(concat({a, transpose(a)}), {4, 2}, {0, 1, 2, 3, 0, 2, 1, 3});
  check(concat({a, zeros({0, 2})}), {2, 2}, {0, 1, 2, 3});
  check(concat({tensor({1}), tensor({0.5})}), {2}, {1, 0.5}, float32);
  check(stack({a(0), a(1)}), {2, 2}, {0, 1, 2, 3});
  check(stack({a(0), a(1)}, -1), {2, 2}, {0, 2, 1, 3});
  const std::vector<Tensor> columns = unstack(a, 1);
  REQUIRE(columns.size() == 2);
  check(columns[1], {2}, {1, 3});
  const std::vector<Tensor> halves = split(counted({4}), 2);
  REQUIRE(halves.size() == 2);
  check(halves[1], {2}, {2, 3});
  const std::vector<Tensor> parts = split(counted({2, 5}), {1, -1, 2}, 1);
  REQUIRE(parts.size() == 3);
  check(parts[1], {2, 2}, {1, 2, 6, 7});
  CHECK(split(counted({3}), {3}).size() == 1);
}

TEST_CASE("gradients of joining and splitting") {
  const Tensor x = counted({2, 2});
  check_values(derivative([](const Tensor& t) { return concat({t, t, ones({2, 1})}, 1); }, x), {4, 6, 14, 16});
  check_values(derivative([](const Tensor& t) { return stack({t, t}); }, x), {6, 8, 10, 12});
  check_values(derivative([](const Tensor& t) { return unstack(t, 1)[1]; }, x), {0, 1, 0, 2});
  check_values(derivative([](const Tensor& t) { return split(t, {1, 1})[0]; }, x), {1, 2, 0, 0});
}

TEST_CASE("tile, repeat and pad") {
  const Tensor x = counted({2, 2});
  check(tile(x, {1, 2}), {2, 4}, {0, 1, 0, 1, 2, 3, 2, 3});
  check(tile(x, {2, 1}), {4, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
  check(tile(transpose(x), {2, 2}), {4, 4}, {0, 2, 0, 2, 1, 3, 1, 3, 0, 2, 0, 2, 1, 3, 1, 3});
  check(tile(x, {1, 1}), {2, 2}, {0, 1, 2, 3});
  CHECK(tile(x, {0, 3}).size() == 0);
  check(tile(ones({1, 1, 1, 1, 1, 1, 1, 1}), {1, 1, 1, 1, 1, 1, 2, 2}), {1, 1, 1, 1, 1, 1, 2, 2}, {1, 1, 1, 1},
        float32);
  check(repeat(x, 2, 0), {4, 2}, {0, 1, 0, 1, 2, 3, 2, 3});
  check(repeat(x, 2, -1), {2, 4}, {0, 0, 1, 1, 2, 2, 3, 3});
  check(repeat(x, 2), {8}, {0, 0, 1, 1, 2, 2, 3, 3});
  check(pad(x, {{1, 0}, {0, 1}}), {3, 3}, {0, 0, 0, 0, 1, 0, 2, 3, 0});
  check(pad(counted({2}), {{1, 1}}, {.value = 9}), {4}, {9, 0, 1, 9});
  check(pad(counted({3}), {{2, 1}}, {.mode = PadMode::reflect}), {6}, {2, 1, 0, 1, 2, 1});
  check(pad(counted({3}), {{2, 3}}, {.mode = PadMode::symmetric}), {8}, {1, 0, 0, 1, 2, 2, 1, 0});
  check_values(derivative([](const Tensor& t) { return tile(t, {2, 2}); }, x), {24, 28, 40, 44});
  check_values(derivative([](const Tensor& t) { return repeat(t, 3, 1); }, x), {6, 15, 24, 33});
  check_values(derivative([](const Tensor& t) { return tile(t, {0, 2}); }, x), {0, 0, 0, 0});
  const std::int64_t huge = std::int64_t{1} << 20;
  check_values(derivative([&](const Tensor& t) { return tile(t, {0, huge, huge}); }, counted({1, 1, 1})), {0});
  check_values(derivative([](const Tensor& t) { return pad(t, {{1, 0}, {0, 1}}); }, x), {4, 5, 7, 8});
  check_values(derivative(
                   [](const Tensor& t) {
                     return pad(t, {{1, 1}}, {.mode = PadMode::reflect});
                   },
                   counted({2})),
               {2 + 4, 1 + 3});
}

TEST_CASE("errors of joining, splitting and extending") {
  const Tensor x = ones({2, 3});
  auto error = caught<InvalidArgumentError>([&] { concat({x, ones({3, 3})}, 1); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "ConcatV2");
  CHECK(error.message() == "ConcatOp : Dimensions of inputs should match: shape[0] = [2,3] vs. [3,3]");
  error = caught<InvalidArgumentError>([&] { split(x, 2, 1); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "Split");
  CHECK(error.message() == "Dimension size must be evenly divisible by 2 but is 3");
  CHECK_THROWS_AS(concat(std::vector<Tensor>{}), InvalidArgumentError);
  CHECK_THROWS_AS(concat({ones({}), ones({})}), InvalidArgumentError);
  CHECK_THROWS_AS(stack({x, ones({2})}), InvalidArgumentError);
  CHECK_THROWS_AS(split(x, 0), InvalidArgumentError);
  CHECK_THROWS_AS(split(x, {1, 2}), InvalidArgumentError);
  CHECK_THROWS_AS(split(x, {-1, -1}), InvalidArgumentError);
  CHECK_THROWS_AS(unstack(ones({})), InvalidArgumentError);
  CHECK_THROWS_AS(tile(x, {2}), InvalidArgumentError);
  CHECK_THROWS_AS(tile(x, {-1, 1}), InvalidArgumentError);
  CHECK_THROWS_AS(tile(x, {std::int64_t{1} << 62, 4}), InvalidArgumentError);
  CHECK_THROWS_AS(repeat(x, -1, 0), InvalidArgumentError);
  CHECK_THROWS_AS(pad(x, {{1, 1}}), InvalidArgumentError);
  CHECK_THROWS_AS(pad(x, {{-1, 0}, {0, 0}}), InvalidArgumentError);
  error = caught<InvalidArgumentError>([&] { pad(x, {{2, 0}, {0, 0}}, {.mode = PadMode::reflect}); });
  CHECK(place(error) == line_before());
}

TEST_CASE("joining and splitting with unknown sizes") {
  const Spec x{float32, {-1, 3}};
  const Attrs first{{"axis", std::int64_t{0}}};
  CHECK(inferred_shape("ConcatV2", {x, {float32, {2, -1}}}, first) == "[?,3]");
  CHECK(inferred_shape("ConcatV2", {x, x}, {{"axis", std::int64_t{1}}}) == "[?,6]");
  CHECK(inferred_shape("Pack", {x, {float32, {2, 3}}}, first) == "[2,2,3]");
  CHECK(inferred_shape("Unpack", {x}, {{"axis", std::int64_t{1}}}) == "[?][?][?]");
  CHECK_THROWS_AS(inferred_shape("Unpack", {x}, first), InvalidArgumentError);
  CHECK(inferred_shape("Split", {x}, {{"axis", std::int64_t{0}}, {"num_split", std::int64_t{2}}}) == "[?,3][?,3]");
  CHECK(inferred_shape("SplitV", {x}, {{"axis", std::int64_t{0}}, {"size_splits", Ints{2, -1}}}) == "[2,3][?,3]");
  CHECK(inferred_shape("Tile", {x}, {{"multiples", Ints{2, 2}}}) == "[?,6]");
  CHECK(inferred_shape("PadV2", {x}, {{"paddings", Ints{1, 1, 0, 2}}, {"constant_values", 0.0}}) == "[?,5]");
}

// ---- Gathering --------------------------------------------------------------------------------------------------------

TEST_CASE("gathering and scattering") {
  const Tensor x = counted({3, 2});
  check(gather(x, tensor({2, 0, 2})), {3, 2}, {4, 5, 0, 1, 4, 5});
  check(gather(x, tensor<std::int64_t>({{1}, {0}}), 1), {3, 2, 1}, {1, 0, 3, 2, 5, 4});
  check(gather(x, tensor(1)), {2}, {2, 3});
  check(gather_nd(x, tensor({{0, 1}, {2, 0}})), {2}, {1, 4});
  check(gather_nd(x, tensor({{2}, {0}})), {2, 2}, {4, 5, 0, 1});
  check(take_along_axis(x, tensor({{1}, {0}, {1}}), 1), {3, 1}, {1, 2, 5});
  check(scatter_add(x, tensor({0, 0}), ones({2, 2})), {3, 2}, {2, 3, 2, 3, 4, 5});
  check(scatter_add(counted({3}), tensor(1), tensor(0.5)), {3}, {0, 1.5, 2});
  check(tensor_scatter_nd_add(x, tensor({{0, 1}, {0, 1}}), ones({2})), {3, 2}, {0, 3, 2, 3, 4, 5});
  check_values(derivative([](const Tensor& t) { return gather(t, tensor({2, 0, 2})); }, x), {3, 4, 0, 0, 6, 8});
  check_values(derivative(
                   [](const Tensor& t) {
                     return gather_nd(t, tensor({{0, 1}, {0, 1}}));
                   },
                   x),
               {0, 3, 0, 0, 0, 0});
  check_values(derivative(
                   [](const Tensor& t) {
                     return take_along_axis(t, tensor({{1}, {0}, {1}}), 1);
                   },
                   x),
               {0, 1, 2, 0, 0, 3});
  check_values(derivative(
                   [&](const Tensor& t) {
                     return scatter_add(x, tensor({0, 0}), t);
                   },
                   counted({2, 2})),
               {1, 2, 1, 2});
}

TEST_CASE("sorting") {
  const Tensor x = tensor<double>({{3, 1, 2}, {1, 3, 3}});
  const auto [values, indices] = top_k(x, 2);
  check(values, {2, 2}, {3, 2, 3, 3});
  check(indices, {2, 2}, {0, 2, 1, 2}, int32);
  check(sort(x), {2, 3}, {1, 2, 3, 1, 3, 3});
  check(sort(x, 0), {2, 3}, {1, 1, 2, 3, 3, 3});
  check(sort(x, -1, Direction::descending), {2, 3}, {3, 2, 1, 3, 3, 1});
  check(argsort(x, 1), {2, 3}, {1, 2, 0, 0, 1, 2}, int32);
  check_values(derivative([](const Tensor& t) { return top_k(t, 2).values; }, x), {1, 0, 2, 0, 3, 4});
  check_values(derivative([](const Tensor& t) { return sort(t, 0); }, x), {4, 2, 3, 1, 5, 6});
  const Tensor bools = tensor({true, false, true});
  check(sort(bools, "s"), {3}, {0, 1, 1}, boolean);
  check(argsort(bools), {3}, {1, 0, 2}, int32);
  check(top_k(bools, 2).values, {2}, {1, 1}, boolean);
  check(top_k(bools, 2).indices, {2}, {0, 2}, int32);
}

TEST_CASE("errors of gathering") {
  const Tensor x = ones({5, 2});
  auto error = caught<InvalidArgumentError>([&] { gather(x, tensor({0, 1, 7})); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "GatherV2");
  CHECK(error.message() == "indices[2] = 7 is not in [0, 5)");
  error = caught<InvalidArgumentError>([&] { gather(x, tensor({0.5})); });
  CHECK(error.message() == "Value for attr 'Tindices' of float is not in the list of allowed values: int32, int64");
  CHECK_THROWS_AS(gather(x, tensor({0}), 2), InvalidArgumentError);
  CHECK_THROWS_AS(gather_nd(x, tensor({{0, 0, 0}})), InvalidArgumentError);
  CHECK_THROWS_AS(gather_nd(x, tensor({{5, 0}})), InvalidArgumentError);
  CHECK_THROWS_AS(take_along_axis(x, tensor({{0}, {1}}), 1), InvalidArgumentError);
  CHECK_THROWS_AS(scatter_add(x, tensor({0}), ones({2, 2})), InvalidArgumentError);
  CHECK_THROWS_AS(scatter_add(x, tensor({-1}), ones({1, 2})), InvalidArgumentError);
  error = caught<InvalidArgumentError>([&] { top_k(x, 3); });
  CHECK(place(error) == line_before());
  CHECK(error.op() == "TopKV2");
  CHECK(error.message() == "input must have at least k columns. Had 2, needed 3");
  CHECK_THROWS_AS(top_k(ones({}), 1), InvalidArgumentError);
  CHECK_THROWS_AS(sort(x, 2), InvalidArgumentError);
}

TEST_CASE("gradients through row-major copies are added in one order, eagerly and in a trace") {
  const auto f = [](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    const Tensor a = x.contiguous(), b = x.contiguous();
    return tape.gradient(a * 0.5 + sin(b) * mod(a, b) + exp(a) * b, x);
  };
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Tensor x = numbers({2, 16}, 0.5, 3, seed).cast(float32);
    CHECK(same_bits(f(x), trace(f, {spec(x)})(x)));
  }
}

TEST_CASE("gathering with unknown sizes") {
  const Attrs second{{"axis", std::int64_t{1}}};
  CHECK(inferred_shape("GatherV2", {{float32, {2, 3}}, {int32, {-1, 4}}}, second) == "[2,?,4]");
  CHECK(inferred_shape("GatherNd", {{float32, {2, 3}}, {int32, {-1, 1}}}) == "[?,3]");
  CHECK(inferred_shape("TakeAlongAxis", {{float32, {-1, 3}}, {int32, {4, -1}}}, second) == "[4,?]");
  CHECK(inferred_shape("TopKV2", {{float32, {-1, 5}}}, {{"k", std::int64_t{2}}}) == "[?,2][?,2]");
  CHECK(inferred_shape("TopKV2", {{float32, {2, -1}}}) == "[2,?][2,?]");
}

}  // namespace ops_array_test
