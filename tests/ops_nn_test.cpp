// Convolutions and pools against plain loops in every combination of their options, losses at the ends of the number
// range, messages, and shapes with unknown sizes.

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "core/make_tensor.hpp"
#include "expect.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tape.hpp"
#include "tapestry/trace.hpp"

namespace tapestry::test::ops_nn_test {
namespace {

/// Numbers between -1 and 1 without a pattern.
Tensor scattered(const Shape& shape, DType dtype = float64) {
  const Tensor count = reshape(arange(0, shape.size(), {float64}), shape);
  return sin(count * count * 0.37 + count).cast(dtype);
}

Shape inferred(const std::string& op, const std::vector<Spec>& inputs, const Attrs& attrs = {},
               std::size_t output = 0) {
  Tensors tensors;
  for (const Spec& spec : inputs) tensors.push_back(detail::make_symbolic(spec.dtype, spec.shape));
  const Op* found = find_op(op);
  REQUIRE(found != nullptr);
  return found->infer(Call(*found, tensors, attrs, Where::here()))[output].shape;
}

/// One direction of a window, for the plain loops.
struct Direction {
  std::int64_t image, window, stride, dilation, before, after;
  std::int64_t outputs() const { return (image + before + after - (window - 1) * dilation - 1) / stride + 1; }
  /// Where the window's element k lies for output i; outside the image it is below 0 or not below its size.
  std::int64_t at(std::int64_t i, std::int64_t k) const { return i * stride + k * dilation - before; }
  bool has(std::int64_t place) const { return place >= 0 && place < image; }
};

/// TensorFlow's SAME: ceil(image / stride) outputs, the odd padding behind.
Direction same(std::int64_t image, std::int64_t window, std::int64_t stride, std::int64_t dilation) {
  const std::int64_t outputs = (image + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>((outputs - 1) * stride + (window - 1) * dilation + 1 - image, 0);
  return {image, window, stride, dilation, total / 2, total - total / 2};
}

template <class F>
void for_each_index(const Shape& shape, F f) {
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t i = 0; i < shape[1]; ++i)
      for (std::int64_t j = 0; j < shape[2]; ++j)
        for (std::int64_t c = 0; c < shape[3]; ++c) f(n, i, j, c);
}

Tensor conv_by_loops(const Tensor& x, const Tensor& filter, const Direction& down, const Direction& across,
                     std::int64_t groups) {
  const std::int64_t in = filter.shape()[2], out = filter.shape()[3];
  const std::vector<double> image = values(x), weights = values(filter);
  const Shape shape{x.shape()[0], down.outputs(), across.outputs(), out};
  std::vector<double> result;
  for_each_index(shape, [&](std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t o) {
    double sum = 0;
    for (std::int64_t k = 0; k < down.window; ++k)
      for (std::int64_t l = 0; l < across.window; ++l) {
        const std::int64_t row = down.at(i, k), column = across.at(j, l);
        if (!down.has(row) || !across.has(column)) continue;
        for (std::int64_t c = 0; c < in; ++c) {
          const std::int64_t channel = o / (out / groups) * in + c;
          sum += image[static_cast<std::size_t>(((n * down.image + row) * across.image + column) * x.shape()[3] +
                                                channel)] *
                 weights[static_cast<std::size_t>(((k * across.window + l) * in + c) * out + o)];
        }
      }
    result.push_back(sum);
  });
  return tensor(result, shape);
}

Tensor pool_by_loops(const Tensor& x, const Direction& down, const Direction& across, bool maximum) {
  const std::vector<double> image = values(x);
  const Shape shape{x.shape()[0], down.outputs(), across.outputs(), x.shape()[3]};
  std::vector<double> result;
  for_each_index(shape, [&](std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
    std::vector<double> seen;
    for (std::int64_t k = 0; k < down.window; ++k)
      for (std::int64_t l = 0; l < across.window; ++l) {
        const std::int64_t row = down.at(i, k), column = across.at(j, l);
        if (down.has(row) && across.has(column))
          seen.push_back(
              image[static_cast<std::size_t>(((n * down.image + row) * across.image + column) * shape[3] + c)]);
      }
    double sum = 0;
    for (const double each : seen) sum += each;
    result.push_back(maximum ? *std::max_element(seen.begin(), seen.end()) : sum / static_cast<double>(seen.size()));
  });
  return tensor(result, shape);
}

const Ints ones_of_four{1, 1, 1, 1};

}  // namespace

// ---- Softmax and losses ------------------------------------------------------------------------------------------------

TEST_CASE("softmax stands any logits") {
  const Tensor x = tensor<double>({{1000, 1001}, {-1e300, 1e300}});
  check_values(softmax(x), {1 / (1 + std::exp(1.0)), 1 / (1 + std::exp(-1.0)), 0, 1}, 1e-12);
  check_values(log_softmax(x)(0), {-std::log1p(std::exp(1.0)), -std::log1p(std::exp(-1.0))}, 1e-12);
  check_same(softmax(x, 0), transpose(softmax(transpose(x))));
  check_same(softmax(scattered({2, 3, 4}), -2),
             transpose(softmax(transpose(scattered({2, 3, 4}), {0, 2, 1})), {0, 2, 1}));
  check_same(softmax(tensor({0, 0})), tensor({0.5, 0.5}));
  CHECK(softmax(zeros({0, 3})).shape() == Shape{0, 3});
  CHECK(caught([] { softmax(tensor(1.0)); }).message() == "logits must have >= 1 dimension, got []");
  CHECK_THROWS_AS(softmax(x, 2), InvalidArgumentError);
}

TEST_CASE("the cross-entropies agree with each other and with their definition") {
  const Tensor logits = scattered({3, 4}) * 5.0, labels = tensor({2, 0, 3});
  const Tensor rows = one_hot(labels, 4);
  const Tensor expected = -reduce_sum(rows * log_softmax(logits), 1);
  check_same(softmax_cross_entropy(rows, logits), expected, 1e-12);
  check_same(sparse_softmax_cross_entropy(labels, logits), expected, 1e-12);
  check_same(sparse_softmax_cross_entropy(reshape(labels, {3, 1}).cast(int64), reshape(logits, {3, 1, 4})),
             reshape(expected, {3, 1}), 1e-12);
  check_same(softmax_cross_entropy(cast(rows, int32), cast(logits, float32)), cast(expected, float32), 1e-6);
  check_same(sparse_softmax_cross_entropy(tensor(1), tensor<double>({0, 0})), tensor<double>(std::log(2.0)), 1e-15);
  // Rows that do not sum to 1: the definition still holds, and so does its derivative.
  const Tensor weights = tensor<double>({{2, 1, 0, 0}, {0, 0, 0, 0}, {0.5, 0.5, 0.5, 0.5}});
  GradientTape tape;
  tape.watch(logits);
  const Tensor loss = softmax_cross_entropy(weights, logits);
  check_same(loss, -reduce_sum(weights * log_softmax(logits), 1), 1e-12);
  check_same(tape.gradient(loss, logits), softmax(logits) * reduce_sum(weights, 1, {.keep_dims = true}) - weights,
             1e-12);
}

TEST_CASE("losses of extreme logits lose nothing") {
  const Tensor big = tensor<double>({-1000, -40, 0, 40, 1000});
  check_values(sigmoid_cross_entropy(ones_like(big), big), {1000, 40, std::log(2.0), std::exp(-40.0), 0}, 1e-12);
  check_values(sigmoid_cross_entropy(ones_like(big), big) * std::exp(40.0),
               {1000 * std::exp(40.0), 40 * std::exp(40.0), std::log(2.0) * std::exp(40.0), 1, 0}, 1e-12);
  check_values(sigmoid_cross_entropy(zeros_like(big), big)(4), {1000});
  check_values(sparse_softmax_cross_entropy(tensor({0, 1}), tensor<double>({{1000, 0}, {1000, 0}})), {0, 1000}, 1e-12);
}

TEST_CASE("losses say what is wrong with the labels") {
  const Tensor logits = zeros({2, 3});
  const auto error = caught<InvalidArgumentError>([&] { sparse_softmax_cross_entropy(tensor({0, 7}), logits); });
  const std::string line = line_before();
  CHECK(std::string(error.what()) ==
        "Received a label value of 7 which is outside the valid range of [0, 3) "
        "[Op:SparseSoftmaxCrossEntropyWithLogits] at " +
            line);
  CHECK(caught([&] {
          sparse_softmax_cross_entropy(tensor({-1, 0}), logits);
        }).message() == "Received a label value of -1 which is outside the valid range of [0, 3)");
  CHECK(caught([&] {
          sparse_softmax_cross_entropy(tensor({0, 1, 2}), logits);
        }).message() ==
        "logits and labels must have the same first dimension, got logits shape [2,3] and labels shape [3]");
  CHECK(caught([&] {
          sparse_softmax_cross_entropy(tensor({0.0, 1.0}), logits);
        }).message() ==
        "Value for attr 'Tlabels' of float is not in the list of allowed values: int32, int64. The labels are "
        "float32[2]; they must be the numbers of classes, int32 or int64 [2]");
  CHECK(caught([&] {
          softmax_cross_entropy(zeros({2, 4}), logits);
        }).message() == "logits and labels must have the same shape: logits_size=[2,3] labels_size=[2,4]");
  const auto shapes = caught([&] { sigmoid_cross_entropy(zeros({2}), logits); });
  CHECK(place(shapes) == line_before());
  CHECK(shapes.message() == "`logits` and `labels` must have the same shape, received ([2,3] vs [2])");
}

// ---- Convolution and pooling -------------------------------------------------------------------------------------------

TEST_CASE("conv2d with all its options is the sum that defines it") {
  const Tensor x = scattered({2, 7, 6, 4});
  for (const std::int64_t groups : {1, 2, 4})
    for (const std::int64_t stride : {1, 2, 3})
      for (const std::int64_t dilation : {1, 2}) {
        const Tensor filter = scattered({3, 2, 4 / groups, 8});
        INFO("groups ", groups, ", stride ", stride, ", dilation ", dilation);
        const auto conv = [&](const Padding2d& padding) {
          return conv2d(x, filter,
                        {.strides = {stride, 1}, .padding = padding, .dilations = {1, dilation}, .groups = groups});
        };
        const auto loops = [&](const Direction& down, const Direction& across) {
          return conv_by_loops(x, filter, down, across, groups);
        };
        check_same(conv("VALID"), loops({7, 3, stride, 1, 0, 0}, {6, 2, 1, dilation, 0, 0}), 1e-12);
        check_same(conv("SAME"), loops(same(7, 3, stride, 1), same(6, 2, 1, dilation)), 1e-12);
        check_same(conv({2, 0, 1, 3}), loops({7, 3, stride, 1, 2, 0}, {6, 2, 1, dilation, 1, 3}), 1e-12);
      }
}

TEST_CASE("conv2d of float32, of views, and of nothing") {
  const Tensor x = scattered({2, 5, 5, 3}), filter = scattered({2, 2, 3, 4});
  check_same(conv2d(x.cast(float32), filter.cast(float32)), conv2d(x, filter).cast(float32), 1e-5);
  const Tensor turned = transpose(x, {0, 2, 1, 3});
  check_same(conv2d(turned, transpose(filter, {1, 0, 2, 3})), transpose(conv2d(x, filter), {0, 2, 1, 3}), 1e-12);
  CHECK(conv2d(zeros({0, 5, 5, 3}), zeros({2, 2, 3, 4})).shape() == Shape{0, 4, 4, 4});
}

TEST_CASE("pools with all their options") {
  const Tensor x = scattered({2, 7, 6, 3});
  for (const std::int64_t stride : {1, 2, 3}) {
    INFO("stride ", stride);
    const auto check = [&](const Padding2d& padding, const Direction& down, const Direction& across) {
      const Pool2dOptions options{.window = {3, 2}, .strides = {stride, 1}, .padding = padding};
      check_same(max_pool2d(x, options), pool_by_loops(x, down, across, true));
      check_same(avg_pool2d(x, options), pool_by_loops(x, down, across, false), 1e-12);
    };
    check("VALID", {7, 3, stride, 1, 0, 0}, {6, 2, 1, 1, 0, 0});
    check("SAME", same(7, 3, stride, 1), same(6, 2, 1, 1));
    check({2, 1, 0, 1}, {7, 3, stride, 1, 2, 1}, {6, 2, 1, 1, 0, 1});
  }
  CHECK(max_pool2d(x).shape() == Shape{2, 3, 3, 3});
}

TEST_CASE("one width of the border for each direction, as PyTorch has it") {
  const Tensor x = reshape(arange(24).cast(float32), {1, 4, 6, 1}), filter = ones({3, 3, 1, 1});
  check_same(conv2d(x, filter, {.padding = {1, 2}}), conv2d(x, filter, {.padding = {1, 1, 2, 2}}));
  check_same(max_pool2d(x, {.window = 3, .strides = 1, .padding = {0, 1}}),
             max_pool2d(x, {.window = 3, .strides = 1, .padding = {0, 0, 1, 1}}));
  check_same(avg_pool2d(x, {.window = 3, .strides = 1, .padding = {1, 0}}),
             avg_pool2d(x, {.window = 3, .strides = 1, .padding = {1, 1, 0, 0}}));
}

TEST_CASE("a maximum that several elements share passes its gradient to the first, in every order") {
  const Tensor x = tensor<double>({{{{1}, {5}}, {{5}, {2}}}}),
               nan = tensor<double>({{{{1}, {not_a_number}}, {{5}, {2}}}});
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor slope = inner.gradient(square(max_pool2d(x)), x);
  check_values(slope, {0, 10, 0, 0});
  check_values(outer.gradient(slope, x), {0, 2, 0, 0});
  check_values(max_pool2d(nan), {not_a_number});
}

TEST_CASE("a transposed convolution makes what the convolution turns into its size") {
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t dilation : {1, 2})
      for (const std::int64_t more : {0, 1, 2})
        for (const Padding2d& padding : {Padding2d("VALID"), Padding2d(1), Padding2d(0, 1, 2, 0)}) {
          if (more >= stride) continue;
          const Tensor x = ones({2, 4, 3, 6}), filter = ones({3, 2, 2, 6});
          const Tensor y = conv2d_transpose(
              x, filter,
              {.strides = stride, .padding = padding, .output_padding = more, .dilations = dilation, .groups = 2});
          CHECK(y.shape().back() == 4);
          CHECK(
              conv2d(y, ones({3, 2, 2, 6}), {.strides = stride, .padding = padding, .dilations = dilation, .groups = 2})
                  .shape() == x.shape());
        }
  CHECK(conv2d_transpose(ones({1, 4, 3, 2}), ones({5, 5, 1, 2}), {.strides = {2, 3}, .padding = "SAME"}).shape() ==
        Shape{1, 8, 9, 1});
  CHECK(conv2d_transpose(ones({1, 2, 2, 1}).cast(int32), ones({1, 1, 1, 1}).cast(float64)).dtype() == float64);
  for (const Conv2dTransposeOptions& options :
       {Conv2dTransposeOptions{.strides = 3}, Conv2dTransposeOptions{.strides = 2, .padding = "SAME"},
        Conv2dTransposeOptions{.strides = 2, .padding = 1, .output_padding = {0, 1}},
        Conv2dTransposeOptions{.padding = 1}}) {
    const auto f = [&](const Tensor& x) { return conv2d_transpose(x, scattered({2, 4, 3, 2}), options); };
    const Tensor x = scattered({3, 4, 3, 2}), y = f(x);
    const auto known = trace(f, {spec(float64, {-1, 4, 3, 2})}), unknown = trace(f, {spec(float64, {-1, -1, -1, 2})});
    CHECK(known.output().shape() == Shape{-1, y.shape()[1], y.shape()[2], 3});
    CHECK(unknown.output().shape() == Shape{-1, -1, -1, 3});
    check_same(known(x), y);
    check_same(unknown(x), y);
  }

