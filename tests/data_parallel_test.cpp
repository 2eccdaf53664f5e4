#include <algorithm>
#include <atomic>
#include <functional>

#include <doctest/doctest.h>

#include "data_parallel_nets.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "ranks.hpp"
#include "tapestry/data.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/nn.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/session.hpp"
#include "tapestry/trace.hpp"
#include "tapestry/train.hpp"

namespace data_parallel_test {

using namespace tapestry;
using namespace tapestry::test;
using namespace tapestry::test::parallel;
using train::DataParallel;
using train::DataParallelOptions;

namespace {

using MakeOptimizer = std::function<std::unique_ptr<train::Optimizer>()>;
const std::vector<std::pair<std::string, MakeOptimizer>> optimizers{
    {"gradient descent", [] { return std::make_unique<train::GradientDescentOptimizer>(0.1); }},
    {"momentum", [] { return std::make_unique<train::MomentumOptimizer>(0.05, 0.9); }},
    {"Adam", [] { return std::make_unique<train::AdamOptimizer>(0.01); }},
};

/// Trains on the shard of a rank, and gives the parameters after it.
std::vector<Tensor> train_on(const Communicator& world, Mode mode, const MakeOptimizer& make_optimizer, int epochs,
                             const DataParallelOptions& options = {.bucket_bytes = 100}) {
  nn::Sequential net = make_net();
  const auto optimizer = make_optimizer();
  DataParallel training(*optimizer, world, options);
  data::Loader batches(make_set(48), {.batch = 24 / world.size(), .shuffle = true, .seed = 5, .shard = world.shard()});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    return training.minimize([&] { return loss_of(net, {x, y}); });
  };
  const auto traced =
      mode == Mode::traced ? std::optional(trace(step, {spec(float32, {-1, 5}), spec(int64, {-1})})) : std::nullopt;
  const Graph graph;
  std::optional<Session> session;
  Tensor x, y;
  Operation train_step;
  if (mode == Mode::graph) {
    const auto scope = graph.as_default();
    x = placeholder(float32, {-1, 5});
    y = placeholder(int64, {-1});
    train_step = training.minimize(loss_of(net, {x, y}), net.parameters());
    session.emplace(graph);
  }
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (auto [xs, ys] : batches) {
      if (mode == Mode::eager) step(xs, ys);
      if (mode == Mode::traced) (*traced)(xs, ys);
      if (mode == Mode::graph) session->run(train_step, {{x, xs}, {y, ys}});
    }
  return values_of(net);
}

}  // namespace

TEST_CASE("N ranks make the steps of one rank with the joint batch, and all have the same bits") {
  for (const auto& [name, make_optimizer] : optimizers) {
    const std::string title = name;
    INFO(title);
    const Trained alone = train_on(Communicator(), Mode::eager, make_optimizer, 10);
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      const auto found = on_ranks<Trained>(ranks, [&, &make = make_optimizer](const Communicator& world) {
        return train_on(world, Mode::eager, make, 10);
      });
      check_close(found[0], alone, 1e-5);
      for (const Trained& each : found) check_bits(each, found[0]);
    }
  }
}

TEST_CASE("eager, traced, in a graph, with any size of buckets: the same bits") {
  for (const auto& [name, make_optimizer] : optimizers) {
    const std::string title = name;
    INFO(title);
    std::vector<Trained> results;
    for (const Mode mode : {Mode::eager, Mode::traced, Mode::graph})
      for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{300}, std::int64_t{1} << 30})
        for (const Trained& each : on_ranks<Trained>(2, [&, &make = make_optimizer](const Communicator& world) {
               return train_on(world, mode, make, 5, {.bucket_bytes = bytes});
             }))
          results.push_back(each);
    for (const Trained& each : results) check_bits(each, results[0]);
  }
}

TEST_CASE("all ranks have the same bits after 1,000 steps") {
  const auto found = on_ranks<Trained>(
      3, [&](const Communicator& world) { return train_on(world, Mode::traced, optimizers[2].second, 500); });
  for (const Trained& each : found) check_bits(each, found[0]);
}

