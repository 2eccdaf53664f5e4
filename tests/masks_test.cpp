// Positions and masks, and checks that numbers are finite, where sizes are known and where they are not.

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace masks_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("positions and masks: whatever is known of batch and time") {
  random::seed(5);
  const nn::PositionEmbedding learnt(6, 4);
  const nn::SinusoidalPositions fixed;
  const nn::MultiHeadAttention attention(4, 2), causal(4, 2, {.causal = true});
  const TensorSpec sequences = spec(float32, {-1, -1, 4});
  const auto traced = trace(
      [&](Tensor x, Tensor lengths) {
        const Tensor y = fixed(learnt(x));
        return std::vector<Tensor>{y, nn::causal_mask(x), nn::padding_mask(lengths, x),
                                   attention(y, logical_and(nn::causal_mask(x), nn::padding_mask(lengths, x)))};
      },
      {sequences, spec(int64, {-1})});
  for (const Shape& shape : {Shape{2, 5, 4}, Shape{3, 1, 4}, Shape{1, 6, 4}}) {
    const Tensor x = random::normal(shape);
    const std::int64_t time = shape[1];
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < shape[0]; ++i) lengths.push_back(1 + (time - 1) * i / shape[0]);
    const auto found = traced(x, tensor(lengths));
    CHECK(same_bits(found[0], fixed(learnt(x))));
    CHECK(same_bits(
        found[3], attention(fixed(learnt(x)), logical_and(nn::causal_mask(x), nn::padding_mask(tensor(lengths), x)))));
    CHECK(reduce_max(abs(attention(x, nn::causal_mask(x)) - attention(x, nn::causal_mask(x)))).item<float>() == 0);
    CHECK(same_bits(learnt(x), x + learnt.weight(range(0, time))));
    const auto angles = (fixed(x) - x).to_vector<float>();
    for (std::int64_t t = 0; t < time; ++t)
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t even = i - i % 2;
        const double angle = static_cast<double>(t) / std::pow(10000.0, static_cast<double>(even) / 4);
        CHECK(static_cast<double>(angles[static_cast<std::size_t>(t * 4 + i)]) ==
              doctest::Approx(i % 2 == 0 ? std::sin(angle) : std::cos(angle)).epsilon(1e-5));
      }
    CHECK(found[1].shape() == Shape{time, time});
    CHECK(found[2].shape() == Shape{shape[0], 1, 1, time});
    for (std::int64_t q = 0; q < time; ++q)
      for (std::int64_t k = 0; k < time; ++k) CHECK(found[1](q, k).item<bool>() == (k <= q));
    for (std::int64_t b = 0; b < shape[0]; ++b)
      for (std::int64_t k = 0; k < time; ++k)
        CHECK(found[2](b, 0, 0, k).item<bool>() == (k < lengths[static_cast<std::size_t>(b)]));
  }
  const Tensor x = random::normal({2, 3, 4});
  nn::MultiHeadAttention masked = causal, plain = causal;
  const nn::MultiHeadAttention open = [&] {
    nn::MultiHeadAttention m(4, 2);
    m = attention;
    m.load_state_dict(causal.state_dict());
    return m;
  }();
  CHECK(same_bits(causal(x), open(x, nn::causal_mask(x))));
  TAPESTRY_REFUSED(InvalidArgumentError, "there are 6 positions", learnt(zeros({1, 7, 4})));
  CHECK_THROWS_AS(traced(zeros({1, 7, 4}), tensor<std::int64_t>({7})), InvalidArgumentError);
  TAPESTRY_REFUSED(InvalidArgumentError, "known and even", fixed(zeros({1, 2, 3})));
  TAPESTRY_REFUSED(InvalidArgumentError, "lengths must be int32 or int64 [batch]", nn::padding_mask(tensor({1.0}), x));
}

TEST_CASE("check_numerics: values, gradients, graphs, files") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Tensor good = tensor({1.0, -2.0}).cast(dtype);
    CHECK(same_bits(check_numerics(good, "here"), good));
    CHECK(message_of<InvalidArgumentError>([&] {
            check_numerics(tensor({1.0, nan}).cast(dtype), "here");
          }) == "here : Tensor had NaN values");
    CHECK(message_of<InvalidArgumentError>([&] {
            check_numerics(tensor({-inf, 0.0}).cast(dtype), "here");
          }) == "here : Tensor had Inf values");
    CHECK(message_of<InvalidArgumentError>([&] {
            check_numerics(tensor({-inf, nan}).cast(dtype), "here");
          }) == "here : Tensor had Inf and NaN values");
  }
  CHECK_THROWS_AS(check_numerics(tensor({1, 2}), "here"), InvalidArgumentError);
  check_numerics(zeros({0}), "here");
  check_numerics(tensor({{1.0, nan}})(all, range(0, 1)), "a view without it");

  // The gradient of sqrt at 0 is infinite.
  const Tensor zero = tensor({0.0});
  GradientTape tape;
  tape.watch(zero);
  const Tensor y = sqrt(check_numerics(zero, "root"));
  CHECK(message_of<InvalidArgumentError>([&] {
          tape.gradient(y, zero);
        }).starts_with("Not a number (NaN) or infinity (Inf) values detected in gradient. root : Tensor had Inf"));

  const auto traced =
      trace([](Tensor t) { return log(check_numerics(log(t), "log of it")); }, {spec(float32, {-1}, "t")});
  check_values(traced(tensor<float>({10})), {std::log(std::log(10.0))}, 1e-6);
  CHECK_THROWS_WITH_AS(traced(tensor<float>({10, 0})), doctest::Contains("log of it : Tensor had Inf values"),
                       InvalidArgumentError);
  const TemporaryFolder folder;
  for (const char* name : {"check.pb", "check.pbtxt"}) {
    traced.graph().save(folder / name);
    const Graph loaded = Graph::load(folder / name);
    bool found = false;
    for (const Operation& each : loaded.operations()) found |= each.type() == "CheckNumerics";
    CHECK(found);
    Session session(loaded);
    const Tensor out = loaded.get_tensor_by_name(traced.output(0).name());
    CHECK_THROWS_AS(session.run(out, {{loaded.get_tensor_by_name("t:0"), tensor<float>({0})}}), InvalidArgumentError);
  }
}

}  // namespace masks_test