  const auto message = [](const Tensor& x, const Tensor& filter, const Conv2dTransposeOptions& options) {
    return caught<InvalidArgumentError>([&] { conv2d_transpose(x, filter, options); }).message();
  };
  const Tensor x = ones({1, 3, 3, 2});
  CHECK(message(x, ones({2, 2, 1, 3}), {}) == "Expected a tensor of shape [1,3,3,3], but got [1,3,3,2]");
  CHECK(message(x, ones({2, 2, 1, 2}), {.strides = 2, .output_padding = 2}) ==
        "output_padding must be at least 0 and less than the stride or the dilation, but is 2 for 2 and 1");
  CHECK(message(x, ones({2, 2, 1, 2}), {.padding = 2}) == "The padding leaves nothing of 4 pixels");
  CHECK(message(x, ones({2, 2, 1, 2}), {.strides = 2, .padding = "SAME", .output_padding = 1}) ==
        "\"SAME\" leaves no room for output_padding");
  CHECK(message(x, ones({2, 2, 1, 2}), {.padding = "SAME", .output_padding = 1, .dilations = 2}) ==
        "\"SAME\" leaves no room for output_padding");
  CHECK(message(ones({1, 0, 3, 2}), ones({2, 2, 1, 2}), {}) ==
        "x must not be empty, and the filter's height and width must be known");
}