TEST_CASE("accumulated batches make the step of the joint batch, and travel once") {
  for (const Mode mode : {Mode::eager, Mode::traced}) {
    const auto found = on_ranks<Trained>(2, [&](const Communicator& world) {
      nn::Sequential net = make_net();
      train::MomentumOptimizer optimizer(0.1, 0.9);
      DataParallel training(optimizer, world, {.accumulate = 3});
      const auto step = [&](const Tensor& x, const Tensor& y) {
        return training.minimize([&] { return loss_of(net, {x, y}); });
      };
      const auto traced = trace(step, {spec(float32, {-1, 5}), spec(int64, {-1})});
      data::Loader batches(make_set(48), {.batch = 4, .shard = world.shard()});
      std::int64_t count = 0;
      for (int epoch = 0; epoch < 2; ++epoch)
        for (auto [x, y] : batches) {
          mode == Mode::eager ? step(x, y) : traced(x, y);
          ++count;
          CHECK(training.pending() == count % 3);
          CHECK(optimizer.iterations() == count / 3);
        }
      return values_of(net);
    });
    nn::Sequential net = make_net();
    train::MomentumOptimizer optimizer(0.1, 0.9);
    data::Loader batches(make_set(48), {.batch = 24});
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const auto& batch : batches) optimizer.minimize([&] { return loss_of(net, batch); });
    for (const Trained& each : found) {
      check_bits(each, found[0]);
      check_close(each, values_of(net), 1e-5);
    }
  }
}

TEST_CASE("clipping uses the norm of the ranks' mean gradients") {
  for (const bool traced : {false, true})
    for (const std::int64_t accumulate : {1, 2}) {
      const auto found = on_ranks<Tensor>(2, [&](const Communicator& world) {
        const Variable w({0.0, 0.0});
        train::GradientDescentOptimizer optimizer(1.0);
        DataParallel training(optimizer, world, {.accumulate = accumulate, .clip_norm = 1});
        // The gradients (0, 8) and (6, 0) have the mean (3, 4), whose norm is 5.
        const Tensor slope = world.rank() == 0 ? tensor({0.0, 8.0}) : tensor({6.0, 0.0});
        const auto step = [&](const Tensor& s) { return training.minimize([&] { return reduce_sum(s * w); }, {w}); };
        const auto graph = trace(step, {spec(float32, {2})});
        for (int i = 0; i < accumulate; ++i) traced ? graph(slope) : step(slope);
        return w.value();
      });
      for (const Tensor& each : found) check_values(each, {-0.6, -0.8}, 1e-6);
    }
}

/// The table and a dense weight after lazy steps in which each rank looks up other rows, of another number. With
/// `joint`, one rank has the batches of all.
std::vector<Tensor> train_rows(const Communicator& world, Mode mode, const MakeOptimizer& make_optimizer,
                               const DataParallelOptions& options, int joint = 0) {
  const Variable table(numbers({6, 2}, -0.5, 0.5, 1).cast(float32)), w(numbers({2, 1}, -0.5, 0.5, 2).cast(float32));
  const auto optimizer = make_optimizer();
  DataParallel training(*optimizer, world, options);
  // The weights make a mean over all ranks of these sums.
  const auto loss_for = [&](const Tensor& ids, double weight) {
    return reduce_sum(square(matmul(embedding_lookup(table, ids), w) - 1.0)) * weight;
  };
  const auto step = [&](const Tensor& ids) { return training.minimize([&] { return loss_for(ids, 1); }, {table, w}); };
  const auto traced = mode == Mode::traced ? std::optional(trace(step, {spec(int64, {-1})})) : std::nullopt;
  const Graph graph;
  std::optional<Session> session;
  Tensor x;
  Operation train_step;
  if (mode == Mode::graph) {
    const auto scope = graph.as_default();
    x = placeholder(int64, {-1});
    train_step = training.minimize(loss_for(x, 1), {table, w});
    session.emplace(graph);
  }
  using Ids = std::vector<std::int64_t>;
  const std::vector<std::vector<Ids>> batches{{{0, 1}, {2, 2, 3}}, {{2, 2}, {2}}, {{0, 3, 0, 3}, {}},
                                              {{1}, {1, 1}},       {{0, 1}, {4}}, {{4, 1}, {4}}};
  for (const auto& batch : batches) {
    if (joint > 0) {
      Ids all;
      for (const Ids& each : batch) all.insert(all.end(), each.begin(), each.end());
      optimizer->minimize([&] { return loss_for(tensor(all, {std::ssize(all)}), 1.0 / joint); }, {table, w});
      continue;
    }
    const Ids& own = batch[static_cast<std::size_t>(world.rank())];
    const Tensor ids = tensor(own, {std::ssize(own)});
    if (mode == Mode::eager) step(ids);
    if (mode == Mode::traced) (*traced)(ids);
    if (mode == Mode::graph) session->run(train_step, {{x, ids}});
  }
  return {table, w};
}

