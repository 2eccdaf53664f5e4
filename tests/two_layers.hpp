#pragma once

#include "tapestry/tapestry.hpp"

namespace tapestry::test {

/// Two layers, a loss and a step of an optimizer; its Variables have known values.
struct TwoLayers {
  Graph graph;
  Tensor x, labels, loss;
  Operation step;

  explicit TwoLayers(train::Optimizer&& optimizer) {
    const auto scope = graph.as_default();
    random::NumpyLegacy numbers(3);
    x = placeholder(float32, {-1, 3}, "x");
    labels = placeholder(float32, {-1, 2}, "labels");
    const auto hidden = name_scope("hidden");
    Variable w(numbers.randn({3, 4}).cast(float32), {.name = "w"}), b(tensor<float>({0, 0, 0, 0}), {.name = "b"});
    const auto logits = name_scope("logits");
    Variable v(numbers.randn({4, 2}).cast(float32), {.name = "v"});
    loss = reduce_mean(softmax_cross_entropy(labels, matmul(sigmoid(matmul(x, w) + b), v)), "loss");
    const auto root = name_scope("");
    step = optimizer.minimize(loss);
    global_variables_initializer();
  }
};

}  // namespace tapestry::test