TEST_CASE("output_padding is less than the stride or the dilation, and adds zeros to what the filter reaches") {
  const Tensor filter = scattered({2, 3, 3, 2}), x = scattered({2, 3, 4, 2});
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t more : {0, 1, 2}) {
      const Conv2dTransposeOptions options{
          .strides = {stride, 1}, .padding = 1, .output_padding = {more, 1}, .dilations = {3, 2}};
      const auto f = [&](const Tensor& image) { return conv2d_transpose(image, filter, options); };
      const Tensor reached = conv2d_transpose(x, filter, {.strides = {stride, 1}, .dilations = {3, 2}});
      const Tensor whole = pad(reached, {{0, 0}, {0, more}, {0, 1}, {0, 0}});
      const Tensor expected = whole(all, range(1, -1), range(1, -1));
      check_same(f(x), expected, 1e-12);
      check_same(trace(f, {spec(float64, {-1, -1, -1, 2})})(x), expected, 1e-12);
    }
  CHECK(message_of<InvalidArgumentError>([&] {
          conv2d_transpose(x, filter, {.output_padding = {0, 2}, .dilations = 2});
        }) == "output_padding must be at least 0 and less than the stride or the dilation, but is 2 for 1 and 2");
}

TEST_CASE("convolutions and pools say what does not fit") {
  const Tensor x = zeros({1, 4, 4, 3}), filter = zeros({2, 2, 3, 1});
  const auto error = caught<InvalidArgumentError>([&] { conv2d(x, zeros({5, 5, 3, 1})); });
  const std::string line = line_before();
  CHECK(std::string(error.what()) == "Negative dimension size caused by subtracting 5 from 4 [Op:Conv2D] at " + line);
  CHECK(caught([&] { conv2d(zeros({4, 4, 3}), filter); }).message() == "input must be 4-dimensional: [4,4,3]");
  CHECK(caught([&] { conv2d(x, zeros({2, 2, 3})); }).message() == "filter must be 4-dimensional: [2,2,3]");
  CHECK(caught([&] {
          conv2d(x, zeros({2, 2, 2, 1}));
        }).message() == "input depth must be groups times the filter's: 3 vs. 1 * 2");
  CHECK(caught<InvalidArgumentError>([] {
          conv2d(ones({1, 2, 5, 6}), ones({3, 3, 2, 4}));
        }).message() ==
        "input depth must be groups times the filter's: 6 vs. 1 * 2. Are these channels first? "
        "tp::transpose(x, {0, 2, 3, 1}) makes [1,2,5,6] an image as it must be");
  CHECK(caught([&] {
          conv2d(x, zeros({2, 2, 1, 2}), {.groups = 3});
        }).message() == "output depth must be evenly divisible by number of groups: 2 vs 3");
  CHECK(caught([&] { conv2d(x, filter, {.strides = 0}); }).message() == "'strides' must be at least 1, but is {0, 0}");
  CHECK(caught([&] { conv2d(x, filter, {.padding = "same"}); }).message() ==
        "padding must be \"SAME\", \"VALID\" or widths, but is \"same\"");
  CHECK_THROWS_AS(conv2d(x, filter, {.padding = -1}), InvalidArgumentError);
  CHECK_THROWS_AS(conv2d(x, zeros({0, 2, 3, 1})), InvalidArgumentError);
  CHECK_THROWS_AS(conv2d(x, filter, {.groups = 0}), InvalidArgumentError);
  CHECK(caught([&] { max_pool2d(x, {.padding = 2}); }).message() == "The padding must be smaller than the window");
  CHECK_THROWS_AS(max_pool2d(x, {.window = 5}), InvalidArgumentError);
  CHECK_THROWS_AS(avg_pool2d(x, {.window = {2, 0}}), InvalidArgumentError);
  CHECK_THROWS_AS(avg_pool2d(zeros({4, 4})), InvalidArgumentError);
}