TEST_CASE("row-sparse gradients stay so: the lazy steps are those with the joint batch") {
  auto lazy = optimizers;
  lazy.emplace_back("AdamW", [] { return std::make_unique<train::AdamWOptimizer>(0.01); });
  lazy.emplace_back("RMSProp", [] { return std::make_unique<train::RMSPropOptimizer>(0.01); });
  lazy.emplace_back("Adagrad", [] { return std::make_unique<train::AdagradOptimizer>(0.1); });
  for (const auto& [name, make_optimizer] : lazy) {
    const std::string title = name;
    INFO(title);
    const Trained alone = train_rows(Communicator(), Mode::eager, make_optimizer, {}, 2);
    for (const Mode mode : {Mode::eager, Mode::traced, Mode::graph})
      for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1} << 30}) {
        const auto found = on_ranks<Trained>(2, [&, &make = make_optimizer](const Communicator& world) {
          return train_rows(world, mode, make, {.bucket_bytes = bytes});
        });
        check_close(found[0], alone, 1e-5);
        check_bits(found[1], found[0]);
      }
  }
}

TEST_CASE("a rank that is alone keeps rows, too; with accumulated batches and clipping") {
  const auto run = [](const Communicator& world, bool traced, double clip_norm) {
    const Variable table(zeros({5, 2}));
    train::MomentumOptimizer optimizer(0.1, 0.9);
    DataParallel training(optimizer, world, {.accumulate = 2, .clip_norm = clip_norm});
    const auto step = [&](const Tensor& ids) {
      return training.minimize([&] { return reduce_sum(square(embedding_lookup(table, ids) - 1.0)); });
    };
    const auto graph = trace(step, {spec(int64, {-1})});
    for (const std::vector<std::int64_t>& each :
         {std::vector<std::int64_t>{0, 1}, {2}, {2, 2}, {0}, {1, 1, 1}, {0, 2}, {2}, {2}}) {
      const Tensor ids = tensor(each, {std::ssize(each)});
      traced ? graph(ids) : step(ids);
    }
    return Trained{table, optimizer.get_slot(table, "momentum")};
  };
  for (const double clip_norm : {0.0, 1.0}) {
    const Variable table(zeros({5, 2}));
    train::MomentumOptimizer optimizer(0.1, 0.9);
    for (const std::vector<std::int64_t>& each :
         {std::vector<std::int64_t>{0, 1, 2}, {2, 2, 0}, {1, 1, 1, 0, 2}, {2, 2}}) {
      const Tensor ids = tensor(each, {std::ssize(each)});
      const auto loss = [&] { return reduce_sum(square(embedding_lookup(table, ids) - 1.0)) / 2.0; };
      auto pairs = optimizer.compute_gradients(loss, {table});
      if (clip_norm > 0) pairs[0].first = clip_by_global_norm({pairs[0].first}, clip_norm).first[0];
      optimizer.apply_gradients(pairs);
    }
    const Trained expected{table, optimizer.get_slot(table, "momentum")};
    for (const bool traced : {false, true}) {
      check_close(run(Communicator(), traced, clip_norm), expected, 1e-6);
      for (const Trained& each :
           on_ranks<Trained>(3, [&](const Communicator& world) { return run(world, traced, clip_norm); }))
        check_close(each, expected, 1e-6);
    }
  }
}

TEST_CASE("only rows travel, and only rows are touched") {
  run_ranks(2, [](const Communicator& world) {
    const Variable table(zeros({1'000'000, 16}));
    train::AdagradOptimizer optimizer(0.1);
    DataParallel training(optimizer, world);
    const auto gradients = [&](std::int64_t row) {
      return optimizer.compute_gradients([&] { return reduce_sum(embedding_lookup(table, {row})); }, {table});
    };
    training.apply_gradients({gradients(world.rank())[0].first}, {table});
    // Gradients that are whole are as large as the table.
    world.barrier();
    if (world.rank() == 0) reset_peak_memory();
    const std::int64_t before = memory_stats().in_use;
    world.barrier();
    training.apply_gradients({gradients(world.rank())[0].first}, {table});
    world.barrier();
    CHECK(memory_stats().peak - before < 10'000'000);
  });
}

