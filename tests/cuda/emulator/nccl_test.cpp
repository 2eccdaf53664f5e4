// Ranks that are threads, each with an emulated GPU of its own: their collectives go by NCCL, or say why not.

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>

#include <doctest/doctest.h>

#include "emulator.hpp"
#include "environment.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "ranks.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

constexpr Reduce all_reduces[] = {Reduce::sum, Reduce::mean, Reduce::min, Reduce::max, Reduce::product};
constexpr DType all_dtypes[] = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};
const std::string by_nccl = "collectives by NCCL 2.28.9";

Device own_gpu(const Communicator& world) { return cuda(world.rank()); }

bool can_reduce(Reduce reduce, DType dtype) {
  return reduce == Reduce::mean ? is_floating(dtype) : reduce != Reduce::sum || dtype != boolean;
}

struct Collective {
  std::string name;
  std::function<Tensor(const Communicator&, const Tensor&)> f;
  std::function<bool(DType)> takes = [](DType) { return true; };
};

std::vector<Collective> collectives() {
  std::vector<Collective> list;
  for (const Reduce reduce : all_reduces) {
    const auto takes = [reduce](DType dtype) { return can_reduce(reduce, dtype); };
    const std::string name = to_string(reduce);
    list.push_back(
        {"all_reduce " + name, [reduce](const auto& w, const auto& x) { return w.all_reduce(x, reduce); }, takes});
    list.push_back({"all_reduce of a list, " + name,
                    [reduce](const auto& w, const auto& x) {
                      const Tensor other = ones({3}, {.dtype = float64, .device = x.device()});
                      return w.all_reduce({x + x, Tensor(), other, x}, reduce)[3];
                    },
                    [takes](DType dtype) { return dtype != boolean && takes(dtype); }});
    list.push_back({"reduce_scatter " + name,
                    [reduce](const auto& w, const auto& x) { return w.reduce_scatter(x, reduce); }, takes});
  }
  list.push_back({"all_gather", [](const auto& w, const auto& x) { return w.all_gather(x); }});
  list.push_back({"broadcast from the first", [](const auto& w, const auto& x) { return w.broadcast(x); }});
  list.push_back(
      {"broadcast from the last", [](const auto& w, const auto& x) { return w.broadcast(x, w.size() - 1); }});
  return list;
}

/// A rank's argument: numbers of which every dtype keeps sums and products, in whatever order they are made.
Tensor argument(const Shape& shape, DType dtype, int rank) {
  const auto seed = static_cast<unsigned>(7 + rank);
  if (dtype == boolean) return booleans(shape, seed);
  return whole_numbers(shape, dtype == uint8 ? 0 : -3, 4, seed).cast(dtype);
}

std::vector<Shape> shapes(const Collective& collective, int ranks) {
  const bool scatters = collective.name.starts_with("reduce_scatter");
  if (scatters) return {{ranks}, {0, 3}, {3 * ranks, 5}};
  return {{}, {0}, {3, 0, 2}, {7}, {5, 3}};
}

nn::Sequential make_net(Device device) {
  nn::Sequential net{nn::Dense(5, 7), nn::ReLU(), nn::Dense(7, 6), nn::ReLU(), nn::Dense(6, 3)};
  unsigned seed = 1;
  for (const Variable& each : net.parameters()) each.assign(numbers(each.shape(), -0.5, 0.5, seed++).cast(float32));
  net.to(device);
  return net;
}

enum class Mode { eager, traced, graph };