TEST_CASE("shapes of unknown sizes") {
  const Attrs same_padding{
      {"strides", Ints{1, 2, 2, 1}}, {"padding", std::string("SAME")}, {"ksize", Ints{1, 3, 3, 1}}};
  const Attrs valid{{"strides", ones_of_four}, {"padding", std::string("VALID")}, {"ksize", Ints{1, 3, 3, 1}}};
  const Spec image{float32, {-1, -1, 28, 3}}, filter{float32, {3, 3, 3, 8}};
  CHECK(inferred("Conv2D", {image, filter}, same_padding) == Shape{-1, -1, 14, 8});
  CHECK(inferred("Conv2D", {image, filter}, valid) == Shape{-1, -1, 26, 8});
  CHECK(inferred("Conv2D", {{float32, {-1, 5, 5, -1}}, {float32, {-1, 3, 3, -1}}}, valid) == Shape{-1, -1, 3, -1});
  CHECK(inferred("MaxPool", {image}, same_padding) == Shape{-1, -1, 14, 3});
  CHECK(inferred("AvgPool", {image}, valid) == Shape{-1, -1, 26, 3});
  CHECK(inferred("Softmax", {{float32, {-1, 3}}}) == Shape{-1, 3});
  CHECK(inferred("SoftmaxCrossEntropyWithLogits", {{float32, {-1, 3}}, {float32, {5, -1}}}) == Shape{-1});
  CHECK(inferred("SparseSoftmaxCrossEntropyWithLogits", {{float32, {-1, -1}}, {int32, {-1}}}, {}, 1) == Shape{-1, -1});
  CHECK(inferred("LayerNorm", {{float32, {-1, -1}}, {float32, {-1}}, {float32, {}}}, {}, 1) == Shape{-1, 1});
  CHECK(inferred("BiasAdd", {{float32, {-1, -1}}, {float32, {3}}}) == Shape{-1, -1});
  CHECK(inferred("RandomPermutation", {{float32, {-1, 3}}}) == Shape{-1});
}

