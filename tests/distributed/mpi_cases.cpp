// What holds for ranks that are processes. mpirun starts this program several times; without mpirun it is rank 0 of 1.

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include "tapestry/tapestry.hpp"

using namespace tapestry;

namespace {

std::vector<double> values(const Tensor& tensor) { return tensor.to_vector<double>(); }

/// Small whole numbers that differ from rank to rank.
Tensor argument(const Shape& shape, DType dtype, int rank) {
  const Tensor all = arange(shape.size()) * 3 + rank * 5;
  if (dtype == boolean) return reshape(equal(tp::mod(all, 3), 0), shape);
  return reshape(tp::mod(all, 4), shape).cast(dtype);
}

Tensor combined(Reduce reduce, const Tensor& a, const Tensor& b) {
  if (a.dtype() == boolean) return reduce == Reduce::max ? logical_or(a, b) : logical_and(a, b);
  if (reduce == Reduce::min) return minimum(a, b);
  if (reduce == Reduce::max) return maximum(a, b);
  return reduce == Reduce::product ? a * b : a + b;
}

constexpr DType all_dtypes[] = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};

}  // namespace

TEST_CASE("tensors on a GPU that the processes share, or on that of some of them, go over the host") {
  if (devices().back().is_cpu()) return;
  const Communicator world = Communicator::world();
  for (const bool mixed : {true, false}) {
    const Device device = mixed && world.rank() == 1 ? cpu() : cuda(0);
    const Tensor x = full({4}, world.rank() + 1.0, {.device = device});
    const double ranks = world.size(), sum = ranks * (ranks + 1) / 2;
    for (int i = 0; i < 2; ++i) {
      const Tensor y = world.all_reduce(x), mean = world.all_reduce({x, x}, Reduce::mean)[1];
      CHECK(y.device() == device);
      CHECK(values(y) == std::vector<double>(4, sum));
      CHECK(values(mean) == std::vector<double>(4, sum / ranks));
      CHECK(values(world.broadcast(x, world.size() - 1)) == std::vector<double>(4, ranks));
    }
    if (world.size() > 1) {
      CHECK_THROWS_AS(world.rank() == 1 ? world.all_reduce(x) : world.all_gather(x), InvalidArgumentError);
      const std::string reason = mixed ? "the tensor of rank 1 is on the CPU" : "ranks 0 and 1 share a GPU";
      const bool has_nccl = world.gpu_status().find("libnccl.so.2 cannot be opened") == std::string::npos;
      if (has_nccl && (!mixed || world.rank() != 1))
        CHECK(world.gpu_status().starts_with("collectives on the host: " + reason));
    }
  }
}

TEST_CASE("collectives of processes give what plain ops give") {
  const Communicator world = Communicator::world();
  const int ranks = world.size();
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{ranks * 1001, 3}})
    for (const DType dtype : all_dtypes) {
      INFO("rank ", world.rank(), " of ", ranks, ", ", to_string(dtype), to_string(shape));
      const Tensor own = argument(shape, dtype, world.rank());
      for (const Reduce reduce : {Reduce::sum, Reduce::mean, Reduce::min, Reduce::max, Reduce::product}) {
        if (dtype == boolean ? reduce == Reduce::sum || reduce == Reduce::mean
                             : reduce == Reduce::mean && !is_floating(dtype))
          continue;
        Tensor expected = argument(shape, dtype, 0);
        for (int rank = 1; rank < ranks; ++rank) expected = combined(reduce, expected, argument(shape, dtype, rank));
        if (reduce == Reduce::mean) expected = expected / static_cast<double>(ranks);
        CHECK(values(world.all_reduce(own, reduce)) == values(expected));
        CHECK(values(world.all_reduce({own, Tensor(), own}, reduce)[2]) == values(expected));
        if (shape.rank() == 0) continue;
        const std::int64_t part = shape[0] / ranks, begin = world.rank() * part;
        CHECK(values(world.reduce_scatter(own, reduce)) == values(expected(range(begin, begin + part))));
      }
      CHECK(values(world.broadcast(own, ranks - 1)) == values(argument(shape, dtype, ranks - 1)));
      std::vector<double> joined;
      for (int rank = 0; rank < ranks; ++rank)
        for (const double each : values(argument(shape, dtype, rank))) joined.push_back(each);
      CHECK(values(world.all_gather(own)) == joined);
    }
}

TEST_CASE("a NaN on one process is the result of every reduction") {
  const Communicator world = Communicator::world();
  for (const DType dtype : {float32, float64})
    for (const Reduce reduce : {Reduce::sum, Reduce::min, Reduce::max, Reduce::product}) {
      const Tensor x = tensor({world.rank() == world.size() - 1 ? NAN : 1.0F}).cast(dtype);
      CHECK(std::isnan(values(world.all_reduce(x, reduce))[0]));
    }
}

