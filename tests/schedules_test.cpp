// Learning-rate schedules, against values computed by hand from TensorFlow's and PyTorch's documented formulas.

#include "tapestry/train/schedules.hpp"

#include "expect.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/session.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/train/optimizers.hpp"

namespace schedules_test {

using namespace tapestry;
using namespace tapestry::test;
using namespace tapestry::train;

namespace {

/// The rates at some steps.
std::vector<double> rates(const LearningRate& rate, const std::vector<std::int64_t>& steps) {
  std::vector<double> list;
  for (const std::int64_t step : steps) list.push_back(rate(step));
  return list;
}

void check_rates(const LearningRate& rate, const std::vector<std::int64_t>& steps,
                 const std::vector<double>& expected) {
  const std::vector<double> actual = rates(rate, steps);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    INFO("step ", steps[i], ": ", actual[i], ", expected ", expected[i]);
    CHECK(std::abs(actual[i] - expected[i]) <= 1e-15 + 1e-13 * expected[i]);
  }
}

TEST_CASE("a number is the constant schedule, a function any other") {
  check_rates(0.1, {0, 1, 1000000}, {0.1, 0.1, 0.1});
  check_rates(1, {5}, {1});
  check_rates([](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }, {0, 1, 3}, {1, 0.5, 0.25});
  const LearningRate rate = 0.25f, copy = rate;
  CHECK(copy(3) == 0.25);
}

TEST_CASE("piecewise constant") {
  // The example of tf.keras.optimizers.schedules.PiecewiseConstantDecay: 1.0 for the first 100001 steps, 0.5 for the
  // next 10000, then 0.1.
  check_rates(PiecewiseConstantDecay({100000, 110000}, {1.0, 0.5, 0.1}),
              {0, 99999, 100000, 100001, 110000, 110001, 1000000}, {1, 1, 1, 0.5, 0.5, 0.1, 0.1});
  check_rates(PiecewiseConstantDecay({}, {0.5}), {0, 7}, {0.5, 0.5});
}

TEST_CASE("exponential decay") {
  check_rates(ExponentialDecay(0.1, 100, 0.25), {0, 50, 100, 150, 200}, {0.1, 0.05, 0.025, 0.0125, 0.00625});
  // As the example of torch.optim.lr_scheduler.StepLR: 0.05 for steps 0 to 29, 0.005 to 59, 0.0005 to 89.
  check_rates(ExponentialDecay(0.05, 30, 0.1, {.staircase = true}), {0, 29, 30, 59, 60, 89, 90},
              {0.05, 0.05, 0.005, 0.005, 0.0005, 0.0005, 0.00005});
}

TEST_CASE("cosine decay") {
  check_rates(CosineDecay(0.1, 1000), {0, 250, 500, 750, 1000, 5000},
              {0.1, 0.08535533905932738, 0.05, 0.014644660940672624, 0, 0});
  check_rates(CosineDecay(0.1, 1000, {.alpha = 0.1}), {0, 500, 1000, 1001}, {0.1, 0.055, 0.01, 0.01});
}

TEST_CASE("warm-up before another schedule") {
  check_rates(LinearWarmup(0.8, 4), {0, 1, 2, 3, 4, 100}, {0, 0.2, 0.4, 0.6, 0.8, 0.8});
  // torch.optim.lr_scheduler.LinearLR's example: 0.05 with start_factor 0.5 over 4 steps.
  check_rates(LinearWarmup(0.05, 4, {.start_factor = 0.5}), {0, 1, 2, 3, 4}, {0.025, 0.03125, 0.0375, 0.04375, 0.05});
  check_rates(LinearWarmup(CosineDecay(0.1, 1000), 10), {0, 5, 10, 510, 1010}, {0, 0.05, 0.1, 0.05, 0});
  check_rates(LinearWarmup(LinearWarmup(1, 2), 2), {0, 1, 2, 3, 4}, {0, 0, 0, 0.5, 1});
}

TEST_CASE("arguments that make no sense are refused with the line") {
  auto error = caught<InvalidArgumentError>([] { PiecewiseConstantDecay({1, 2}, {0.1, 0.2}); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "The number of boundaries should be 1 less than the number of values, got 2 and 2");
  error = caught<InvalidArgumentError>([] { PiecewiseConstantDecay({1, 1}, {0.1, 0.2, 0.3}); });
  CHECK(error.message() == "boundaries[1] must be greater than the one before, got 1");
  CHECK_THROWS_AS(PiecewiseConstantDecay({1}, {0.1, not_a_number}), InvalidArgumentError);
  error = caught<InvalidArgumentError>([] { ExponentialDecay(0.1, 0, 0.5); });
  CHECK(error.message() == "decay_steps must be positive, got 0");
  CHECK_THROWS_AS(ExponentialDecay(-0.1, 10, 0.5), InvalidArgumentError);
  CHECK_THROWS_AS(ExponentialDecay(0.1, 10, 0), InvalidArgumentError);
  CHECK_THROWS_AS(ExponentialDecay(0.1, 10, not_a_number), InvalidArgumentError);
  CHECK_THROWS_AS(CosineDecay(0.1, -5), InvalidArgumentError);
  CHECK_THROWS_AS(CosineDecay(0.1, 5, {.alpha = 2}), InvalidArgumentError);
  CHECK_THROWS_AS(LinearWarmup(0.1, 0), InvalidArgumentError);
  CHECK_THROWS_AS(LinearWarmup(0.1, 5, {.start_factor = -1}), InvalidArgumentError);
  CHECK_THROWS_AS(LinearWarmup(-0.1, 5), InvalidArgumentError);
}

TEST_CASE("a rate that makes no sense is refused in a trace and a session as it is eagerly") {
  for (const double wrong : {-1.0, not_a_number, infinity}) {
    const auto rate = [wrong](std::int64_t step) { return step < 1 ? 0.25 : wrong; };
    const auto trained = [&](auto step, const Variable& w) {
      step();
      const auto error = caught<InvalidArgumentError>(step);
      CHECK(error.message().find("learning_rate must be a finite number >= 0, got ") != std::string::npos);
      CHECK(w.value().item<double>() == 0.5);
    };
    Variable eager(1.0), traced(1.0), in_session(1.0);
    GradientDescentOptimizer a(rate), b(rate), c(rate);
    trained([&] { a.minimize([&] { return square(eager); }, {eager}); }, eager);
    const auto step = trace([&] { return b.minimize([&] { return square(traced); }, {traced}); }, {});
    trained([&] { step(); }, traced);
    Graph graph;
    const Operation train = [&] {
      const auto scope = graph.as_default();
      return c.minimize(square(in_session), {in_session});
    }();
    Session session(graph);
    trained([&] { session.run(train); }, in_session);
  }
}

}  // namespace

}  // namespace schedules_test
