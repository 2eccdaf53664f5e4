// The loss of connectionist temporal classification and the greedy decoder: the numbers of PyTorch, what is refused,
// and that a network learns by it. Its values, derivatives and traces are rows of the op table.

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::ctc_test {
namespace {

/// The same numbers in every library: [4, 3, 3].
Tensor logits() {
  std::vector<double> values;
  for (int i = 0; i < 36; ++i) values.push_back((7 * i * i + 3 * i) % 17 / 8.0 - 1);
  return tensor(values, {4, 3, 3});
}
const std::vector<int> label_lengths{2, 2, 1};
Tensor labels() { return tensor({{1, 2}, {2, 2}, {1, 0}}); }
Tensor lengths(int a, int b, int c) { return tensor({a, b, c}); }

}  // namespace

TEST_CASE("ctc_loss has the numbers of PyTorch") {
  const Tensor x = logits();
  GradientTape tape;
  tape.watch(x);
  const Tensor loss = ctc_loss(labels(), x, tensor(label_lengths), lengths(4, 3, 2));
  check_same(loss, tensor<double>({1.4708, 3.1051, 1.1925}), 5e-5);
  check_same(tape.gradient(loss, x)(range(0, 2)),
             tensor<double>({{{0.0874, -0.2695, 0.1821}, {0.3316, 0.3758, -0.7074}, {-0.0945, -0.2683, 0.3628}},
                             {{0.0878, -0.0185, -0.0694}, {-0.7688, 0.6285, 0.1402}, {0.1800, -0.4014, 0.2214}}}),
             1e-4);
  check_same(ctc_loss(labels(), x.cast(float32), tensor(label_lengths), lengths(4, 3, 2)).cast(float64), loss, 1e-6);
}

TEST_CASE("an impossible sequence has an infinite loss and no gradient, which is no NaN") {
  const Tensor x = logits();
  for (const bool zero_infinity : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    const Tensor loss =
        ctc_loss(labels(), x, tensor(label_lengths), lengths(4, 2, 0), {.zero_infinity = zero_infinity});
    const double expected = zero_infinity ? 0 : std::numeric_limits<double>::infinity();
    CHECK(loss(1).item<double>() == expected);
    CHECK(loss(2).item<double>() == expected);
    const Tensor gradient = tape.gradient(loss, x);
    check_same(gradient(all, range(1, 3)), zeros({4, 2, 3}, {.dtype = float64}));
    CHECK(reduce_max(abs(gradient)).item<double>() > 0);
  }
}

TEST_CASE("unlikely labels of long sequences neither overflow nor vanish") {
  const std::int64_t time = 2000, count = time / 2;
  const Tensor x = concat({full({time, 1, 1}, 200.0f), full({time, 1, 1}, -200.0f)}, 2);
  const Tensor loss = ctc_loss(ones({1, count}, int32), x, tensor({count}), tensor({time}));
  CHECK(loss(0).item<float>() == doctest::Approx(400.0 * static_cast<double>(count) - std::log(1001)));
  CHECK(reduce_all(is_finite(loss)).item<bool>());
}

TEST_CASE("what ctc_loss and its decoder refuse") {
  const Tensor x = logits(), two = tensor(label_lengths);
  const auto message = [&](const Tensor& y, const Tensor& of_labels, const Tensor& of_logits,
                           const CTCLossOptions& options = {}) {
    return message_of<InvalidArgumentError>([&] { ctc_loss(y, x, of_labels, of_logits, options); });
  };
  CHECK(message(labels(), two, lengths(4, 5, 2)) == "logit_length[1] = 5 is not in [0, 4]");
  CHECK(message(labels(), lengths(2, 2, -1), lengths(4, 3, 2)) == "label_length[2] = -1 is not in [0, 2]");
  CHECK(message(labels() + 2, two, lengths(4, 3, 2)) == "labels[0,0] = 3 is not in [0, 3)");
  CHECK(message(labels() - 1, two, lengths(4, 3, 2)) == "labels[0,0] = 0 is the blank");
  CHECK(message(labels(), two, lengths(4, 3, 2), {.blank = 3}) == "the blank is 3, but there are 3 classes");
  CHECK(message(tensor({1, 2}), two, lengths(4, 3, 2)) ==
        "logits must be [time, batch, classes] and labels [batch, longest], but their shapes are [4,3,3] and [2]");
  CHECK(message(labels(), tensor({2, 2}), lengths(4, 3, 2)) ==
        "label_length has the shape [2], which must be that of a batch of 3, [batch]");
  for (const std::int64_t blank : {3, -4})
    CHECK(message_of<InvalidArgumentError>([&] { ctc_greedy_decoder(x, lengths(4, 3, 2), {.blank = blank}); }) ==
          detail::join("the blank is ", blank, ", but there are 3 classes"));
  CHECK(message_of<InvalidArgumentError>([&] {
          ctc_greedy_decoder(x, tensor({4, 3}));
        }) == "logits must be [time, batch, classes] and logit_length [batch], but their shapes are [4,3,3] and [2]");
}

TEST_CASE("a network learns labels whose times nobody knows, and decodes them; the graph is saved") {
  random::seed(5);
  const Variable w(random::normal({5, 4}, {.stddev = 0.1}), {.name = "w"});
  const Tensor x = random::normal({8, 2, 5}), y = tensor({{1, 3, 0}, {2, 2, 1}}), y_lengths = tensor({2, 3});
  const Tensor x_lengths = tensor({8, 8});
  train::AdamOptimizer optimizer(0.3);
  const auto loss = [&](const Tensor& input) {
    return reduce_mean(ctc_loss(y, matmul(input, w), y_lengths, x_lengths));
  };
  const auto step = trace(
      [&](const Tensor& input) {
        GradientTape tape;
        Tensor value = loss(input);
        optimizer.apply_gradients({tape.gradient(value, w)}, {w});
        return value;
      },
      {spec(float32, {-1, 2, 5}, "x")});
  for (int i = 0; i < 200; ++i) step(x);
  CHECK(loss(x).item<float>() < 0.05F);
  const CTCDecoded found = ctc_greedy_decoder(matmul(x, w), x_lengths);
  check_same(found.labels, tensor<std::int64_t>({{1, 3, -1}, {2, 2, 1}}));
  check_same(found.lengths, tensor<std::int64_t>({2, 3}));

  const auto forward = trace(loss, {spec(float32, {-1, 2, 5}, "x")});
  const Graph again = Graph::from_graph_def(forward.graph().as_graph_def());
  const Tensor value = Session(again).run(forward.output().name(), {{"x:0", x}});
  check_same(value, loss(x), 1e-6);
}

}  // namespace tapestry::test::ctc_test
