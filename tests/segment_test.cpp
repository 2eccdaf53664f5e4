// Reductions by segments: ties and empty segments as TensorFlow has them, sizes that a trace does not know, what is
// refused. Their values and derivatives are rows of the op table.

#include <limits>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::segment_test {

TEST_CASE("equal extrema share the gradient, a product has one at 0, an empty segment is what TensorFlow says") {
  const Tensor x = tensor<float>({{1, 2}, {3, 2}, {3, 0}, {-1, 5}}), ids = tensor({0, 0, 0, 2});
  GradientTape tape({.persistent = true});
  tape.watch(x);
  const Tensor largest = unsorted_segment_max(x, ids, 3), product = unsorted_segment_prod(x, ids, 3);
  constexpr float lowest = std::numeric_limits<float>::lowest();
  check_same(largest, tensor<float>({{3, 2}, {lowest, lowest}, {-1, 5}}));
  check_same(segment_max(x, ids), tensor<float>({{3, 2}, {0, 0}, {-1, 5}}));
  check_same(product, tensor<float>({{9, 0}, {1, 1}, {-1, 5}}));
  check_same(tape.gradient(largest, x), tensor<float>({{0, 0.5}, {0.5, 0.5}, {0.5, 0}, {1, 1}}));
  check_same(tape.gradient(product, x), tensor<float>({{9, 0}, {3, 0}, {3, 4}, {1, 1}}));
}

TEST_CASE("no segments, and no parts") {
  const Tensor x = ones({2, 3}), left_out = tensor({-1, -2});
  CHECK(unsorted_segment_sum(x, left_out, 0).shape() == Shape{0, 3});
  CHECK(unsorted_segment_max(x, left_out, 0).shape() == Shape{0, 3});
  check_same(unsorted_segment_prod(x, left_out, 1), ones({1, 3}));
  CHECK(segment_mean(zeros({0, 3}), zeros({0}, int32)).shape() == Shape{0, 3});
  CHECK_THROWS_AS(unsorted_segment_sum(x, tensor({-1, 0}), 0), InvalidArgumentError);
}

TEST_CASE("integers and halves") {
  for (const DType dtype : {uint8, int32, int64, float16, bfloat16}) {
    CAPTURE(to_string(dtype));
    const Tensor x = tensor({3, 200, 5}).cast(dtype), ids = tensor({1, 1, 0});
    check_same(unsorted_segment_max(x, ids, 2), tensor({5, 200}).cast(dtype));
    check_same(unsorted_segment_min(x, ids, 2), tensor({5, 3}).cast(dtype));
    check_same(unsorted_segment_sum(x, ids, 2), tensor({5, 203}).cast(dtype));
    CHECK(unsorted_segment_mean(x, ids, 2).dtype() == (is_floating(dtype) ? dtype : float32));
  }
  CHECK(unsorted_segment_max(tensor<std::int64_t>({1}), tensor({0}), 2)(1).item<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::lowest());
}

TEST_CASE("messages between the nodes of a graph whose size a trace does not know") {
  const auto layer = [](const Tensor& nodes, const Tensor& from, const Tensor& to) {
    const Tensor messages = gather(nodes, from);
    return std::vector<Tensor>{unsorted_segment_max(messages, to, nodes.shape()[0]),
                               unsorted_segment_mean(messages, to, nodes.shape()[0]), segment_sum(messages, sort(to))};
  };
  const auto traced = trace(layer, {spec(float32, {-1, 2}), spec(int32, {-1}), spec(int32, {-1})});
  for (const std::int64_t count : {3, 5}) {
    const Tensor nodes = reshape(arange(2 * count, {.dtype = float32}), {count, 2});
    const Tensor from = tensor({0, 1, 2, 2}), to = tensor({1, 0, 1, 2});
    const std::vector<Tensor> expected = layer(nodes, from, to), found = traced(nodes, from, to);
    for (std::size_t i = 0; i < expected.size(); ++i) check_same(found[i], expected[i]);
  }
}

TEST_CASE("what is refused") {
  const Tensor x = ones({3, 2});
  const auto message = [](const auto& f) { return message_of<InvalidArgumentError>(f); };
  CHECK(message([&] { unsorted_segment_max(x, tensor({0, 4, 1}), 3); }) == "segment_ids[1] = 4 is not in [0, 3)");
  CHECK(message([&] {
          unsorted_segment_sum(x, tensor({0, 1}), 3);
        }) == "data.shape = [3,2] does not start with segment_ids.shape = [2]");
  CHECK(message([&] {
          segment_mean(x, tensor({0, 2, 1}));
        }) == "segment ids are not increasing: segment_ids[2] = 1 follows 2");
  CHECK(message([&] { segment_max(x, tensor({-1, 2, 2})); }) == "segment_ids[0] = -1 is negative");
  CHECK(message([&] {
          unsorted_segment_max(x, tensor({0.0, 1.0, 2.0}), 3);
        }).starts_with("Value for attr 'segment_ids' of float is not in the list of allowed values"));
}

}  // namespace tapestry::test::segment_test