// ---- Normalization -----------------------------------------------------------------------------------------------------

TEST_CASE("moments and the normalizations") {
  const Tensor x = scattered({4, 3}) + 1e6;
  const auto [mean, variance] = moments(x, 0);
  check_same(mean, reduce_mean(x, 0));
  check_values(variance, values(reduce_mean(square(x - mean), 0)), 1e-9);
  CHECK(moments(x, 0, {.keep_dims = true}).variance.shape() == Shape{1, 3});
  const Tensor plain = batch_norm(x, mean, variance, Tensor(), Tensor(), 0);
  check_values(reduce_mean(plain, 0), {0, 0, 0}, 1e-6);
  check_values(reduce_mean(square(plain), 0), {1, 1, 1}, 1e-6);
  const Tensor scale = tensor<double>({1, 2, 3}), offset = tensor<double>({4, 5, 6});
  check_same(batch_norm(x, mean, variance, offset, scale, 0), plain * scale + offset, 1e-9);
  check_same(batch_norm(x, mean, variance, Tensor(), scale, 0), plain * scale, 1e-9);

  const Tensor rows = layer_norm(x, Tensor(), Tensor(), {.epsilon = 0});
  check_values(reduce_mean(rows, 1), {0, 0, 0, 0}, 1e-6);
  check_values(reduce_mean(square(rows), 1), {1, 1, 1, 1}, 1e-6);
  check_same(layer_norm(x, scale, offset, {.epsilon = 0}), rows * scale + offset, 1e-12);
  check_same(layer_norm(x, Tensor(), offset, {.epsilon = 0}), rows + offset, 1e-12);
  const Tensor scale_of_rows = tensor<double>({1, 2, 3, 4}, {4, 1});
  check_same(layer_norm(x, scale_of_rows, offset, {.epsilon = 0}), rows * scale_of_rows + offset, 1e-12);
  const auto error = caught([&] { layer_norm(x, zeros({4}), Tensor()); });
  CHECK(error.message() == "The scale of shape [4] does not broadcast to the shape [4,3]");
  CHECK_THROWS_AS(batch_norm(x, zeros({5, 4, 3}), variance, Tensor(), Tensor()), InvalidArgumentError);
  CHECK_THROWS_AS(layer_norm(tensor(1.0), Tensor(), Tensor()), InvalidArgumentError);
}

