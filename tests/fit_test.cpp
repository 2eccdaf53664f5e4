#include "tapestry/train/fit.hpp"

#include <sstream>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace fit_test {

using namespace tapestry;
using namespace tapestry::test;
using train::Callback;
using train::FitState;

namespace {

/// A small training: a line through points.
struct Training {
  Variable w{0.0, {.name = "w"}}, b{0.0, {.name = "b"}};
  train::AdamOptimizer optimizer{0.1};
  data::Loader loader{data::Dataset{tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}), tensor({3.0, 5.0, 7.0, 9.0, 11.0, 13.0})},
                      {.batch = 2, .shuffle = true, .seed = 3}};

  Tensor step(const data::Batch& batch) {
    return optimizer.minimize([&] { return reduce_mean(square(w * batch.x + b - batch.y)); });
  }
  auto stepper() {
    return [this](const data::Batch& batch) { return step(batch); };
  }
  Checkpoint checkpoint() { return {.optimizer = &optimizer, .loader = &loader, .more = {{"w", &w}, {"b", &b}}}; }
};

/// A callback that logs given numbers.
Callback log_numbers(const std::string& name, const std::vector<double>& numbers) {
  return {
      .epoch_end = [=](FitState& state) { state.logs[name] = numbers.at(static_cast<std::size_t>(state.epoch - 1)); }};
}

}  // namespace

TEST_CASE("fit: the same as a loop by hand") {
  Training by_hand, fitted;
  std::vector<double> losses;
  for (int epoch = 0; epoch < 4; ++epoch) {
    double sum = 0;
    for (const auto& batch : by_hand.loader) sum += by_hand.step(batch).item<double>();
    losses.push_back(sum / 3);
  }
  std::string calls;
  const auto note = [&](const char* name) { return [&calls, name](FitState&) { calls += name; }; };
  const auto history = train::fit(
      fitted.loader, fitted.stepper(),
      {.epochs = 4,
       .callbacks = {{.begin = note("("), .batch_end = note("."), .epoch_end = note("|"), .end = note(")")}}});
  CHECK(calls == "(...|...|...|...|)");
  REQUIRE(history.epochs.size() == 4);
  CHECK(!history.stopped);
  for (std::size_t i = 0; i < 4; ++i) CHECK(agree(history.epochs[i].at("loss"), losses[i], 1e-12));
  CHECK(same_bits(fitted.w, by_hand.w));
  CHECK(same_bits(fitted.b, by_hand.b));
  // All epochs have been.
  CHECK(train::fit(fitted.loader, fitted.stepper(), {.epochs = 4}).epochs.empty());
}

TEST_CASE("fit: metrics, validation, and what the callbacks see") {
  data::Stream<int> stream(std::vector<int>{1, 2, 3, 4});
  metrics::Mean seen, validated;
  metrics::ConfusionMatrix matrix(2);
  std::vector<std::int64_t> batches;
  const auto history = train::fit(stream,
                                  [&](int x) {
                                    seen.update(static_cast<double>(2 * x));
                                    return x;
                                  },
                                  {.epochs = 2,
                                   .metrics = {{"double", &seen}, {"matrix", &matrix}},
                                   .validate = [&] { validated.update(7.0); },
                                   .validation_metrics = {{"val_loss", &validated}},
                                   .callbacks = {{.batch_end =
                                                      [&](FitState& state) {
                                                        batches.push_back(state.batches);
                                                        CHECK(state.epochs == 2);
                                                        CHECK(state.step == 4 * (state.epoch - 1) + state.batch);
                                                        CHECK(state.loss == static_cast<double>(state.batch));
                                                      },
                                                  .needs_loss = true}}});
  for (const auto& logs : history.epochs) CHECK(logs == train::Logs{{"loss", 2.5}, {"double", 5}, {"val_loss", 7}});
  // The length of a stream is known after its first epoch.
  CHECK(batches == std::vector<std::int64_t>{0, 0, 0, 0, 4, 4, 4, 4});
}

TEST_CASE("fit: stopping") {
  const std::vector<double> losses{5, 4, 3, 3, 4, 2, 1};
  const auto epochs_until_stop = [&](train::EarlyStoppingOptions options) {
    data::Stream<int> stream(std::vector<int>{0});
    std::vector<std::int64_t> best;
    const auto history =
        train::fit(stream, [](int x) { return x; },
                   {.epochs = 7,
                    .callbacks = {log_numbers("val", losses),
                                  train::on_best("val", [&](const FitState& s) { best.push_back(s.epoch); }),
                                  train::stop_early("val", options)}});
    CHECK(best[0] == 1);
    CHECK(std::count(best.begin(), best.end(), 4) == 0);
    CHECK(history.stopped == (history.epochs.size() < 7));
    return history.epochs.size();
  };
  CHECK(epochs_until_stop({.patience = 2}) == 5);
  CHECK(epochs_until_stop({.patience = 3}) == 7);
  CHECK(epochs_until_stop({.patience = 1, .maximize = true}) == 2);

  // Within an epoch.
  Training training;
  const auto history =
      train::fit(training.loader, training.stepper(),
                 {.epochs = 5, .callbacks = {{.batch_end = [](FitState& state) { state.stop = state.step == 4; }}}});
  CHECK(history.stopped);
  CHECK(history.epochs.size() == 2);
  CHECK(training.optimizer.iterations() == 4);
}