TEST_CASE("processes that call different collectives all get an error, and can go on") {
  const Communicator world = Communicator::world();
  if (world.size() == 1) return;
  for (int i = 0; i < 3; ++i) {
    try {
      world.rank() == 0 ? world.all_reduce(zeros({2})) : world.all_gather(zeros({3}));
      FAIL("no error");
    } catch (const InvalidArgumentError& error) {
      CHECK(error.message().find("rank 0 AllReduce(sum) of float32[2] at mpi_cases.cpp:") != std::string::npos);
      CHECK(error.message().find("rank 1 AllGather of float32[3] at mpi_cases.cpp:") != std::string::npos);
    }
  }
  world.barrier();
}

TEST_CASE("parts of the world") {
  const Communicator world = Communicator::world();
  for (int i = 0; i < 20; ++i) {
    const Communicator part = world.split(world.rank() % 2);
    CHECK(part.rank() == world.rank() / 2);
    CHECK(part.size() == (world.size() + 1 - world.rank() % 2) / 2);
    CHECK(part.all_reduce(1.0).item<float>() == static_cast<float>(part.size()));
  }
  CHECK(world.local_rank() == world.rank());  // all are on this machine
}

TEST_CASE("processes gather the rows of row-sparse gradients, and tell settings that differ") {
  const Communicator world = Communicator::world();
  const auto train_on = [](const Communicator& ranks, int joint) {
    const Variable table(reshape(arange(12.0), {6, 2}) / 10.0);
    train::MomentumOptimizer optimizer(0.1, 0.9);
    train::DataParallel training(optimizer, ranks);
    for (std::int64_t i = 0; i < 5; ++i) {
      // Rank r looks up r % 3 + 1 rows.
      std::vector<std::int64_t> ids;
      for (int rank = joint > 0 ? 0 : ranks.rank(); rank <= (joint > 0 ? joint - 1 : ranks.rank()); ++rank)
        for (std::int64_t k = 0; k <= rank % 3; ++k) ids.push_back((i * k + rank) % 6);
      const Tensor rows = tensor(ids, {std::ssize(ids)});
      training.minimize([&] { return reduce_sum(square(embedding_lookup(table, rows))) / std::max(1.0, 1.0 * joint); });
    }
    return table.value();
  };
  const Tensor found = train_on(world, 0), alone = train_on(Communicator(), world.size());
  CHECK(reduce_max(abs(found - alone)).item<float>() < 1e-5F);
  CHECK(values(found) == values(world.broadcast(found)));
  if (world.size() == 1) return;
  const Variable v(1.0F);
  train::GradientDescentOptimizer optimizer(0.1);
  train::DataParallel training(optimizer, world, {.clip_norm = world.rank() == 0 ? 0.0 : 1.5});
  try {
    training.minimize([&] { return square(v); });
    FAIL("no error");
  } catch (const InvalidArgumentError& error) {
    for (const char* each : {"rank 0 AllReduceStart", "clip_norm 0, ", "rank 1 AllReduceStart", "clip_norm 1.5, "})
      CHECK_MESSAGE(error.message().find(each) != std::string::npos, error.message());
  }
}

TEST_CASE(
    "data parallel training on processes: all have the same bits, eager as traced, near those of the joint batch") {
  const Communicator world = Communicator::world();
  const Tensor x = mod(reshape(arange(0, 24 * 5), {24, 5}) * 7, 11).cast(float32) / 11.0, y = mod(arange(0, 24), 3);
  const auto start = [](const nn::Sequential& net) {
    for (const Variable& each : net.parameters())
      each.assign(reshape(sin(arange(static_cast<float>(each.shape().size()))), each.shape()) * 0.5);
  };
  const auto train_on = [&](const Communicator& ranks, bool traced) {
    const nn::Sequential net{nn::Dense(5, 8), nn::ReLU(), nn::Dense(8, 3)};
    if (ranks.rank() == 0) start(net);
    ranks.broadcast(net.parameters());
    train::AdamOptimizer adam(0.01);
    train::DataParallel training(adam, ranks, {.bucket_bytes = 100});
    const auto step = [&](const Tensor& a, const Tensor& b) {
      return training.minimize([&] { return reduce_mean(sparse_softmax_cross_entropy(b, net(a))); });
    };
    const auto graph = trace(step, {spec(float32, {-1, 5}), spec(y.dtype(), {-1})});
    data::Loader batches({x, y}, {.batch = 12 / ranks.size(), .shuffle = true, .seed = 2, .shard = ranks.shard()});
    for (int epoch = 0; epoch < 8; ++epoch)
      for (auto [a, b] : batches) traced ? graph(a, b) : step(a, b);
    std::vector<Tensor> flat;
    for (const Variable& each : net.parameters()) flat.push_back(reshape(each.value(), {-1}));
    return concat(flat);
  };
  const Tensor eager = train_on(world, false), traced = train_on(world, true), alone = train_on(Communicator(), false);
  CHECK(values(traced) == values(eager));
  CHECK(reduce_max(abs(eager - alone)).item<float>() < 1e-5F);
  const std::vector<double> first = values(world.broadcast(eager));
  CHECK(values(eager) == first);
}