/// The parameters after a training on the shard of a rank, on a device.
std::vector<Tensor> train_on(const Communicator& world, Device device, Mode mode, std::int64_t bucket_bytes,
                             int epochs) {
  nn::Sequential net = make_net(device);
  train::AdamOptimizer adam(0.01);
  train::DataParallel training(adam, world, {.bucket_bytes = bucket_bytes});
  const data::Dataset set{numbers({48, 5}, -1, 1, 3).cast(float32), whole_numbers({48}, 0, 3, 4)};
  data::Loader batches(set, {.batch = 24 / world.size(), .shuffle = true, .seed = 5, .shard = world.shard()});
  const auto loss = [&](const Tensor& x, const Tensor& y) {
    return reduce_mean(sparse_softmax_cross_entropy(y, net(x)));
  };
  const auto step = [&](const Tensor& x, const Tensor& y) { return training.minimize([&] { return loss(x, y); }); };
  const auto there = tp::device(device);
  const auto traced =
      mode == Mode::traced ? std::optional(trace(step, {spec(float32, {-1, 5}), spec(int64, {-1})})) : std::nullopt;
  const Graph graph;
  std::optional<Session> session;
  Tensor x, y;
  Operation train_step;
  if (mode == Mode::graph) {
    const auto scope = graph.as_default();
    const auto there_too = tp::device(device);
    x = placeholder(float32, {-1, 5});
    y = placeholder(int64, {-1});
    train_step = training.minimize(loss(x, y), net.parameters());
    session.emplace(graph);
  }
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (auto [xs, ys] : batches) {
      const Tensor a = xs.to(device), b = ys.to(device);
      if (mode == Mode::eager) step(a, b);
      if (mode == Mode::traced) (*traced)(a, b);
      if (mode == Mode::graph) session->run(train_step, {{x, a}, {y, b}});
    }
  std::vector<Tensor> list;
  for (const Variable& each : net.parameters()) list.push_back(each.value());
  return list;
}

using Trained = std::vector<Tensor>;

void check_close(const Trained& a, const Trained& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) check_same(a[i], b[i], 1e-5);
}

std::ptrdiff_t count(const emulator::Recording& recording, const char* name) {
  return std::count(recording.names.begin(), recording.names.end(), name);
}