TEST_CASE("fit: a training that was stopped and restored goes on as if it had not been") {
  const TemporaryFolder folder;
  Training whole;
  train::fit(whole.loader, whole.stepper(), {.epochs = 5});
  for (const std::int64_t every_steps : {0, 4, 1}) {
    CAPTURE(every_steps);
    const std::string dir = folder / std::to_string(every_steps);
    std::filesystem::create_directories(dir);
    Training stopped;
    const auto stop = [&] {
      train::fit(stopped.loader, stopped.stepper(),
                 {.epochs = 5,
                  .callbacks = {train::save_checkpoints(stopped.checkpoint(), dir, {.every_steps = every_steps}),
                                {.batch_end = [](FitState& state) {
                                  if (state.step == 8) throw std::runtime_error("the power fails");
                                }}}});
    };
    CHECK_THROWS_AS(stop(), std::runtime_error);
    Training resumed;
    resumed.checkpoint().restore(dir);
    CHECK(resumed.optimizer.iterations() == (every_steps == 0 ? 6 : 8));
    train::fit(resumed.loader, resumed.stepper(), {.epochs = 5});
    CHECK(same_bits(resumed.w, whole.w));
    CHECK(same_bits(resumed.b, whole.b));
  }
}

TEST_CASE("fit: summaries, rates and progress") {
  const TemporaryFolder folder;
  Training training;
  std::ostringstream out;
  const auto history = train::fit(
      training.loader, training.stepper(),
      {.epochs = 6,
       .callbacks = {
           log_numbers("val", {3, 2, 2, 2, 2, 2}),
           train::reduce_learning_rate(training.optimizer, "val", {.factor = 0.5, .least = 0.04, .patience = 2}),
           train::log_learning_rate(training.optimizer), train::write_summaries(folder.path()),
           train::show_progress(out, 0)}});
  std::vector<double> rates;
  for (const auto& logs : history.epochs) rates.push_back(logs.at("learning_rate"));
  CHECK(rates == std::vector<double>{0.1, 0.1, 0.1, 0.05, 0.05, 0.04});

  const auto scalars = summary::FileReader(folder.path()).scalars("loss");
  REQUIRE(scalars.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(scalars[i].step == static_cast<std::int64_t>(i) + 1);
    CHECK(scalars[i].value == static_cast<float>(history.epochs[i].at("loss")));
  }

  const std::string text = out.str();
  CHECK(std::count(text.begin(), text.end(), '\n') == 6 * 4);
  CHECK(text.find("epoch 1/6, batch 1/3, ") == 0);
  CHECK(text.find(" batches/s, 0:") != std::string::npos);
  CHECK(text.find(" left\n") != std::string::npos);
  CHECK(text.find("\nepoch 1/6: learning_rate 0.1 loss ") != std::string::npos);
  CHECK(text.find(" val 3 (0:01, 0:0") != std::string::npos);
}

TEST_CASE("fit: what does not fit") {
  Training training;
  const auto bad_loss = [](const data::Batch& batch) { return batch.x; };
  TAPESTRY_REFUSED(InvalidArgumentError, "must return one number, the loss, not float32[2]",
                   train::fit(training.loader, bad_loss));
  TAPESTRY_REFUSED(InvalidArgumentError, "epochs must be >= 0", train::fit(training.loader, bad_loss, {.epochs = -1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "'accuracy' is a null pointer",
                   train::fit(training.loader, bad_loss, {.metrics = {{"accuracy", nullptr}}}));
  metrics::Mean mean;
  TAPESTRY_REFUSED(
      InvalidArgumentError, "Two metrics have the name 'mean'",
      train::fit(training.loader, bad_loss, {.metrics = {{"mean", &mean}}, .validation_metrics = {{"mean", &mean}}}));
  CHECK(message_of<NotFoundError>([&] {
          train::fit(training.loader, training.stepper(), {.epochs = 9, .callbacks = {train::stop_early("val")}});
        }) == "The logs of an epoch have no 'val', but loss");
  TAPESTRY_REFUSED(InvalidArgumentError, "patience", train::stop_early("loss", {.patience = 0}));
  TAPESTRY_REFUSED(InvalidArgumentError, "factor",
                   train::reduce_learning_rate(training.optimizer, "loss", {.factor = 1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "every_epochs",
                   train::save_checkpoints(training.checkpoint(), "x", {.every_epochs = 0}));
}

}  // namespace fit_test
