// DataParallel with groups of parameters and with a loss scale.

#include <cmath>
#include <optional>

#include <doctest/doctest.h>

#include "data_parallel_nets.hpp"
#include "expect.hpp"
#include "ranks.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/session.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/train.hpp"

namespace data_parallel_groups_test {

using namespace tapestry;
using namespace tapestry::test;
using namespace tapestry::test::parallel;
using train::DataParallel;
using train::DataParallelOptions;

namespace {

/// What a rank has after some steps of groups, some of which may be scaled.
struct GroupRun {
  Trained values;
  std::vector<std::int64_t> steps;
  double scale = 0;
};

/// Trains by groups with optimizers of their own. In the batch number `bad`, one rank's loss is infinite.
GroupRun train_groups(const Communicator& world, Mode mode, DataParallelOptions options, bool is_scaled, int bad = -1) {
  nn::Sequential net = make_net();
  std::vector<Variable> weights, biases;
  for (const auto& [name, each] : net.named_parameters()) (name.ends_with("bias") ? biases : weights).push_back(each);
  train::AdamWOptimizer decayed(0.02, {.weight_decay = 0.1});
  train::MomentumOptimizer plain(0.05, 0.9);
  train::ParameterGroups groups({{&decayed, weights}, {&plain, biases}});
  train::LossScale loss_scale({.initial_scale = 1024, .growth_steps = 3});
  if (is_scaled) options.loss_scale = &loss_scale;
  DataParallel training(groups, world, options);
  const auto loss = [&](const Tensor& x, const Tensor& y, const Tensor& factor) {
    return loss_of(net, {x, y}) * factor;
  };
  const auto step = [&](const Tensor& x, const Tensor& y, const Tensor& factor) {
    return training.minimize([&] { return loss(x, y, factor); });
  };
  const std::vector<TensorSpec> specs{spec(float32, {-1, 5}), spec(int64, {-1}), spec(float32, {})};
  const auto traced = mode == Mode::traced ? std::optional(trace(step, specs)) : std::nullopt;
  const Graph graph;
  std::optional<Session> session;
  Tensor x, y, factor;
  Operation train_step;
  if (mode == Mode::graph) {
    const auto scope = graph.as_default();
    x = placeholder(float32, {-1, 5});
    y = placeholder(int64, {-1});
    factor = placeholder(float32, {});
    train_step = training.minimize(loss(x, y, factor));
    session.emplace(graph);
  }
  data::Loader batches(make_set(48), {.batch = 8 / world.size(), .shard = world.shard()});
  int count = 0;
  for (auto [xs, ys] : batches) {
    const Tensor by = tensor<float>(count++ == bad && world.rank() == 0 ? INFINITY : 1.0F);
    if (mode == Mode::eager) step(xs, ys, by);
    if (mode == Mode::traced) (*traced)(xs, ys, by);
    if (mode == Mode::graph) session->run(train_step, {{x, xs}, {y, ys}, {factor, by}});
  }
  return {values_of(net), {decayed.iterations(), plain.iterations()}, loss_scale.value()};
}

}  // namespace

TEST_CASE("groups of parameters and a loss scale make the steps that they make on one rank") {
  for (const std::int64_t accumulate : {1, 2})
    for (const double clip_norm : {0.0, 0.2}) {
      CAPTURE(accumulate);
      CAPTURE(clip_norm);
      const DataParallelOptions options{.bucket_bytes = 100, .accumulate = accumulate, .clip_norm = clip_norm};
      const GroupRun alone = train_groups(Communicator(), Mode::eager, options, false);
      CHECK(alone.steps == std::vector<std::int64_t>(2, 6 / accumulate));
      Trained first;
      for (const Mode mode : {Mode::eager, Mode::traced, Mode::graph})
        for (const bool is_scaled : {false, true}) {
          if (mode == Mode::graph && accumulate > 1) continue;
          const auto found = on_ranks<GroupRun>(
              2, [&](const Communicator& world) { return train_groups(world, mode, options, is_scaled); });
          if (first.empty()) first = found[0].values;
          check_close(first, alone.values, 1e-5);
          for (const GroupRun& each : found) {
            check_bits(each.values, first);  // a scale that is a power of 2 changes no digit
            CHECK(each.steps == alone.steps);
            CHECK(each.scale == (is_scaled ? 1024 << (6 / accumulate / 3) : 1024));
          }
        }
    }
}

TEST_CASE("a gradient that is infinite on one rank skips the step on all") {
  for (const std::int64_t accumulate : {1, 2})
    for (const double clip_norm : {0.0, 0.2})
      for (const Mode mode : {Mode::eager, Mode::traced, Mode::graph}) {
        if (mode == Mode::graph && accumulate > 1) continue;
        const DataParallelOptions options{.bucket_bytes = 100, .accumulate = accumulate, .clip_norm = clip_norm};
        const auto found = on_ranks<GroupRun>(
            2, [&](const Communicator& world) { return train_groups(world, mode, options, true, 2); });
        for (const GroupRun& each : found) {
          check_bits(each.values, found[0].values);
          CHECK(each.steps == std::vector<std::int64_t>(2, 6 / accumulate - 1));
          // Halved in the step that is skipped; then 3 good steps double it, of which there are 3 or 1.
          CHECK(each.scale == (accumulate == 1 ? 1024 : 512));
          for (const Tensor& value : each.values) CHECK(reduce_all(is_finite(value)).item<bool>());
        }
      }
}

TEST_CASE("ranks whose loss scales differ are told them, and a group needs a gradient") {
  const auto errors = on_ranks<std::string>(2, [&](const Communicator& world) -> std::string {
    const Variable v(1.0);
    train::GradientDescentOptimizer optimizer(0.1);
    train::LossScale scale({.initial_scale = world.rank() == 0 ? 8.0 : 16.0});
    DataParallel training(optimizer, world, {.loss_scale = &scale});
    return caught<InvalidArgumentError>([&] { training.minimize([&] { return square(v); }); }).what();
  });
  for (const std::string& each : errors) {
    CHECK_MESSAGE(each.find("numbers 0.1 0 8)") != std::string::npos, each);
    CHECK_MESSAGE(each.find("numbers 0.1 0 16)") != std::string::npos, each);
  }
  const auto refused = on_ranks<std::string>(2, [&](const Communicator& world) -> std::string {
    const Variable v(1.0), w(1.0);
    train::GradientDescentOptimizer a(0.1), b(0.1);
    train::ParameterGroups groups({{&a, {v}}, {&b, {w}}});
    DataParallel training(groups, world);
    std::string text = caught<InvalidArgumentError>([&] { training.minimize([&] { return square(v); }); }).message();
    check_values(v, {1});
    training.minimize([&] { return square(v) + 0.5 * square(w); });
    check_values(w, {0.9}, 1e-6);
    return text;
  });
  for (const std::string& each : refused) CHECK(each == "The loss depends on no Variable of group 1");
}

}  // namespace data_parallel_groups_test
