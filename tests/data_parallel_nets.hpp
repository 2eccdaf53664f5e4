// The net and the examples that the tests of DataParallel train.
#pragma once

#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/data.hpp"
#include "tapestry/nn.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test::parallel {

/// A net with the same values in every thread and every call.
inline nn::Sequential make_net() {
  nn::Sequential net{nn::Dense(5, 7), nn::ReLU(), nn::Dense(7, 6), nn::ReLU(), nn::Dense(6, 3)};
  unsigned seed = 1;
  for (const Variable& each : net.parameters()) each.assign(numbers(each.shape(), -0.5, 0.5, seed++).cast(float32));
  return net;
}

inline data::Dataset make_set(std::int64_t rows) {
  return {numbers({rows, 5}, -1, 1, 3).cast(float32), whole_numbers({rows}, 0, 3, 4)};
}

inline Tensor loss_of(const nn::Sequential& net, const data::Batch& batch) {
  return reduce_mean(sparse_softmax_cross_entropy(batch.y, net(batch.x)));
}

inline std::vector<Tensor> values_of(const nn::Sequential& net) {
  std::vector<Tensor> list;
  for (const Variable& each : net.parameters()) list.push_back(each.value());
  return list;
}

enum class Mode { eager, traced, graph };

using Trained = std::vector<Tensor>;

inline void check_close(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) check_same(a[i], b[i], tolerance);
}

inline void check_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(same_bits(a[i], b[i]));
}

}  // namespace tapestry::test::parallel