TEST_CASE("ranks whose settings differ are told them") {
  using Train = std::function<void(const Communicator&, const Variable&, const train::Optimizer::Loss&)>;
  const auto sgd = [](double rate, double clip_norm) -> Train {
    return [=](const Communicator& world, const Variable& v, const train::Optimizer::Loss& loss) {
      train::GradientDescentOptimizer optimizer(rate);
      DataParallel(optimizer, world, {.clip_norm = clip_norm}).minimize(loss, {v});
    };
  };
  const Train momentum = [](const Communicator& world, const Variable& v, const train::Optimizer::Loss& loss) {
    train::MomentumOptimizer optimizer(0.1, 0.5);
    DataParallel(optimizer, world).minimize(loss, {v});
  };
  const Train decayed = [](const Communicator& world, const Variable& v, const train::Optimizer::Loss& loss) {
    train::GradientDescentOptimizer optimizer(train::ExponentialDecay(0.25, 1, 0.5));
    DataParallel training(optimizer, world);
    const auto step = trace([&] { return training.minimize(loss, {v}); }, {});
    step();
  };
  const std::vector<std::pair<const char*, Train>> others{
      {"GradientDescent(clip_norm 0, step 1, learning_rate 0.5, ", sgd(0.5, 0)},
      {"GradientDescent(clip_norm 2, step 1, learning_rate 0.1, ", sgd(0.1, 2)},
      {"Momentum(clip_norm 0, step 1, learning_rate 0.1, numbers 0.1 0.5", momentum},
      {"GradientDescent(clip_norm 0, step 1, learning_rate 0.25, ", decayed},
  };
  for (const bool sparse : {false, true})
    for (const auto& [settings, other] : others) {
      const std::string text = settings;  // clang 14 takes no structured binding into doctest's function
      INFO(text);
      const auto errors = on_ranks<std::string>(2, [&, &differs = other](const Communicator& world) -> std::string {
        const Variable v(ones({3, 2}));
        const auto loss = [&] { return sparse ? reduce_sum(embedding_lookup(v, {1})) : reduce_sum(square(v)); };
        try {
          (world.rank() == 0 ? sgd(0.1, 0) : differs)(world, v, loss);
        } catch (const InvalidArgumentError& error) {
          check_values(v, {1, 1, 1, 1, 1, 1});
          return error.what();
        }
        return "";
      });
      for (const std::string& each : errors) {
        CHECK_MESSAGE(each.find("GradientDescent(clip_norm 0, step 1, learning_rate 0.1, ") != std::string::npos, each);
        CHECK_MESSAGE(each.find(text) != std::string::npos, each);
      }
    }
}

TEST_CASE("parameters of several dtypes, shared ones, and ones without a gradient") {
  for (const bool traced : {false, true}) {
    const auto found = on_ranks<std::vector<Tensor>>(3, [&](const Communicator& world) {
      const double r = world.rank();
      const Variable a({1.0, 2.0}), unused(5.0), b(tensor<double>({3.0})), c(tensor({1.0}).cast(bfloat16));
      train::GradientDescentOptimizer optimizer(1.0);
      DataParallel training(optimizer, world, {.bucket_bytes = 1});
      const auto step = [&](const Tensor& x) {
        return training.minimize(
            [&] {
              return reduce_sum(a * x) + reduce_sum(a * 2.0) + reduce_sum(b * x.cast(float64)).cast(float32) +
                     reduce_sum(c.value().cast(float32) * x);
            },
            {a, unused, b, c});
      };
      const auto graph = trace(step, {spec(float32, {})});
      const Tensor x = tensor(static_cast<float>(r));
      traced ? graph(x) : step(x);
      return std::vector<Tensor>{a, unused, b, c};
    });
    for (const auto& each : found) {
      check_values(each[0], {1 - 3.0, 2 - 3.0});  // the mean of the ranks is 1
      check_values(each[1], {5});
      check_values(each[2], {2});
      check_values(each[3], {0});
    }
  }
}