TEST_SUITE("collectives of emulated GPUs") {
  TEST_CASE("a collective gives on GPUs what it gives on the host, over dtypes, ranks and shapes") {
    const Setting also_alone("TAPESTRY_NCCL", "1");
    for (int ranks = 1; ranks <= 4; ++ranks)
      run_ranks(ranks, [&](const Communicator& world) {
        for (const Collective& each : collectives())
          for (const DType dtype : all_dtypes)
            for (const Shape& shape : shapes(each, ranks)) {
              if (!each.takes(dtype)) continue;
              INFO(each.name, ", rank ", world.rank(), " of ", ranks, ", ", to_string(dtype), to_string(shape));
              const Tensor x = argument(shape, dtype, world.rank());
              const Tensor found = each.f(world, x.to(own_gpu(world))), expected = each.f(world, x);
              CHECK(found.device() == own_gpu(world));
              CHECK(same_bits(found, expected));
            }
        CHECK(world.gpu_status() == by_nccl);
      });
  }

  TEST_CASE("what NCCL is called for: one call each, and none for what is empty") {
    const emulator::Recording recording;
    run_ranks(2, [](const Communicator& world) {
      const Tensor x = ones({4, 3}, {.device = own_gpu(world)});
      world.all_reduce(x);
      world.all_reduce({x, x, x.cast(float64)}, Reduce::mean);
      world.reduce_scatter(x);
      world.all_gather(x);
      world.broadcast(x, 1);
      world.all_reduce(zeros({0, 3}, {.device = own_gpu(world)}));
      world.barrier();
    });
    CHECK(count(recording, "ncclAllReduce") == 2 * 3);
    CHECK(count(recording, "ncclReduceScatter") == 2);
    CHECK(count(recording, "ncclAllGather") == 2);
    CHECK(count(recording, "ncclBroadcast") == 2);
  }

  TEST_CASE("a NaN on one rank is the result of every reduction, and half types are reduced in float32") {
    run_ranks(3, [](const Communicator& world) {
      const Tensor x = tensor({world.rank() == 1 ? not_a_number : 1.0, 2.0, 3.0}).to(own_gpu(world));
      for (const Reduce reduce : all_reduces)
        for (const DType dtype : {float16, bfloat16, float32, float64}) {
          INFO(to_string(reduce), ", ", to_string(dtype));
          CHECK(std::isnan(world.all_reduce(x.cast(dtype), reduce)(0).cast(float64).item<double>()));
          const Tensor part = world.reduce_scatter(x.cast(dtype), reduce).cast(float64);
          CHECK(std::isnan(part.item<double>()) == (world.rank() == 0));
        }
      // float16 has no 2049.
      const Tensor large = full({1}, world.rank() == 0 ? 2048 : 1, {.dtype = float16, .device = own_gpu(world)});
      CHECK(values(world.all_reduce(large)) == std::vector<double>{2050});
      CHECK(world.gpu_status() == by_nccl);
    });
  }

  TEST_CASE("eager, traced and in sessions: the same bits, for values and gradients, which are those of the host") {
    const auto modes = [](const Collective& each, const Communicator& world, Device device) {
      const auto both = [&](const Tensor& x) -> std::vector<Tensor> {
        GradientTape tape;
        tape.watch(x);
        const Tensor y = each.f(world, x);
        return {y, tape.gradient(reduce_sum(y * y), x)};
      };
      const Shape shape{2 * world.size(), 3};
      const Tensor x = numbers(shape, -1, 1, static_cast<unsigned>(world.rank())).cast(float32).to(device);
      std::vector<Tensor> results = both(x);
      const auto append = [&](const std::vector<Tensor>& more) {
        results.insert(results.end(), more.begin(), more.end());
      };
      const auto there = tp::device(device);
      for (const Shape& declared : {shape, Shape{-1, -1}}) {
        const auto traced = trace(both, {spec(float32, declared)});
        for (int run = 0; run < 2; ++run) append(traced(x));
      }
      const Graph graph;
      const auto scope = graph.as_default();
      const auto there_too = tp::device(device);
      const Tensor input = placeholder(float32, shape);
      const Tensor y = each.f(world, input), dx = gradients(reduce_sum(y * y), {input})[0];
      append(Session(graph).run(std::vector<Tensor>{y, dx}, {{input, x}}));
      return results;
    };
    for (const Collective& each : collectives())
      run_ranks(3, [&](const Communicator& world) {
        INFO(each.name, ", rank ", world.rank());
        const std::vector<Tensor> found = modes(each, world, own_gpu(world)), expected = modes(each, world, cpu());
        for (std::size_t i = 0; i < found.size(); ++i) {
          CHECK(found[i].device() == own_gpu(world));
          CHECK(same_bits(found[i], found[i % 2]));
          check_same(found[i], expected[i], 1e-5);
        }
        CHECK(world.gpu_status() == by_nccl);
      });
  }

  TEST_CASE("a training on several GPUs: the same bits on all ranks, in all modes, the steps of one rank") {
    const Trained alone = train_on(Communicator(), cpu(), Mode::eager, 100, 4);
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      Trained first;
      for (const Mode mode : {Mode::eager, Mode::traced, Mode::graph})
        for (const std::int64_t bytes : {std::int64_t{100}, std::int64_t{1} << 20}) {
          const emulator::Recording recording;
          const auto found = on_ranks<Trained>(
              ranks, [&](const Communicator& world) { return train_on(world, own_gpu(world), mode, bytes, 4); });
          if (first.empty()) first = found[0];
          for (const Trained& each : found) check_same_bits(each, first);
          CHECK((count(recording, "ncclAllReduce") > 0) == (ranks > 1));
        }
      check_close(first, alone);
    }
  }

  TEST_CASE("a step's bucket is reduced while the backward walk goes on, and memory may be reused at once") {
    run_ranks(2, [](const Communicator& world) {
      const Device gpu = own_gpu(world);
      for (int i = 0; i < 20; ++i) {
        Tensor x = full({3000}, i + world.rank(), {.device = gpu});
        for (int k = 0; k < 4; ++k) {
          const Tensor y = world.all_reduce(x + 1.0) - 1.0;
          x = Tensor();
          zeros({3000}, {.device = gpu});  // takes the memory of what has been reduced
          x = y * 0.5;
        }
        double a = i, b = i + 1;
        for (int k = 0; k < 4; ++k) a = b = (a + b + 1) / 2;
        CHECK(values(x) == std::vector<double>(3000, a));
      }
    });
  }

  TEST_CASE("unequal calls are an error on all ranks, not a hang, and all can go on") {
    using F = std::function<void(const Communicator&, const Tensor&)>;
    const F sum = [](const Communicator& world, const Tensor& x) { world.all_reduce(x); };
    const std::vector<std::pair<F, F>> unequal{
        {sum, [](const Communicator& w, const Tensor& x) { w.all_reduce(x.cast(float16)); }},
        {sum, [](const Communicator& w, const Tensor& x) { w.all_reduce(x, Reduce::max); }},
        {sum,
         [](const Communicator& w, const Tensor& x) {
           w.all_reduce(reshape(x, {2, 2}));
         }},
        {sum, [](const Communicator& w, const Tensor& x) { w.all_gather(x); }},
        {sum, [](const Communicator& w, const Tensor&) { w.barrier(); }},
        {sum, [](const Communicator& w, const Tensor&) { w.split(0); }},
        {sum, [](const Communicator& w, const Tensor& x) { w.all_reduce(x.to(cpu()).cast(float16)); }},
        {[](const Communicator& w, const Tensor& x) { w.broadcast(x, 0); },
         [](const Communicator& w, const Tensor& x) { w.broadcast(x, 1); }},
        {[](const Communicator& w, const Tensor& x) {
           w.all_reduce({x, x});
         },
         [](const Communicator& w, const Tensor& x) {
           w.all_reduce({x, x.cast(float64)});
         }},
    };
    for (const bool fresh : {true, false})
      for (const auto& [first, second] : unequal)
        run_ranks(3, [&, &a = first, &b = second](const Communicator& world) {
          const Tensor x = ones({4}, {.device = own_gpu(world)});
          if (!fresh) {
            world.all_reduce(x);
            world.all_reduce({x, x});
          }
          const std::string message =
              message_of<InvalidArgumentError>([&] { world.rank() == 1 ? b(world, x) : a(world, x); });
          CHECK(message.find("The ranks call different collectives: rank 0 ") != std::string::npos);
          CHECK(values(world.all_reduce(x)) == std::vector<double>(4, 3));
          CHECK(values(world.all_reduce({x, x})[1]) == std::vector<double>(4, 3));
          CHECK(world.gpu_status() == by_nccl);
        });
  }

  TEST_CASE("unequal trainings are an error, and change nothing") {
    run_ranks(2, [](const Communicator& world) {
      const Variable a(ones({2}, {.device = own_gpu(world)})), b(ones({3}, {.device = own_gpu(world)}));
      train::GradientDescentOptimizer optimizer(1.0);
      train::DataParallel training(optimizer, world, {.bucket_bytes = 1});
      const auto equal = [&] { training.minimize([&] { return reduce_sum(a) + reduce_sum(b); }, {a, b}); };
      for (int i = 0; i < 3; ++i) {
        CHECK_THROWS_AS(
            training.minimize([&] { return reduce_sum(world.rank() == 0 ? a : b); }, {world.rank() == 0 ? a : b}),
            InvalidArgumentError);
        check_values(a, {1.0 - i, 1.0 - i});
        equal();
        CHECK(values(b) == std::vector<double>(3, -i));
      }
    });
  }

  TEST_CASE("a rank that fails ends the waiting of the others, and those that are left go on by NCCL") {
    for (const bool used : {false, true}) {
      CAPTURE(used);
      std::atomic<int> survivors = 0;
      const std::string message = message_of<DataLossError>([&] {
        run_ranks(4, [&](const Communicator& world) {
          const Tensor x = full({5}, 1 + world.rank(), {.device = own_gpu(world)});
          if (used) world.all_reduce({x, x});
          if (world.rank() == 1) throw DataLossError("a broken file");
          const auto error = caught<AbortedError>([&] {
            for (;;) world.all_reduce(x);
          });
          CHECK(error.message() == "Rank 1 has failed: a broken file");
          const Communicator left = world.shrink();
          CHECK(values(left.all_reduce(x)) == std::vector<double>(5, 8));
          CHECK(left.gpu_status() == by_nccl);
          ++survivors;
        });
      });
      CHECK(message == "a broken file");
      CHECK(survivors == 3);
    }
  }

  TEST_CASE("a result that has been queued is right though a rank has ended since") {
    const auto found = on_ranks<Tensor>(3, [](const Communicator& world) {
      return world.all_reduce(full({100}, 1 + world.rank(), {.device = own_gpu(world)}));
    });
    for (const Tensor& each : found) CHECK(values(each) == std::vector<double>(100, 6));
  }

  TEST_CASE("a call of NCCL that fails on one rank is an error on all") {
    run_ranks(3, [](const Communicator& world) {
      const Tensor x = ones({4}, {.device = own_gpu(world)});
      world.all_reduce(x);
      world.barrier();
      static std::optional<Setting> fails;
      if (world.rank() == 0) fails.emplace("EMULATED_NCCL_FAILS", "1");
      world.barrier();
      const std::string message = message_of<Error>([&] { world.all_reduce(x); });
      CHECK(message.find("NCCL: ncclAllReduce failed: unhandled system error") != std::string::npos);
      CHECK(message.starts_with("Rank 1 has failed: ") == (world.rank() != 1));
      CHECK_THROWS_AS(world.all_reduce(x), AbortedError);
      world.barrier();
      if (world.rank() == 0) fails.reset();
      world.barrier();
      CHECK(values(world.split(0).all_reduce(x)) == std::vector<double>(4, 3));
    });
  }

  TEST_CASE("split: communicators beside each other, whose calls are in one order on each device") {
    run_ranks(4, [](const Communicator& world) {
      const Tensor x = full({3}, world.rank(), {.device = own_gpu(world)});
      const Communicator part = world.split(world.rank() % 2), pair = world.split(world.rank() / 2);
      for (int i = 0; i < 5; ++i) {
        const Tensor a = part.all_reduce(x), b = world.all_reduce(x), c = pair.all_reduce({x, x + 1.0})[1];
        CHECK(values(a)[0] == 2 + 2 * (world.rank() % 2));
        CHECK(values(b)[0] == 6);
        CHECK(values(c)[0] == (world.rank() < 2 ? 3 : 7));
      }
      for (const Communicator& each : {part, pair, world}) CHECK(each.gpu_status() == by_nccl);
    });
  }

  TEST_CASE("a rank on the CPU: all go over the host for that call, and it says which one") {
    for (const int host : {0, 2})
      run_ranks(3, [&](const Communicator& world) {
        CHECK(world.gpu_status() == "no collective of tensors on a GPU yet");
        const Device own = world.rank() == host ? cpu() : own_gpu(world);
        for (const bool mixed : {true, false, true}) {
          const Device device = mixed ? own : own_gpu(world);
          for (const Collective& each : collectives()) {
            INFO(each.name, ", rank ", world.rank(), ", rank ", host, " on the host");
            for (const DType dtype : {float32, float16, int32}) {
              if (!each.takes(dtype)) continue;
              const Tensor x = argument({6, 2}, dtype, world.rank());
              const Tensor found = each.f(world, x.to(device)), expected = each.f(world, x);
              CHECK(found.device() == device);
              CHECK(same_bits(found, expected));
            }
          }
          const std::string reason =
              detail::join("collectives on the host: the tensor of rank ", host, " is on the CPU");
          if (world.rank() != host)
            CHECK((mixed ? world.gpu_status().starts_with(reason) : world.gpu_status() == by_nccl));
        }
      });
  }

  TEST_CASE("a training with one rank on the CPU is that of the others, before and after all are on GPUs") {
    const Trained alone = train_on(Communicator(), cpu(), Mode::eager, 100, 2);
    for (const bool cpu_first : {true, false})
      for (const Mode mode : {Mode::eager, Mode::traced}) {
        const auto found = on_ranks<std::vector<Trained>>(2, [&](const Communicator& world) {
          std::vector<Trained> results;
          for (const bool mixed : {cpu_first, !cpu_first, cpu_first})
            results.push_back(train_on(world, mixed && world.rank() == 1 ? cpu() : own_gpu(world), mode, 100, 2));
          return results;
        });
        for (std::size_t i = 0; i < 3; ++i) {
          check_same_bits(found[1][i], found[0][i]);
          check_close(found[0][i], alone);
        }
      }
  }

  TEST_CASE("ranks that share a GPU go over the host, and say so") {
    const emulator::Recording recording;
    run_ranks(3, [](const Communicator& world) {
      const Device device = cuda(world.rank() / 2);
      for (const Collective& each : collectives()) {
        INFO(each.name, ", rank ", world.rank());
        const Tensor x = argument({6, 2}, float32, world.rank());
        CHECK(same_bits(each.f(world, x.to(device)), each.f(world, x)));
      }
      CHECK(world.gpu_status() == "collectives on the host: ranks 0 and 1 share a GPU");
      // Those that do not share one go by NCCL.
      const Communicator apart = world.split(world.rank() == 1 ? 1 : 0);
      apart.all_reduce(ones({2}, {.device = device}));
      CHECK(apart.gpu_status() == (world.rank() == 1 ? "no collectives: this rank is alone" : by_nccl));
    });
    CHECK(count(recording, "ncclAllReduce") == 2);
    const Trained alone = train_on(Communicator(), cpu(), Mode::eager, 100, 2);
    for (const Trained& each :
         on_ranks<Trained>(2, [](const Communicator& world) { return train_on(world, cuda(0), Mode::eager, 100, 2); }))
      check_close(each, alone);
  }

  TEST_CASE("where NCCL is off, or does not start on one of the ranks, all go over the host, and say so") {
    struct Case {
      const char *variable, *value, *reason;
    };
    for (const Case& each :
         {Case{"TAPESTRY_NCCL", "0", "rank 0: the environment variable TAPESTRY_NCCL is 0"},
          Case{"EMULATED_NCCL_START_FAILS", "1", ": NCCL: joining the devices failed: unhandled system error"}}) {
      const Setting setting(each.variable, each.value);
      const emulator::Recording recording;
      run_ranks(3, [&](const Communicator& world) {
        const Tensor x = full({4}, 1.0 * world.rank(), {.device = own_gpu(world)});
        for (int i = 0; i < 3; ++i) {
          CHECK(values(world.all_reduce(x)) == std::vector<double>(4, 3));
          CHECK(values(world.all_reduce({x, x}, Reduce::mean)[1]) == std::vector<double>(4, 1));
        }
        CHECK(world.gpu_status().starts_with("collectives on the host: rank "));
        CHECK(world.gpu_status().find(each.reason) != std::string::npos);
      });
      CHECK(count(recording, "ncclAllReduce") == 0);
    }
  }

  TEST_CASE("a rank that goes to another GPU goes over the host there, and comes back") {
    run_ranks(2, [](const Communicator& world) {
      const auto total = [&](Device device) { return values(world.all_reduce(ones({2}, {.device = device})))[0]; };
      CHECK(total(own_gpu(world)) == 2);
      CHECK(total(cuda(world.rank() == 0 ? 0 : 2)) == 2);
      CHECK(world.gpu_status().starts_with(
          world.rank() == 0 ? "collectives on the host: the tensor of rank 1 is on the CPU, or on another"
                            : "collectives on the host: this rank's device was /device:GPU:1, and now is "));
      CHECK(total(own_gpu(world)) == 2);
      CHECK(world.gpu_status() == by_nccl);
    });
  }

  TEST_CASE("a rank that is alone starts no NCCL, and copies nothing to the host") {
    const emulator::Recording recording;
    const Communicator world;
    for (const Collective& each : collectives()) {
      const Tensor x = argument({6, 2}, float32, 0);
      CHECK(same_bits(each.f(world, x.to(cuda(0))), each.f(world, x)));
    }
    CHECK(world.gpu_status() == "no collectives: this rank is alone");
    for (const std::string& each : recording.names) CHECK(each.find("nccl") == std::string::npos);
  }

  TEST_CASE("the steps of a plan that meet other ranks say so, and the steps around them are replayed") {
    run_ranks(2, [](const Communicator& world) {
      const Device gpu = own_gpu(world);
      const Graph graph;
      const auto scope = graph.as_default();
      const auto there = tp::device(gpu);
      const Tensor x = placeholder(float32, {8}, "x");
      const Tensor y = exp(world.all_reduce(tanh(x) * 2.0)) + 1.0;
      const Session session(graph);
      std::vector<Tensor> seen;
      for (unsigned i = 0; i < 6; ++i) {
        RunMetadata metadata;
        const Tensor fed = numbers({8}, -1, 1, i).cast(float32).to(gpu);
        const Tensor found = std::get<0>(session.run(std::tuple{y}, {{x, fed}}, {}, &metadata));
        check_same(found, exp(tanh(fed) * 4.0) + 1.0, 1e-6);
        std::size_t replayed = 0;
        for (const ExecutionPlan::Step& each : metadata.plan.steps) {
          replayed += each.replayed ? 1 : 0;
          if (each.type == "AllReduce") CHECK(each.why_executed == "meets other ranks");
        }
        CHECK((replayed > 0 || i < 3));
      }
    });
  }
}

}  // namespace
}  // namespace tapestry::test
