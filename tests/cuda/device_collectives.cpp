// Collectives of ranks that are threads, on the GPUs that there are: one is enough for NCCL among one rank, and for
// ranks that share a GPU.

#include <algorithm>
#include <cmath>
#include <functional>

#include <doctest/doctest.h>

#include "environment.hpp"
#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "ranks.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::device_collectives {
namespace {

constexpr Reduce all_reduces[] = {Reduce::sum, Reduce::mean, Reduce::min, Reduce::max, Reduce::product};
constexpr DType all_dtypes[] = {boolean, uint8, int32, int64, float16, bfloat16, float32, float64};

bool can_reduce(Reduce reduce, DType dtype) {
  return reduce == Reduce::mean ? is_floating(dtype) : reduce != Reduce::sum || dtype != boolean;
}

int gpu_count() { return static_cast<int>(devices().size()) - 1; }

/// Numbers of which every dtype keeps the sum and the product of four ranks'.
Tensor argument(const Shape& shape, DType dtype, int rank) {
  const auto seed = static_cast<unsigned>(7 + rank);
  if (dtype == boolean) return booleans(shape, seed);
  return whole_numbers(shape, dtype == uint8 ? 0 : -3, 4, seed).cast(dtype);
}

/// Checks that all collectives of a rank's tensors give on a device what they give on the host.
void check_collectives(const Communicator& world, Device device) {
  const auto check = [&](const std::string& name, const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
    INFO(name, ", rank ", world.rank(), ", ", to_string(x.dtype()), to_string(x.shape()));
    const Tensor found = f(x.to(device)), expected = f(x);
    CHECK(found.device() == device);
    CHECK(same_bits(found, expected));
  };
  for (const DType dtype : all_dtypes)
    for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{12, 5}, Shape{12 * 1009}}) {
      const Tensor x = argument(shape, dtype, world.rank());
      check("all_gather", x, [&](const Tensor& a) { return world.all_gather(a); });
      check("broadcast", x, [&](const Tensor& a) { return world.broadcast(a, world.size() - 1); });
      for (const Reduce reduce : all_reduces) {
        if (!can_reduce(reduce, dtype)) continue;
        check("all_reduce " + to_string(reduce), x, [&](const Tensor& a) { return world.all_reduce(a, reduce); });
        check("all_reduce of a list, " + to_string(reduce), x, [&](const Tensor& a) {
          return world.all_reduce({a, a}, reduce)[1];
        });
        if (shape.rank() > 0)
          check("reduce_scatter " + to_string(reduce), x,
                [&](const Tensor& a) { return world.reduce_scatter(a, reduce); });
      }
    }
  const Tensor broken = tensor({not_a_number, 1.0}).to(device);
  for (const Reduce reduce : all_reduces) CHECK(std::isnan(world.all_reduce(broken, reduce)(0).item<float>()));
}

/// The parameters after a traced training of this rank.
std::vector<Tensor> train_on(const Communicator& world, Device device, bool traced) {
  nn::Sequential net{nn::Dense(5, 300), nn::Tanh(), nn::Dense(300, 3)};
  unsigned seed = 1;
  for (const Variable& each : net.parameters()) each.assign(numbers(each.shape(), -0.3, 0.3, seed++).cast(float32));
  net.to(device);
  train::MomentumOptimizer optimizer(0.05, 0.9);
  train::DataParallel training(optimizer, world, {.bucket_bytes = 2000});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    return training.minimize([&] { return reduce_mean(square(net(x) - y)); });
  };
  const auto there = tp::device(device);
  const auto graph = trace(step, {spec(float32, {-1, 5}), spec(float32, {-1, 3})});
  for (unsigned i = 0; i < 10; ++i) {
    const auto own = 20 + 10 * i + static_cast<unsigned>(world.rank());
    const Tensor x = numbers({8, 5}, -1, 1, own).cast(float32).to(device), y = slice(x, {0, 0}, {8, 3}) * 2.0;
    traced ? graph(x, y) : step(x, y);
  }
  std::vector<Tensor> list;
  for (const Variable& each : net.parameters()) list.push_back(each.value());
  return list;
}

/// Whether NCCL does the collectives; if not, then because it is not installed.
bool goes_by_nccl(const Communicator& world) {
  const std::string status = world.gpu_status();
  CAPTURE(status);
  const bool by_nccl = status.starts_with("collectives by NCCL 2.");
  CHECK((by_nccl ||
         status.starts_with("collectives on the host: rank 0: CUDA's library libnccl.so.2 cannot be opened: ")));
  return by_nccl;
}

}  // namespace

TEST_SUITE("CUDA device") {
  TEST_CASE("collectives of one rank by NCCL") {
    const Setting also_alone("TAPESTRY_NCCL", "1");
    const Communicator world;
    check_collectives(world, cuda(0));
    MESSAGE(world.gpu_status());
    goes_by_nccl(world);
    const Communicator part = world.split(0);
    check_collectives(part, cuda(0));
    CHECK(part.gpu_status() == world.gpu_status());
  }

  TEST_CASE("a training of one rank by NCCL has the bits of one without") {
    for (const bool traced : {false, true}) {
      const std::vector<Tensor> alone = train_on(Communicator(), cuda(0), traced);
      const Setting also_alone("TAPESTRY_NCCL", "1");
      const Communicator world;
      check_same_bits(train_on(world, cuda(0), traced), alone);
      goes_by_nccl(world);
    }
  }

  TEST_CASE("collectives and a training of a rank on each GPU") {
    const int ranks = std::min(gpu_count(), 4);
    const auto found = on_ranks<std::vector<Tensor>>(ranks, [&](const Communicator& world) {
      check_collectives(world, cuda(world.rank()));
      if (ranks > 1) goes_by_nccl(world);
      return train_on(world, cuda(world.rank()), true);
    });
    for (const auto& each : found) check_same_bits(each, found[0]);
  }

  TEST_CASE("ranks that share a GPU exchange tensors over the host, and say so") {
    const auto found = on_ranks<std::vector<Tensor>>(2, [&](const Communicator& world) {
      check_collectives(world, cuda(0));
      const std::string status = world.gpu_status();
      if (status.find("libnccl.so.2 cannot be opened") == std::string::npos)
        CHECK(status == "collectives on the host: ranks 0 and 1 share a GPU");
      return train_on(world, cuda(0), true);
    });
    check_same_bits(found[1], found[0]);
  }

  TEST_CASE("what the communication is given and gives is in the order of the kernels around it") {
    const Setting also_alone("TAPESTRY_NCCL", "1");
    const Communicator world;
    const TensorOptions there{.device = cuda(0)};
    for (int i = 0; i < 20; ++i) {
      Tensor x = full({1 << 16}, i, there);
      for (int k = 0; k < 4; ++k) {
        const Tensor y = world.all_reduce(x + 1.0);
        x = Tensor();
        zeros({1 << 16}, there);  // takes the memory of what has been reduced
        x = y;
      }
      CHECK(reduce_min(x).item<float>() == static_cast<float>(i + 4));
      CHECK(reduce_max(x).item<float>() == static_cast<float>(i + 4));
    }
  }
}

}  // namespace tapestry::test::device_collectives