TEST_CASE("unequal programs on the ranks are an error, not a hang, and change nothing") {
  using Losses = std::function<Tensor(const Variable&, const Variable&)>;
  const std::vector<Losses> losses{
      [](const Variable& a, const Variable& b) {
        const Tensor first = reduce_sum(a * 2.0);
        return first + reduce_sum(b);
      },
      [](const Variable& a, const Variable&) { return reduce_sum(a); },
      // The same Variables in another order.
      [](const Variable& a, const Variable& b) {
        const Tensor first = reduce_sum(b);
        return first + reduce_sum(a);
      },
  };
  for (std::size_t other = 1; other < losses.size(); ++other)
    for (const std::int64_t bytes : {1, 1000}) {
      std::atomic<int> errors = 0;
      run_ranks(2, [&](const Communicator& world) {
        const Variable a({1.0, 2.0}), b({1.0, 2.0});
        train::GradientDescentOptimizer optimizer(1.0);
        DataParallel training(optimizer, world, {.bucket_bytes = bytes});
        const Losses& loss = losses[world.rank() == 0 ? 0 : other];
        try {
          training.minimize([&] { return loss(a, b); }, {a, b});
        } catch (const InvalidArgumentError&) {
          ++errors;
          check_values(a, {1, 2});
          check_values(b, {1, 2});
          CHECK(optimizer.iterations() == 0);
        } catch (const AbortedError&) {
          ++errors;
        }
      });
      CHECK(errors >= 1);
    }
}

TEST_CASE("a rank that throws in its loss ends the step of the others") {
  std::atomic<int> aborted = 0;
  CHECK_THROWS_AS(run_ranks(3,
                            [&](const Communicator& world) {
                              nn::Sequential net = make_net();
                              train::GradientDescentOptimizer optimizer(1.0);
                              DataParallel training(optimizer, world);
                              data::Loader batches(make_set(48), {.batch = 4, .shard = world.shard()});
                              std::int64_t step = 0;
                              try {
                                for (const auto& batch : batches)
                                  training.minimize([&] {
                                    if (++step == 3 && world.rank() == 1) throw DataLossError("a broken file");
                                    return loss_of(net, batch);
                                  });
                              } catch (const AbortedError&) {
                                ++aborted;
                                CHECK(optimizer.iterations() == 2);
                                throw;
                              }
                            }),
                  DataLossError);
  CHECK(aborted == 2);
}

TEST_CASE("options that make no sense are refused") {
  train::GradientDescentOptimizer optimizer(1.0);
  for (const DataParallelOptions& each :
       {DataParallelOptions{.bucket_bytes = 0}, DataParallelOptions{.accumulate = 0},
        DataParallelOptions{.clip_norm = -1}, DataParallelOptions{.clip_norm = not_a_number}}) {
    const auto error = caught<InvalidArgumentError>([&] { DataParallel(optimizer, Communicator(), each); });
    CHECK(place(error) == line_before());
  }
}

TEST_CASE("a bucket starts before the gradients of earlier layers are computed, and is waited for behind all of them") {
  const nn::Sequential net = make_net();
  train::GradientDescentOptimizer optimizer(0.1);
  DataParallel training(optimizer, Communicator(), {.bucket_bytes = 1});
  const auto step =
      trace([&](const Tensor& x, const Tensor& y) { return training.minimize([&] {
                                                      return loss_of(net, {x, y});
                                                    }); },
            {spec(float32, {8, 5}), spec(int64, {8})});
  Session session(step.graph());
  std::vector<Operation> updates;
  for (const Operation& each : step.graph().operations())
    if (each.type() == "ResourceApplyGradientDescent") updates.push_back(each);
  RunMetadata metadata;
  session.run(updates, {{step.input(0), zeros({8, 5})}, {step.input(1), zeros({8}, {.dtype = int64})}}, {}, &metadata);
  std::vector<std::string> types;  // of the plan's steps
  for (const ExecutionPlan::Step& each : metadata.plan.steps) types.push_back(each.type);
  const auto position = [&](const std::string& type, std::ptrdiff_t number) {
    auto found = types.begin();
    for (std::ptrdiff_t i = 0; i <= number; ++i) found = std::find(found + (i > 0 ? 1 : 0), types.end(), type);
    return found - types.begin();
  };
  // Three products forward, two for each layer backward but the first; two parameters of each layer.
  CHECK(std::count(types.begin(), types.end(), "MatMul") == 8);
  CHECK(std::count(types.begin(), types.end(), "AllReduceStart") == 6);
  CHECK(position("AllReduceStart", 1) < position("MatMul", 5));
  CHECK(position("AllReduceStart", 3) < position("MatMul", 7));
  CHECK(position("MatMul", 7) < position("AllReduceWait", 0));
}

