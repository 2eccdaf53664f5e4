// Batch norm over the joint batch of all ranks.

#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "ranks.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/nn.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/trace.hpp"

namespace sync_batch_norm_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a synchronised batch norm has the numbers of a batch norm of the joint batch") {
  const Shape shape{12, 2, 3};
  const Tensor x = numbers(shape, -2, 3, 11), weights = numbers(shape, -1, 1, 12);
  nn::BatchNorm alone(3);
  alone.to(float64);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = alone(x);
  auto [dx, dw] = tape.gradient(reduce_sum(y * weights), x, alone.parameters());
  for (const bool traced : {false, true})
    // Of different sizes, so that a mean of means would be wrong.
    for (const std::vector<int>& ends : {std::vector<int>{12}, {6, 12}, {1, 5, 12}}) {
      const auto ranks = static_cast<int>(ends.size());
      CAPTURE(ranks);
      const auto found = on_ranks<std::vector<Tensor>>(ranks, [&](const Communicator& world) {
        nn::SyncBatchNorm norm(3, world);
        norm.to(float64);
        const auto rank = static_cast<std::size_t>(world.rank());
        const auto part = range(rank == 0 ? 0 : ends[rank - 1], ends[rank]);
        const auto f = [&](const Tensor& own, const Tensor& w) -> std::vector<Tensor> {
          GradientTape own_tape;
          own_tape.watch(own);
          const Tensor result = norm(own);
          auto [d_own, d_parameters] = own_tape.gradient(reduce_sum(result * w), own, norm.parameters());
          return {result, d_own, world.all_reduce(d_parameters[0]), world.all_reduce(d_parameters[1])};
        };
        const Tensor own = x(part), w = weights(part);
        std::vector<Tensor> results =
            traced ? trace(f, {spec(float64, {-1, 2, 3}), spec(float64, {-1, 2, 3})})(own, w) : f(own, w);
        results.emplace_back(norm.running_mean);
        results.emplace_back(norm.running_var);
        results.emplace_back(norm.num_batches_tracked);
        norm.eval();
        results.push_back(norm(own));
        return results;
      });
      alone.eval();
      for (std::size_t rank = 0; rank < found.size(); ++rank) {
        const auto part = range(rank == 0 ? 0 : ends[rank - 1], ends[rank]);
        check_same(found[rank][0], y(part), 1e-10);
        check_same(found[rank][1], dx(part), 1e-10);
        check_same(found[rank][2], dw[0], 1e-10);
        check_same(found[rank][3], dw[1], 1e-10);
        check_same(found[rank][4], alone.running_mean, 1e-10);
        check_same(found[rank][5], alone.running_var, 1e-10);
        check_same(found[rank][6], alone.num_batches_tracked);
        check_same(found[rank][7], alone(x(part)), 1e-10);
      }
    }
}

TEST_CASE("a joint batch without values leaves the statistics of a synchronised batch norm as they are") {
  for (const bool traced : {false, true}) {
    const auto found = on_ranks<std::vector<Tensor>>(2, [&](const Communicator& world) -> std::vector<Tensor> {
      const nn::SyncBatchNorm norm(3, world);
      const auto f = [&](const Tensor& x) { return norm(x); };
      const Tensor none = zeros({0, 3});
      const Tensor y = traced ? trace(f, {spec(float32, {-1, 3})})(none) : f(none);
      return {y, norm.running_mean, norm.running_var};
    });
    for (const std::vector<Tensor>& each : found) {
      CHECK(each[0].shape() == Shape{0, 3});
      check_values(each[1], {0, 0, 0});
      check_values(each[2], {1, 1, 1});
    }
  }
}

}  // namespace sync_batch_norm_test
