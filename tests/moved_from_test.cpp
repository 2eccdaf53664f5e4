// Objects that were moved from: handles, what is not copied, modules, and the parts of a training.

#include <tapestry/tapestry.hpp>

#include "refused.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::moved_from_test {
namespace {

#define TAPESTRY_PRECONDITION(text, ...) TAPESTRY_REFUSED(FailedPreconditionError, text, __VA_ARGS__)

// A handle that was moved from stands for what it stood for; what is not copied refuses.
TEST_CASE("what was moved from") {
  const Tensor x = ones({2, 2});
  const auto moved = [](auto& from) { return std::decay_t<decltype(from)>(std::move(from)); };

  Variable w(x, {.name = "w"});
  const Variable other = moved(w);
  w.assign(x * 2.0);
  check_values(other, {2, 2, 2, 2});
  CHECK(w.name() == "w");

  Graph graph;
  Tensor y;
  {
    const auto scope = graph.as_default();
    y = placeholder(float32, {2, 2}, "y") * 3.0;
  }
  const Graph same = moved(graph);
  CHECK(graph.operations().size() == same.operations().size());
  Operation op = y.op();
  const Operation same_op = moved(op);
  CHECK(op.graph().is(same_op.graph()));
  Session session(graph);
  const Session taken = moved(session);
  check_values(session.run(y, {{"y:0", x}}), {3, 3, 3, 3});
  auto callable = taken.make_callable(y, {graph.get_tensor_by_name("y:0")});
  const auto same_callable = moved(callable);
  check_values(callable(x), {3, 3, 3, 3});

  auto traced = trace([](const Tensor& t) { return t + 1.0; }, {spec(float32, {-1, -1})});
  const auto same_trace = moved(traced);
  check_values(traced(x), {2, 2, 2, 2});
  auto called = function([](const Tensor& t) { return t + 1.0; });
  const auto same_function = moved(called);
  check_values(called(x), {2, 2, 2, 2});

  nn::Dense layer(2, 3);
  const nn::Dense same_layer = moved(layer);
  CHECK(same_bits(layer(x), same_layer(x)));
  data::Loader loader({x, x}, {.batch = 1});
  data::Loader same_loader = moved(loader);
  int batches = 0;
  for ([[maybe_unused]] const auto& batch : loader) ++batches;
  for ([[maybe_unused]] const auto& batch : same_loader) ++batches;
  CHECK(batches == 4);

  data::Stream<int> stream({1, 2, 3});
  const data::Stream<int> same_stream = moved(stream).map([](int i) { return i; });
  CHECK(stream.collect() == std::vector{1, 2, 3});
  CHECK(stream.epoch() == 1);
  data::Vocabulary words({"a", "b"});
  const data::Vocabulary same_words = moved(words);
  CHECK(words.id("b") == 1);
  data::ExampleParser parser({{"age", data::Feature::floats({})}});
  const data::ExampleParser same_parser = moved(parser);
  check_values(parser(data::Record{data::encode({{"age", 3.0}})})["age"], {3});
  Communicator world = Communicator::world();
  const Communicator same_world = moved(world);
  CHECK(world.size() == 1);
  Fetch fetch(w);
  const Fetch same_fetch = moved(fetch);
  check_values(session.run(std::vector{fetch})[0], {2, 2, 2, 2});

  random::NumpyLegacy numbers(0);
  const random::NumpyLegacy taken_numbers = moved(numbers);
  CHECK_THROWS_AS(numbers.randn({1}), FailedPreconditionError);
  const TemporaryFolder folder;
  summary::FileWriter writer(folder.path().string());
  const summary::FileWriter taken_writer = moved(writer);
  CHECK_THROWS_AS(writer.add_scalar("a", 1, 1), FailedPreconditionError);
  summary::FileReader reader(folder.path().string());
  const summary::FileReader same_reader = moved(reader);
  auto event = reader.begin();
  const auto same_event = moved(event);
  CHECK((event == std::default_sentinel) == (same_event == std::default_sentinel));
}

// A module that was moved from has lost the parts that it had in a list, and says so.
TEST_CASE("modules that were moved from") {
  const Tensor x = ones({2, 3, 4});
  const auto check = [&](auto module) {
    const auto same = module;
    auto taken = std::move(module);
    TAPESTRY_PRECONDITION("moved to another one", module(x));  // NOLINT(bugprone-use-after-move)
    TAPESTRY_PRECONDITION("moved to another one", std::as_const(module)(x));
    const auto copy = module;
    TAPESTRY_PRECONDITION("moved to another one", copy(x));
    module = same;
    module(x);
    module = std::move(taken);
    module(x);
    TAPESTRY_PRECONDITION("moved to another one", taken(x));  // NOLINT(bugprone-use-after-move)
    std::swap(module, taken);
    taken(x);
    if constexpr (!std::same_as<decltype(module), nn::Lambda>) {
      const StateDict state = taken.state_dict();
      TAPESTRY_PRECONDITION("was moved to another one, which has its parts now", module.parameters());
      TAPESTRY_PRECONDITION("was moved to another one, which has its parts now", module.state_dict());
      TAPESTRY_PRECONDITION("was moved to another one, which has its parts now", module.load_state_dict(state));
      TAPESTRY_PRECONDITION("was moved to another one, which has its parts now", module.eval());
      TAPESTRY_PRECONDITION("was moved to another one, which has its parts now", module.to(float64));
    }
  };
  struct Blocks : nn::Layer {
    std::vector<nn::Dense> blocks{nn::Dense(4, 4)};
    TAPESTRY_FIELDS(blocks)

   private:
    Tensor forward(const Tensor& y) const override { return blocks[0](y); }
  };
  check(nn::Sequential(nn::Dense(4, 2)));
  check(nn::Sequential(nn::RMSNorm(4), nn::Sequential(nn::Dense(4, 2), relu)));
  check(nn::Lambda(relu));
  check(nn::RNN(4, 2));
  check(nn::GRU(4, 2, {.bidirectional = true}));
  check(nn::LSTM(4, 2, {.layers = 2}));
  check(Blocks());

  struct Net : nn::Module {
    nn::Sequential body{nn::Dense(4, 2)}, nothing;
    TAPESTRY_FIELDS(body, nothing)
  };
  Net net;
  const nn::Sequential body = std::move(net.body);
  TAPESTRY_PRECONDITION("The Sequential 'body' was moved to another one", net.parameters());
  TAPESTRY_PRECONDITION("The Sequential was moved to another one", net.body.at<nn::Dense>(0));
  CHECK(body.parameters().size() == 2);
  net.body.add(nn::Dense(4, 3));  // a new one
  CHECK(net.body(x).shape() == Shape{2, 3, 3});
  CHECK(net.nothing(x).is(x));
}

// The parts of a training that were moved from make the same steps, together with what they were moved to.
TEST_CASE("what was moved from in a training") {
  const auto moved = [](auto& from) { return std::decay_t<decltype(from)>(std::move(from)); };
  Variable w(1.0, {.name = "w"});
  const auto loss = [&] { return square(w); };
  train::GradientDescentOptimizer opt(0.25);
  train::ParameterGroups groups({{&opt, {w}}});
  const train::ParameterGroups same_groups = moved(groups);
  groups.minimize(loss);
  check_values(w, {0.5});
  train::GradientAccumulation two(2);
  two.minimize(opt, loss, {w});
  const train::GradientAccumulation same_two = moved(two);
  two.minimize(opt, loss, {w});
  check_values(w, {0.25});
  CHECK(same_two.pending() == 0);
  train::ExponentialMovingAverage average(0.5, {w});
  const train::ExponentialMovingAverage same_average = moved(average);
  w.assign(0.75);
  average.update();
  check_values(same_average.average(w), {0.5});
  train::DataParallel parallel(opt, Communicator::world());
  const train::DataParallel same_parallel = moved(parallel);
  parallel.minimize(loss, {w});
  check_values(w, {0.375});
  const std::vector<train::LearningRate> rates{0.5, train::PiecewiseConstantDecay({1}, {0.5, 0.5}),
                                               train::LinearWarmup(0.5, 1),
                                               train::LinearWarmup(train::PiecewiseConstantDecay({1}, {0.5, 0.5}), 1)};
  for (train::LearningRate rate : rates) {
    const train::LearningRate same_rate = moved(rate);
    CHECK(rate(3) == 0.5);
  }
  train::PiecewiseConstantDecay pieces({1}, {0.25, 0.5});
  const train::PiecewiseConstantDecay same_pieces = moved(pieces);
  CHECK(pieces(2) == 0.5);
  train::LinearWarmup warmup(pieces, 1);
  const train::LinearWarmup same_warmup = moved(warmup);
  CHECK(warmup(3) == 0.5);
  train::LBFGS lbfgs({w});
  const train::LBFGS same_lbfgs = moved(lbfgs);
  lbfgs.minimize(loss);
  CHECK(std::abs(w.value().item<double>()) < 1e-6);
}

}  // namespace
}  // namespace tapestry::test::moved_from_test