// ---- Layers ------------------------------------------------------------------------------------------------------------

TEST_CASE("dropout drops the fraction asked for and keeps the mean") {
  random::seed(7);
  const Tensor x = ones({1000, 100});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = dropout(x, 0.25);
  const double kept = reduce_mean(greater(y, 0.0).cast(float64)).item<double>();
  CHECK(kept == doctest::Approx(0.75).epsilon(0.01));
  CHECK(reduce_max(y).item<float>() == doctest::Approx(4.0 / 3));
  CHECK(reduce_mean(y).item<double>() == doctest::Approx(1).epsilon(0.01));
  check_same(tape.gradient(y, x), y);
  random::seed(7);
  check_same(dropout(x, 0.25), y);
  check_same(dropout(x, 0), x);
  const auto error = caught<InvalidArgumentError>([&] { dropout(x, 1); });
  CHECK(place(error) == line_before());
  CHECK(error.message().starts_with("`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate=1"));
  CHECK_THROWS_AS(dropout(x, -0.1), InvalidArgumentError);
  CHECK_THROWS_AS(dropout(x, not_a_number), InvalidArgumentError);
}

TEST_CASE("bias_add and embedding_lookup") {
  check_same(bias_add(tensor({{1, 2}, {3, 4}}), tensor({10, 20})), tensor({{11, 22}, {13, 24}}));
  CHECK(caught([] {
          bias_add(zeros({2, 4}), zeros({3}));
        }).message() == "Must provide as many biases as the last dimension of the input tensor: [3] vs. [2,4]");
  CHECK(caught([] { bias_add(zeros({2, 4}), zeros({1, 4})); }).message() == "Biases must be 1D: [1,4]");
  CHECK_THROWS_AS(bias_add(zeros({4}), zeros({4})), InvalidArgumentError);

  const Tensor params = tensor({{1, 2}, {3, 4}, {5, 6}});
  check_same(embedding_lookup(params, tensor({{2, 0}})), tensor({{{5, 6}, {1, 2}}}));
  CHECK(caught([&] { embedding_lookup(params, tensor({0, 3})); }).message() == "indices[1] = 3 is not in [0, 3)");
}

}  // namespace tapestry::test::ops_nn_test