TEST_CASE("a gradient is told as soon as it is complete, each once, in the order of the walk") {
  const Variable a(2.0), b(3.0), c(5.0), unused(7.0);
  for (const bool twice : {false, true}) {
    GradientTape tape;
    Tensor y = a.value() * b;  // a is read first
    y = y * c;
    if (twice) y = y * a;
    std::vector<std::size_t> order;
    std::vector<Tensor> told(4);
    const auto found =
        tape.gradient(y, std::vector<Variable>{a, b, c, unused}, {.when_final = [&](std::size_t i, const Tensor& g) {
                        order.push_back(i);
                        told[i] = g;
                      }});
    CHECK(order == std::vector<std::size_t>{3, 2, 0, 1});
    for (std::size_t i = 0; i < 3; ++i) CHECK(same_bits(told[i], found[i]));
    CHECK(!told[3]);
    check_values(found[0], {twice ? 60.0 : 15.0});
  }
}

// ---- Shards -----------------------------------------------------------------------------------------------------------

TEST_CASE("the shards of a loader are disjoint, equally long, and together the joint batches") {
  for (const std::int64_t rows : {0, 1, 7, 12, 25})
    for (const std::int64_t shards : {1, 2, 3, 4})
      for (const bool shuffle : {false, true}) {
        if (rows > 0 && rows < shards) continue;
        INFO(rows, " rows, ", shards, " shards");
        const std::int64_t used = rows / shards * shards;
        const data::Dataset set{arange(static_cast<double>(rows)), arange(static_cast<double>(rows))};
        std::vector<data::Loader> parts;
        for (std::int64_t i = 0; i < shards; ++i)
          parts.emplace_back(set, data::LoaderOptions{.batch = 2, .shuffle = shuffle, .seed = 9, .shard = {shards, i}});
        data::Loader joint(set, {.batch = 2 * shards, .shuffle = shuffle, .seed = 9});
        for (int epoch = 0; epoch < 2; ++epoch) {
          std::vector<std::vector<std::vector<double>>> batches(parts.size());
          for (std::size_t i = 0; i < parts.size(); ++i)
            for (const auto& batch : parts[i]) batches[i].push_back(values(batch.y));
          std::size_t seen = 0, number = 0;
          for (const auto& batch : joint) {
            std::vector<double> expected = values(batch.y), found;
            expected.resize(
                std::min(expected.size(), static_cast<std::size_t>(used) - std::min<std::size_t>(seen, used)));
            if (expected.empty()) break;
            for (const auto& part : batches) {
              REQUIRE(part.size() > number);
              found.insert(found.end(), part[number].begin(), part[number].end());
            }
            seen += expected.size();
            ++number;
            std::sort(expected.begin(), expected.end());
            std::sort(found.begin(), found.end());
            CHECK(found == expected);
          }
          for (const auto& part : batches) CHECK(part.size() == number);
        }
      }
  for (const data::Shard& bad : {data::Shard{0, 0}, data::Shard{2, 2}, data::Shard{2, -1}, data::Shard{-1, -2}})
    CHECK(message_of<InvalidArgumentError>([&] { data::Loader(make_set(4), {.shard = bad}); }) ==
          detail::join("There is no shard ", bad.index, " of ", bad.count));
}

TEST_CASE("fewer rows than shards are an error") {
  const data::Dataset set = make_set(10);
  CHECK(data::Loader(set, {.batch = 1, .shard = {10, 9}}).size() == 1);
  CHECK_THROWS_WITH_AS(data::Loader(set, {.batch = 1, .shard = {11, 3}}),
                       doctest::Contains("There are 10 rows for 11 shards"), InvalidArgumentError);
}

TEST_CASE("a shard of a stream has every n-th element") {
  const auto numbers_from = data::Stream<int>(std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  std::vector<int> found;
  for (const int each : numbers_from.shard(data::Shard{3, 1})) found.push_back(each);
  CHECK(found == std::vector<int>{1, 4, 7});
}

}  // namespace data_parallel_test
